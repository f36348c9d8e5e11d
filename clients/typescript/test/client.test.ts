import assert from "node:assert/strict";
import { test, mock } from "node:test";

import { connect, JsonText, SowlineError, type Client, type ConnectOptions, type Message } from "../src/index.js";
import { WAITING_MAX } from "../src/stream.js";
import { accepted, FakeService, group, publish, refused, turns, type Fields, type FakeSocket } from "./fakeSocket.js";

async function connected(options: ConnectOptions = {}): Promise<[Client, FakeSocket, FakeService]> {
  const service = new FakeService();
  const client = connect("http://service:8080/", service.options(options));
  const socket = await service.accept();
  await client.opened;
  return [client, socket, service];
}

// the connection

test("a client logs on, and knows its user and rights", async () => {
  const service = new FakeService();
  service.logon = { user: "ada", roles: ["desk"], version: "0.1.0" };
  const client = connect("https://service/base/", service.options({ token: " sow_1 " }));
  const statuses: string[] = [];
  client.onStatus((status) => statuses.push(status));
  const socket = await service.connected();
  assert.equal(socket.url, "wss://service/base/v1");
  assert.deepEqual(socket.sent, [{ command: "logon", command_id: "logon", token: "sow_1" }]);
  assert.equal(client.status, "connecting");
  socket.logOn();
  await client.opened;
  assert.deepEqual(client.login, { rights: "r1", user: "ada", roles: ["desk"], version: "0.1.0" });
  client.close();
  assert.deepEqual(statuses, ["open", "closed"]);
  assert.ok(socket.isClosed);
});

test("a refused logon ends the client, and what waits for it", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options({ token: "wrong" }));
  const view = client.view("orders");
  const socket = await service.connected();
  socket.give(refused("logon", "auth failure"));
  for (const waiting of [client.opened, view.ready, client.publish("orders", {})]) {
    await assert.rejects(waiting, { reason: "auth failure" });
  }
  assert.deepEqual([client.status, client.error?.reason, view.status], ["closed", "auth failure", "failed"]);
});

test("without a connection in time, the client gives up", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options({ connectSeconds: 0.1 }));
  void (async () => {
    for (let number = 0; client.status !== "closed"; number++) (await service.connected(number)).lose();
  })();
  await assert.rejects(client.opened, { reason: "not connected" });
});

test("a client that reconnects asks for a token again, also after refusals", async () => {
  let tokens = 0;
  const service = new FakeService();
  const getToken = async (): Promise<string> => `t${++tokens}`;
  const client = connect("http://service", service.options({ getToken }));
  (await service.accept(0)).lose();
  const second = await service.connected(1);
  assert.equal(second.sent[0]!["token"], "t2");
  second.give(refused("logon", "auth failure"));
  const third = await service.connected(2);
  assert.equal(third.sent[0]!["token"], "t3");
  third.logOn();
  await turns();
  assert.equal(client.status, "open");
  client.close();
});

test("a logon is renewed over the same connection before it ends", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    let tokens = 0;
    const service = new FakeService();
    service.logon = { expires_in: 100 };
    const client = connect("http://service", service.options({ getToken: () => `t${++tokens}` }));
    await turns();
    const socket = service.sockets[0]!;
    socket.onopen?.({});
    socket.logOn();
    mock.timers.tick(74_000);
    await turns();
    assert.equal(socket.sent.length, 0);
    mock.timers.tick(1000);
    await turns();
    assert.deepEqual(socket.sent, [{ command: "logon", command_id: "logon", token: "t2" }]);
    socket.give(refused("logon", "rights changed"));
    assert.ok(socket.isClosed);
    assert.equal(client.status, "reconnecting");
    client.close();
  } finally {
    mock.timers.reset();
  }
});

test("a connection that is silent is asked for a sign of life, and given up without one", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const service = new FakeService();
    const client = connect("http://service", service.options());
    await turns();
    const socket = service.sockets[0]!;
    socket.onopen?.({});
    socket.logOn();
    for (let check = 0; check < 4; check++) mock.timers.tick(5000);
    assert.deepEqual(socket.sent, [{ command: "heartbeat", command_id: "alive" }]);
    socket.give({ command: "heartbeat", command_id: "alive" });
    for (let check = 0; check < 5; check++) mock.timers.tick(5000);
    assert.equal(client.status, "open");
    // A computer that was asleep: its clock jumps.
    mock.timers.setTime(Date.now() + 3_600_000);
    mock.timers.tick(5000);
    mock.timers.tick(5000);
    assert.equal(client.status, "reconnecting");
    client.close();
  } finally {
    mock.timers.reset();
  }
});

