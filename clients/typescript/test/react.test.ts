import { element } from "./dom.js";

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { createElement as h, Component, memo, Suspense, act, type FC, type ReactNode } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";

import { connect, type Client } from "../src/index.js";
import {
  useKeys,
  useMutation,
  useRecord,
  useRow,
  useSharedView,
  useSow,
  useStatus,
  useView,
  type SharedView,
} from "../src/react/index.js";
import { GRACE_MS } from "../src/react/lease.js";
import { sharedClient } from "../src/react/sharedClient.js";
import { FakeService, turns } from "./fakeSocket.js";
import {
  app,
  changed,
  clients,
  group,
  opened,
  pause,
  render,
  roots,
  show,
  shown,
  subscribed,
  texts,
  type Order,
} from "./reactRig.js";

const List: FC<{ name: string; suspense?: boolean }> = ({ name, suspense = false }) => {
  const { rows, status } = useView<Order>("orders", { filter: "/qty > 0" }, { suspense });
  return h("p", null, `${name} ${status}: ${rows.map(({ key, record }) => `${key}=${record.qty}`).join(" ")};`);
};

test("components with equal queries share one subscription, which ends after the last of them", async () => {
  const { client, socket } = await opened();
  mock.timers.enable({ apis: ["setTimeout"] });
  const { root, page } = await show(client, h(List, { name: "one", key: 1 }), h(List, { name: "two", key: 2 }));
  const id = await subscribed(socket);
  assert.equal(texts(page), "one loading: ;two loading: ;");
  group(socket, id, { id: 1, qty: 5 });
  await shown(() => texts(page) === "one live: k1=5;two live: k1=5;");
  await render(root, client, h(List, { name: "two", key: 2 }));
  await render(root, client);
  await pause(GRACE_MS - 1);
  await render(root, client, h(List, { name: "again", key: 3 }));
  assert.equal(texts(page), "again live: k1=5;");
  await pause();
  assert.deepEqual(socket.sent, [], "nothing was subscribed again or ended");
  await render(root, client);
  await pause();
  assert.deepEqual(
    socket.sent.map(({ command }) => command),
    ["unsubscribe"],
  );
  await render(root, client, h(List, { name: "later", key: 4 }));
  socket.sent.shift();
  assert.equal(texts(page), "later loading: ;");
  group(socket, await subscribed(socket), { id: 2, qty: 6 });
  await shown(() => texts(page) === "later live: k2=6;");
});

test("queries are equal whatever the order of their parameters, and others have their own subscription", async () => {
  const { client, socket } = await opened();
  const Both: FC = () => {
    useView("orders", { filter: "/a = 1", orderBy: "/a" });
    useView("orders", { orderBy: "/a", filter: "/a = 1" });
    useView("orders", { filter: "/a = 2", orderBy: "/a" });
    return null;
  };
  await show(client, h(Both));
  await turns();
  assert.deepEqual(
    socket.sent.map(({ filter }) => filter),
    ["/a = 1", "/a = 2"],
  );
});

test("only what has changed renders again", async () => {
  const { client, socket } = await opened();
  const renders: string[] = [];
  const Row = memo<{ view: SharedView<Order>; name: string }>(({ view, name }) => {
    renders.push(name);
    return h("i", null, `${name}=${useRow(view, name)?.qty} `);
  });
  const Table: FC = () => {
    const view = useSharedView<Order>("orders");
    const keys = useKeys(view);
    renders.push("table");
    return keys.map((key) => h(Row, { view, name: key, key }));
  };
  const { page } = await show(client, h(Table));
  const id = await subscribed(socket);
  group(socket, id, { id: 1, qty: 1 }, { id: 2, qty: 2 });
  await shown(() => texts(page) === "k1=1 k2=2 ");
  renders.length = 0;
  socket.give(changed(id, 2, { id: 1, qty: 3 }), changed(id, 3, { id: 1, qty: 4 }));
  await shown(() => texts(page) === "k1=4 k2=2 ");
  assert.deepEqual([...new Set(renders)], ["k1"]);
  assert.ok(renders.length <= 2, "two changes within a frame are one render, which StrictMode repeats");
  renders.length = 0;
  socket.give(changed(id, 4, { id: 3, qty: 9 }));
  await shown(() => texts(page) === "k1=4 k2=2 k3=9 ");
  assert.deepEqual([...new Set(renders)], ["table", "k3"]);
});

