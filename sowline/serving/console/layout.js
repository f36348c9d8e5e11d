// The panel that arranges the grid: which columns it has and in which order, and how rows are grouped, split and sorted.
// The viewer keeps these settings; the address has those that differ from the usual ones.
import { AGGREGATES } from "./chosen.js";
import { isNumeric } from "./columns.js";
import { KEY_COLUMN } from "./fields.js";
import { html, useEffect, useRef, useState } from "./lib.js";

const OF_OTHERS = ["count", "distinct count", "last by index"];
const AGGREGATE_WORDS = { avg: "mean", "distinct count": "different values", "last by index": "last value" };

const moved = (list, from, to) => {
  const others = list.toSpliced(from, 1);
  return others.toSpliced(to, 0, list[from]);
};

// A list of fields in their order, from which one can be taken, and to which another can be added.
function Fields({ title, add, chosen, offered, onChange, children }) {
  return html`<section><h3>${title}</h3>
    ${chosen.length > 0 && html`<ul>${chosen.map((path, at) => html`<li key=${path}><code class="grow">${path}</code>${children?.(at)}
      <button type="button" class="quiet small" onClick=${() => onChange(chosen.toSpliced(at, 1))} aria-label=${`${title}: remove ${path}`}>✕</button></li>`)}</ul>`}
    <select value="" aria-label=${add} onChange=${(event) => { if (event.target.value) onChange([...chosen, event.target.value]); event.target.value = ""; }}>
      <option value="">${add}…</option>${offered.filter((path) => !chosen.includes(path)).map((path) => html`<option value=${path}>${path}</option>`)}</select>
  </section>`;
}

function Columns({ columns, settings, onChange }) {
  const dragged = useRef();
  const shown = settings.columns.filter((path) => path !== null);
  const others = [...columns.map(({ path }) => path), KEY_COLUMN].filter((path) => !shown.includes(path));
  const kinds = new Map(columns.map(({ path, kind }) => [path, kind]));
  const put = (list) => list.length && onChange({ columns: list });
  const aggregate = (path) => {
    const offered = isNumeric({ kind: kinds.get(path) }) ? AGGREGATES : OF_OTHERS;
    const now = settings.aggregates[path] ?? offered[0];
    return html`<select class="small" value=${now} aria-label=${`of each group of ${path}`} onChange=${(event) => onChange({ aggregates: { ...settings.aggregates, [path]: event.target.value } })}>
      ${(offered.includes(now) ? offered : [now, ...offered]).map((name) => html`<option value=${name}>${AGGREGATE_WORDS[name] ?? name}</option>`)}</select>`;
  };
  return html`<section><h3>Columns</h3>
    <ul>
      ${shown.map((path, at) => html`<li key=${path} draggable="true" onDragStart=${() => { dragged.current = at; }} onDragOver=${(event) => event.preventDefault()}
          onDrop=${(event) => { event.preventDefault(); put(moved(shown, dragged.current, at)); }}>
        <label class="check grow"><input type="checkbox" checked disabled=${shown.length === 1} onChange=${() => put(shown.toSpliced(at, 1))} /> <code>${path}</code></label>
        ${settings.group_by.length > 0 && aggregate(path)}
        <button type="button" class="quiet small" disabled=${at === 0} onClick=${() => put(moved(shown, at, at - 1))} aria-label=${`${path} further left`}>↑</button>
        <button type="button" class="quiet small" disabled=${at === shown.length - 1} onClick=${() => put(moved(shown, at, at + 1))} aria-label=${`${path} further right`}>↓</button></li>`)}
      ${others.map((path) => html`<li key=${path}><label class="check grow"><input type="checkbox" checked=${false} onChange=${() => put([...shown, path])} /> <code class="muted">${path}</code></label></li>`)}
    </ul></section>`;
}

export function LayoutPanel({ viewer, sheet, columns, onClose }) {
  const [settings, setSettings] = useState();
  const title = useRef();
  useEffect(() => title.current.focus(), []);
  useEffect(() => {
    let closed = false;
    const look = () => sheet.settings().then((found) => !closed && found && setSettings(found), () => {}); // it is closed
    look();
    viewer.addEventListener("perspective-config-update", look);
    return () => {
      closed = true;
      viewer.removeEventListener("perspective-config-update", look);
    };
  }, [viewer, sheet]);
  const change = (more) => {
    setSettings({ ...settings, ...more });
    sheet.change(more);
  };
  const paths = columns.map(({ path }) => path);
  return html`
    <aside class="panel layout" aria-labelledby="layout-title">
      <header><h2 id="layout-title" tabindex="-1" ref=${title}>Columns and order</h2>
        <button type="button" class="quiet" onClick=${onClose} aria-label="close the arrangement">✕</button></header>
      <p class="muted">Of the rows that the grid holds. Nothing is written.</p>
      ${settings && html`
        <${Fields} title="Sort" add="Sort by" chosen=${settings.sort.map(([path]) => path)} offered=${paths}
          onChange=${(chosen) => change({ sort: chosen.map((path) => settings.sort.find(([one]) => one === path) ?? [path, "asc"]) })}>
          ${(at) => html`<select class="small" value=${settings.sort[at][1]} aria-label=${`order of ${settings.sort[at][0]}`}
            onChange=${(event) => change({ sort: settings.sort.with(at, [settings.sort[at][0], event.target.value]) })}>
            <option value="asc">ascending</option><option value="desc">descending</option>${!["asc", "desc"].includes(settings.sort[at][1]) && html`<option>${settings.sort[at][1]}</option>`}</select>`}
        <//>
        <${Fields} title="Group" add="Group by" chosen=${settings.group_by} offered=${paths} onChange=${(chosen) => change({ group_by: chosen })} />
        <${Fields} title="Split" add="Split columns by" chosen=${settings.split_by} offered=${paths} onChange=${(chosen) => change({ split_by: chosen })} />
        <${Columns} columns=${columns} settings=${settings} onChange=${change} />`}
      <footer><button type="button" onClick=${() => sheet.rearrange()}>Reset</button></footer>
    </aside>
  `;
}