test("a frame that is none of the protocol ends the client", async () => {
  for (const text of ["{", '{"command":"replay"}', '[{"command":"publish","sids":["1"]}]', "1"]) {
    const [client, socket] = await connected();
    const subscription = client.subscribe("orders");
    socket.giveText(text);
    await assert.rejects(subscription.next(), { reason: "bad message" }, text);
    assert.equal(client.status, "closed");
  }
});

test("closing a client frees everything", async () => {
  const [client, socket] = await connected();
  const subscription = client.subscribe("orders");
  const view = client.view("orders");
  const write = client.publish("orders", { id: 1 });
  await turns();
  client.close();
  await assert.rejects(subscription.closed, { reason: "disconnected" });
  await assert.rejects(write, { reason: "disconnected" });
  assert.equal(view.status, "closed");
  assert.deepEqual([socket.onopen, socket.onmessage, socket.onclose], [null, null, null]);
  await assert.rejects(client.subscribe("orders").started, { reason: "disconnected" });
  await assert.rejects(client.publish("orders", {}), { reason: "disconnected" });
});

test("without a WebSocket, the client ends with what it needs", async () => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  Object.defineProperty(globalThis, "WebSocket", { value: undefined, configurable: true });
  try {
    await assert.rejects(connect("http://service").opened, { reason: "not supported" });
  } finally {
    if (own === undefined) delete (globalThis as { WebSocket?: unknown }).WebSocket;
    else Object.defineProperty(globalThis, "WebSocket", own);
  }
  assert.throws(() => connect("service:8080"), { reason: "bad request" });
});

// subscriptions

test("of the messages in one frame, each has its call, its position and its patch", async () => {
  const [client, socket] = await connected();
  const calls: unknown[] = [];
  const view = client.view("orders");
  view.onChange(({ changes, bookmark }) => calls.push([changes.map((change) => change.type), bookmark]));
  const subscription = client.subscribe("orders", {}, () => calls.push(subscription.bookmark));
  const sids = ["1", "2"];
  socket.give(
    accepted("2"),
    accepted("1"),
    ...group("1", { a: { id: 1 } }),
    publish("a", { id: 1, n: 2 }, 2, { sids }),
    publish("b", { id: 2 }, 3, { sids }),
  );
  assert.deepEqual(calls, [
    [["insert"], "orders:0@1"],
    [["update"], "orders:0@2"],
    [["insert"], "orders:0@3"],
    "orders:0@2",
    "orders:0@3",
  ]);
  assert.deepEqual([...view.keys()], ["a", "b"]);
  client.close();
});

test("a position moves when a message is taken", async () => {
  const [client, socket, service] = await connected();
  const subscription = client.subscribe("orders");
  socket.give(accepted("1"), publish("a", { id: 1 }, 2), publish("b", { id: 2 }, 3));
  await subscription.started;
  assert.equal(subscription.bookmark, "orders:0@1");
  await subscription.next();
  assert.equal(subscription.bookmark, "orders:0@2");
  socket.lose();
  const again = await service.accept();
  assert.equal((await again.next())["bookmark"], "orders:0@2");
  again.give(accepted("1"), publish("b", { id: 2 }, 3));
  assert.deepEqual(((await subscription.next()).value as Message as { data: unknown }).data, { id: 2 });
  client.close();
});

test("leaving an iteration unsubscribes, and its end is the end of the subscription", async () => {
  const [client, socket] = await connected();
  const subscription = client.subscribe("orders");
  socket.give(accepted("1"), publish("a", { id: 1 }, 2));
  for await (const message of subscription) {
    assert.equal(message.command, "publish");
    break;
  }
  await subscription.closed;
  assert.deepEqual(socket.sent.at(-1), {
    command: "unsubscribe",
    command_id: "1.leave",
    sub_id: "1",
    ack_type: "processed",
  });
  const ending = client.subscribe("orders", { bookmark: "epoch", upTo: "now" });
  socket.give(accepted("2"), { ...accepted("2"), ack_type: "completed" });
  assert.equal((await ending.next()).done, true);
  client.close();
});

test("a callback gets the messages as they come, and an error of its own ends nothing", async () => {
  const [client, socket] = await connected();
  const seen: unknown[] = [];
  const reported = mock.method(console, "error", () => {});
  const subscription = client.subscribe<{ id: number }>("orders", {}, (message) => {
    if (message.command === "publish") seen.push(message.data.id);
    throw new Error("of the caller");
  });
  socket.give(accepted("1"), publish("a", { id: 1 }, 2), publish("b", { id: 2 }, 3));
  assert.deepEqual([seen, reported.mock.callCount(), subscription.bookmark], [[1, 2], 2, "orders:0@3"]);
  reported.mock.restore();
  socket.give({ ...refused("1", "bookmark_expired"), ack_type: "completed" });
  await assert.rejects(subscription.closed, { reason: "bookmark_expired" });
  client.close();
});

