/** Writes of a client: what is sent, what comes of it, and what is given up. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { connect, JsonText, SowlineError } from "../src/index.js";
import { accepted, connected, FakeService, refused, turns, type FakeSocket } from "./fakeSocket.js";

/** The commands that were sent, each with what it writes. */
const written = ({ sent }: FakeSocket): unknown[] => sent.map(({ command, data }) => data ?? command);

test("a text of JSON is sent as it is written, by a client that keeps integers", async () => {
  assert.throws(() => new JsonText("{"), { reason: "not json" });
  for (const [integers, sent] of [["text", '{"n": 18446744073709551615}'], ["number", '{"n":18446744073709552000}']] as const) {
    const [client, socket] = await connected({ integers });
    const texts: string[] = [];
    socket.send = (text) => void texts.push(text);
    const write = client.publish("orders", new JsonText('{"n": 18446744073709551615}'));
    // The first write of such a client loads what it needs for exact numbers.
    while (texts.length === 0) await turns();
    assert.ok(texts[0]!.includes(`"data":${sent}`), texts[0]);
    socket.give(accepted("c1", { outcome: "applied" }));
    await write;
    client.close();
  }
});

test("a client that is closed right after a write ends that write", async () => {
  // Wherever the write is: before it waits for the connection, meanwhile, or once its command is sent.
  for (let microtasks = 0; microtasks < 20; microtasks++) {
    const [client, socket] = await connected();
    const writes = [client.publish("orders", { id: 1 })];
    await socket.next(); // what writes is loaded
    writes.push(client.publish("orders", { id: 2 }));
    for (let each = 0; each < microtasks; each++) await undefined;
    client.close();
    for (const write of writes) await assert.rejects(write, { reason: "disconnected" });
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

test("what waits for the first connection is sent before anything that follows its opening", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options());
  const socket = await service.connected();
  const { signal } = new AbortController();
  const calls: Promise<unknown>[] = [client.publish("orders", 1, { signal }), client.publish("orders", 2), client.flush()];
  await turns();
  client.onStatus(() => calls.push(client.publish("orders", 3), client.flush()));
  void client.opened.then(() => calls.push(client.sowDelete("orders", { data: 4 })));
  socket.logOn();
  assert.deepEqual(written(socket), [1, 2, "flush"]); // at once: no turn is left to others
  await turns();
  assert.deepEqual(written(socket), [1, 2, "flush", 3, "flush", 4]);
  client.close();
  for (const call of calls) await assert.rejects(call, { reason: "disconnected" });
});

test("what waits for another connection is sent after the subscriptions, in the order of the calls", async () => {
  const [client, first, service] = await connected();
  client.subscribe("orders");
  const lost = client.publish("orders", 0);
  first.give(accepted("1"));
  await turns();
  first.lose();
  await assert.rejects(lost, { reason: "disconnected" });
  const { signal } = new AbortController();
  const calls: Promise<unknown>[] = [client.publish("orders", 1), client.deltaPublish("orders", 2, { signal })];
  client.onStatus(() => calls.push(client.publish("orders", 4), client.flush()));
  await turns();
  // An attempt that fails leaves everything as it was.
  (await service.connected()).lose();
  calls.push(client.delta("orders", "k", "3"));
  const again = await service.connected();
  again.logOn();
  await turns();
  assert.deepEqual(written(again), ["subscribe", 1, 2, "3", 4, "flush"]);
  assert.deepEqual(again.sent.slice(1).map((sent) => sent["command_id"]), ["c2", "c3", "c4", "c5", "c6"]);
  client.close();
  for (const call of calls) await assert.rejects(call, { reason: "disconnected" });
});

test("a write that is no JSON keeps nothing else that waits from being sent", async () => {
  const [client, first, service] = await connected();
  first.lose();
  const calls = [client.publish("orders", 1), client.publish("orders", 2n), client.publish("orders", 3)];
  await turns();
  const socket = await service.accept();
  assert.deepEqual([written(socket), client.status], [[1, 3], "open"]);
  await assert.rejects(calls[1]!, TypeError);
  client.close();
  for (const call of calls) await assert.rejects(call);
});

test("a closed client refuses a write that is given up already, and leaves no rejection unhandled", async () => {
  const [client] = await connected();
  client.close();
  await assert.rejects(client.publish("orders", 1, { signal: AbortSignal.abort() }), { name: "AbortError" });
  await turns(); // an unhandled rejection would end the test
});
