// The page of one topic: its definition, what a view computes, schemas, partitions, indexes and Kafka topics, and the newest messages.
import { html, useEffect, useRef, useState } from "./lib.js";
import { Breadcrumb } from "./breadcrumb.js";
import { timeOfDay } from "./connection.js";
import { Origin, isComputed, kindOf } from "./origin.js";
import { usePolled } from "./polled.js";
import { State, changed, sourceLateness } from "./topics.js";
import { Time, bytes, count, plural, shownValue, span } from "./text.js";
import { askJson, topicPath } from "./service.js";
import { Schemas } from "./schemas.js";
import { WriteDialog } from "./write.js";
import { Command, IndexKind, Term, labeled } from "./words.js";
import { go, writeRoute } from "./route.js";

const EVERY_MS = 1000;
const KAFKA_EVERY_MS = 2000;
const TAILS = { dead: "Dead letters", log: "Log", changes: "Changes" };
const WAYS = { publish: "publish", delta_publish: "delta_publish", delta: "delta" };
const VALUE_CHARS = 2000;

// Where the SOW keys of a topic come from, in words. Nobody publishes to a view.
function keyOfView({ from, joins, grouping }) {
  if (grouping.length) return `the grouping: ${grouping.join(", ")}`;
  const several = joins.filter(({ multiply }) => multiply).map(({ topic }) => topic);
  return several.length ? `the keys of ${[from, ...several].join(" and ")}` : `as in ${from}`;
}
const SOURCES = { kafka_key: "given by publishers, as Kafka key", header: "given by publishers, in a header" };
const keyOf = ({ key, view }) => (view ? keyOfView(view) : Array.isArray(key) ? key.join(", ") : key.from ? (SOURCES[key.from] ?? `from ${key.from}`) : `made by ${key.generator}`);

function Facts({ topic, answer, seen }) {
  const facts = [
    ["Type", kindOf(topic)],
    ["Key", keyOf(topic)],
    ...(topic.message_type === "json" ? [["Message type", topic.message_type]] : []),
    ...(topic.key_domain ? [["Key domain", topic.key_domain]] : []),
    ["Computed fields", topic.preprocessing.length ? topic.preprocessing.join(", ") : "none"],
    ["Largest record", bytes(topic.record_bytes_max)],
    ["Changes kept for", span(topic.changes_kept_seconds)],
    ["Records", topic.sow ? count(topic.records) : "–"],
    ["Subscriptions", count(topic.subscriptions)],
    ["Newest change", changed(topic, answer, seen)],
  ];
  return html`<dl class="facts card">${facts.map(([name, value]) => html`<div><dt><${Term} word=${name} /></dt><dd>${value}</dd></div>`)}</dl>`;
}

