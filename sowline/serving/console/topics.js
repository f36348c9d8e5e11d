// The topics: their number of records, their rate of changes, and how far this service is behind.
import { html, useEffect } from "./lib.js";
import { kindOf, isComputed } from "./origin.js";
import { usePolled } from "./polled.js";
import { OVER, SHOWN, Spark, meanOf, ratesOf } from "./rates.js";
import { bytes, count, plural, rate, second, span } from "./text.js";
import { IndexKind, Term, labeled } from "./words.js";
import { writeRoute } from "./route.js";
import { loadEngine } from "./sheet.js";

const EVERY_MS = 1000;
const DEAD_EVERY_MS = 5000;
const LATE_SECONDS = 3;
const QUIET_SECONDS = 10;

// How far a topic is behind the end of its log, in words; null if it is not behind, or not known.
export function lateness({ lag, lag_seconds: seconds }) {
  if (seconds === null) return lag ? `${plural(lag, "record")} behind` : null;
  return seconds > LATE_SECONDS ? `${seconds < 120 ? `${seconds.toFixed(1)} s` : span(seconds)} behind` : null;
}

// How far what a view is computed from is behind, in words: the view can't be newer. Undefined if nothing is behind.
export function sourceLateness({ view }, topics) {
  const sources = view ? [view.from, ...view.joins.map(({ topic }) => topic)] : [];
  for (const name of sources) {
    const source = topics.find((one) => one.name === name);
    const late = source && lateness(source);
    const found = late ? `${name} is ${late}` : source && sourceLateness(source, topics);
    if (found) return found;
  }
  return undefined;
}

// The state of a topic; that it is not known, if it was last `seen` at a time that is past. `trouble` are words for what
// keeps messages out of a topic that is up to date otherwise. A view is not live while its `source` is behind.
export function State({ topic, seen, trouble, source }) {
  if (seen) return html`<span class="chip">unknown, last seen ${seen.replace(" UTC", "")}</span>`;
  if (topic.loading) return html`<span class="chip warn">loading</span>`;
  if (topic.lag === null) return html`<span class="chip warn">lag unknown</span>`;
  const late = lateness(topic);
  if (source && !late) return html`<span class="chip warn">${source}</span>`;
  if (trouble && !late) return html`<span class="chip warn">live, but ${trouble}</span>`;
  // Where nothing has been written, nobody knows whether it would come through.
  const isQuiet = !topic.lag && (topic.newest_seconds ?? Infinity) > QUIET_SECONDS;
  return html`<span class="chip ${late ? "warn" : "ok"}">${late ?? (isQuiet ? "up to date" : "live")}</span>`;
}

// A time in the past, without its date if that is the one at which it was seen.
function seenAt(time, ms) {
  const [date, ofDay] = second(ms).split(" ");
  return date === time.toISOString().slice(0, 10) ? `at ${ofDay.replace("Z", "")}` : date;
}

// How long ago a topic changed, in words; if it was last seen at a time that is past, when it changed.
export function changed({ newest_seconds: seconds }, answer, seen) {
  if (seconds === null) return "–";
  if (seen) return seenAt(answer.time, answer.time - seconds * 1000);
  return seconds < 1 ? "now" : `${span(seconds)} ago`;
}

// The number of a topic's dead letters, and the way to them; a dash for who may not see it.
function DeadLetters({ topic, answer, error }) {
  const found = answer?.body.dead_letters[topic.name];
  if (error && error.reason !== "not entitled") return html`<span title=${error.message}>unknown</span>`;
  if (!found) return count(found);
  return html`<a href=${writeRoute({ view: "topic", topic: topic.name, tail: "dead" })} aria-label="${plural(found, "dead letter")} of ${topic.name}">${count(found)}</a>`;
}

