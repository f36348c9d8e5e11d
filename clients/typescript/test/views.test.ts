/** Views of a client, over connections that the test holds. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { accepted, connected, group, publish, turns, type Fields } from "./fakeSocket.js";

test("a step is one patch, and a snapshot stays the same until something changes", async () => {
  const [client, socket] = await connected();
  const view = client.view<{ id: number; n: number }>("orders", { orderBy: "/n", topN: 3 });
  const patches: string[][] = [];
  view.onChange(({ changes }) => patches.push(changes.map(({ type, key }) => `${type} ${key}`)));
  const empty = view.snapshot();
  assert.equal(view.snapshot(), empty);
  socket.give(accepted("1"), ...group("1", { a: { id: 1, n: 1 }, b: { id: 2, n: 2 } }));
  await view.ready;
  const first = view.snapshot();
  assert.notEqual(first, empty);
  assert.equal(view.snapshot(), first);
  socket.give(publish("a", { id: 1, n: 1 }, 2));
  assert.equal(view.snapshot(), first);
  socket.give(publish("c", { id: 3, n: 0 }, 3, { more: true }));
  assert.deepEqual([view.snapshot(), view.bookmark], [first, "orders:0@2"]);
  socket.give({ ...publish("b", { id: 2, n: 2 }, 3), command: "oof", reason: "match" });
  const second = view.snapshot();
  assert.deepEqual(patches, [
    ["insert a", "insert b"],
    ["insert c", "remove b"],
  ]);
  assert.deepEqual([...view.keys()], ["c", "a"]);
  assert.equal(second[1], first[0]);
  assert.equal(view.get("a"), first[0]!.record);
  socket.give(publish("a", { n: -1 }, 4, { delta: true }));
  assert.deepEqual(
    view.snapshot().map(({ record }) => record),
    [
      { id: 1, n: -1 },
      { id: 3, n: 0 },
    ],
  );
  assert.deepEqual(
    first.map(({ record }) => record),
    [
      { id: 1, n: 1 },
      { id: 2, n: 2 },
    ],
  );
  client.close();
});

test("a reset is ordinary changes, and records that stayed the same keep their identity", async () => {
  const [client, socket] = await connected();
  const view = client.view("orders");
  socket.give(accepted("1"), ...group("1", { a: { n: 1 }, b: { n: 1 }, c: { n: 1 } }));
  const kept = view.get("b");
  const seen: unknown[] = [];
  view.onChange(({ changes }) => seen.push(...changes));
  socket.give(...group("1", { b: { n: 1 }, c: { n: 2 }, d: { n: 1 } }, { reset: true }));
  assert.deepEqual(seen, [
    { type: "remove", key: "a", before: { n: 1 }, reason: "gone" },
    { type: "update", key: "c", record: { n: 2 }, before: { n: 1 } },
    { type: "insert", key: "d", record: { n: 1 } },
  ]);
  assert.equal(view.get("b"), kept);
  client.close();
});

test("deltas that lead back to the same record are no change", async () => {
  const [client, socket] = await connected();
  const view = client.view("orders");
  socket.give(accepted("1"), ...group("1", { a: { id: 1, n: 1 } }));
  const seen: unknown[] = [];
  view.onChange(({ changes }) => seen.push(...changes));
  const before = view.get("a");
  socket.give(publish("a", { n: 2 }, 2, { delta: true, more: true }), publish("a", { n: 1 }, 2, { delta: true }));
  socket.give(publish("a", { n: 1 }, 3, { delta: true }));
  socket.give(publish("a", { m: 5 }, 4, { delta: true, removed: ["/m"] }));
  assert.deepEqual([seen, view.bookmark], [[], "orders:0@4"]);
  assert.equal(view.get("a"), before);
  socket.give(publish("a", { n: 3 }, 5, { delta: true }));
  assert.deepEqual(seen, [{ type: "update", key: "a", record: { id: 1, n: 3 }, before: { id: 1, n: 1 } }]);
  client.close();
});

test("an order is kept for one change and for many", async () => {
  const [client, socket] = await connected();
  const view = client.view<{ n: number }>("orders", { orderBy: "/n DESC" });
  const records = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, { n: (at * 7) % 50 }]));
  socket.give(accepted("1"), ...group("1", records));
  let at = 2;
  const change = (key: string, n: number, more = false): void =>
    socket.give(publish(key, { n }, at++, more ? { more: true } : {}));
  const expectOrder = (): void => {
    const shown = [...view.values()].map(({ n }) => n);
    assert.deepEqual(new Set(view.keys()).size, shown.length);
    assert.equal(shown.length, view.size);
    assert.deepEqual(
      shown,
      [...shown].sort((one, other) => other - one),
    );
  };
  for (let step = 0; step < 200; step++) change(`k${(step * 13) % 60}`, (step * 31) % 97);
  expectOrder();
  for (let step = 0; step < 40; step++) change(`k${step}`, (step * 17) % 23, step < 39);
  expectOrder();
  assert.equal(view.size, 60);
  client.close();
});

test("a view has the status of its connection and its subscription", async () => {
  const [client, socket, service] = await connected();
  const view = client.view("orders", { upTo: "a:0@9" });
  const statuses: string[] = [view.status];
  view.onStatus((status) => statuses.push(status));
  socket.give(accepted("1"), ...group("1", {}));
  socket.lose();
  const again = await service.accept();
  again.give(accepted("1"));
  again.give({ ...accepted("1"), ack_type: "completed" });
  assert.deepEqual(statuses, ["loading", "live", "reconnecting", "live", "ended"]);
  assert.equal(view.error?.reason, "disconnected");
  client.close();
});

test("a view that resumes catches up before it is live", async () => {
  const [client, socket, service] = await connected();
  const view = client.view("orders");
  socket.give(accepted("1"), ...group("1", { a: { n: 1 } }, { warnings: ["unknown field /m"] }));
  assert.deepEqual([view.status, view.warnings], ["live", ["unknown field /m"]]);
  socket.lose();
  const again = await service.accept();
  again.give(accepted("1"), publish("a", { n: 2 }, 2));
  assert.deepEqual([view.status, view.get("a")], ["catching up", { n: 2 }]);
  again.give({ ...accepted("1"), ack_type: "completed" });
  assert.equal(view.status, "live");
  client.close();
});

test("a view holds no more records than its limit, and counts those that it leaves out", async () => {
  const [client, socket] = await connected();
  const view = client.view("orders", { limit: 2 });
  const request = await socket.next();
  assert.deepEqual([request["top_n"], request["skip_n"]], [2, undefined]);
  socket.give(accepted("1"), ...group("1", { a: { n: 1 }, b: { n: 1 } }));
  const left = (data: Fields, at: number): void => socket.give(publish("c", data, at, { delta: at > 2 }));
  left({ n: 1 }, 2);
  left({ n: 2 }, 3);
  assert.deepEqual([[...view.keys()], view.leftOut, view.status], [["a", "b"], 1, "live"]);
  socket.give({ ...publish("a", {}, 4), command: "oof", reason: "match" }, publish("d", { n: 1 }, 5));
  assert.deepEqual([...view.keys()], ["b", "d"]);
  socket.give(...group("1", { a: { n: 1 } }, { reset: true }));
  assert.deepEqual([[...view.keys()], view.leftOut], [["a"], 0]);
  client.close();
});

test("a row has what the options ask for; a record that is sent again with a time is an update", async () => {
  const [client, socket] = await connected();
  const view = client.view("orders", { options: "timestamp,intrinsics" });
  socket.give(accepted("1"), ...group("1", { a: { n: 1 } }));
  const { record } = view.row("a")!;
  const changes: string[] = [];
  view.onChange((patch) => changes.push(...patch.changes.map(({ type }) => type)));
  socket.give(publish("a", { n: 1 }, 2, { timestamp: "2026-11-23T08:00:00Z", intrinsics: { "~version": 2 } }));
  const row = view.row("a")!;
  assert.deepEqual([row.timestamp, row.intrinsics, changes], ["2026-11-23T08:00:00Z", { "~version": 2 }, ["update"]]);
  assert.equal(row.record, record);
  assert.equal(view.row("b"), undefined);
  client.close();
});

test("a view that lacks something fails alone, and unsubscribes", async () => {
  const [client, socket] = await connected();
  const view = client.view("orders");
  const other = client.view("trades");
  socket.give(accepted("1"), ...group("1", { a: { id: 1 } }));
  const proof = view.prove();
  await turns();
  socket.give(publish("b", { id: 2 }, 2, { delta: true }));
  assert.deepEqual([view.status, view.error?.reason, view.size], ["failed", "gap", 1]);
  await assert.rejects(proof, { reason: "gap" });
  await assert.rejects(
    view.waitFor(() => false),
    { reason: "gap" },
  );
  assert.equal(socket.sent.at(-1)!["command"], "unsubscribe");
  assert.deepEqual([client.status, other.status], ["open", "loading"]);
  client.close();
});

test("a closed view calls no listener, and stays readable", async () => {
  const [client, socket] = await connected();
  const view = client.view("orders");
  socket.give(accepted("1"), ...group("1", { a: { id: 1 } }));
  view.onChange(() => assert.fail("no change comes after closing"));
  view.close();
  socket.give(publish("a", { id: 2 }, 2));
  assert.deepEqual([...view], [["a", { id: 1 }]]);
  assert.equal(view.status, "closed");
  client.close();
});

test("a view is of one topic, by SOW key, and begins with a copy and its bookmark", async () => {
  const [client] = await connected();
  for (const [topic, reading, reason] of [
    ["^orders", {}, "regex topic not supported"],
    ["orders", { options: "no_sowkey" }, "invalid options"],
    ["orders", { bookmark: "orders:0@1" }, "invalid bookmark"],
    ["orders", { records: [] }, "invalid bookmark"],
    ["orders", { orderBy: "id" }, "invalid order by"],
  ] as const) {
    assert.throws(() => client.view(topic, reading), { reason }, reason);
  }
  client.close();
});

test("records of a view may be texts instead of integers that a number can't hold", async () => {
  const [client, socket] = await connected({ integers: "text" });
  const view = client.view<{ n: string }>("orders", { orderBy: "/n" });
  socket.give(accepted("1"));
  const [begin, sow, end] = group("1", { a: { n: 1 }, b: { n: 2 } }).map((frame) => JSON.stringify(frame));
  socket.giveText(`[${begin},${sow!.replace('"n":1', '"n":18446744073709551615')},${end}]`);
  assert.deepEqual([...view.values()], [{ n: 2 }, { n: "18446744073709551615" }]);
  client.close();
});

test("a view begins with a copy at any start, at the position that the service names", async () => {
  const [client, socket] = await connected();
  const copy = [["a", { id: 1 }]] as const;
  const view = client.view("orders", { bookmark: "orders:0@5,1@7", records: copy });
  assert.deepEqual([view.saved(), view.status], [{ bookmark: "orders:0@5,1@7", records: copy }, "loading"]);
  socket.give(accepted("1", { bookmark: "orders:0@5,1@7" }), publish("b", { id: 2 }, 6));
  await view.ready;
  assert.equal(view.bookmark, "orders:0@6,1@7");
  const listed = client.view("orders", { bookmark: ["orders:0@5", "orders:0@4"], records: copy });
  socket.give(accepted("2", { bookmark: "orders:0@4" }));
  assert.deepEqual([listed.bookmark, listed.size], ["orders:0@4", 1]);
  client.close();
});