// What a view is computed from, and by, and what it reflects of that. `topics` are those that the user may read.
function ViewFacts({ topic, topics }) {
  const { from, joins, filter, grouping, projection, having, interval_ms: interval } = topic.view;
  const named = (name) => (topics.some((one) => one.name === name) ? html`<a href=${writeRoute({ view: "topic", topic: name })}>${name}</a>` : name);
  const facts = [
    ["From", html`${named(from)}`],
    ...joins.map(({ topic: joined, on, as, kind, multiply }) => [`Join as ${as} (${kind}${multiply ? ", each match" : ""})`, html`${named(joined)} on <code>${on}</code>`]),
    ["Filter", filter],
    ["Grouping", grouping.join(", ")],
    ["Projection", projection],
    ["Having", having],
    ["Interval", interval ? `${count(interval)} ms` : ""],
    ["Reflects", topic.reflects ? html`${from} up to <code>${topic.reflects}</code>` : html`not known`],
  ];
  return html`<dl class="view facts card">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${typeof value === "string" ? html`<code>${value}</code>` : value}</dd></div>`)}</dl>`;
}

// The open transaction that holds a partition, in words; it comes with the lag that it causes.
function heldBy({ transaction }) {
  return transaction && html`since offset <code>${transaction.offset}</code>${transaction.written && `, ${transaction.written}`}`;
}

// How many offsets of the log come after a position, which is `offset.n` where one record of the log makes several changes.
const lagAfter = (position, { begin, end }) => Math.max(0, end - Math.max(begin, Math.floor(Number(position)) + 1));

const Head = ({ words }) => words.map((word) => html`<th scope="col" class="number"><${Term} word=${word} /></th>`);

// `inLog` are the offsets that Kafka keeps of the log, by partition, if they are of the same instant: then the lag is
// what these figures say, and not that of the instant at which the service last asked Kafka.
function Partitions({ topic, inLog }) {
  const held = topic.lags.some((one) => one.transaction);
  const offsets = new Map((inLog || []).map((one) => [one.partition, one]));
  const kept = ({ begin, end }) => (end > begin ? `${begin} – ${end - 1}` : "none");
  const lagOf = ({ partition, position, lag }) => (offsets.has(partition) ? lagAfter(position, offsets.get(partition)) : lag);
  // The service measures the seconds at another instant than that of the offsets: with no lag, nothing is behind.
  const secondsOf = (one) => (lagOf(one) === 0 ? "0.0" : one.lag_seconds === null ? "unknown" : one.lag_seconds.toFixed(1));
  return html`<div class="card scroll fitting" tabindex="0" role="region" aria-label="partitions"><table class="list dense folding">
    <thead><tr><${Head} words=${["Partition", "Position", ...(inLog ? ["Offsets in the log"] : []), inLog ? "Lag" : "Lag (records)", "Seconds behind"]} />${held && html`<th scope="col"><${Term} word="Open transaction" /></th>`}</tr></thead>
    <tbody>${topic.lags.map((one) => html`<tr><th scope="row" class="number" ...${labeled("Partition")}>${one.partition}</th><td class="number" ...${labeled("Position")}><code>${one.position === "-1" ? "none" : one.position}</code></td>${inLog && html`<td class="number" ...${labeled("Offsets in the log")}><code>${offsets.has(one.partition) && kept(offsets.get(one.partition))}</code></td>`}
      <td class="number" ...${labeled("Lag")}>${lagOf(one) === null ? "unknown" : count(lagOf(one))}</td><td class="number" ...${labeled("Seconds behind")}>${secondsOf(one)}</td>${held && html`<td ...${labeled("Open transaction")}>${heldBy(one)}</td>`}</tr>`)}</tbody>
  </table></div>`;
}

// Numbers take the same memory, whatever they are: equal sizes are no error of the figures.
const haveEqual = (indexes) => new Set(indexes.map((one) => one.bytes)).size < indexes.length;

function Indexes({ indexes }) {
  if (!indexes.length) return html`<p class="muted">No query has needed an index yet.</p>`;
  return html`<div class="card scroll fitting" tabindex="0" role="region" aria-label="indexes"><table class="list dense folding">
    <thead><tr><th scope="col">Fields</th><th scope="col">Index</th><th scope="col" class="number">Memory</th><${Head} words=${["Uses"]} /></tr></thead>
    <tbody>${indexes.map((one) => html`<tr><th scope="row"><code>${one.fields}</code></th><td data-label="Index"><${IndexKind} kind=${one.kind} /></td><td class="number" data-label="Memory">${bytes(one.bytes)}</td><td class="number" ...${labeled("Uses")}>${count(one.uses)}</td></tr>`)}</tbody>
  </table></div>
  ${haveEqual(indexes) && html`<p class="muted">Indexes of fields with nothing but numbers have equal sizes: 9 bytes for each number that they have room for.</p>`}`;
}

const duration = (ms) => (ms === undefined ? "–" : Number(ms) < 0 ? "without limit" : Number(ms) === 0 ? "none" : span(Number(ms) / 1000));

const isCompacted = (settings) => settings["cleanup.policy"].includes("compact");

// What each Kafka topic of a topic holds; of a view, the log has what it is computed from.
const holds = (kind, topic) =>
  ({ log: isComputed(topic) ? "Partial states of groups" : "Log of writes", changes: "Changes", dead: "Dead letters", schemas: "Schemas" })[kind];

function KafkaTopics({ topic, found, error }) {
  if (error) return html`<p class="notice" role="status"><strong>${error.reason}</strong> ${error.message}</p>`;
  if (!found) return html`<p class="muted" role="status">Asking Kafka…</p>`;
  return html`<div class="card scroll" tabindex="0" role="region" aria-label="Kafka topics"><table class="list dense folding">
    <thead><tr><th scope="col">Kafka topic</th><th scope="col">Holds</th><${Head} words=${["Offsets kept"]} />${["Cleanup", "Kept for", "Compacted after", "Consumer groups"].map((word) => html`<th scope="col"><${Term} word=${word} /></th>`)}</tr></thead>
    <tbody>${found.map(({ kind, kafka_topic: name, settings, partitions, consumer_groups: groups }) => html`<tr><th scope="row"><code>${name}</code></th>
      <td data-label="Holds">${holds(kind, topic)}</td>
      <td class="number" ...${labeled("Offsets kept")}>${isCompacted(settings) && "up to "}${count(partitions.reduce((sum, { begin, end }) => sum + end - begin, 0))}</td>
      <td ...${labeled("Cleanup")}>${settings["cleanup.policy"]}</td><td ...${labeled("Kept for")}>${settings["cleanup.policy"] === "compact" ? "–" : duration(settings["retention.ms"])}</td>
      <td ...${labeled("Compacted after")}>${isCompacted(settings) ? duration(settings["min.compaction.lag.ms"]) : "–"}</td>
      <td class="groups" ...${labeled("Consumer groups")}>${groups.length ? groups.map((group) => html`<code>${group}</code> `) : "–"}</td></tr>`)}</tbody>
  </table></div>
  ${found.some(({ kind }) => kind === "changes") && html`<p class="muted">A record of the log makes one change, several or none, and a materializer that has been restarted writes some of them again: the log and the changes may have different numbers of offsets.</p>`}`;
}

// What the key of a message is.
const keyName = (kind) => (kind === "changes" ? "SOW key" : "Kafka key");

// Where a message comes from: of a dead letter the place in the log, of a change the record.
function Key({ one, kind }) {
  if (one.key === null) return null;
  const [, partition, position] = (kind === "dead" && /^(\d+)@([\d.]+)$/.exec(one.key)) || [];
  if (partition) return html`<span class="muted">from the log, partition ${partition} position ${position}</span>`;
  return html`<span class="muted">${keyName(kind)}</span> <code>${one.key}</code>`;
}

function Message({ one, kind, topic, seen, onRetry, onReason }) {
  const { "sow.reason": reason, "sow.message": why, "sow.command": command, "sow.previous": previous, ...headers } = one.headers;
  const { text, note, isText } = shownValue(one.value ?? "", VALUE_CHARS);
  const canRetry = kind === "dead" && !isComputed(topic) && one.value !== null && isText && !one.cut && (command ?? "publish") in WAYS;
  return html`<li class="message card">
    <div class="when"><${Time} text=${one.timestamp} /> <span class="muted">partition ${one.partition} offset ${one.offset}</span>
      <${Key} one=${one} kind=${kind} />
      ${command && html`<strong><${Command} name=${command} /></strong>`}
      ${reason && html`<button type="button" class="small" onClick=${() => onReason(reason)} title="only dead letters with this reason">${reason}</button>`}
      <span class="grow"></span><span class="muted">${one.value === null ? "no value" : bytes(one.bytes)}${note && `, ${note}`}</span>
      ${canRetry && html`<button type="button" class="small" disabled=${Boolean(seen)} onClick=${() => onRetry(one, command ?? "publish")}>Publish again…</button>`}</div>
    ${why && html`<p>${why}</p>`}
    ${one.value !== null && html`<pre class="value ${isText ? "" : "hex"}">${text}${one.cut && "…"}</pre>`}
    ${Object.keys(headers).length > 0 && html`<details><summary class="muted">${plural(Object.keys(headers).length, "header")}</summary><dl class="headers">${Object.entries(headers).map(([name, text]) => html`<div><dt><code>${name}</code></dt><dd><code>${text}</code></dd></div>`)}</dl></details>`}
  </li>`;
}

function Tail({ topic, route, seen, onRead, onRetry }) {
  const kind = route.tail in TAILS ? route.tail : "dead";
  const [found, setFound] = useState();
  const [error, setError] = useState();
  const [key, setKey] = useState(route.key ?? "");
  const [looked, look] = useState(0);
  const { reason = "" } = route;
  useEffect(() => {
    const stop = new AbortController();
    const given = new URLSearchParams({ limit: 50, ...(route.key ? { key: route.key } : {}), ...(kind === "dead" && reason ? { reason } : {}) });
    askJson(`${topicPath(topic.name, kind)}?${given}`, { signal: stop.signal }).then(
      (answer) => { setFound({ kind, time: new Date(), ...answer }); setError(undefined); },
      (problem) => problem.name !== "AbortError" && setError(problem),
    );
    return () => stop.abort();
  }, [topic.name, kind, route.key, reason, looked]);
  const change = (more) => go({ ...route, ...more }, { quietly: true });
  const here = found?.kind === kind ? found : undefined;
  const isRead = Boolean(here || error);
  useEffect(() => {
    if (isRead) onRead();
  }, [isRead]);
  return html`
    <div class="tail-bar">
      <div class="switch" role="group" aria-label="which messages">${Object.entries(TAILS).map(([name, title]) => html`<button type="button" aria-pressed=${kind === name} onClick=${() => change({ tail: name, reason: "" })}>${title}</button>`)}</div>
      <form onSubmit=${(event) => { event.preventDefault(); change({ key: key.trim() }); }}><label class="field"><${Term} word=${keyName(kind)} /> <input class="mono" value=${key} placeholder="any" onInput=${(event) => setKey(event.target.value)} /></label></form>
      <button type="button" onClick=${() => look((number) => number + 1)}>Read again</button>
      ${reason && html`<span class="chip warn">${reason}</span><button type="button" class="small" onClick=${() => change({ reason: "" })}>every reason</button>`}
    </div>
    ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
    ${!here && !error && html`<p class="muted" role="status">Reading…</p>`}
    ${here && html`<p class="muted">${here.messages.length ? `The newest ${plural(here.messages.length, "message")}` : kind === "dead" ? "No dead letters" : "No messages"}, as of ${timeOfDay(here.time)}${here.searched.every(({ complete }) => complete) ? "" : `; examined ${count(here.searched.reduce((sum, { begin, end }) => sum + end - begin, 0))} offsets`}.</p>
      <ol class="messages">${here.messages.map((one) => html`<${Message} key=${`${one.partition}@${one.offset}`} one=${one} kind=${kind} topic=${topic} seen=${seen} onRetry=${onRetry} onReason=${(chosen) => change({ reason: chosen })} />`)}</ol>`}
  `;
}

const Age = ({ answer }) => answer && html`<span class="age">as of ${timeOfDay(answer.time)}</span>`;

export function TopicPage({ topic, route }) {
  const [answer, error, seen] = usePolled("topics", EVERY_MS);
  // Positions and offsets stand side by side: they are of the same instant.
  const [both, noKafka, old] = usePolled(["topics", topicPath(topic.name, "kafka")], KAFKA_EVERY_MS);
  const [writing, setWriting] = useState();
  const [trouble, setTrouble] = useState();
  const messages = useRef();
  const named = (found) => found?.topics.find(({ name }) => name === topic.name);
  const now = named(answer?.body);
  const [isRead, setRead] = useState(false);
  // Again with each part that comes: what comes above moves the messages down, and without them the page is too short.
  useEffect(() => {
    if (now && route.tail) messages.current.scrollIntoView();
  }, [Boolean(now), Boolean(both ?? noKafka), isRead]);
  const inKafka = noKafka ? undefined : both;
  // While Kafka does not answer, the service still does.
  const isPair = inKafka && (!old || seen);
  return html`
    <section class="topic ${seen ? "old" : ""}" aria-labelledby="topic-title">
      <${Breadcrumb} route=${route} page="topic" />
      <div class="title"><h1 id="topic-title">${topic.name}</h1><${Origin} topic=${topic} />${now && html`<${State} topic=${now} seen=${seen} trouble=${trouble} source=${sourceLateness(now, answer.body.topics)} />`}
        <div class="actions"><a class="button primary" href=${writeRoute({ view: "grid", topic: topic.name })}>Records</a></div></div>
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${!now && !error && html`<p class="muted" role="status">${answer ? "The query service serves this topic no more." : "Loading the topic…"}</p>`}
      ${now && html`
        <h2>Definition <${Age} answer=${answer} /></h2><${Facts} topic=${now} answer=${answer} seen=${seen} />
        ${now.view && html`<h2>View</h2><${ViewFacts} topic=${now} topics=${answer.body.topics} />`}
        ${now.message_type !== "json" && html`<h2>Schema</h2><${Schemas} topic=${now} onTrouble=${setTrouble} />`}
        <h2>Partitions <${Age} answer=${isPair ? inKafka : answer} /></h2><${Partitions} topic=${(isPair && named(inKafka.body[0])) || now} inLog=${isPair && inKafka.body[1].kafka_topics[0].partitions} />
        <h2>In Kafka <${Age} answer=${inKafka} /></h2><${KafkaTopics} topic=${topic} found=${inKafka?.body[1].kafka_topics} error=${noKafka} />
        ${now.indexes && html`<h2>Indexes <${Age} answer=${answer} /></h2><${Indexes} indexes=${now.indexes} />`}
        <h2 ref=${messages}>Messages</h2><${Tail} topic=${topic} route=${route} seen=${seen} onRead=${() => setRead(true)} onRetry=${({ value }, way) => setWriting(way === "delta" ? { way, delta: value } : { way, text: value })} />`}
      ${writing && html`<${WriteDialog} topic=${topic} begin=${writing} onClose=${() => setWriting(undefined)} />`}
    </section>
  `;
}
