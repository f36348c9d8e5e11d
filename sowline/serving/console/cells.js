// Marks cells of the grid: those that have just changed flash, and the row of the open record stands out. Also tells which
// record a cell shows.
import { UPDATED, at, nameOf, timeOf } from "./fields.js";
import { FRESH_MS } from "./live.js";
import { TIMES, instant } from "./text.js";

const shown = new WeakMap();
const flashing = new WeakMap();
const places = new WeakMap();
const usual = new Intl.DateTimeFormat(navigator.languages, TIMES);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Marks the cells of a viewer from now on, after the changes of these records.
export function follow(viewer, live) {
  const datagrid = viewer.querySelector("perspective-viewer-datagrid");
  const table = datagrid?.regular_table;
  if (!table) return;
  const before = shown.get(viewer);
  shown.set(viewer, { live, opened: before?.opened });
  if (before?.table === table) {
    shown.get(viewer).table = table;
    return;
  }
  shown.get(viewer).table = table;
  table.addStyleListener(() => mark(viewer, datagrid, table));
}

// Marks the row of the record with this SOW key; none if it is undefined.
export function open(viewer, key) {
  const one = shown.get(viewer);
  if (!one) return;
  one.opened = key;
  // Behind a chart there is no view that it could draw.
  if (one.table?.isConnected) one.table.draw?.({ cache: true });
}

// Returns the SOW key and the column that a cell showed when it was last drawn; undefined if it shows no record. The
// viewer's own event of a click names the record that is in this row by now: another one, if records have come meanwhile.
export function placeOf(cell) {
  return places.get(cell);
}

function mark(viewer, datagrid, table) {
  const { live, opened } = shown.get(viewer);
  // The ids are the only link from a row of the screen to its record; the version of the grid is fixed, so they stay.
  const ids = datagrid.model?._ids ?? [];
  for (const head of table.querySelectorAll("thead th.psp-header-leaf > span:first-child")) title(head);
  const isGrouped = datagrid.model?._config?.group_by.length > 0;
  const now = performance.now();
  const [flash, line] = [styleOf("--flash"), styleOf("--accent")];
  for (const cell of table.querySelectorAll("tbody td")) {
    const place = table.getMeta(cell);
    places.delete(cell);
    if (place?.y === undefined) continue;
    const key = ids[place.y - place.y0]?.[0];
    const change = live.changed.get(key);
    const path = place.column_header?.at(-1);
    if (!isGrouped) places.set(cell, { key, path });
    spell(cell, isGrouped || datagrid.model._schema[path] !== "datetime" ? undefined : timeIn(live.row(key), path));
    const isNew = change && now - change.at < FRESH_MS && (change.paths === null || change.paths.has(path));
    light(cell, isNew && !calm.matches ? change.at : undefined, now, flash);
    cell.style.boxShadow = opened !== undefined && key === opened ? `inset 0 1px ${line}, inset 0 -1px ${line}` : "";
    cell.toggleAttribute("data-open", opened !== undefined && key === opened);
  }
}

// The text of the time that a record has in a column.
const timeIn = (row, path) => row && (path === UPDATED ? row.timestamp : at(row.record, path));

// Writes a time with its date and zone, unless the user has chosen another format for its column. ISO 8601 is what the
// mouse shows, and the text in the record if that is another one.
function spell(cell, text) {
  const time = typeof text === "string" ? timeOf(text) : NaN;
  if (Number.isNaN(time)) {
    cell.removeAttribute("title");
    return;
  }
  const iso = new Date(time).toISOString();
  cell.title = text === iso ? iso : `${iso}\n${text}`;
  if (cell.textContent === usual.format(time)) cell.textContent = instant(time);
}

// A header shows the names of a field, and its path while the pointer rests on it.
function title(head) {
  const path = head.textContent;
  if (!path.startsWith("/")) return;
  head.textContent = nameOf(path);
  head.parentElement.title = path;
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
