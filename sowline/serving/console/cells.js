// The cells of the grid: which record each of them shows, how its value is written, and what marks it. Those that have just
// changed flash, and the row of the open record stands out.
import { AGGREGATES } from "./chosen.js";
import { KEY_COLUMN, at, moment, nameOf, timeOf } from "./fields.js";
import { FRESH_MS } from "./live.js";
import { TIMES, figure, instant, isLong, rounded, roundedAlike } from "./text.js";
import { meaningOf } from "./words.js";

// More columns than fit are read at once. The viewer would read those that are still missing later, when other records
// may be in the same rows.
const COLUMNS_MORE = 8;

const ORDER = new Intl.DateTimeFormat(navigator.languages, TIMES).formatToParts(0).map(({ type }) => type).filter((type) => type !== "literal");

const followed = new WeakMap();
const reads = new WeakMap();
const drawn = new WeakMap();
const flashing = new WeakMap();
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// The viewer and its grid have roots of their own, which the console's style sheet does not reach. The row under the mouse
// has a tint and no outline: an outline would look like that of the open record. Beside an open record it has no tint either: the
// record's own row may have moved away.
const ofGrid = new CSSStyleSheet();
ofGrid.replaceSync(`
  regular-table { margin: 4px 0 0 8px !important; --rt-hover--border-color: var(--inactive--border-color) !important; }
  tbody tr:hover :is(td, th):not([data-open]) { box-shadow: none !important; }
  :host regular-table tbody tr:hover :is(td, th):first-child { border-left-color: transparent !important; }
  regular-table:not([data-beside]) tbody tr:hover :is(td, th) { background-color: var(--hover); }
  tbody td[data-open] { background-color: var(--open) !important; box-shadow: inset 0 1px var(--accent), inset 0 -1px var(--accent) !important; }
  @media (max-width: 480px) { regular-table { --beside: 12px; margin-left: 3px !important; } :is(thead, tbody) :is(th, td) { padding-inline: 3px !important; } }
  [data-cut=whole] { visibility: hidden; }
  tbody [data-cut=part] { mask-image: linear-gradient(to right, #000 calc(var(--shown) - 24px), transparent var(--shown)); }
  thead [data-cut=part] > span:first-child { display: block; height: auto; min-height: 0; max-width: calc(var(--shown) - 14px); overflow: hidden; text-overflow: ellipsis; }
  thead [data-said] { display: none; }
  tbody td[data-open]:first-child { box-shadow: inset 3px 0 var(--accent), inset 0 1px var(--accent), inset 0 -1px var(--accent) !important; }
`);

// What a cell shows: its text, the record and the field that it is of. The viewer writes the text and keeps this object for
// the cell in one step. So whatever marks a cell afterwards knows what stands there, and not what the grid has read since.
class Shown {
  constructor(text, key, path, value) {
    Object.assign(this, { text, key, path, value });
  }

  toString() {
    return this.text;
  }
}

const datagridOf = (table) => table.getRootNode().host ?? table.parentElement;

// Makes each grid know which record a cell shows. The viewer's version is fixed, so what it keeps of a table stays.
export function nameRecords() {
  const { prototype } = customElements.get("regular-table");
  const { setDataListener } = prototype;
  prototype.setDataListener = function (read, options) {
    const named = (...window) => {
      // One after the other: the ids of the rows that were read are those of the last window.
      const next = (reads.get(this) ?? Promise.resolve()).then(() => readNamed(this, read, window));
      reads.set(this, next.catch(() => {}));
      return next;
    };
    return setDataListener.call(this, named, options);
  };
}