test("a caller that does not read slows only itself, and loses nothing", async () => {
  const [client, socket] = await connected();
  const slow = client.subscribe<{ id: number }>("orders");
  const quick = client.subscribe("orders", {}, () => {});
  socket.give(accepted("1"));
  socket.give(accepted("2"));
  socket.sent.length = 0;
  for (let id = 0; id < WAITING_MAX; id++) socket.give(publish("a", { id }, id + 2, { sids: ["1", "2"] }));
  assert.deepEqual(socket.sent, [{ command: "pause", command_id: "1.pause", sub_id: "1" }]);
  socket.give(publish("b", { id: -1 }, WAITING_MAX + 2, { sids: ["2"] }));
  assert.equal(quick.bookmark, `orders:0@${WAITING_MAX + 2}`);
  for (let id = 0; id < WAITING_MAX; id++) {
    const { value } = await slow.next();
    assert.equal((value as { data: { id: number } }).data.id, id);
    if (id === WAITING_MAX / 2 - 2) assert.equal(socket.sent.length, 1);
    if (id === WAITING_MAX / 2 - 1) assert.equal(socket.sent.length, 2);
  }
  assert.deepEqual(socket.sent[1], { command: "resume", command_id: "1.resume", sub_id: "1" });
  client.close();
});

test("a subscription that its caller has paused stays paused, also over a new connection", async () => {
  const [client, socket, service] = await connected();
  const subscription = client.subscribe("orders", { options: "oof" });
  socket.give(accepted("1"));
  subscription.pause();
  assert.equal(socket.sent.at(-1)!["command"], "pause");
  socket.lose();
  const again = await service.accept();
  assert.equal((await again.next())["options"], "oof,pause");
  subscription.resume();
  assert.equal((await again.next())["command"], "resume");
  client.close();
});

test("a message that several subscriptions share has for each the fields that it selects", async () => {
  const [client, socket] = await connected();
  const seen: unknown[] = [];
  const take = (message: Message): unknown => "data" in message && seen.push(message.data);
  client.subscribe("orders", { options: "select=[-/,+/a]" }, take);
  client.subscribe("orders", { options: "oof,select=[-/a]" }, take);
  client.subscribe("orders", {}, take);
  for (const id of ["1", "2", "3"]) socket.give(accepted(id));
  socket.give(publish("k", { a: 1, b: 2 }, 2, { sids: ["1", "2", "3"] }));
  socket.give(publish("k", { a: 1, b: 2 }, 3, { sids: ["1"] }));
  assert.deepEqual(seen, [{ a: 1 }, { b: 2 }, { a: 1, b: 2 }, { a: 1, b: 2 }]);
  client.close();
});

test("a request that is refused for a while is sent again", async () => {
  const [client, socket] = await connected();
  const subscription = client.subscribe("orders", { maxStaleness: "1s" });
  await socket.next();
  socket.give(refused("1", "not ready"));
  assert.equal((await socket.next())["command"], "subscribe");
  socket.give(accepted("1"));
  await subscription.started;
  client.close();
});

test("a query that has given messages fails with its connection; one that has not is sent again", async () => {
  const [client, socket, service] = await connected();
  const begun = client.sow("orders");
  const waiting = client.sow("orders");
  const [begin] = group("1", {});
  socket.give(accepted("1"), begin!);
  assert.equal((await begun.next()).value?.command, "group_begin");
  socket.lose();
  const again = await service.accept();
  await assert.rejects(begun.next(), { reason: "disconnected" });
  assert.equal((await again.next())["command_id"], "2");
  again.give(accepted("2"), ...group("2", { k: { id: 1 } }), { ...accepted("2"), ack_type: "completed" });
  assert.deepEqual(await waiting.records(), [{ id: 1 }]);
  client.close();
});

test("where the rights have changed, a subscription begins with a group", async () => {
  const [client, socket, service] = await connected();
  const seen: string[] = [];
  client.subscribe("orders", {}, (message) => {
    seen.push(message.command === "group_begin" ? `group_begin ${message.reset}` : message.command);
  });
  socket.give(accepted("1"), publish("a", {}, 2));
  service.rights = "r2";
  socket.lose(1008, "rights changed: connect again");
  const again = await service.accept();
  const request = await again.next();
  assert.deepEqual([request["command"], request["bookmark"]], ["sow_and_subscribe", ""]);
  again.give(accepted("1"), ...group("1", {}));
  assert.deepEqual(seen, ["publish", "group_begin true", "group_end"]);
  client.close();
});

// views

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

// writes

