/** Real grids of AG Grid, in a page that draws nothing: the rows that they hold. */

import { element } from "./dom.js";

import assert from "node:assert/strict";
import { test } from "node:test";

import { AllCommunityModule, createGrid, type GridApi, type GridOptions } from "ag-grid-community";

import { getRowId, pagesOf, showView } from "../src/agGrid.js";
import type { Row } from "../src/index.js";
import { accepted, connected, group, publish, refused, turns, type FakeSocket, type Fields } from "./fakeSocket.js";

type Order = { id: number; qty: number };

const COLUMNS = [{ field: "record.id" as const }, { field: "record.qty" as const, sortable: true, filter: true }];

function grid(options: GridOptions<Row<Order>>): GridApi<Row<Order>> {
  return createGrid(
    element(),
    { columnDefs: COLUMNS, asyncTransactionWaitMillis: 1, ...options },
    { modules: [AllCommunityModule] },
  );
}

function shown(api: GridApi<Row<Order>>): string[] {
  const rows: string[] = [];
  api.forEachNode(({ data }) => rows.push(data === undefined ? "loading" : `${data.record.id}=${data.record.qty}`));
  return rows;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries++) {
    assert.ok(tries < 10_000, "it takes too long");
    await turns();
  }
}

const leaves = (key: string, data: Fields, at: number, more: Fields = {}): Fields => ({
  ...publish(key, data, at, more),
  command: "oof",
  reason: "deleted",
});

test("a grid with the client-side row model shows a view, and changes are one transaction", async () => {
  const [client, socket] = await connected();
  const view = client.view<Order>("orders");
  socket.give(accepted("1"), ...group("1", { a: { id: 1, qty: 1 }, b: { id: 2, qty: 2 } }));
  await view.ready;
  const api = grid({ getRowId });
  const stop = showView(api, view);
  assert.deepEqual(shown(api), ["1=1", "2=2"]);
  const kept = api.getRowNode("b");

  let applied = 0;
  const apply = api.applyTransaction;
  api.applyTransaction = (transaction) => (applied++, apply(transaction));
  socket.give(publish("a", { id: 1, qty: 7 }, 2), publish("c", { id: 3, qty: 3 }, 3), publish("a", { id: 1, qty: 8 }, 4));
  socket.give(publish("d", { id: 4, qty: 4 }, 5), leaves("d", { id: 4, qty: 4 }, 6), leaves("b", { id: 2, qty: 2 }, 7));
  socket.give(publish("b", { id: 2, qty: 9 }, 8));
  await until(() => applied > 0);
  assert.deepEqual(shown(api).sort(), ["1=8", "2=9", "3=3"]);
  assert.equal(applied, 1);
  assert.equal(api.getRowNode("b"), kept, "what left and came back in between was only updated");
  socket.give(leaves("c", { id: 3, qty: 3 }, 9));
  await until(() => applied > 1);
  assert.deepEqual(shown(api).sort(), ["1=8", "2=9"]);

  stop();
  socket.give(publish("a", { id: 1, qty: 0 }, 10));
  await turns();
  assert.equal(view.status, "live");
  assert.deepEqual(shown(api).sort(), ["1=8", "2=9"]);
  api.destroy();
  client.close();
});

