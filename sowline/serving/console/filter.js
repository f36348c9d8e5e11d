// The filter of a topic: what completes it, the filters that were used, and the counts of a field's values.
import { html, useEffect, useId, useRef, useState } from "./lib.js";
import { describedFields, dividing } from "./columns.js";
import { isField } from "./fields.js";
import { literal, said, service } from "./service.js";
import { count, isLong, plural, rounded } from "./text.js";
import { nowOf } from "./connection.js";

const OPERATORS = ["AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS NULL", "IS NOT NULL", "BEGINS WITH", "ENDS WITH"];
const NOTHING = { fields: [], functions: [] };
const SHOWN_MAX = 12;
const REMEMBERED_MAX = 20;
const FACETS_MAX = 8;
const FIELDS_MAX = 3;
const COUNT_MS = 250;

const remembered = (topic) => JSON.parse(localStorage.getItem(`sowline.filters.${topic}`) ?? "[]");

// Keeps a filter that was used, the newest first.
export function remember(topic, filter) {
  if (!filter.trim()) return;
  const others = remembered(topic).filter((one) => one !== filter);
  localStorage.setItem(`sowline.filters.${topic}`, JSON.stringify([filter, ...others].slice(0, REMEMBERED_MAX)));
}

// A filter together with one more condition.
export function both(filter, term) {
  if (!filter.trim()) return term;
  if (filter.split(" AND ").includes(term)) return filter;
  return `${/\bOR\b/i.test(filter) ? `(${filter})` : filter} AND ${term}`;
}

// An empty text is NULL, which equals nothing.
const isNull = (value) => value === null || value === "";
export const equals = (path, value) => (isNull(value) ? `${path} IS NULL` : `${path} = ${literal(value)}`);
export const differs = (path, value) => (isNull(value) ? `${path} IS NOT NULL` : `${path} != ${literal(value)}`);