test("a text of JSON is sent as it is written, by a client that keeps integers", async () => {
  assert.throws(() => new JsonText("{"), { reason: "not json" });
  for (const [integers, sent] of [["text", '{"n": 18446744073709551615}'], ["number", '{"n":18446744073709552000}']] as const) {
    const [client, socket] = await connected({ integers });
    const texts: string[] = [];
    socket.send = (text) => void texts.push(text);
    const write = client.publish("orders", new JsonText('{"n": 18446744073709551615}'));
    await turns();
    assert.ok(texts[0]!.includes(`"data":${sent}`), texts[0]);
    socket.give(accepted("c1", { outcome: "applied" }));
    await write;
    client.close();
  }
});

test("a write has an outcome, or the reason of its refusal", async () => {
  const [client, socket, service] = await connected();
  const write = client.publish("orders", { id: 1 }, { expiration: 5, correlationId: "c", tags: ["a"] });
  assert.deepEqual(await socket.next(), {
    command: "publish",
    command_id: "c1",
    topic: "orders",
    data: { id: 1 },
    expiration: 5,
    correlation_id: "c",
    tags: ["a"],
    ack_type: "processed",
  });
  socket.give(accepted("c1", { outcome: "applied", effect: "orders:0@3" }));
  assert.deepEqual(await write, { bookmark: "orders:0@1", outcome: "applied", effect: "orders:0@3" });
  const older = client.delta("orders", "k", "{..}", { until: "persisted" });
  assert.deepEqual((await socket.next())["data"], "{..}");
  socket.give(accepted("c2", { ack_type: "persisted", effect: "orders:0@2,1@10" }));
  await older;
  assert.equal(client.effect, "orders:0@3,1@10");
  const deletion = client.sowDelete("orders", { filter: "/a = 1" });
  assert.equal((await socket.next())["ack_type"], "processed,stats");
  socket.give(accepted("c3", { outcome: "deleted 1" }), accepted("c3", { ack_type: "stats", records_deleted: 2 }));
  assert.equal((await deletion).recordsDeleted, 2);
  const wrong = client.deltaPublish("orders", {});
  await socket.next();
  socket.give(refused("c4", "key missing"));
  await assert.rejects(
    wrong,
    (error: SowlineError) => error.reason === "key missing" && error.message === "key missing!",
  );
  const lost = client.publish("orders", { id: 2 });
  await socket.next();
  socket.lose();
  await assert.rejects(lost, { reason: "disconnected" });
  const later = client.publish("orders", { id: 3 });
  const again = await service.accept();
  assert.deepEqual((await again.next())["data"], { id: 3 });
  again.give({ command: "ack", ack_type: "processed", status: "failure", reason: "not json", message: "?" });
  await assert.rejects(later, { reason: "not json" });
  client.close();
});

test("a write that is given up while it waits for a connection is never sent", async () => {
  const [client, socket, service] = await connected();
  socket.lose();
  const stop = new AbortController();
  const given = { signal: stop.signal };
  const writes = [client.publish("orders", { id: 1 }, given), client.sowDelete("orders", { filter: "1=1", ...given })];
  const other = client.publish("orders", { id: 2 });
  await turns();
  stop.abort(new SowlineError("not connected", "not now"));
  for (const write of writes) await assert.rejects(write, { reason: "not connected" });
  await assert.rejects(client.deltaPublish("orders", { id: 1 }, given), { reason: "not connected" });
  const again = await service.accept();
  assert.deepEqual((await again.next())["data"], { id: 2 });
  again.give(accepted("c1", { outcome: "applied" }));
  await other;
  await turns();
  assert.deepEqual(again.sent, []);
  client.close();
});

test("of a write that is given up after it was sent, only the wait ends", async () => {
  const [client, socket] = await connected();
  const stop = new AbortController();
  const write = client.publish("orders", { id: 1 }, { signal: stop.signal });
  await socket.next();
  stop.abort();
  await assert.rejects(write, { name: "AbortError" });
  socket.give(accepted("c1", { outcome: "applied" }));
  const next = client.publish("orders", { id: 2 }, { signal: new AbortController().signal });
  await socket.next();
  socket.give(accepted("c2", { outcome: "applied" }));
  assert.equal((await next).outcome, "applied");
  client.close();
});

test("a client says when it was last sent something, and when it tries to connect again", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options());
  assert.deepEqual([client.heardAt, client.retryAt], [undefined, undefined]);
  const socket = await service.accept();
  await client.opened;
  assert.ok(client.heardAt! <= new Date());
  assert.equal(client.retryAt, undefined);
  socket.lose();
  assert.ok(client.retryAt! > client.heardAt!);
  await service.accept();
  assert.equal(client.retryAt, undefined);
  client.close();
});
