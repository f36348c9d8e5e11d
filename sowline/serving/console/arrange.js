// The tabs of a topic: what the viewer shows for a pivot, and the controls to choose fields.
import { html } from "./lib.js";
import { useMoment } from "./connection.js";
import { AGGREGATES, CHARTS, COUNT, NONE, WIDTHS, chosenFields, tabOf } from "./chosen.js";
import { nameOf } from "./fields.js";
import { measureName } from "./figures.js";
import { RECORDS, together } from "./groups.js";

// The settings of the viewer for a tab. `columns` are those of the records, with their kinds; `groups` are those that the
// service has computed, if it has.
export function arrangement(route, columns, keys, groups) {
  if (tabOf(route) !== "pivot" || !columns.length) return {};
  const chosen = chosenFields(route, columns, keys);
  const { by, across, value, aggregate } = chosen;
  // Totals of different values can't be made from those of the groups.
  const flat = groups && value !== COUNT && aggregate === "distinct count" ? { group_rollup_mode: "flat" } : {};
  return { ...measured(chosen, groups), ...flat, plugin: "Datagrid", sort: [], filter: [], group_by: by ? [by] : [], split_by: across === NONE ? [] : [across] };
}

// The settings for a measure: of the records, or of the groups that have it computed.
function measured({ value, aggregate }, groups) {
  if (value === COUNT) return { columns: [RECORDS], aggregates: { [RECORDS]: "sum" }, expressions: groups ? {} : { [RECORDS]: "1" } };
  const measure = groups?.measures.find((one) => one.path === value && one.aggregate === aggregate);
  return measure
    ? { columns: [measure.name], aggregates: { [measure.name]: together(measure) }, expressions: {} }
    : { columns: [value], aggregates: { [value]: aggregate }, expressions: {} };
}

// What a pivot measures of which groups, where its columns are called by the values of a field alone.
export function captionOf(route, columns, keys) {
  if (tabOf(route) !== "pivot" || !columns.length) return undefined;
  const { by, across, value, aggregate } = chosenFields(route, columns, keys);
  return across === NONE ? undefined : `${measureName({ path: value, aggregate })} by ${nameOf(by)} and ${nameOf(across)}`;
}

function Choice({ name, value, options, onChange }) {
  return html`<label class="field">${name} <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([one, title]) => html`<option value=${one}>${title}</option>`)}</select></label>`;
}

// What the viewer shows, and of which moment: the counts beside it are of moments of their own.
export function Caption({ text, live }) {
  const [moment] = useMoment(live);
  return html`<h2 class="caption">${text}<span class="age">as of ${moment}</span></h2>`;
}

// The controls of the tabs Chart and Pivot, in the console's own look.
export function Arrange({ route, columns, keys, onChange }) {
  const tab = tabOf(route);
  if ((tab !== "chart" && tab !== "pivot") || !columns.length) return null;
  const chosen = chosenFields(route, columns, keys);
  const named = (paths) => paths.map((path) => [path, path]);
  const fields = named(columns.map(({ path }) => path));
  const none = [NONE, "nothing"];
  const chart = tab === "chart" ? chosen.chart : undefined;
  const isScatter = chart === "scatter";
  return html`
    <div class="arrange" role="group" aria-label="what the ${tab} shows">
      ${chart && html`<div class="switch" role="group" aria-label="kind of chart">
        ${Object.entries(CHARTS).map(([name, title]) => html`<button type="button" aria-pressed=${chart === name} onClick=${() => onChange({ chart: name })}>${title}</button>`)}</div>`}
      ${chart === "time" && chosen.times.length > 0 && html`
        <${Choice} name="Time" value=${chosen.time} options=${named(chosen.times)} onChange=${(time) => onChange({ time })} />
        <${Choice} name="For each" value=${chosen.width ?? ""} options=${[["", "what fits"], ...Object.entries(WIDTHS).map(([name, [title]]) => [name, title])]} onChange=${(width) => onChange({ width })} />`}
      ${isScatter && chosen.numbers.length > 1 && html`
        <${Choice} name="Across" value=${chosen.x} options=${named(chosen.numbers)} onChange=${(x) => onChange({ x })} />
        <${Choice} name="Up" value=${chosen.y} options=${named(chosen.numbers)} onChange=${(y) => onChange({ y })} />`}
      ${chart !== "time" && html`<${Choice} name=${tab === "pivot" ? "Rows" : isScatter ? "Color" : "By"} value=${chosen.by} options=${isScatter ? [none, ...fields] : fields} onChange=${(by) => onChange({ by })} />`}
      ${!isScatter && html`
        <${Choice} name=${tab === "pivot" ? "Columns" : "And by"} value=${chosen.across} options=${[none, ...fields]} onChange=${(across) => onChange({ across })} />
        <${Choice} name="Value" value=${chosen.value === COUNT ? NONE : chosen.value} options=${[[NONE, "number of records"], ...named(chosen.numbers)]} onChange=${(value) => onChange({ value })} />
        ${chosen.value !== COUNT && html`<${Choice} name="As" value=${chosen.aggregate} options=${named(AGGREGATES)} onChange=${(aggregate) => onChange({ aggregate })} />`}`}
      ${chart === "treemap" && chosen.numbers.length > 0 && html`<${Choice} name="Color" value=${chosen.color ?? NONE} options=${[[NONE, chosen.across === NONE ? "none" : chosen.across], ...chosen.numbers.map((path) => [path, `avg of ${path}`])]} onChange=${(color) => onChange({ color })} />`}
    </div>
  `;
}