function Row({ topic, topics, answer, seen, dead }) {
  const { indexes = [] } = topic;
  const memory = indexes.reduce((sum, index) => sum + index.bytes, 0);
  const rates = ratesOf(topic.name);
  // What is true of one instant only has no place beside a state that is not known.
  const now = (text) => (seen ? "–" : text);
  const mean = meanOf(rates, answer.at, topic.newest_seconds ?? undefined);
  const newest = now(rate(mean));
  const unmeasured = mean === undefined ? "This page has not been open for ten seconds yet" : undefined;
  return html`
    <tr>
      <th scope="row"><a href=${writeRoute({ view: "grid", topic: topic.name })}>${topic.name}</a>
        <a class="about" href=${writeRoute({ view: "topic", topic: topic.name })} aria-label="about ${topic.name}">about</a></th>
      <td data-label="Type">${kindOf(topic)}</td>
      <td class="state" data-label="State"><${State} topic=${topic} seen=${seen} source=${sourceLateness(topic, topics)} /></td>
      <td class="number" data-label="Records">${topic.sow ? count(topic.records) : "–"}</td>
      <td class="number" ...${labeled(`Changes/s ${OVER}`)} data-more=", line ${SHOWN}"><span class="rate"><${Spark} rates=${rates} now=${answer.at} newest=${topic.newest_seconds} label="changes a second in the last ${SHOWN}, ${newest} ${OVER}" /> <span title=${unmeasured}>${newest}</span></span></td>
      <td class="number" ...${labeled("Newest change")}>${changed(topic, answer, seen)}</td>
      <td class="number" ...${labeled("Lag (records)")}>${now(topic.lag === null ? "unknown" : count(topic.lag))}</td>
      <td class="number" ...${labeled("Dead letters")}>${dead}</td>
      <td class="number" ...${labeled("Subscriptions")}>${now(count(topic.subscriptions))}</td>
      <td class="number" ...${labeled("Indexes")}>
        ${indexes.length === 0
          ? "–"
          : html`<details class="indexes"><summary>${indexes.length} · ${bytes(memory)}</summary>
              <ul>${indexes.map((index) => html`<li><code>${index.fields}</code> <span class="muted"><${IndexKind} kind=${index.kind} />,</span> ${bytes(index.bytes)}, ${plural(index.uses, "use")}</li>`)}</ul>
            </details>`}
      </td>
    </tr>
  `;
}

// How many topics and views there are, and records in them.
function Sum({ topics, kafka, seen }) {
  const views = topics.filter(isComputed).length;
  const parts = [
    plural(topics.length - views, "topic"),
    ...(views ? [plural(views, "view")] : []),
    plural(topics.reduce((sum, { records }) => sum + records, 0), "record"),
  ];
  return html`<p class="muted">${parts.join(" · ")} · Kafka at <code>${kafka}</code>${seen && html` · <strong>as of ${seen}</strong>`}</p>`;
}

export function Topics() {
  // Most who come here open a topic next: then its rows need not wait for the engine.
  useEffect(() => {
    const begin = () => void loadEngine().catch(() => {}); // the grid reports a failure
    if (!globalThis.requestIdleCallback) return undefined;
    const waiting = requestIdleCallback(begin);
    return () => cancelIdleCallback(waiting);
  }, []);
  const [answer, error, seen] = usePolled("topics", EVERY_MS);
  const [letters, unread] = usePolled("dead_letters", DEAD_EVERY_MS);
  const topics = answer?.body.topics ?? [];
  return html`
    <section class=${seen ? "old" : ""} aria-labelledby="topics-title">
      <div class="title">
        <h1 id="topics-title">Topics</h1>
        ${answer && html`<${Sum} topics=${topics} kafka=${answer.body.kafka} seen=${seen} />`}
      </div>
      <p class="hint muted">A topic keeps the newest version of each record that is written to Kafka; a view is computed from topics. Choose one to see its records live.</p>
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${!answer && !error && html`<p class="muted" role="status">Loading the topics…</p>`}
      ${answer && html`
        <div class="card scroll" tabindex="0" role="region" aria-label="list of topics">
          <table class="list topics">
            <thead><tr>
              <th scope="col">Topic</th><th scope="col">Type</th><th scope="col">State</th><th scope="col" class="number">Records</th>
              <th scope="col" class="number changes"><${Term} word="Changes/s ${OVER}" /><div>${`line: ${SHOWN}`.replaceAll(" ", "\u00a0")}</div></th>
              ${["Newest change", "Lag (records)", "Dead letters", "Subscriptions", "Indexes"].map((word) => html`<th scope="col" class="number"><${Term} word=${word} /></th>`)}
            </tr></thead>
            <tbody>${topics.map((topic) => html`<${Row} key=${topic.name} topic=${topic} topics=${topics} answer=${answer} seen=${seen} dead=${html`<${DeadLetters} topic=${topic} answer=${letters} error=${unread} />`} />`)}</tbody>
          </table>
        </div>
      `}
    </section>
  `;
}