async function readNamed(table, read, [x0, y0, x1, y1]) {
  const found = await read(x0, y0, x1 > x0 ? x1 + COLUMNS_MORE : x1, y1);
  const datagrid = datagridOf(table);
  const viewer = datagrid?.closest("perspective-viewer");
  const { _ids: ids, _config: config, _schema: schema, _row_header_types: kinds } = datagrid?.model ?? {};
  const one = viewer && followed.get(viewer);
  if (!one || !config) return found;
  Object.assign(one, { table, columns: found.num_columns });
  if (!drawn.has(table)) {
    // After the listeners of the viewer itself.
    table.addStyleListener(() => mark(followed.get(viewer), datagrid, table));
    datagrid.shadowRoot?.adoptedStyleSheets.push(ofGrid);
    drawn.set(table, new Map());
  }
  const isGrouped = config.group_by.length > 0;
  const before = drawn.get(table);
  const now = new Map();
  const write = (text, raw, path, most) => {
    const isNumber = isGrouped && typeof raw === "number" && schema[path] !== "datetime";
    return !isNumber ? spelled(text, raw, schema[path], path) : isMean(config, path) ? roundedAlike(raw, most) : figure(raw);
  };
  const show = (written, raw, row, path) => {
    if (written instanceof HTMLElement) return written;
    const key = isGrouped ? undefined : ids[row]?.[0];
    const name = `${key ?? row}\n${path}\n${raw}\n${written}`;
    // The viewer writes only what differs from the object that it has kept.
    const shown = before.get(name) ?? new Shown(written, key, path, raw);
    now.set(name, shown);
    return shown;
  };
  found.data = found.data.map((texts, column) => {
    const path = found.column_headers[column][config.split_by.length];
    const raws = found.metadata[column];
    const most = isMean(config, path) ? Math.max(...raws.map((raw) => Math.abs(Number(raw) || 0))) : 0;
    const written = texts.map((text, row) => (text instanceof HTMLElement ? text : write(text, raws[row], path, most)));
    return (schema[path] === "float" ? pointsAligned(written) : written).map((text, row) => show(text, raws[row], row, path));
  });
  for (const names of isGrouped ? found.row_headers : []) {
    const at = names.findLastIndex((name) => name !== undefined && name !== "");
    const kind = kinds[config.group_rollup_mode === "flat" ? at : at - 1];
    const time = kind === "datetime" ? timeOfUsual(String(names[at])) : undefined;
    if (time !== undefined) names[at] = instant(time);
  }
  drawn.set(table, now);
  return found;
}

// The time of a group, which the viewer tells only in the way in which this browser's languages write it.
function timeOfUsual(text) {
  const numbers = text.match(/\d+/g);
  if (numbers?.length !== ORDER.length) return undefined;
  const { year, month, day, hour, minute, second } = Object.fromEntries(ORDER.map((name, at) => [name, Number(numbers[at])]));
  return Date.UTC(year, month - 1, day, hour % 24, minute, second);
}

// Whether a column has means of groups.
const isMean = ({ group_by: groups, aggregates }, path) => groups.length > 0 && /^(avg|weighted mean)/.test(String(aggregates?.[path]));

// How a value is written: a time with its date and zone, a long number rounded.
function spelled(text, raw, kind, path) {
  if (raw === null || raw === undefined) return "";
  if (kind === "datetime" && typeof raw === "number") return moment(path, raw);
  return isLong(raw) ? rounded(raw) : text;
}

// The numbers of a column with their points one below the other, whatever their decimals: none is rounded for that, and none
// has digits that it does not have.
function pointsAligned(texts) {
  const after = texts.map((text) => /^-?[\d,]+(\.\d+)?$/.exec(text)?.[1]?.length ?? 0);
  const most = Math.max(...after);
  return texts.map((text, row) => (typeof text === "string" && text ? text + "\u00a0".repeat(most - after[row]) : text));
}

// Marks the cells of a viewer from now on, after the changes of these records.
export function follow(viewer, live) {
  const before = followed.get(viewer);
  followed.set(viewer, { ...before, live });
}

// Marks the row of the record with this SOW key; none if it is undefined. Returns a promise if it draws. The viewer's event `row-seen` tells whether the
// row is on the screen.
export function open(viewer, key) {
  const one = followed.get(viewer);
  if (!one || one.opened === key) return undefined;
  one.opened = key;
  // Behind a chart there is no view that it could draw.
  return one.table?.isConnected ? one.table.draw?.({ cache: true }) : undefined;
}

// Returns the SOW key and the column of what a cell shows; undefined if it shows no record. The viewer's own event of a
// click names the record that is in this row by now: another one, if records have come meanwhile.
export function placeOf(cell) {
  const shown = shownIn(cell);
  return shown?.key === undefined ? undefined : shown;
}

function shownIn(cell) {
  const value = cell instanceof HTMLElement ? cell.closest?.("regular-table")?.getMeta(cell)?.value : undefined;
  return value instanceof Shown ? value : undefined;
}

