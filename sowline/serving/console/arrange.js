// The tabs of a topic: what the viewer shows for each of them, and the controls to choose it.
import { html, useState } from "./lib.js";
import { dividing, isNumeric } from "./columns.js";
import { UPDATED } from "./fields.js";

export const TABS = { grid: "Grid", chart: "Chart", pivot: "Pivot", table: "Table" };

const CHARTS = { bars: "Bars", treemap: "Treemap", time: "Over time", heatmap: "Heatmap", scatter: "Points" };
const PLUGINS = { bars: "X Bar", treemap: "Treemap", time: "Y Line", heatmap: "Heatmap", scatter: "X/Y Scatter" };
const WIDTHS = { s: "second", m: "minute", h: "hour", D: "day" };
const AGGREGATES = ["sum", "avg", "min", "max", "count", "distinct count"];
const COUNT = "";
const RECORDS = "records";

export const tabOf = (route) => (route.show in TABS ? route.show : "grid");

// The chosen fields of a chart or pivot: those of the address, or else those that fit these columns best.
export function chosenFields(route, columns, keys) {
  const groups = dividing(columns, keys).map(({ path }) => path);
  const numbers = columns.filter((column) => isNumeric(column) && !keys.includes(column.path)).map(({ path }) => path);
  const times = columns.filter(({ kind }) => kind === "datetime").map(({ path }) => path);
  const known = new Set(columns.map(({ path }) => path));
  const given = (name, usual) => (route[name] !== undefined && (route[name] === "-" || known.has(route[name])) ? route[name] : usual);
  return {
    chart: route.chart in CHARTS ? route.chart : "bars",
    by: given("by", groups[0] ?? keys[0] ?? columns[0]?.path),
    across: given("across", groups[1] ?? "-"),
    value: given("value", COUNT) === "-" ? COUNT : given("value", COUNT),
    aggregate: AGGREGATES.includes(route.aggregate) ? route.aggregate : "sum",
    time: given("time", times.includes(UPDATED) ? UPDATED : times[0]),
    width: route.width in WIDTHS ? route.width : "m",
    numbers,
    times,
  };
}

// The settings of the viewer for a tab. `columns` are those of the records, with their kinds.
export function arrangement(route, columns, keys) {
  const tab = tabOf(route);
  if (tab === "grid" || tab === "table" || !columns.length) return {};
  const chosen = chosenFields(route, columns, keys);
  const { by, across, value, aggregate } = chosen;
  const measured = value === COUNT ? RECORDS : value;
  const aggregates = { [measured]: value === COUNT ? "sum" : aggregate };
  const expressions = value === COUNT ? { [RECORDS]: "1" } : {};
  const plain = { columns: [measured], aggregates, expressions, sort: [], filter: [] };
  if (tab === "pivot") {
    return { ...plain, plugin: "Datagrid", group_by: by ? [by] : [], split_by: across === "-" ? [] : [across] };
  }
  const plugin = PLUGINS[chosen.chart];
  if (chosen.chart === "time") {
    if (!chosen.time) return { ...plain, plugin, group_by: by ? [by] : [] };
    const bucket = `bucket("${chosen.time}", '${chosen.width}')`;
    const isSplit = route.across !== undefined && across !== "-";
    // A line breaks at the first time at which one of its series has no record. Bars can do without.
    return { ...plain, plugin: isSplit ? "Y Bar" : plugin, expressions: { ...expressions, time: bucket }, group_by: ["time"], split_by: isSplit ? [across] : [] };
  }
  if (chosen.chart === "scatter") {
    const [x, y] = [chosen.numbers[0], chosen.numbers[1] ?? chosen.numbers[0]];
    if (!x) return { ...plain, plugin: "X Bar", group_by: by ? [by] : [] };
    return { plugin, columns: [x, y], group_by: [], split_by: by && by !== "-" ? [by] : [], sort: [], filter: [] };
  }
  if (chosen.chart === "treemap") {
    const color = chosen.numbers.find((path) => path !== measured);
    const colored = color ? { columns: [measured, color], aggregates: { ...aggregates, [color]: "avg" } } : {};
    return { ...plain, plugin, ...colored, group_by: [by, ...(across === "-" ? [] : [across])].filter(Boolean) };
  }
  const split = chosen.chart === "heatmap" || route.across !== undefined ? across : "-";
  const sort = chosen.chart === "bars" ? [[measured, "desc"]] : [];
  return { ...plain, plugin, sort, group_by: by ? [by] : [], split_by: split === "-" ? [] : [split] };
}

function Choice({ name, value, options, onChange }) {
  return html`<label class="field">${name} <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([one, title]) => html`<option value=${one}>${title}</option>`)}</select></label>`;
}

// The controls of the tabs Chart and Pivot, in the console's own look.
export function Arrange({ route, columns, keys, onChange }) {
  const tab = tabOf(route);
  const [open, setOpen] = useState(false);
  if ((tab !== "chart" && tab !== "pivot") || !columns.length) return null;
  const chosen = chosenFields(route, columns, keys);
  const fields = columns.map(({ path }) => [path, path]);
  const isTime = tab === "chart" && chosen.chart === "time";
  const isScatter = tab === "chart" && chosen.chart === "scatter";
  return html`
    <button type="button" class="arrange-open" aria-expanded=${open} onClick=${() => setOpen(true)}>Choose fields</button>
    <div class="arrange ${open ? "open" : ""}" role="group" aria-label="what the ${tab} shows">
      ${tab === "chart" && html`<div class="switch" role="group" aria-label="kind of chart">
        ${Object.entries(CHARTS).map(([name, title]) => html`<button type="button" aria-pressed=${chosen.chart === name} onClick=${() => onChange({ chart: name })}>${title}</button>`)}</div>`}
      ${isTime && chosen.times.length > 0 && html`
        <${Choice} name="Time" value=${chosen.time} options=${chosen.times.map((path) => [path, path])} onChange=${(time) => onChange({ time })} />
        <${Choice} name="For each" value=${chosen.width} options=${Object.entries(WIDTHS)} onChange=${(width) => onChange({ width })} />`}
      ${!isTime && html`<${Choice} name=${tab === "pivot" ? "Rows" : "By"} value=${chosen.by} options=${fields} onChange=${(by) => onChange({ by })} />`}
      ${!isScatter && html`<${Choice} name=${tab === "pivot" ? "Columns" : "And by"} value=${chosen.across} options=${[["-", "nothing"], ...fields]} onChange=${(across) => onChange({ across })} />`}
      ${!isScatter && html`<${Choice} name="Value" value=${chosen.value === COUNT ? "-" : chosen.value} options=${[["-", "number of records"], ...chosen.numbers.map((path) => [path, path])]} onChange=${(value) => onChange({ value })} />`}
      ${!isScatter && chosen.value !== COUNT && html`<${Choice} name="As" value=${chosen.aggregate} options=${AGGREGATES.map((name) => [name, name])} onChange=${(aggregate) => onChange({ aggregate })} />`}
      <button type="button" class="primary arrange-close" onClick=${() => setOpen(false)}>Show</button>
    </div>
  `;
}
