/** Edits from components: what is shown before the service has a write, and when that ends. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { createElement as h, act, type FC } from "react";

import { SETTLE_MS } from "../src/effect.js";
import { useMutation, useView, type Edit } from "../src/react/index.js";
import { changed, group, opened, pause, show, shown, subscribed, texts, type Order } from "./reactRig.js";

let mutate: (qty: number) => Promise<unknown>;

const Editor: FC = () => {
  const { rows } = useView<Order>("orders");
  const edit = useMutation(
    (client, qty: number) => client.deltaPublish("orders", { id: 1, qty }),
    {
      optimistic: (qty): Edit<Order> => ({ topic: "orders", key: "k1", change: (order) => ({ ...order, qty }) }),
    },
  );
  mutate = edit.mutate;
  const { outcome, error } = edit;
  return `${rows.map(({ record }) => record.qty).join()} ${edit.status} ${outcome?.outcome ?? error?.message ?? ""}`;
};

test("an edit is shown at once, until the view has its effect", async () => {
  const { client, socket } = await opened();
  mock.timers.enable({ apis: ["setTimeout"] }); // only the effect ends it
  const { page } = await show(client, h(Editor));
  const id = await subscribed(socket);
  group(socket, id, { id: 1, qty: 1 }, { id: 2, qty: 2 });
  await shown(() => texts(page) === "1,2 idle ");
  await act(async () => void mutate(7));
  assert.equal(texts(page), "7,2 pending ");
  const { command, command_id, data } = await socket.next();
  assert.deepEqual([command, data], ["delta_publish", { id: 1, qty: 7 }]);
  // Somebody else's change is below the edit, and comes before it on the log.
  socket.give(changed(id, 2, { id: 2, qty: 3 }));
  await shown(() => texts(page) === "7,3 pending ");
  const ack = { command: "ack", ack_type: "processed", command_id, status: "success", outcome: "applied" };
  socket.give({ ...ack, bookmark: "orders:0@3", effect: "orders:0@3" });
  await shown(() => texts(page) === "7,3 settled applied");
  // The effect, and then what somebody else made of it.
  socket.give(changed(id, 3, { id: 1, qty: 7 }), changed(id, 4, { id: 1, qty: 8 }));
  await shown(() => texts(page) === "8,3 settled applied");
});

test("an edit that is refused is taken back, with the error", async () => {
  const { client, socket } = await opened();
  const { page } = await show(client, h(Editor));
  group(socket, await subscribed(socket), { id: 1, qty: 1 });
  await shown(() => texts(page) === "1 idle ");
  let caught: unknown;
  await act(async () => void mutate(7).catch((error: unknown) => (caught = error)));
  assert.equal(texts(page), "7 pending ");
  const { command_id } = await socket.next();
  const refusal = { status: "failure", reason: "not entitled", message: "no" };
  socket.give({ command: "ack", ack_type: "processed", command_id, ...refusal });
  await shown(() => texts(page) === "1 refused no");
  assert.equal((caught as { reason: string }).reason, "not entitled");
});

test("an edit without effect ends with its outcome", async () => {
  const { client, socket } = await opened();
  mock.timers.enable({ apis: ["setTimeout"] }); // only the effect ends it
  const { page } = await show(client, h(Editor));
  group(socket, await subscribed(socket), { id: 1, qty: 1 });
  await shown(() => texts(page) === "1 idle ");
  await act(async () => void mutate(7));
  const { command_id } = await socket.next();
  const ack = { command: "ack", ack_type: "processed", command_id, status: "success", outcome: "condition_false" };
  socket.give({ ...ack, bookmark: "orders:0@3", effect: "orders:0@3" });
  await shown(() => texts(page) === "1 settled condition_false");
});

test("an edit of a view whose bookmark does not come to the effect ends soon after the outcome", async () => {
  const { client, socket } = await opened();
  mock.timers.enable({ apis: ["setTimeout"] });
  const { page } = await show(client, h(Editor));
  group(socket, await subscribed(socket), { id: 1, qty: 1 });
  await shown(() => texts(page) === "1 idle ");
  await act(async () => void mutate(7));
  const { command_id } = await socket.next();
  const ack = { command: "ack", ack_type: "processed", command_id, status: "success", outcome: "applied" };
  socket.give({ ...ack, bookmark: "orders:0@3", effect: "orders:0@3" });
  await shown(() => texts(page) === "7 settled applied");
  await pause(SETTLE_MS);
  assert.equal(texts(page), "1 settled applied");
});

test("a deletion is shown at once, and the last attempt counts", async () => {
  const { client, socket } = await opened();
  let drop = async (_: string): Promise<unknown> => undefined;
  const Dropping: FC = () => {
    const { rows } = useView<Order>("orders");
    const { mutate, variables, status } = useMutation(
      (client, key: string) => client.sowDelete("orders", { sowKeys: [key] }),
      { optimistic: (key) => ({ topic: "orders", key, change: () => undefined }) },
    );
    drop = mutate;
    return `${rows.map(({ key }) => key).join()} ${variables} ${status}`;
  };
  const { page } = await show(client, h(Dropping));
  group(socket, await subscribed(socket), { id: 1, qty: 1 }, { id: 2, qty: 2 }, { id: 3, qty: 3 });
  await shown(() => texts(page) === "k1,k2,k3 undefined idle");
  await act(async () => void drop("k1"));
  await act(async () => void drop("k2"));
  assert.equal(texts(page), "k3 k2 pending");
  const [first, second] = [await socket.next(), await socket.next()];
  const refusal = { command: "ack", ack_type: "processed", status: "failure", reason: "not entitled", message: "no" };
  socket.give({ ...refusal, command_id: first["command_id"] });
  await shown(() => texts(page) === "k1,k3 k2 pending");
  socket.give({ ...refusal, command_id: second["command_id"] });
  await shown(() => texts(page) === "k1,k2,k3 k2 refused");
});

test("an edit that throws is reported, and keeps no other record from its change", async (t) => {
  const reported = t.mock.method(console, "error", () => {});
  const { client, socket } = await opened();
  let mutate!: (change: Edit<Order>["change"]) => Promise<unknown>;
  const Changing: FC = () => {
    const { rows } = useView<Order>("orders");
    mutate = useMutation((client) => client.deltaPublish("orders", { id: 1 }), {
      optimistic: (change: Edit<Order>["change"]): Edit<Order> => ({ topic: "orders", key: "k1", change }),
    }).mutate;
    return rows.map(({ record }) => record.qty).join();
  };
  const { page } = await show(client, h(Changing));
  const id = await subscribed(socket);
  group(socket, id, { id: 1, qty: 1 }, { id: 2, qty: 2 });
  await shown(() => texts(page) === "1,2");
  const failsAbove1 = (order: Order): Order => {
    if (order.qty > 1) throw new Error("too much");
    return { ...order, qty: 0 };
  };
  await act(async () => void mutate(failsAbove1));
  assert.equal(texts(page), "0,2");
  socket.give(changed(id, 2, { id: 1, qty: 5 }), changed(id, 3, { id: 2, qty: 6 }));
  await shown(() => texts(page) === "5,6");
  assert.deepEqual(
    reported.mock.calls.map(({ arguments: [error] }) => (error as Error).message),
    ["too much"],
  );
});
