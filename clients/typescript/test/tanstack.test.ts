import assert from "node:assert/strict";
import { test } from "node:test";

import { createCollection } from "@tanstack/db";

import { connect } from "../src/index.js";
import { sowlineCollection } from "../src/tanstack.js";
import { FakeService, turns, type Fields } from "./fakeSocket.js";

type Order = { id: number; qty: number };

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await turns();
}

test("a collection is a view, and its mutations are writes", async () => {
  const service = new FakeService();
  const client = connect("http://service.example", service.options());
  const socket = await service.accept();
  const orders = createCollection(sowlineCollection<Order>({ client, topic: "orders", keyFields: ["id"] }));
  const shown = (): string => [...orders.values()].map(({ id, qty }) => `${id}=${qty}`).join();
  const preloaded = orders.preload();
  const { command_id: id } = await socket.next();
  const about = { query_id: id, topic: "orders" };
  socket.give(
    { command: "ack", ack_type: "processed", command_id: id, status: "success" },
    { command: "group_begin", ...about, bookmark: "orders:0@1" },
    { command: "sow", ...about, records: [{ sow_key: "k1", data: { id: 1, qty: 1 } }] },
    { command: "group_end", ...about, bookmark: "orders:0@1", records: 1 },
  );
  await preloaded;
  assert.equal(shown(), "1=1");

  const change = (command: string, offset: number, data: Fields): Fields => ({
    command,
    sids: [id],
    topic: "orders",
    sow_key: `k${String(data["id"])}`,
    bookmark: `orders:0@${offset}`,
    data,
    ...(command === "oof" ? { reason: "deleted" } : {}),
  });
  const ack = { command: "ack", ack_type: "processed", status: "success", outcome: "applied", bookmark: "orders:0@2" };

  socket.give(change("publish", 2, { id: 2, qty: 2 }));
  await until(() => shown() === "1=1,2=2");

  const update = orders.update("1", (draft) => void (draft.qty = 7));
  assert.equal(shown(), "1=7,2=2", "it is shown at once");
  const updating = await socket.next();
  assert.deepEqual([updating["command"], updating["data"]], ["delta_publish", { id: 1, qty: 7 }]);
  socket.give({ ...ack, command_id: updating["command_id"], effect: "orders:0@3" });
  await turns();
  assert.equal(update.state, "persisting", "the view does not have it yet");
  socket.give(change("publish", 3, { id: 1, qty: 7 }));
  await update.isPersisted.promise;
  assert.equal(shown(), "1=7,2=2");

  const insert = orders.insert({ id: 3, qty: 3 });
  const inserting = await socket.next();
  assert.deepEqual([inserting["command"], inserting["data"]], ["publish", { id: 3, qty: 3 }]);
  socket.give({ ...ack, command_id: inserting["command_id"], status: "failure", reason: "not entitled", message: "no" });
  await assert.rejects(insert.isPersisted.promise, { reason: "not entitled" });
  assert.equal(shown(), "1=7,2=2", "it is taken back");

  const gone = orders.delete("2");
  const deleting = await socket.next();
  assert.deepEqual([deleting["command"], deleting["data"]], ["sow_delete", { id: 2 }]);
  const deleted = { ...ack, command_id: deleting["command_id"], outcome: "deleted 1", effect: "orders:0@4" };
  socket.give(deleted, { ...deleted, ack_type: "stats", records_deleted: 1 });
  socket.give(change("oof", 4, { id: 2, qty: 2 }));
  await gone.isPersisted.promise;
  assert.equal(shown(), "1=7");

  const gap = { delta: true, sow_key: "k9", bookmark: "orders:0@5" };
  socket.give({ ...change("publish", 5, { id: 9, qty: 9 }), ...gap });
  assert.equal(orders.status, "error", "the view has failed");
  await orders.cleanup();
  client.close();
});

test("a refusal is the error of the collection", async () => {
  const service = new FakeService();
  const client = connect("http://service.example", service.options());
  const socket = await service.accept();
  const orders = createCollection(sowlineCollection<Order>({ client, topic: "orders", keyFields: ["id"] }));
  const preloaded = orders.preload();
  const { command_id } = await socket.next();
  const refusal = { status: "failure", reason: "not entitled", message: "no" };
  socket.give({ command: "ack", ack_type: "processed", command_id, ...refusal });
  await assert.rejects(preloaded, { reason: "not entitled" });
  assert.equal(orders.status, "error");
  client.close();
});

test("the key of a collection is the key text", () => {
  const client = connect("http://service.example", new FakeService().options());
  const { getKey: ofOne } = sowlineCollection<Order>({ client, topic: "orders", keyFields: ["id"] });
  const { getKey: ofTwo } = sowlineCollection<Order & { desk: string }>({
    client,
    topic: "orders",
    keyFields: ["id", "desk"],
  });
  assert.equal(ofOne({ id: 1, qty: 2 }), "1");
  assert.equal(ofTwo({ id: 1, qty: 2, desk: "x" }), '["1","x"]');
  client.close();
});
