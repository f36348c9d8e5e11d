/**
 * Grids of AG Grid Community that show live views: all records with its client-side row model, or only the pages that
 * are scrolled to with its infinite row model. A row of the grid is a row of a view: columns have fields such as
 * `record.qty`.
 */

import type { GetRowIdParams, GridApi, IDatasource, IGetRowsParams, SortModelItem } from "ag-grid-community";

import type { Client } from "./client.js";
import { SowlineError } from "./errors.js";
import type { JsonObject } from "./json.js";
import type { Row } from "./recordView.js";
import type { View, ViewReading } from "./view.js";

/** The default of AG Grid's `asyncTransactionWaitMillis`, within which it collects changes. */
const WAIT_MS = 50;
const RECORD = "record.";

/** A grid with the client-side row model: a row has the SOW key of its record as its id. */
export const getRowId = <T>({ data }: GetRowIdParams<Row<T>>): string => data.key;

/**
 * Show the records of a view in a grid with the client-side row model and `getRowId`. Changes are collected for
 * `asyncTransactionWaitMillis` of the grid. The result ends that; the view stays open.
 *
 * Changes are applied as one transaction, which takes the grid as long as it has rows. Changes of which none can move,
 * add, hide or select a row are only set on their rows.
 */
export function showView<T>(api: GridApi<Row<T>>, view: View<T>): () => void {
  const changed = new Set<string>();
  const apply = collected(api, () => {
    const [add, update, remove]: Row<T>[][] = [[], [], []];
    for (const key of changed) {
      const row = view.row(key);
      const shown = api.getRowNode(key)?.data;
      if (row === undefined) shown && remove!.push(shown);
      else if (shown !== row) (shown ? update! : add!).push(row);
    }
    changed.clear();
    const isLocal = add!.length + remove!.length === 0 && !isArrangedByData(api);
    if (isLocal) for (const row of update!) api.getRowNode(row.key)!.updateData(row);
    else api.applyTransaction({ add: add!, update: update!, remove: remove! });
  });
  api.setGridOption("rowData", [...view.snapshot()]);
  const stop = view.onChange(({ changes }) => {
    for (const { key } of changes) changed.add(key);
    if (changes.length > 0) apply.later();
  });
  return () => {
    stop();
    apply.cancel();
  };
}

/** Options by which the data of one row may decide about others, or about whether the row is there or selected. */
const ARRANGING = [
  "quickFilterText",
  "isExternalFilterPresent",
  "enableAdvancedFilter",
  "postSortRows",
  "isRowSelectable",
  "isRowPinned",
  "treeData",
  "masterDetail",
] as const;

/** Whether new data of a row may have an effect beyond its cells. */
function isArrangedByData(api: GridApi): boolean {
  const selection = api.getGridOption("rowSelection");
  return (
    ARRANGING.some((name) => api.getGridOption(name)) ||
    (typeof selection === "object" && selection.isRowSelectable !== undefined) ||
    (api.getColumns() ?? []).some(
      (column) =>
        column.getSort() ||
        column.isFilterActive() ||
        column.isRowGroupActive() ||
        column.isPivotActive() ||
        column.isValueActive(),
    )
  );
}

export interface PagesReading extends Omit<ViewReading, "records" | "limit" | "orderBy" | "topN" | "skipN"> {
  /** The order where the user of the grid has sorted no column. */
  orderBy?: string;
  /** Return the filter for a filter model of the grid, in place of `filter`. */
  filterOf?: (model: unknown) => string;
  /** Called with the reason if a page can't be read, or is no longer kept up to date. */
  onError?: (error: SowlineError) => void;
}

/**
 * Return the datasource of a grid with the infinite row model. Each block that the grid asks for is a live page, and
 * its rows get new data as it changes. Such a row is identified by its index: the grid must have no `getRowId`.
 */
export const pagesOf = <T = JsonObject>(client: Client, topic: string, reading: PagesReading = {}): IDatasource =>
  new Pages<T>(client, topic, reading);

interface Block<T> {
  readonly view: View<T>;
  readonly start: number;
  readonly end: number;
  readonly close: () => void;
}