const FIELD = /(^|[\s(,])(\/[^\s()=<>!,']*)$/;
const VALUE = /(\/[^\s()=<>!,']+)\s*(?:=|!=|<>|IN\s*\((?:[^()]*,)?)\s*('?[^\s()']*)$/i;
const WORD = /(^|[\s(])([A-Za-z_]+)$/;

// What may follow the text before the caret: [{text, from, kind, note}], where `from` is the column that it replaces from.
export function completions(before, { fields, functions, sampled }) {
  const value = VALUE.exec(before);
  if (value) {
    const field = fields.find(({ path }) => path === value[1]);
    const typed = value[2].replace(/^'/, "").toLowerCase();
    return (field?.values ?? [])
      .map(({ value: one, records }) => ({ text: literal(one), from: before.length - value[2].length, kind: "value", note: `${count(records)} in a sample of ${plural(sampled, "record")}` }))
      .filter(({ text }) => text.replace(/^'/, "").toLowerCase().startsWith(typed));
  }
  const field = FIELD.exec(before);
  if (field) {
    const typed = field[2].toLowerCase();
    const from = before.length - field[2].length;
    const matching = fields.filter(({ path }) => path.toLowerCase().startsWith(typed));
    const others = typed.length < 2 ? [] : fields.filter(({ path }) => !matching.some((one) => one.path === path) && path.toLowerCase().includes(typed.slice(1)));
    return [...matching, ...others].map(({ path, kinds }) => ({ text: path, from, kind: "field", note: kinds.join(", ") }));
  }
  const word = WORD.exec(before);
  if (!word) return [];
  const typed = word[2].toUpperCase();
  const from = before.length - word[2].length;
  const named = (kind) => (text) => ({ text, from, kind, note: kind });
  const all = [...OPERATORS.map(named("operator")), ...functions.map((name) => named("function")(`${name}()`))];
  return all.filter(({ text }) => text.startsWith(typed) && text !== typed);
}

// The input of a filter with a list of completions, used by keyboard as the pattern of a combobox has it.
export function FilterInput({ topic, value, onInput, placeholder, invalid, describedBy }) {
  const id = useId();
  const input = useRef();
  const [language, setLanguage] = useState(NOTHING);
  const [offered, setOffered] = useState([]);
  const [chosen, setChosen] = useState(-1);
  const load = () => describedFields(topic).then(setLanguage, () => setLanguage(NOTHING));
  const close = () => {
    setOffered([]);
    setChosen(-1);
  };
  const offer = (text, caret) => {
    const filters = text.trim() ? [] : remembered(topic.name).map((one) => ({ text: one, from: 0, kind: "before", note: "used before" }));
    setOffered([...filters, ...completions(text.slice(0, caret), language)].slice(0, SHOWN_MAX));
    setChosen(-1);
  };
  // What was typed before the fields came is completed as soon as they are there.
  useEffect(() => {
    if (value && document.activeElement === input.current) offer(value, input.current.selectionStart);
  }, [language]);
  const take = ({ text, from }) => {
    const caret = input.current.selectionStart;
    const at = text.endsWith("()") ? from + text.length - 1 : from + text.length;
    const typed = input.current.value;
    const next = typed.slice(0, from) + text + typed.slice(caret);
    onInput(next);
    close();
    // At once, and not after the next drawing: what the user types meanwhile must not land elsewhere.
    input.current.value = next;
    input.current.focus();
    input.current.setSelectionRange(at, at);
  };
  const press = (event) => {
    // The form is sent: a list would cover what the service says to that.
    if (event.key === "Enter" && chosen < 0) close();
    else if (event.key === "ArrowDown" && !offered.length) {
      event.preventDefault();
      offer(value, input.current.selectionStart);
    } else if (!offered.length) {
      return;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((chosen + step + offered.length + (chosen < 0 && step < 0 ? 1 : 0)) % offered.length);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      close();
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      event.preventDefault();
      take(offered[chosen]);
    }
  };
  return html`<div class="combo">
    <input id="filter" ref=${input} class="mono" value=${value} placeholder=${placeholder} spellcheck="false" autocomplete="off" autocapitalize="off"
      role="combobox" aria-label="Filter" aria-expanded=${offered.length > 0} aria-controls=${`${id}-list`} aria-autocomplete="list"
      aria-activedescendant=${chosen >= 0 ? `${id}-${chosen}` : undefined} aria-invalid=${invalid} aria-describedby=${describedBy}
      onFocus=${load} onBlur=${() => setTimeout(close, 150)} onKeyDown=${press}
      onInput=${(event) => { onInput(event.target.value); offer(event.target.value, event.target.selectionStart); }} />
    <ul id=${`${id}-list`} role="listbox" aria-label="completions" hidden=${!offered.length}>
      ${offered.map((one, index) => html`<li id=${`${id}-${index}`} role="option" aria-selected=${index === chosen}
        onMouseDown=${(event) => { event.preventDefault(); take(one); }}><code>${one.text}</code><span class="muted">${one.note}</span></li>`)}
    </ul>
  </div>`;
}

const byText = new Intl.Collator("en", { numeric: true }).compare;
const bySize = (one, other) => other.records - one.records || byText(String(one.value ?? ""), String(other.value ?? ""));

// The most frequent values, the largest number first. While the mouse or the keyboard is on them, those that are there keep
// their order: else another one than was aimed at would be hit.
function ranked(values, before, isAimedAt) {
  const shown = values.slice(0, FACETS_MAX).sort(bySize);
  if (!isAimedAt) return shown;
  const rank = ({ value = null }) => (before.includes(value) ? before.indexOf(value) : before.length);
  return shown.sort((one, other) => rank(one) - rank(other));
}

// How many of the matching records have each value of a field: groups that the service keeps.
function useCounts(topic, asked, path) {
  const [found, setFound] = useState();
  const [error, setError] = useState();
  const { filter, condition, options, conflation } = asked;
  useEffect(() => {
    let timer;
    let closed = false;
    const fail = (problem) => !closed && setError(said(problem));
    const grouped = [...conflation, `grouping=[${path}]`, `projection=[${path} AS /value,COUNT(1) AS /records]`, ...options].join(",");
    const view = service.client.view(topic.name, { filter, condition, options: grouped, orderBy: "/records DESC, /value", skipN: 0, topN: FACETS_MAX + 1 });
    const look = () => {
      timer = undefined;
      setFound({ values: [...view.values()], time: nowOf() });
    };
    view.onStatus((status) => status === "failed" && fail(view.error));
    view.ready.then(() => {
      if (closed) return;
      look();
      view.onChange(() => { timer ??= setTimeout(look, COUNT_MS); });
    }, fail);
    return () => {
      closed = true;
      clearTimeout(timer);
      view.close();
    };
  }, [service.logons, topic.name, filter, condition, options.join(), conflation.join(), path]);
  return [found, error];
}

// `counts` are those of the sheet, if it has all records. One that it will have needs no subscription until then.
function FacetOf({ counts, topic, asked, path, onFilter }) {
  if (counts && !counts.has(path)) return html`<${Facet} path=${path} />`;
  const here = counts?.get(path);
  // Of the records that are drawn, of the same moment.
  return here ? html`<${Facet} path=${path} found=${here} onFilter=${onFilter} />` : html`<${FacetOfService} topic=${topic} asked=${asked} path=${path} onFilter=${onFilter} />`;
}

// Counts of the service, which come at moments of their own: two of the same second may differ.
function FacetOfService({ topic, asked, path, onFilter }) {
  const [found, error] = useCounts(topic, asked, path);
  return html`<${Facet} path=${path} found=${found?.values} time=${found?.time} error=${error} onFilter=${onFilter} />`;
}

function Facet({ path, found, time, error, onFilter }) {
  const list = useRef();
  const before = useRef([]);
  // Drawn again once nothing is aimed at any more.
  const [, setLeft] = useState();
  const shown = ranked(found ?? [], before.current, list.current?.matches(":hover, :has(:focus-visible)"));
  before.current = shown.map(({ value = null }) => value);
  const most = Math.max(1, ...shown.map(({ records }) => records));
  const room = Math.max(0, ...shown.map(({ records }) => count(records).length));
  return html`<section><h2>${path} <span>records</span></h2>
    ${error && html`<p class="notice bad" role="alert">${error.message}</p>`}
    ${!found && !error && service.isLost && html`<p class="muted uncounted">not counted: there is no connection</p>`}
    ${!found && !error && !service.isLost && html`<p class="muted uncounted" role="status">Counting…</p>`}
    ${found && html`<ul ref=${list} aria-label="values of ${path}" onMouseLeave=${() => setLeft({})} onfocusout=${() => setLeft({})}>${shown.map(({ value = null, records }) => html`
      <li key=${String(value)}><button type="button" class="facet" onClick=${() => onFilter(equals(path, value))} title=${isLong(value) ? `show only these: ${value}` : "show only these"}>
        <span class="bar" style=${`width: calc((100% - ${room}ch - 14px) * ${records / most})`}></span><code>${value === null ? "no value" : isLong(value) ? rounded(value) : String(value)}</code> <span class="number">${count(records)}</span></button></li>`)}
      ${found.length > FACETS_MAX && html`<li class="muted">and other values</li>`}</ul>`}
    ${time && html`<p class="muted of" title="counted around this moment">around ${time}</p>`}
  </section>`;
}

// The fields that are counted at first.
export const countedFields = (columns, keys) =>
  dividing(columns, keys.length > 1 ? [] : keys).map(({ path }) => path).filter(isField).slice(0, FIELDS_MAX);

// The most frequent values of some fields beside the grid, with the number of all matching records that have them; one that
// is chosen becomes part of the filter. `by` is a field that the user has chosen to count by.
export function Facets({ topic, asked, sheet, columns, keys, by, onFilter, onBy, onClose }) {
  // The fields stay as they were chosen at first, whatever values come.
  const usual = useRef();
  if (!usual.current?.length) usual.current = countedFields(columns, keys);
  const paths = [...new Set([...(by ? [by] : []), ...usual.current])].slice(0, FIELDS_MAX);
  useEffect(() => sheet.count(paths), [sheet, paths.join()]);
  return html`
    <section class="facets" aria-label="counts of values">
      <button type="button" class="quiet" onClick=${onClose} aria-label="close the counts">✕</button>
      <select value=${by} aria-label="Count by" onChange=${(event) => onBy(event.target.value)}>
        <option value="">Count by…</option>${columns.filter(({ path }) => isField(path)).map(({ path }) => html`<option value=${path}>${path}</option>`)}</select>
      ${paths.length === 0 && html`<p class="muted uncounted">No field divides these records into a few values. Choose one to count by.</p>`}
      ${paths.map((path) => html`<${FacetOf} key=${path} counts=${sheet.shown.counts} topic=${topic} asked=${asked} path=${path} onFilter=${onFilter} />`)}
    </section>
  `;
}

const SUGGESTION = /^unknown field (\S+):.*; did you mean (\S+)\?$/;

// What the service has to say about a filter that is no error, with a button that follows its advice.
export function Warnings({ warnings, filter, onFilter }) {
  return warnings.map((sentence) => {
    const [, wrong, right] = SUGGESTION.exec(sentence) ?? [];
    return html`<p class="notice warn" role="status">${sentence} ${wrong && filter.includes(wrong) && html`<button type="button" class="small" onClick=${() => onFilter(filter.replaceAll(wrong, right))}>Use ${right}</button>`}</p>`;
  });
}