function mark(one, datagrid, table) {
  const { live, opened } = one;
  let isSeen = false;
  table.toggleAttribute("data-beside", Boolean(opened));
  const measured = measuredBy(live, datagrid.model._config);
  for (const head of table.querySelectorAll("thead th > span:first-child")) {
    unname(head);
    title(head, measured);
  }
  nameByValues(table, datagrid.model._config);
  widen(table);
  const schema = datagrid.model._schema;
  const now = performance.now();
  const flash = getComputedStyle(document.documentElement).getPropertyValue("--flash").trim();
  for (const cell of table.querySelectorAll("tbody td")) {
    const { key, path = "", value } = shownIn(cell) ?? {};
    const isOf = key !== undefined;
    cell.classList.toggle("psp-null", value === null || value === undefined);
    explain(cell, schema[path], value, isOf ? at(live.row(key)?.record, path) : undefined);
    const change = isOf ? live.changed.get(key) : undefined;
    const isNew = change && now - change.at < FRESH_MS && (change.paths === null || change.paths.has(path));
    light(cell, isNew && !calm.matches ? change.at : undefined, now, flash);
    cell.toggleAttribute("data-open", isOf && key === opened);
    isSeen ||= isOf && key === opened;
  }
  const found = beyond(fade(table, schema, one.columns ?? 0), datagrid.model._config, schema);
  const tell = (name, detail) => datagrid.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  if (JSON.stringify(one.beyond) !== JSON.stringify(found)) tell("columns-seen", found);
  if (one.isSeen !== isSeen) tell("row-seen", isSeen);
  Object.assign(one, { isSeen, beyond: found });
}

// What the mouse shows: ISO 8601 and the text in the record of a time, all digits of a number. `stored` is what the record has
// by now.
function explain(cell, kind, value, stored) {
  let more = "";
  if (kind === "datetime" && typeof value === "number") {
    const iso = new Date(value).toISOString();
    const isOther = typeof stored === "string" && stored !== iso && timeOf(stored) === value;
    more = isOther ? `${iso}\n${stored}` : iso;
  } else if (isLong(value) || (typeof value === "number" && cell.textContent.trimEnd() !== String(value))) {
    more = String(value);
  }
  if (more) cell.title = more;
  else cell.removeAttribute("title");
}

// Says what is measured of a field, by its path, where rows are groups; nothing where they are records.
function measuredBy({ groups }, { group_by: by, aggregates }) {
  if (!by.length) return () => "";
  return (path) => {
    const asked = groups?.measures.find(({ name }) => name === path)?.aggregate ?? aggregates[path];
    return AGGREGATES.includes(asked) ? `${asked} of ` : "";
  };
}

// A header shows the names of a field, and its path while the pointer rests on it.
function title(head, measured) {
  const path = head.textContent;
  const cell = head.parentElement;
  const named = (one) => `${measured(one)}${nameOf(one)}`;
  if (path.startsWith("/")) {
    head.textContent = named(path);
    cell.title = path;
  } else if (path === KEY_COLUMN) {
    head.textContent = "SOW key";
    cell.title = meaningOf("SOW key");
  } else if (cell.title === meaningOf("SOW key")) {
    // Another column may come here.
    if (path !== "SOW key") cell.removeAttribute("title");
  } else if (named(cell.title) !== path) {
    cell.removeAttribute("title");
  }
}

// Where the columns of a pivot are the values of one field, and all have the same measure, each is called by its value alone:
// the caption names the measure.
function nameByValues(table, { split_by: split, columns }) {
  const rows = [...table.querySelectorAll("thead tr")];
  const isOne = split.length === 1 && columns.filter(Boolean).length === 1 && rows.length === 2;
  rows.forEach((row, at) => row.toggleAttribute("data-said", isOne && at === 0));
  if (!isOne) return;
  const values = [...rows[0].cells].flatMap(({ textContent, colSpan }) => Array(colSpan).fill(textContent));
  [...rows[1].cells].forEach((cell, at) => {
    const text = cell.querySelector(":scope > span:first-child");
    if (!text || cell.classList.contains("psp-header-corner")) return;
    Object.assign(text.dataset, { measure: text.textContent, value: values[at] || "no value" });
    text.textContent = text.dataset.value;
  });
}

// Gives a header back what the viewer wrote: it writes only what differs from what it wrote before.
function unname(head) {
  const { measure, value } = head.dataset;
  if (measure === undefined) return;
  if (head.textContent === value) head.textContent = measure;
  delete head.dataset.measure;
  delete head.dataset.value;
}

// The viewer makes columns as wide as their own cells. The values above the columns of a pivot, and those before its rows,
// have to fit, too.
function widen(table) {
  const [leaves, ...above] = [...table.querySelectorAll("thead tr")].map((row) => [...row.cells]).reverse();
  const chars = (leaves ?? []).map(() => 0);
  const need = (at, length) => { chars[at] = Math.max(chars[at] ?? 0, length); };
  if (above.length) leaves.forEach(({ textContent }, at) => need(at, textContent.length));
  for (const cells of above) {
    let at = 0;
    for (const { textContent, colSpan } of cells) {
      for (let each = 0; each < colSpan; each += 1) need(at + each, textContent.length / colSpan);
      at += colSpan;
    }
  }
  const last = (leaves ?? []).findLastIndex((cell) => cell.classList.contains("psp-header-corner"));
  if (last >= 0) for (const { textContent } of table.querySelectorAll("tbody th")) need(last, textContent.length);
  leaves?.forEach((cell, at) => { cell.style.minWidth = chars[at] ? `calc(${Math.ceil(chars[at])}ch + var(--beside, 24px))` : ""; });
}