test("rows of a view keep their identity until their records change", async () => {
  const { client, socket } = await opened();
  const seen: object[][] = [];
  const Rows: FC = () => {
    const { rows } = useView<Order>("orders");
    seen.push([...rows]);
    return h("p", null, rows.map(({ record }) => record.qty).join());
  };
  const { page } = await show(client, h(Rows));
  const id = await subscribed(socket);
  group(socket, id, { id: 1, qty: 1 }, { id: 2, qty: 2 });
  await shown(() => texts(page) === "1,2");
  const before = seen.at(-1)!;
  socket.give(changed(id, 2, { id: 2, qty: 3 }));
  await shown(() => texts(page) === "1,3");
  const after = seen.at(-1)!;
  assert.equal(after[0], before[0]);
  assert.notEqual(after[1], before[1]);
});

class Boundary extends Component<{ children: ReactNode }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError = (error: Error): { error: Error } => ({ error });
  override render(): ReactNode {
    return this.state.error === undefined ? this.props.children : `caught ${(this.state.error as any).reason}`;
  }
}

test("a component suspends until the records are there", async () => {
  const { client, socket } = await opened();
  mock.timers.enable({ apis: ["setTimeout"] });
  const { page } = await show(client, h(Suspense, { fallback: "waiting" }, h(List, { name: "one", suspense: true })));
  assert.equal(texts(page), "waiting");
  const id = await subscribed(socket);
  await pause();
  group(socket, id, { id: 1, qty: 5 });
  await shown(() => texts(page) === "one live: k1=5;");
  await pause();
  assert.deepEqual(socket.sent, [], "it is not ended while a component waits for it");
});

test("a refusal while a component is suspended goes to the error boundary, and a later attempt asks again", async () => {
  mock.method(console, "error", () => {});
  const { client, socket } = await opened();
  mock.timers.enable({ apis: ["setTimeout"] });
  const suspended = (key: number): ReactNode =>
    h(Boundary, { key, children: h(Suspense, { fallback: "waiting" }, h(List, { name: "one", suspense: true })) });
  const { root, page } = await show(client, suspended(1));
  const refusal = { status: "failure", reason: "invalid filter", message: "…" };
  socket.give({ command: "ack", ack_type: "processed", command_id: await subscribed(socket), ...refusal });
  await shown(() => texts(page) === "caught invalid filter");
  await pause();
  await render(root, client, suspended(2));
  assert.equal(texts(page), "waiting");
  group(socket, await subscribed(socket), { id: 1, qty: 5 });
  await shown(() => texts(page) === "one live: k1=5;");
});

test("without Suspense, a refusal and a wrong reading are states", async () => {
  const { client, socket } = await opened();
  const Failing: FC = () => {
    const refused = useView("orders", { filter: "(" });
    const wrong = useView("^orders");
    return `${refused.status} ${refused.error?.message}, ${wrong.status} ${(wrong.error as any)?.reason}`;
  };
  const { page } = await show(client, h(Failing));
  const refusal = { status: "failure", reason: "invalid filter", message: "no" };
  socket.give({ command: "ack", ack_type: "processed", command_id: await subscribed(socket), ...refusal });
  await shown(() => texts(page) === "failed no, failed regex topic not supported");
});

test("one record is followed by its SOW key", async () => {
  const { client, socket } = await opened();
  const One: FC = () => `qty ${useRecord<Order>("orders", "k1").record?.qty}`;
  const { page } = await show(client, h(One));
  const { command_id: id, sow_keys } = await socket.next();
  assert.deepEqual(sow_keys, ["k1"]);
  assert.equal(texts(page), "qty undefined");
  group(socket, id, { id: 1, qty: 1 });
  await shown(() => texts(page) === "qty 1");
  socket.give({ ...changed(id, 2, { id: 1, qty: 1 }), command: "oof", reason: "deleted" });
  await shown(() => texts(page) === "qty undefined");
});

