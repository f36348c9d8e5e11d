// The topics: their number of records, their rate of changes, and how far this service is behind.
import { html, useEffect, useRef, useState } from "./lib.js";
import { Origin } from "./origin.js";
import { askJson, service } from "./service.js";
import { bytes, count, plural, rate, span } from "./text.js";
import { writeRoute } from "./route.js";
import { loadEngine } from "./sheet.js";

const EVERY_MS = 1000;
const SECONDS_SHOWN = 60;
const LATE_SECONDS = 3;

// Repeats the request while the page is visible; returns the newest answer and its time.
export function usePolled(path, everyMs) {
  const [answer, setAnswer] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    let timer;
    let closed = false;
    const look = async () => {
      if (!document.hidden) {
        try {
          const body = await askJson(path);
          if (closed) return;
          setAnswer({ body, at: performance.now() });
          setError(undefined);
        } catch (problem) {
          if (closed) return;
          // A lost connection is said once, at the top.
          setError(service.isLost ? undefined : problem);
        }
      }
      timer = setTimeout(look, everyMs);
    };
    const now = () => {
      clearTimeout(timer);
      if (!document.hidden) look();
    };
    look();
    document.addEventListener("visibilitychange", now);
    return () => {
      closed = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", now);
    };
  }, [path, everyMs, service.logons]);
  return [answer, error];
}

// Changes per second of each topic, from two counts and the time between them, and those of the last minute.
function useRates(answer) {
  const before = useRef();
  const rates = useRef(new Map());
  if (answer && answer !== before.current) {
    const seconds = before.current && (answer.at - before.current.at) / 1000;
    const counts = new Map(before.current?.body.topics.map(({ name, changes }) => [name, changes]));
    for (const { name, changes } of answer.body.topics) {
      if (!seconds || !counts.has(name) || changes < counts.get(name)) continue;
      const shown = rates.current.get(name) ?? [];
      rates.current.set(name, [...shown, (changes - counts.get(name)) / seconds].slice(-SECONDS_SHOWN));
    }
    before.current = answer;
  }
  return rates.current;
}

function Spark({ values = [], label }) {
  const most = Math.max(1, ...values);
  const width = SECONDS_SHOWN * 2;
  const points = values.map((value, index) => `${width - (values.length - 1 - index) * 2},${22 - (value / most) * 20}`);
  return html`
    <svg class="spark" viewBox="0 0 ${width} 24" role="img" aria-label=${label}>
      ${points.length > 1 && html`<polyline points=${points.join(" ")} />`}
    </svg>
  `;
}

// How far a topic is behind the end of its log, in words; null if it is not behind, or not known.
export function lateness({ lag, lag_seconds: seconds }) {
  if (seconds === null) return lag ? `${plural(lag, "record")} behind` : null;
  return seconds > LATE_SECONDS ? `${seconds < 120 ? `${seconds.toFixed(1)} s` : span(seconds)} behind` : null;
}

export function State({ topic }) {
  if (topic.loading) return html`<span class="chip warn">loading</span>`;
  if (topic.lag === null) return html`<span class="chip warn">lag unknown</span>`;
  const late = lateness(topic);
  if (late) return html`<span class="chip warn">${late}</span>`;
  return html`<span class="chip ok">${topic.sow ? "live" : "messages"}</span>`;
}

function Row({ topic, rates = [] }) {
  const { indexes = [] } = topic;
  const memory = indexes.reduce((sum, index) => sum + index.bytes, 0);
  const now = rates.at(-1);
  return html`
    <tr>
      <th scope="row"><a href=${writeRoute({ view: "grid", topic: topic.name })}>${topic.name}</a>
        ${topic.documents && html`<span class="tag">documents</span>`}<${Origin} topic=${topic} />
        <a class="about" href=${writeRoute({ view: "topic", topic: topic.name })} aria-label="about ${topic.name}">about</a></th>
      <td data-label="State"><${State} topic=${topic} /></td>
      <td class="number" data-label="Records">${topic.sow ? count(topic.records) : "–"}</td>
      <td class="number" data-label="Changes a second">${rate(now)}<${Spark} values=${rates} label="changes a second in the last minute, now ${rate(now)}" /></td>
      <td class="number" data-label="Newest change">${span(topic.newest_seconds)}</td>
      <td class="number" data-label="Lag">${topic.lag === null ? "unknown" : count(topic.lag)}</td>
      <td class="number" data-label="Subscriptions">${count(topic.subscriptions)}</td>
      <td class="number" data-label="Indexes">
        ${indexes.length === 0
          ? "–"
          : html`<details class="indexes"><summary>${indexes.length} · ${bytes(memory)}</summary>
              <ul>${indexes.map((index) => html`<li><span class="muted">${index.kind}</span> <code>${index.fields}</code> ${bytes(index.bytes)}, ${plural(index.uses, "use")}</li>`)}</ul>
            </details>`}
      </td>
    </tr>
  `;
}

export function Topics() {
  // Most who come here open a topic next: then its rows need not wait for the engine.
  useEffect(() => {
    const begin = () => void loadEngine().catch(() => {}); // the grid reports a failure
    if (!globalThis.requestIdleCallback) return undefined;
    const waiting = requestIdleCallback(begin);
    return () => cancelIdleCallback(waiting);
  }, []);
  const [answer, error] = usePolled("topics", EVERY_MS);
  const rates = useRates(answer);
  const topics = answer?.body.topics ?? [];
  return html`
    <section aria-labelledby="topics-title">
      <div class="title">
        <h1 id="topics-title">Topics</h1>
        ${answer && html`<p class="muted">${plural(topics.length, "topic")} · ${plural(topics.reduce((sum, { records }) => sum + records, 0), "record")} · Kafka at <code>${answer.body.kafka}</code></p>`}
      </div>
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${!answer && !error && html`<p class="muted" role="status">Loading the topics…</p>`}
      ${answer && html`
        <div class="card scroll" tabindex="0" role="region" aria-label="list of topics">
          <table class="list">
            <thead><tr>
              <th scope="col">Topic</th><th scope="col">State</th><th scope="col" class="number">Records</th>
              <th scope="col" class="number">Changes/s</th>
              <th scope="col" class="number" title="How long ago the newest change was made">Newest change</th>
              <th scope="col" class="number" title="Records of the log that are not in the answers yet">Lag</th>
              <th scope="col" class="number" title="Live subscriptions">Subscriptions</th><th scope="col" class="number">Indexes</th>
            </tr></thead>
            <tbody>${topics.map((topic) => html`<${Row} key=${topic.name} topic=${topic} rates=${rates.get(topic.name)} />`)}</tbody>
          </table>
        </div>
        <p class="hint muted">Choose a topic to see its records live. <kbd>?</kbd> lists the keys.</p>
      `}
    </section>
  `;
}