// The share of a column of texts or times that has to fit for it to be shown, and the room beside its name. What is longer fades
// out; of a time, the date is seen.
const ENOUGH = { string: 0.75, datetime: 0.55 };
const BESIDE = 14;
// What has to be free beside a column that is not the last one: without it, its values touch the frame.
const GAP = 3;

// The column that does not fit is hidden, unless it is the only one, or the last one and nothing more can be scrolled: the first digits of a number look like another number.
// Returns how many columns are on the left and on the right of those that are shown, and the fields that are shown.
function fade(table, schema, columns) {
  const edge = table.getBoundingClientRect().left + table.clientLeft + table.clientWidth;
  const heads = [...(table.querySelector("thead tr:last-child")?.cells ?? [])];
  const leaves = heads.map((cell) => cell.getBoundingClientRect());
  const at = leaves.findIndex(({ left, right }, index) => left < edge && right > edge + (index < leaves.length - 1 ? -GAP : 1));
  const first = table.querySelector("tbody tr");
  const values = [...(first?.querySelectorAll("td") ?? [])];
  const before = leaves.length - values.length;
  const kindOf = (index) => schema[shownIn(values[index - before])?.path];
  const start = values.length ? (table.getMeta(values[0])?.x ?? 0) : 0;
  const isEnd = start + values.length >= columns && table.scrollLeft > 0 && table.scrollLeft + table.clientWidth >= table.scrollWidth - 1;
  const isPart = at >= 0 && (at <= before || isEnd || (edge - leaves[at].left > ENOUGH[kindOf(at)] * leaves[at].width && textEnd(heads[at].firstElementChild) < edge - BESIDE));
  const cut = new Map();
  const room = at < 0 ? 0 : edge - leaves[at].left;
  for (const { cells, parentElement } of at < 0 ? [] : table.querySelectorAll("tr")) {
    // A head above several columns is not that of one of them.
    const hasEach = cells.length === leaves.length || parentElement.tagName === "TBODY";
    const cell = hasEach ? cells[cells.length + at - leaves.length] : undefined;
    if (cell) cut.set(cell, isPart ? (cell.tagName === "TH" || textEnd(cell) > edge ? "part" : undefined) : "whole");
  }
  for (const cell of table.querySelectorAll("[data-cut]")) if (!cut.get(cell)) cell.removeAttribute("data-cut");
  for (const [cell, how] of cut) if (how) cell.dataset.cut = how;
  if (at >= 0) table.style.setProperty("--shown", `${Math.round(room)}px`);
  const shown = leaves.filter(({ left }, index) => index >= before && left < edge && (index !== at || isPart)).length;
  const paths = values.slice(0, shown).map((cell) => shownIn(cell)?.path);
  return { left: start, right: values.length ? Math.max(0, columns - start - shown) : 0, paths };
}

function textEnd(cell) {
  const text = document.createRange();
  text.selectNodeContents(cell);
  return text.getBoundingClientRect().right;
}

// The columns that are not on the screen: how many there are, and the order of the rows if it is that of one
// of them.
function beyond({ left, right, paths }, { sort, group_by: by }, schema) {
  const [path, direction = ""] = sort[0] ?? [];
  const isHidden = path !== undefined && !by.length && left + right > 0 && !paths.includes(path);
  const [falling, rising] = schema[path] === "datetime" ? ["newest", "oldest"] : ["highest", "lowest"];
  return { left, right, order: isHidden ? `${nameOf(path)}, the ${direction.startsWith("desc") ? falling : rising} first` : "" };
}

// A cell belongs to another record after each scroll and sort: its animation is that of the change, not of the cell.
function light(cell, at, now, color) {
  const running = flashing.get(cell);
  if (running?.at === at) return;
  running?.animation.cancel();
  flashing.delete(cell);
  cell.toggleAttribute("data-changed", at !== undefined);
  if (at === undefined) return;
  const animation = cell.animate([{ backgroundColor: color }, { backgroundColor: "transparent" }], { duration: FRESH_MS });
  animation.currentTime = now - at;
  flashing.set(cell, { at, animation });
}