test("a query is asked once for all that show it, and again by refresh", async () => {
  const { client, socket } = await opened();
  let again = async (): Promise<void> => {};
  const Result: FC = () => {
    const { rows, status, refresh } = useSow<Order>("orders", { filter: "/qty > 1" });
    again = refresh;
    return `${status} ${rows.map(({ record }) => record.qty).join()};`;
  };
  const { page } = await show(client, h(Result, { key: 1 }), h(Result, { key: 2 }));
  const first = await socket.next();
  assert.equal(first["command"], "sow");
  group(socket, first["command_id"], { id: 1, qty: 5 });
  await shown(() => texts(page) === "done 5;done 5;");
  await act(async () => void again());
  assert.equal(texts(page), "loading 5;loading 5;");
  group(socket, (await socket.next())["command_id"], { id: 1, qty: 6 });
  await shown(() => texts(page) === "done 6;done 6;");
  assert.deepEqual(socket.sent, []);
});

test("a component suspends until the answer of a query is there", async () => {
  const { client, socket } = await opened();
  const Result: FC = () => `${useSow<Order>("orders", {}, { suspense: true }).rows.length} orders`;
  const { page } = await show(client, h(Suspense, { fallback: "waiting" }, h(Result)));
  assert.equal(texts(page), "waiting");
  group(socket, (await socket.next())["command_id"], { id: 1, qty: 5 });
  await shown(() => texts(page) === "1 orders");
});

test("what changes within a frame is one change of a shared view", async () => {
  const { client, socket } = await opened();
  const view = sharedClient(client).view<Order>("orders", {});
  let calls = 0;
  const leave = view.subscribe(() => calls++);
  const id = await subscribed(socket);
  group(socket, id, { id: 1, qty: 1 });
  await shown(() => view.getState().status === "live");
  await turns();
  calls = 0;
  socket.give(changed(id, 2, { id: 1, qty: 2 }));
  socket.give(changed(id, 3, { id: 1, qty: 3 }));
  assert.equal(view.getRecord("k1")?.qty, 1, "components see one state until the frame");
  await turns();
  assert.deepEqual([calls, view.getRecord("k1")?.qty, view.getState().rows[0]?.record.qty], [1, 3, 3]);
  leave();
});

test("the status of the connection is shown", async () => {
  const { client, socket } = await opened();
  const Status: FC = () => useStatus();
  const { page } = await show(client, h(Status));
  assert.equal(texts(page), "open");
  await act(async () => socket.lose());
  assert.equal(texts(page), "reconnecting");
});

test("on a server nothing is connected, and the loading state is rendered", () => {
  const never = (): Client => assert.fail("a server needs no client");
  const Suspending: FC = () => h(Suspense, { fallback: "waiting" }, h(List, { name: "two", suspense: true }));
  const Rest: FC = () => {
    const view = useSharedView<Order>("orders");
    const { status } = useSow("orders");
    return `${useStatus()} ${status} ${useKeys(view).length} ${useRow(view, "k1")} ${useMutation(async () => assert.fail()).status}`;
  };
  const html = renderToString(app(never, h(List, { name: "one" }), h(Suspending), h(Rest)));
  assert.match(html, /one loading: ;.*waiting.*connecting loading 0 undefined idle/s);
});

test("a page from a server is taken over, and what suspends is rendered then", async () => {
  const { client, socket } = await opened();
  const page = element();
  const never = (): Client => assert.fail("a server needs no client");
  const parts = [
    h(List, { name: "one", key: 1 }),
    h(Suspense, { fallback: "waiting", key: 2 }, h(List, { name: "two", suspense: true })),
  ];
  page.innerHTML = renderToString(app(never, ...parts));
  const first = page.firstElementChild;
  const reported: unknown[] = [];
  await act(async () => {
    roots.push(hydrateRoot(page, app(client, ...parts), { onRecoverableError: (error) => reported.push(error) }));
  });
  group(socket, await subscribed(socket), { id: 1, qty: 5 });
  await shown(() => texts(page) === "one live: k1=5;two live: k1=5;");
  assert.equal(page.firstElementChild, first, "it is the same element");
  assert.equal(reported.length, 1, "only what suspends was rendered again");
});

test("a function makes the client once", async () => {
  const service = new FakeService();
  let made = 0;
  const client = (): Client => {
    made++;
    const one = connect("http://service.example", service.options());
    clients.push(one);
    return one;
  };
  const { page } = await show(client, h(Suspense, { fallback: "waiting" }, h(List, { name: "one", suspense: true })));
  const socket = await service.accept(0);
  const ask = await socket.next();
  group(socket, ask["command_id"], { id: 1, qty: 5 });
  await shown(() => texts(page) === "one live: k1=5;");
  assert.equal(made, 1);
});
