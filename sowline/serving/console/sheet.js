// Puts live records into a table of Perspective's engine, some times a second, and shows them in the viewer.
import { Schema, UPDATED, asKind, columnsRead, fits, KEY_COLUMN } from "./fields.js";
import { shownColumns } from "./columns.js";
import { follow, nameRecords, open } from "./cells.js";
import { countsOf } from "./counted.js";
import { once } from "./loaded.js";
import { DIGITS, TIMES } from "./text.js";

const EVERY_MS = 100;
const CHUNK = 5_000;
// A window in which the time of the last change would take the room of the fields.
const narrow = matchMedia("(max-width: 640px)");
const THEMES = { dark: "Pro Dark", light: "Pro Light" };

// What each viewer does last. A viewer does one thing at a time: a new table and new settings at once leave it in an
// error. It outlives a sheet: the sheet of the next filter begins while the previous one may still be drawing.
const turns = new WeakMap();

// The tables of closed sheets, by their viewer. It shows the last one until another sheet has a table for it.
const left = new WeakMap();

// Loads the engine and the viewer once. They are large: a view that is read first of all does not wait for them.
export const loadEngine = once(async () => {
  const vendor = new URL("vendor/perspective-4.3.0/", document.baseURI);
  const load = (path) => import(new URL(path, vendor));
  const worker = new Worker(new URL("client/dist/cdn/perspective-server.worker.js", vendor), { type: "module" });
  try {
    const [{ default: perspective }] = await Promise.all([
      load("client/dist/cdn/perspective.js"),
      load("viewer/dist/cdn/perspective-viewer.js"),
      load("viewer-datagrid/dist/cdn/perspective-viewer-datagrid.js"),
    ]);
    await customElements.whenDefined("perspective-viewer");
    nameRecords();
    return await perspective.worker(Promise.resolve(worker));
  } catch (error) {
    worker.terminate();
    throw error;
  }
});

// Returns a new viewer in this element.
export function addViewer(host) {
  const viewer = document.createElement("perspective-viewer");
  host.append(viewer);
  left.set(viewer, []);
  // By default a viewer drops its view as soon as it is out of sight, also in the middle of a turn, which then leaves it
  // in an error (test_a_grid_is_left_while_it_is_drawn). Also, the plain table reads the view of a viewer behind it.
  viewer.setAutoPause(false);
  // The console has settings of its own.
  const bare = new CSSStyleSheet();
  bare.replaceSync("#status_bar { display: none !important; }");
  viewer.shadowRoot?.adoptedStyleSheets.push(bare);
  return viewer;
}

// Frees what a viewer holds in the engine, after its last turn. Until then it stays in the document, out of sight: its grid
// has no parts before it was there, and drawn without them, it fails (test_a_grid_is_left_while_it_is_drawn).
export async function deleteViewer(viewer) {
  const hidden = document.createElement("div");
  hidden.hidden = true;
  hidden.append(viewer);
  document.body.append(hidden);
  await turns.get(viewer);
  // A new size of the window is drawn by no turn. Deleted in the middle of that, a viewer panics: one of 30 grids that were
  // left in the 60 ms after a change of size.
  await viewer.flush();
  const tables = left.get(viewer);
  left.delete(viewer);
  await viewer.delete();
  hidden.remove();
  for (const table of tables) await table.delete({ lazy: true });
}

// Whether two settings are equal, whatever the order of their fields.
const same = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
const sorted = (value) =>
  value && typeof value === "object" && !Array.isArray(value)
    ? Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]))
    : value;

