// The tabs of a topic: what the viewer shows for each of them, and the controls to choose it.
import { html, useState } from "./lib.js";
import { AGGREGATES, CHARTS, COUNT, PLUGINS, WIDTHS, chosenFields, tabOf } from "./chosen.js";
import { RECORDS, together } from "./groups.js";

// The settings of the viewer for a tab. `columns` are those of the records, with their kinds; `groups` are those that the
// service has computed, if it has.
export function arrangement(route, columns, keys, groups) {
  const tab = tabOf(route);
  if (tab === "grid" || tab === "table" || !columns.length) return {};
  const chosen = chosenFields(route, columns, keys);
  const { by, value } = chosen;
  const rows = by ? [by] : [];
  const split = chosen.across === "-" ? [] : [chosen.across];
  const plain = { ...measured(chosen, groups), sort: [], filter: [] };
  if (tab === "pivot") {
    // Totals of different values can't be made from those of the groups.
    const flat = groups && value !== COUNT && chosen.aggregate === "distinct count" ? { group_rollup_mode: "flat" } : {};
    return { ...plain, ...flat, plugin: "Datagrid", group_by: rows, split_by: split };
  }
  const plugin = PLUGINS[chosen.chart];
  if (chosen.chart === "time") {
    if (!chosen.time) return { ...plain, plugin, group_by: rows };
    const bucket = `bucket("${chosen.time}", '${chosen.width}')`;
    const name = `${chosen.time} by ${WIDTHS[chosen.width]}`;
    // A line breaks at the first time at which one of its series has no record. Bars can do without.
    return { ...plain, plugin: split.length ? "Y Bar" : plugin, expressions: { ...plain.expressions, [name]: bucket }, group_by: [name], split_by: split };
  }
  if (chosen.chart === "scatter") {
    const [x, y] = [chosen.numbers[0], chosen.numbers[1] ?? chosen.numbers[0]];
    if (!x) return { ...plain, plugin: "X Bar", group_by: rows };
    return { plugin, columns: [x, y], group_by: [], split_by: by && by !== "-" ? [by] : [], sort: [], filter: [] };
  }
  if (chosen.chart === "treemap") {
    const { columns: shown, aggregates, ...others } = plain;
    const colored = chosen.color ? measured({ value: chosen.color, aggregate: "avg" }, groups) : { columns: [], aggregates: {} };
    return { ...others, plugin, columns: [...shown, ...colored.columns], aggregates: { ...aggregates, ...colored.aggregates }, group_by: [...rows, ...split] };
  }
  const sort = chosen.chart === "bars" ? [[plain.columns[0], "desc"]] : [];
  return { ...plain, plugin, sort, group_by: rows, split_by: split };
}

// The settings for a measure: of the records, or of the groups that have it computed.
function measured({ value, aggregate }, groups) {
  if (value === COUNT) return { columns: [RECORDS], aggregates: { [RECORDS]: "sum" }, expressions: groups ? {} : { [RECORDS]: "1" } };
  const measure = groups?.measures.find((one) => one.path === value && one.aggregate === aggregate);
  return measure
    ? { columns: [measure.name], aggregates: { [measure.name]: together(measure) }, expressions: {} }
    : { columns: [value], aggregates: { [value]: aggregate }, expressions: {} };
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
