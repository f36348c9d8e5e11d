// One record: its stored text, its keys, and its recent changes.
import { Offline } from "./connection.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { said, service, stringify } from "./service.js";
import { Effect, Json, Time, clock, plural } from "./text.js";
import { difference, flatten, keyPaths, keyText } from "./fields.js";
import { storedRecord } from "./edit.js";
import { CopyAs } from "./copyas.js";
import { useDictionary } from "./dictionary.js";
import { differs, equals } from "./filter.js";
import { isComputed } from "./origin.js";
import { Command, Term, outcomeWords } from "./words.js";

const WRITES = 50;
const WRITES_MAX = 1000;
const WAIT_MS = 200;

export function Copy({ text, what }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="quiet small" onClick=${copy} aria-label="copy ${what}">${done ? "copied" : "copy"}</button>`;
}

function Write({ write }) {
  const outcome = write.reason ?? write.outcome;
  const tone = outcome === "applied" ? "ok" : outcome === "condition_false" ? "warn" : "muted";
  return html`
    <li class="write">
      <div class="when"><${Time} text=${write.timestamp} /><strong><${Command} name=${write.command} /></strong>
        ${outcome && html`<span class="chip ${tone}" title=${outcome}>${outcomeWords(outcome)}</span>`}
        ${write.version !== undefined && html`<span class="muted">version ${write.version}</span>`}
        ${(write.tags ?? []).map((tag) => html`<span class="tag">${tag}</span>`)}</div>
      ${(write.publisher || write.correlation_id) && html`<p class="who muted">${write.publisher && html`by <${Term} word="Publisher">publisher<//> <code>${write.publisher}</code>`} ${write.correlation_id && html`correlation id <code>${write.correlation_id}</code>`}</p>`}
      ${write.delta && html`<pre class="delta">${write.delta}</pre>`}
      <${Effect} fields=${difference(write.previous, write.data)} />
    </li>
  `;
}

const NUMBERS_MAX = 6;

// The course of each number of a record over its writes, the oldest first; only of numbers that changed.
function courses(writes) {
  const found = new Map();
  for (const { data } of [...writes].reverse()) {
    if (data === null) continue;
    for (const [path, value] of flatten(data)) {
      if (typeof value !== "number") continue;
      if (!found.has(path)) found.set(path, []);
      found.get(path).push(value);
    }
  }
  return [...found].filter(([, values]) => new Set(values).size > 1).slice(0, NUMBERS_MAX);
}

function Course({ path, values }) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, index) => `${(index / (values.length - 1)) * 120},${22 - ((value - least) / (most - least)) * 20}`);
  return html`<li><code>${path}</code> <svg class="spark" viewBox="0 0 120 24" role="img" aria-label=${`${path} from ${values[0]} to ${values.at(-1)}, between ${least} and ${most}`}><polyline points=${points.join(" ")} /></svg> <span class="muted">${least} – ${most}</span></li>`;
}

function Timeline({ topic, keyOf, version }) {
  const [limit, setLimit] = useState(WRITES);
  const [timeline, setTimeline] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    let closed = false;
    const look = async () => {
      try {
        const found = await service.client.timeline(topic.name, keyOf, { limit });
        if (closed) return;
        setTimeline(found);
        setError(undefined);
      } catch (problem) {
        if (!closed) setError(said(problem));
      }
    };
    const timer = setTimeout(look, timeline ? WAIT_MS : 0);
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, [keyOf, version, limit]);
  const writes = timeline?.writes ?? [];
  const numbers = courses(writes);
  return html`
    <section class="timeline" aria-label="what has happened to this record">
      ${timeline && html`<p class="muted">${writes.length >= limit ? `The newest ${writes.length} writes` : plural(writes.length, "write")}; complete since <${Time} text=${timeline.since} />.</p>`}
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${!timeline && !error && html`<p class="muted" role="status">Reading…</p>`}
      ${numbers.length > 0 && html`<ul class="courses" aria-label="numbers over these writes">${numbers.map(([path, values]) => html`<${Course} path=${path} values=${values} />`)}</ul>`}
      <ol>${writes.map((write) => html`<${Write} key=${write.bookmark} write=${write} />`)}</ol>
      ${writes.length >= limit && limit < WRITES_MAX && html`<button type="button" onClick=${() => setLimit(Math.min(WRITES_MAX, limit * 2))}>Older writes</button>`}
    </section>
  `;
}

// Whether the field of a cell can be edited: a view is computed, and another key is another record.
export const isEditable = (topic, path) => topic.sow && !isComputed(topic) && !keyPaths(topic).includes(path);

// What a record is called: the values of its key, if they are known.
export function recordName(topic, live, sowKey) {
  const row = live?.row(sowKey);
  if (!row || !topic.sow || live.isGrouped) return sowKey;
  const key = keyText(topic, row.record, sowKey, row.intrinsics);
  // The key text of several fields is JSON of texts, in which a number looks like another value than in the record.
  return row.intrinsics || keyPaths(topic).length < 2 ? key : JSON.parse(key).join(" · ");
}

export function RecordPanel({ topic, live, sowKey, name, isHidden, cell, version, onClose, onWrite, onFilter }) {
  const [view, setView] = useState("record");
  const title = useRef();
  const [text, setText] = useState();
  const [error, setError] = useState();
  const held = live.row(sowKey);
  const [last, setLast] = useState(held);
  if (held !== undefined && held !== last) setLast(held);
  const { record, intrinsics: known } = last ?? {};
  const dictionary = useDictionary(topic);
  const isOne = topic.sow && !live.isGrouped;
  const keyOf = record === undefined || !isOne ? undefined : keyText(topic, record, sowKey, known);

  useEffect(() => {
    if (!isOne) {
      setText(record === undefined ? undefined : stringify(record));
      return undefined;
    }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await storedRecord(topic, sowKey, stop.signal);
        if (found) setText(found.text);
        setError(undefined);
      } catch (problem) {
        if (problem.name !== "AbortError") setError(problem);
      }
    }, text === undefined ? 0 : WAIT_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [sowKey, isOne, version, live.state]);

  useEffect(() => title.current.focus(), []);

  return html`
    <aside class="panel" aria-labelledby="record-title">
      <header>
        <h2 id="record-title" tabindex="-1" ref=${title} title=${keyOf}>${name}</h2>
        <button type="button" class="quiet" onClick=${onClose} aria-label="close the record">✕</button>
      </header>
      <p class="keys"><span class="muted"><${Term} word="SOW key" /></span> <code>${sowKey}</code> <${Copy} text=${sowKey} what="the SOW key" />${isHidden && held !== undefined && html` <span class="muted elsewhere">row not on the screen</span>`}</p>
      ${known && html`<p class="keys"><span class="muted">Version</span> ${known["~version"]} <span class="muted">last written</span> ${clock(known["~lastUpdateAt"])} <span class="muted">signature</span> <code>${known["~signature"]}</code></p>`}
      ${record !== undefined && held === undefined && topic.sow && html`<p class="notice">This record was deleted, or it no longer matches the filter.</p>`}
      ${record === undefined && html`<p class="notice">No record with this key is shown: it does not match the filter, or there is none.</p>`}
      ${cell && html`<p class="cell-filter"><span class="muted">Filter</span>
        ${[equals(cell.path, cell.value), differs(cell.path, cell.value)].map((term) => html` <button type="button" class="small" onClick=${() => onFilter(term)}><code>${term}</code></button>`)}
        ${isOne && isEditable(topic, cell.path) && html`<button type="button" class="small" disabled=${service.isLost} onClick=${() => onWrite({ way: "edit", path: cell.path, body: text, key: keyOf ?? "", sowKey })}>Edit <code>${cell.path}</code>…</button>`}</p>`}
      <div class="switch" role="group" aria-label="what to show">
        ${[["record", "Record"], ...(isOne ? [["timeline", "Timeline"]] : [])].map(([one, title]) => html`<button type="button" aria-pressed=${view === one} onClick=${() => setView(one)}>${title}</button>`)}
        <span class="tools">
        ${isOne && !isComputed(topic) && html`<button type="button" disabled=${text === undefined || service.isLost} title=${service.isLost ? "Nothing can be written until the connection is back" : undefined} onClick=${() => onWrite({ way: "edit", body: text, key: keyOf ?? "", sowKey })}>Edit…</button>`}
        ${text && html`<${Copy} text=${text} what="the record" />`}
        ${isOne && html`<${CopyAs} topic=${topic} request=${{ sow_keys: [sowKey] }} kafka=${topic.kafka} />`}
        </span>
      </div>
      ${isOne && !isComputed(topic) && html`<${Offline} />`}
      ${view === "record" && error && html`<p class="notice bad"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${view === "record" && text && html`<${Json} text=${text} label="the record as JSON" dictionary=${dictionary} />`}
      ${view === "timeline" && keyOf !== undefined && html`<${Timeline} topic=${topic} keyOf=${keyOf} version=${version} />`}
    </aside>
  `;
}