export class Sheet {
  #client;
  #viewer;
  #live;
  #keys;
  #table;
  #schema = new Schema();
  #columns = new Map();
  #outgrown = true;
  #dirty = new Set();
  #gone = new Set();
  #timer;
  #flushing;
  // Whether something has happened since the last flush began.
  #isDue = false;
  // The last of its turns with the viewer.
  #turn;
  #closed = false;
  #layout;
  #base = {};
  #layoutColumns = [];
  // The number of records that the table was made from.
  #made = 0;
  // Whether the viewer shows the first records, and whether it has shown all of them since they were loaded.
  isBegun = false;
  isDrawn = false;
  // What else is said of the records that are drawn: their number, where in the log they are, and how many have each value
  // of the fields to count by, if all are here. What comes later is not in it.
  shown;
  #counted = [];
  #onShown;
  #listeners;
  #arrange;

  // `arrange` returns the settings of the current tab; `layout` has those that the user has changed,
  // if any; `onShown` is called after each flush.
  constructor(client, viewer, live, keys, arrange, layout, onShown) {
    this.#client = client;
    this.#viewer = viewer;
    this.#live = live;
    this.#keys = keys;
    this.#arrange = arrange;
    this.#layout = layout;
    this.#onShown = onShown;
    this.#listeners = {
      came: ({ detail }) => detail.forEach((key) => this.#put(key)),
      put: ({ detail }) => this.#put(detail),
      gone: ({ detail }) => this.#remove(detail),
      state: () => this.#due(),
    };
    for (const [name, listener] of Object.entries(this.#listeners)) live.addEventListener(name, listener);
    for (const key of live.keys()) this.#put(key);
    this.#due();
  }

  get columnsCut() {
    return this.#schema.cut;
  }

  // The columns of the records: path, kind, and the number of different values.
  get columns() {
    return shownColumns(this.#live, this.#columns);
  }

  get keys() {
    return this.#keys;
  }

  // The settings of the viewer as they are; undefined if it shows nothing.
  settings() {
    return this.#inTurn(() => (this.#table && !this.#closed ? this.#viewer.save() : undefined));
  }

  // Whether it shows these records.
  isOf(live) {
    return this.#live === live;
  }

  // The first rows as they are shown, the number of all, and the kinds of their columns. In a turn: the viewer has the view of
  // the tab before until this one is arranged.
  read(most) {
    return this.#inTurn(async () => {
      if (!this.#table || this.#closed) return undefined;
      const view = await this.#viewer.getView();
      const [rows, size, kinds] = await Promise.all([view.to_json({ start_row: 0, end_row: most }), view.num_rows(), view.schema()]);
      return { rows, size, kinds };
    });
  }

  // Changes some settings of the viewer.
  change(some) {
    return this.#inTurn(() => (this.#table && !this.#closed ? this.#viewer.restore(some) : undefined));
  }

  // Marks the row of a record, or none. In a turn: drawn at any time, the grid could read a view that the viewer has deleted.
  mark(key) {
    return this.#inTurn(() => (this.#table && !this.#closed ? open(this.#viewer, key) : undefined));
  }

  // Counts by these fields from now on.
  count(paths) {
    if (same(paths, this.#counted)) return;
    this.#counted = paths;
    this.#due();
  }

  // Shows the current tab in its own settings, and those of a layout, without what the user has changed otherwise.
  async rearrange(layout) {
    this.#layout = layout;
    await this.#inTurn(async () => {
      if (this.#table && !this.#closed) await this.#restore();
    });
  }

  // Shows the grid in the colors of the page.
  async paint(theme) {
    await this.#inTurn(() => this.#viewer.restore({ theme: THEMES[theme] }));
  }

  #inTurn(work) {
    // To the engine, a viewer that was deleted is a null pointer.
    const done = (turns.get(this.#viewer) ?? Promise.resolve()).then(() => (left.has(this.#viewer) ? work() : undefined));
    this.#turn = done.catch(() => {});
    turns.set(this.#viewer, this.#turn);
    return done;
  }

  async close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const [name, listener] of Object.entries(this.#listeners)) this.#live.removeEventListener(name, listener);
    await this.#turn;
    const table = this.#table;
    this.#table = undefined;
    const waiting = left.get(this.#viewer);
    if (table && waiting) waiting.push(table);
    else await table?.delete({ lazy: true });
  }

  // The settings of the viewer, as short as possible; columns only if they were chosen.
  layout() {
    return this.#inTurn(() => this.#save());
  }

  async #save() {
    if (!this.#table || this.#closed) return this.#layout;
    const saved = await this.#viewer.save();
    const kept = {};
    for (const name of ["plugin", "group_by", "split_by", "sort", "filter", "aggregates", "expressions", "columns_config", "plugin_config"]) {
      const value = saved[name];
      const isEmpty = value === null || value === undefined || (typeof value === "object" && !Object.keys(value).length);
      const usual = this.#base[name];
      const isUsual = same(value, usual) || (isEmpty && usual === undefined) || (name === "aggregates" && usual && value?.[Object.keys(usual)[0]] === Object.values(usual)[0]);
      if (!isUsual && !isEmpty) kept[name] = value;
    }
    if (same(kept.plugin_config, this.#plainConfig)) delete kept.plugin_config;
    if (same(kept.columns_config, this.#defaultConfig())) delete kept.columns_config;
    if (!same(saved.columns, this.#base.columns ?? this.#layoutColumns)) kept.columns = saved.columns;
    this.#layout = kept;
    return kept;
  }

  #plainConfig;

  #put(key) {
    this.#gone.delete(key);
    this.#dirty.add(key);
    this.#due();
  }

  #remove(key) {
    this.#dirty.delete(key);
    this.#gone.add(key);
    this.#due();
  }

  #due() {
    this.#isDue = true;
    if (this.#timer || this.#flushing || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#isDue = false;
      this.#flushing = this.#inTurn(() => this.#flush()).finally(() => {
        this.#flushing = undefined;
        if (this.#isDue) this.#due();
      });
    }, EVERY_MS);
  }

  async #flush() {
    if (this.#closed) return;
    const isLoaded = this.#live.state !== "loading";
    const gone = [...this.#gone];
    const dirty = [...this.#dirty];
    this.#gone.clear();
    this.#dirty.clear();
    const shown = { rows: this.#live.rows, bookmark: this.#live.bookmark, counts: countsOf(this.#live, this.#counted) };
    if (this.#table) {
      if (gone.length) await this.#table.remove(gone);
      await this.#update(this.#table, dirty);
    } else {
      for (const key of dirty) this.#take(key);
    }
    // While records are loaded, each new column or kind would need a table of its own: a few of them will do.
    if (!this.#table || (this.#outgrown && (isLoaded || this.#live.size >= 2 * this.#made))) await this.#rebuild();
    // The viewer draws later than it takes the rows: their number and bookmark would run ahead of what is seen.
    if (this.#table) await this.#viewer.flush();
    this.#lock();
    this.shown = shown;
    this.isBegun = Boolean(this.#table);
    this.isDrawn ||= isLoaded && this.isBegun;
    this.#live.goOn();
    if (!this.#closed) await this.#onShown();
  }

  // Notes the columns of a record, and returns them.
  #take(key) {
    const pairs = this.#live.pairs(key);
    if (this.#schema.take(pairs)) this.#outgrown = true;
    return new Map(pairs);
  }

  // Cells are not editable: an edit would look as if it were written to the topic.
  #lock() {
    const button = this.#viewer.querySelector("perspective-viewer-datagrid")?._edit_button;
    if (button) button.style.display = "none";
  }

  // Puts records into a table. Values for which it has no column yet, or one of another kind, are in the next table.
  async #update(table, keys) {
    for (let start = 0; start < keys.length && !this.#closed; start += CHUNK) {
      const some = keys.slice(start, start + CHUNK);
      const rows = some.map((key) => this.#take(key));
      const columns = { [KEY_COLUMN]: some };
      for (const [path, kind] of this.#columns) {
        const known = this.#outgrown && path !== UPDATED ? (value) => (fits(value, kind) ? value : null) : (value) => value;
        columns[path] = rows.map((row) => asKind(known(row.get(path)), kind));
      }
      await table.update(columns);
    }
  }

  // The columns of a table are fixed. When the schema has grown, a new table replaces it.
  async #rebuild() {
    for (const key of this.#dirty) this.#take(key);
    this.#outgrown = false;
    this.#dirty.clear();
    this.#gone.clear();
    if (this.#table) await this.#save();
    const columns = this.#schema.columns;
    const fields = [...columns.keys()].filter((path) => path !== UPDATED);
    // What is filtered by is seen without a scroll: it is why the rows are there.
    const filtered = columnsRead(this.#live.asked?.filter ?? "", fields);
    const ordered = narrow.matches ? [...filtered, ...this.#keys, ...fields, UPDATED] : [...this.#keys, ...filtered, UPDATED, ...fields];
    this.#columns = new Map(ordered.filter((path) => columns.has(path)).map((path) => [path, columns.get(path)]));
    const old = this.#table;
    const schema = { ...Object.fromEntries(this.#columns), [KEY_COLUMN]: "string" };
    const table = await this.#client.table(schema, { index: KEY_COLUMN });
    const keys = [...this.#live.keys()];
    this.#made = keys.length;
    await this.#update(table, keys);
    if (this.#closed) {
      await table.delete();
      return;
    }
    this.#table = table;
    follow(this.#viewer, this.#live);
    await this.#viewer.load(table);
    await this.#restore();
    await old?.delete({ lazy: true });
    for (const one of left.get(this.#viewer)?.splice(0) ?? []) await one.delete({ lazy: true });
  }

  #defaultConfig() {
    const formats = { integer: { number_format: DIGITS }, float: { number_format: DIGITS }, datetime: { date_format: { format: "custom", ...TIMES } } };
    const computed = Object.keys(this.#base.expressions ?? {}).map((name) => [name, formats.float]);
    const fields = [...this.#columns].filter(([, kind]) => kind in formats).map(([path, kind]) => [path, formats[kind]]);
    return Object.fromEntries([...computed, ...fields]);
  }

  // The order of the grid: that which the service keeps for a page, or else the newest first.
  #defaultSort() {
    const asked = this.#live.order.filter(([path]) => this.#columns.has(path));
    if (asked.length) return asked;
    return this.#columns.has(UPDATED) ? [[UPDATED, "desc"]] : [];
  }

  async #restore() {
    this.#layoutColumns = [...this.#columns.keys(), KEY_COLUMN];
    const known = new Set(this.#layoutColumns);
    const { columns, ...layout } = this.#layout ?? {};
    for (const name of Object.keys(layout.expressions ?? {})) known.add(name);
    const chosen = columns?.filter((name) => name === null || known.has(name));
    const theme = THEMES[document.documentElement.dataset.theme] ?? THEMES.light;
    const usual = { plugin: "Datagrid", group_by: [], split_by: [], sort: this.#defaultSort(), filter: [], expressions: {}, aggregates: {} };
    this.#base = { ...usual, ...this.#arrange(this.columns) };
    this.#base.group_rollup_mode ??= "rollup";
    const theirs = this.#base.columns ?? this.#layoutColumns;
    const shown = { columns_config: this.#defaultConfig(), ...this.#base, ...layout, columns: chosen?.length ? chosen : theirs };
    try {
      await this.#viewer.restore({ ...shown, theme, settings: false });
    } catch (error) {
      console.warn("the view of the link does not fit these records", error);
      // A viewer that has refused settings refuses all others until this (test_a_link_whose_settings_do_not_fit).
      await this.#viewer.resetError();
      await this.#viewer.restore({ plugin: "Datagrid", columns: this.#layoutColumns, group_by: [], split_by: [], sort: [], filter: [], theme, settings: false });
    }
    this.#plainConfig ??= (await this.#viewer.save()).plugin_config;
  }
}
