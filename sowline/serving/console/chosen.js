// What a tab shows: its kind of chart and its fields, as chosen in the address or as they fit the columns best.
import { dividing, isNumeric } from "./columns.js";
import { UPDATED } from "./fields.js";

export const TABS = { grid: "Grid", chart: "Chart", pivot: "Pivot", table: "Table" };

export const CHARTS = { bars: "Bars", treemap: "Treemap", time: "Over time", heatmap: "Heatmap", scatter: "Points" };
export const PLUGINS = { bars: "X Bar", treemap: "Treemap", time: "Y Line", heatmap: "Heatmap", scatter: "X/Y Scatter" };
export const WIDTHS = { s: "second", m: "minute", h: "hour", D: "day" };
export const AGGREGATES = ["sum", "avg", "min", "max", "count", "distinct count"];
export const COUNT = "";

export const tabOf = (route) => (route.show in TABS ? route.show : "grid");

// The chosen fields of a chart or pivot: those of the address, or else those that fit these columns best.
export function chosenFields(route, columns, keys) {
  const groups = dividing(columns, keys).map(({ path }) => path);
  const numbers = columns.filter((column) => isNumeric(column) && !keys.includes(column.path)).map(({ path }) => path);
  const times = columns.filter(({ kind }) => kind === "datetime").map(({ path }) => path);
  const known = new Set(columns.map(({ path }) => path));
  const given = (name, usual) => (route[name] !== undefined && (route[name] === "-" || known.has(route[name])) ? route[name] : usual);
  const chart = route.chart in CHARTS ? route.chart : "bars";
  // Bars and lines are split only if that was chosen: what divides the records best need not divide their groups well.
  const isSplit = tabOf(route) === "pivot" || chart === "heatmap" || chart === "treemap";
  const value = given("value", COUNT) === "-" ? COUNT : given("value", COUNT);
  return {
    chart,
    by: given("by", groups[0] ?? keys[0] ?? columns[0]?.path),
    across: given("across", (isSplit && groups[1]) || "-"),
    value,
    // The field whose mean colors a treemap.
    color: numbers.find((path) => path !== value),
    aggregate: AGGREGATES.includes(route.aggregate) ? route.aggregate : "sum",
    time: given("time", times.includes(UPDATED) ? UPDATED : times[0]),
    width: route.width in WIDTHS ? route.width : "m",
    numbers,
    times,
  };
}