test("changes that move no row are set on their rows", async () => {
  const [client, socket] = await connected();
  const view = client.view<Order>("orders");
  socket.give(accepted("1"), ...group("1", { a: { id: 1, qty: 1 }, b: { id: 2, qty: 2 } }));
  await view.ready;
  const api = grid({ getRowId });
  showView(api, view);
  let applied = 0;
  const apply = api.applyTransaction;
  api.applyTransaction = (transaction) => (applied++, apply(transaction));
  const changed: unknown[] = [];
  api.getRowNode("a")!.addEventListener("dataChanged", ({ oldData, newData }) => changed.push(oldData, newData));

  let at = 2;
  const update = async (qty: number): Promise<void> => {
    socket.give(publish("a", { id: 1, qty }, at++));
    await until(() => api.getRowNode("a")!.data!.record.qty === qty);
  };
  const before = view.row("a");
  await update(7);
  assert.equal(applied, 0);
  assert.deepEqual(changed, [before, view.row("a")]);

  const filter = { filterType: "number", type: "lessThan", filter: 10 };
  const isHidden = (): boolean => api.getDisplayedRowCount() === 1;
  const arranging: readonly [set: () => void, isArranged: () => boolean, unset: () => void][] = [
    [
      () => api.applyColumnState({ state: [{ colId: "record.qty", sort: "asc" }] }),
      () => api.getDisplayedRowAtIndex(1)!.id === "a",
      () => api.applyColumnState({ state: [{ colId: "record.qty", sort: null }] }),
    ],
    [() => api.setFilterModel({ "record.qty": filter }), isHidden, () => api.setFilterModel(null)],
    [
      () => api.setGridOption("quickFilterText", "2"),
      isHidden,
      () => api.setGridOption("quickFilterText", undefined),
    ],
    [
      () => api.setGridOption("rowSelection", { mode: "multiRow", isRowSelectable: ({ data }) => data!.record.qty < 10 }),
      () => !api.getRowNode("a")!.selectable,
      () => api.setGridOption("rowSelection", undefined),
    ],
  ];
  for (const [set, isArranged, unset] of arranging) {
    await update(1);
    set();
    applied = 0;
    await update(30);
    assert.equal(applied, 1);
    assert.ok(isArranged());
    unset();
    applied = 0;
  }
  await update(8);
  assert.equal(applied, 0);
  api.destroy();
  client.close();
});

/** Answer the next page that the grid asks for; return what it asks for. `ended` is given what it ends before that. */
async function answer(socket: FakeSocket, records: Record<string, Fields>, ended: Fields[] = []): Promise<Fields> {
  let asked = await socket.next();
  for (; asked["command"] === "unsubscribe"; asked = await socket.next()) ended.push(asked);
  const id = asked["command_id"] as string;
  socket.give(accepted(id), ...group(id, records));
  return asked;
}

test("a grid with the infinite row model reads pages, which stay live", async () => {
  const [client, socket] = await connected();
  const datasource = pagesOf<Order>(client, "orders", { orderBy: "/id", filter: "/qty > 0" });
  const api = grid({ rowModelType: "infinite", cacheBlockSize: 2, datasource, infiniteInitialRowCount: 1 });
  const first = await answer(socket, { a: { id: 1, qty: 1 }, b: { id: 2, qty: 2 } });
  const { order_by, skip_n, top_n, filter } = first;
  assert.deepEqual({ order_by, skip_n, top_n, filter }, { order_by: "/id", skip_n: 0, top_n: 2, filter: "/qty > 0" });
  const sids = [first["command_id"] as string];
  await until(() => shown(api).slice(0, 2).join() === "1=1,2=2");

  socket.give(
    leaves("b", { id: 2, qty: 2 }, 2, { sids, more: true }),
    publish("z", { id: 0, qty: 5 }, 2, { sids }),
  );
  await until(() => shown(api).slice(0, 2).join() === "0=5,1=1");
  socket.give(leaves("z", { id: 0, qty: 5 }, 3, { sids }));
  await until(() => api.getDisplayedRowCount() === 1);
  assert.deepEqual(shown(api), ["1=1"]);
  socket.give(publish("b", { id: 2, qty: 2 }, 4, { sids }));
  await until(() => api.getDisplayedRowCount() === 3);

  api.applyColumnState({ state: [{ colId: "record.qty", sort: "desc" }] });
  const ended: Fields[] = [];
  const records = { b: { id: 2, qty: 2 }, a: { id: 1, qty: 1 } };
  let sorted = await answer(socket, records, ended);
  while (sorted["order_by"] === "/id") sorted = await answer(socket, records, ended);
  assert.equal(sorted["order_by"], "/qty DESC");
  await until(() => shown(api).slice(0, 2).join() === "2=2,1=1");
  assert.ok(ended.some((one) => one["sub_id"] === sids[0]), "the page of the other order is closed");
  api.destroy();
  client.close();
});

test("a refusal of a page is reported", async () => {
  const [client, socket] = await connected();
  const errors: string[] = [];
  const datasource = pagesOf<Order>(client, "orders", { onError: ({ reason }) => errors.push(reason) });
  const api = grid({ rowModelType: "infinite", datasource });
  const { command_id } = await socket.next();
  socket.give(refused(command_id as string, "not entitled"));
  await until(() => errors.length > 0);
  assert.deepEqual(errors, ["not entitled"]);
  assert.deepEqual(shown(api), ["loading"]);
  api.destroy();
  client.close();
});
