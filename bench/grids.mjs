/**
 * The page of `bench grids`: a grid that shows a view, and then a bare grid that is given the same changes, those of
 * each 50 ms as one transaction.
 */

import { AllCommunityModule, createGrid } from "ag-grid-community";
import { connect } from "sowline";
import { getRowId, showView } from "sowline/ag-grid";

const FIELDS = ["id", "status", "symbol", "side", "qty", "filled", "limit", "worth"];

self.longest = 0;
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) self.longest = Math.max(self.longest, duration);
}).observe({ type: "longtask" });

function grid(rowData) {
  const columnDefs = FIELDS.map((name) => ({ field: `record.${name}` }));
  const element = document.getElementById("grid");
  return createGrid(element, { columnDefs, getRowId, rowData }, { modules: [AllCommunityModule] });
}

const WAIT_MS = 50;

let [api, client, stop, begun, rows] = [];
let patches = [];
let transactions = [];

/** Show the topic in a grid; resolves once all its records are there. */
self.show = async (url, count) => {
  client = connect(url);
  const view = client.view("orders");
  await view.ready;
  await view.waitFor(({ size }) => size >= count);
  api = grid([]);
  stop = showView(api, view);
  self.record = () => {
    [begun, rows] = [performance.now(), [...view.snapshot()]];
    view.onChange(({ changes }) => patches.push([performance.now() - begun, changes]));
  };
};

/** Return the changes as transactions, each with its time: the newest row of each key, and how it came to be. */
function collected() {
  const made = [];
  const held = new Set(rows.map(({ key }) => key));
  let changed = new Map();
  let due = 0;
  const finish = () => {
    const [add, update, remove] = [[], [], []];
    for (const [key, row] of changed) {
      if (row.record === undefined) held.delete(key) && remove.push(row);
      else (held.has(key) ? update : add).push(row);
      if (row.record !== undefined) held.add(key);
    }
    if (changed.size > 0) made.push([due, { add, update, remove }]);
    changed = new Map();
  };
  for (const [at, changes] of patches) {
    if (at > due) {
      finish();
      due = at + WAIT_MS;
    }
    for (const { key, record } of changes) changed.set(key, { key, record });
  }
  finish();
  return made;
}

/** Show in a bare grid what the other one began with. */
self.showBare = () => {
  stop();
  client.close();
  api.destroy();
  transactions = collected();
  api = grid(rows);
};

/** Give the bare grid the transactions of the other one; resolves after the last. */
self.replay = () =>
  new Promise((resolve) => {
    const began = performance.now();
    let at = 0;
    const next = () => {
      if (at === transactions.length) return resolve(transactions.length);
      const [due, transaction] = transactions[at];
      setTimeout(() => {
        at++;
        api.applyTransaction(transaction);
        next();
      }, due - (performance.now() - began));
    };
    next();
  });

/** Return how many changes came, and the longest task so far; begin anew. */
self.counted = () => {
  const updated = patches.reduce((sum, [, changes]) => sum + changes.length, 0);
  const { longest } = self;
  self.longest = 0;
  return [updated, longest];
};
