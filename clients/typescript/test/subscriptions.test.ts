/** Subscriptions and queries of a client, over connections that the test holds. */

import assert from "node:assert/strict";
import { test, mock } from "node:test";

import { type Message } from "../src/index.js";
import { WAITING_MAX } from "../src/stream.js";
import { accepted, connected, group, publish, refused } from "./fakeSocket.js";

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
