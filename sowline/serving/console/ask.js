// The form above a grid: filter, condition, and options.
import { html, useEffect, useState } from "./lib.js";
import { CONFLATION, LIMIT } from "./asked.js";
import { isField, keyPaths } from "./fields.js";
import { FilterInput, Warnings, remember } from "./filter.js";
import { Mistake } from "./text.js";
import { go } from "./route.js";
import { Term } from "./words.js";

const CONFLATIONS = ["none", "auto", "100ms", "250ms", "1s", "5s"];

// A field that the records have, for examples: one that tells them apart, if it is known; undefined for no records.
const exampleOf = (topic, columns) => keyPaths(topic)[0] ?? topic.view?.grouping[0] ?? columns.find(({ path }) => isField(path))?.path;

export function Ask({ topic, route, refused, isLoading, live, columns, children }) {
  const [filter, setFilter] = useState(route.filter ?? "");
  const [condition, setCondition] = useState(route.condition ?? "");
  const [options, setOptions] = useState(route.options ?? "");
  const [order, setOrder] = useState(route.order ?? "");
  const [isOpen, setOpen] = useState(Boolean(route.options || route.limit || route.conflation || route.order));
  useEffect(() => {
    setFilter(route.filter ?? "");
    setCondition(route.condition ?? "");
    setOptions(route.options ?? "");
    setOrder(route.order ?? "");
  }, [route.filter, route.condition, route.options, route.order]);
  const change = (more) => go({ ...route, ...more });
  const typed = { filter: filter.trim() && filter, condition: condition.trim() && condition, options: options.trim(), order: order.trim() };
  const isUnapplied = Object.entries(typed).some(([name, text]) => text !== (route[name] ?? ""));
  const submit = (event) => {
    event.preventDefault();
    remember(topic.name, filter);
    change(typed);
  };
  const isOfCondition = refused?.reason === "bad condition";
  const example = exampleOf(topic, columns);
  return html`
    <form class="ask" onSubmit=${submit} role="search" aria-label="which records">
      <div class="row">
        <div class="field grow"><label class="unseen" for="filter">Filter</label>
          <${FilterInput} topic=${topic} value=${filter} onInput=${setFilter} placeholder=${example ? `every record; a filter is, for example, ${example} IS NOT NULL` : "every record"}
            invalid=${refused && !isOfCondition ? "true" : "false"} describedBy=${isUnapplied ? "filter-unapplied filter-mistake" : "filter-mistake"} />
          ${isUnapplied && html`<span id="filter-unapplied" class="unapplied" role="status">press Enter to apply</span>`}</div>
        ${topic.documents && html`<label class="field grow">Condition
          <input id="condition" class="mono" value=${condition} placeholder='{..,"status":"OPEN"}' spellcheck="false" autocomplete="off"
            aria-invalid=${isOfCondition ? "true" : "false"} aria-describedby="filter-mistake" onInput=${(event) => setCondition(event.target.value)} /></label>`}
        <button type="submit" class="primary">Show</button>
        <button type="button" class="options" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>Options</button>
        ${children}
      </div>
      <div id="filter-mistake"><${Mistake} text=${refused && (isOfCondition ? refused.asked.condition : refused.asked.filter)} error=${refused} /></div>
      ${live && !refused && !isLoading && html`<${Warnings} warnings=${live.warnings} filter=${route.filter ?? ""} onFilter=${(text) => change({ filter: text })} />`}
      ${isOpen && html`<div class="row more">
          <label class="field"><${Term} word="Rows to load" /> <input type="number" min="1" max="1000000" value=${route.limit ?? LIMIT} onChange=${(event) => change({ limit: Number(event.target.value) === LIMIT ? "" : event.target.value })} /></label>
          <label class="field"><${Term} word="Conflation" /> <select value=${route.conflation ?? CONFLATION} onChange=${(event) => change({ conflation: event.target.value === CONFLATION ? "" : event.target.value })}>
            ${CONFLATIONS.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
          ${topic.sow && html`<label class="field"><${Term} word="Order by" /> <input class="mono" value=${order} placeholder="newest first" spellcheck="false" autocomplete="off" onInput=${(event) => setOrder(event.target.value)} /></label>`}
          <label class="field grow"><${Term} word="Further options" /> <input class="mono" value=${options} placeholder="none" spellcheck="false" autocomplete="off" onInput=${(event) => setOptions(event.target.value)} /></label>
      </div>`}
    </form>
  `;
}