class Pages<T> implements IDatasource {
  readonly #client: Client;
  readonly #topic: string;
  readonly #reading: PagesReading;
  readonly #blocks = new Map<number, Block<T>>();
  #selection = "";

  constructor(client: Client, topic: string, reading: PagesReading) {
    this.#client = client;
    this.#topic = topic;
    this.#reading = reading;
  }

  getRows(params: IGetRowsParams<Row<T>>): void {
    const { startRow: start, endRow: end, api } = params;
    // A grid may ask for a block just after its end. That page would never be closed.
    if (api.isDestroyed()) return;
    const { orderBy = "", filterOf, onError, ...reading } = this.#reading;
    const order = orderOf(params.sortModel) || orderBy;
    const filter = filterOf?.(params.filterModel) ?? reading.filter ?? "";
    this.#closeUnused(api, start, JSON.stringify([order, filter]));
    let view: View<T>;
    try {
      const page = { skipN: start, topN: end - start, ...(order && { orderBy: order }), ...(filter && { filter }) };
      view = this.#client.view<T>(this.#topic, { ...reading, ...page });
    } catch (error) {
      params.failCallback();
      if (error instanceof SowlineError) onError?.(error);
      else throw error;
      return;
    }
    const apply = collected(api, () => this.#show(api, block));
    const block: Block<T> = {
      ...{ view, start, end },
      close: () => {
        apply.cancel();
        view.close();
      },
    };
    this.#blocks.set(start, block);
    view.onStatus((status) => {
      if (status === "failed" && this.#blocks.get(start) === block) onError?.(view.error!);
    });
    view.ready.then(
      () => {
        const { size } = view;
        params.successCallback([...view.snapshot()], size < end - start ? start + size : undefined);
        view.onChange(apply.later);
      },
      () => params.failCallback(),
    );
  }

  destroy(): void {
    for (const { close } of this.#blocks.values()) close();
    this.#blocks.clear();
  }

  /** Close the pages of another order or filter, of blocks that the grid has dropped, and of one that is read again. */
  #closeUnused(api: GridApi, start: number, selection: string): void {
    const held = heldBy(api);
    for (const [at, { close }] of this.#blocks) {
      if (selection === this.#selection && at !== start && held.has(at)) continue;
      close();
      this.#blocks.delete(at);
    }
    this.#selection = selection;
  }

  #show(api: GridApi<Row<T>>, { view, start, end }: Block<T>): void {
    const rows = view.snapshot();
    const isFull = rows.length === end - start;
    const count = start + rows.length;
    // A page that fills up may be followed by more records: the grid then asks for the next one.
    if (!isFull) api.setRowCount(count, true);
    else if (api.getDisplayedRowCount() <= count && !heldBy(api).has(end)) api.setRowCount(count + 1, false);
    rows.forEach((row, at) => {
      const node = api.getDisplayedRowAtIndex(start + at);
      if (node !== undefined && node.data !== row) node.setData(row);
    });
  }
}

/** The first rows of the blocks that the grid holds or waits for. It drops blocks without saying so. */
const heldBy = (api: GridApi): ReadonlySet<number> =>
  new Set(Object.values<{ startRow: number }>(api.getCacheBlockState() ?? {}).map(({ startRow }) => startRow));

/** Collect calls for as long as the grid collects changes. */
function collected(api: GridApi, apply: () => void): { later: () => void; cancel: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return {
    later: () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        if (!api.isDestroyed()) apply();
      }, api.getGridOption("asyncTransactionWaitMillis") ?? WAIT_MS);
    },
    cancel: () => clearTimeout(timer),
  };
}

/** Return the order of a sort model: the column `record.customer.name` is the field `/customer/name`. */
const orderOf = (model: readonly SortModelItem[]): string =>
  model
    .filter(({ colId }) => colId.startsWith(RECORD))
    .map(({ colId, sort }) => {
      const path = `/${colId.slice(RECORD.length).replaceAll(".", "/")}`;
      return sort === "desc" ? `${path} DESC` : path;
    })
    .join(", ");
