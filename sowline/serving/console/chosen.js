// What a tab shows: its kind of chart and its fields, as chosen in the address or as they fit the columns best.
import { dividing, isNumeric } from "./columns.js";
import { UPDATED } from "./fields.js";

export const TABS = { grid: "Grid", chart: "Chart", pivot: "Pivot", table: "Table" };

export const CHARTS = { bars: "Bars", treemap: "Treemap", time: "Over time", heatmap: "Heatmap", scatter: "Points" };
const [S, M, H, D] = [1000, 60_000, 3_600_000, 86_400_000];
// What a chart over time has a value for each of: its name, and how long it is in ms.
export const WIDTHS = { s: ["second", S], "10s": ["10 seconds", 10 * S], m: ["minute", M], "10m": ["10 minutes", 10 * M], h: ["hour", H], "6h": ["6 hours", 6 * H], D: ["day", D] };
export const AGGREGATES = ["sum", "avg", "min", "max", "count", "distinct count"];
export const COUNT = "";
// What stands in the address for no field.
export const NONE = "-";

export const tabOf = (route) => (route.show in TABS ? route.show : "grid");

// The chosen fields of a chart or pivot: those of the address, or else those that fit these columns best.
export function chosenFields(route, columns, keys) {
  const groups = dividing(columns, keys).map(({ path }) => path);
  const numbers = columns.filter((column) => isNumeric(column) && !keys.includes(column.path)).map(({ path }) => path);
  const times = columns.filter(({ kind }) => kind === "datetime").map(({ path }) => path);
  const known = new Set(columns.map(({ path }) => path));
  const given = (name, usual) => (route[name] !== undefined && (route[name] === NONE || known.has(route[name])) ? route[name] : usual);
  const chart = route.chart in CHARTS ? route.chart : "bars";
  // Bars and lines are split only if that was chosen: what divides the records best need not divide their groups well.
  const isSplit = tabOf(route) === "pivot" || chart === "heatmap" || chart === "treemap";
  const value = given("value", COUNT) === NONE ? COUNT : given("value", COUNT);
  const number = (name, usual) => (numbers.includes(route[name]) ? route[name] : usual);
  const x = number("x", numbers[0]);
  const by = given("by", groups[0] ?? keys[0] ?? columns[0]?.path);
  return {
    chart,
    by,
    across: given("across", (isSplit && groups.find((path) => path !== by)) || NONE),
    value,
    // The field whose mean colors a treemap, if one was chosen.
    color: number("color", undefined),
    aggregate: AGGREGATES.includes(route.aggregate) ? route.aggregate : "sum",
    time: given("time", times.includes(UPDATED) ? UPDATED : times[0]),
    // Undefined for what fits the times best.
    width: route.width in WIDTHS ? route.width : undefined,
    x,
    y: number("y", numbers.find((path) => path !== x)),
    numbers,
    times,
  };
}
