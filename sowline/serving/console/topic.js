// The page of one topic: its definition, what a view computes, schemas, partitions, indexes and Kafka topics, and the newest messages.
import { html, useEffect, useState } from "./lib.js";
import { Breadcrumb } from "./breadcrumb.js";
import { Origin, isComputed } from "./origin.js";
import { State, usePolled } from "./topics.js";
import { bytes, clock, count, plural, span } from "./text.js";
import { askJson, service, topicPath } from "./service.js";
import { Schemas } from "./schemas.js";
import { WriteDialog } from "./write.js";
import { go, writeRoute } from "./route.js";

const EVERY_MS = 1000;
const TAILS = { dead: "Dead letters", log: "Log", changes: "Changes" };
const WAYS = { publish: "publish", delta_publish: "delta_publish", delta: "delta" };
const VALUE_CHARS = 2000;

const keyOf = ({ key }) => (Array.isArray(key) ? key.join(", ") : key.from ? `from ${key.from}` : JSON.stringify(key));

function Facts({ topic }) {
  const facts = [
    ["Key", keyOf(topic)],
    ...(topic.message_type === "json" ? [["Message type", topic.message_type]] : []),
    ["Keeps", topic.documents ? "documents" : topic.sow ? "records" : "no records, it only passes messages on"],
    ["Key domain", topic.key_domain],
    ["Computed fields", topic.preprocessing.length ? topic.preprocessing.join(", ") : "none"],
    ["Largest record", bytes(topic.record_bytes_max)],
    ["Every change kept for", span(topic.changes_kept_seconds)],
    ["Records", topic.sow ? count(topic.records) : "–"],
    ["Subscriptions", count(topic.subscriptions)],
    ["Newest change", span(topic.newest_seconds)],
  ];
  return html`<dl class="facts card">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
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

function Partitions({ topic }) {
  const held = topic.lags.some((one) => one.transaction);
  return html`<div class="card scroll" tabindex="0" role="region" aria-label="partitions"><table class="list dense">
    <thead><tr><th scope="col">Partition</th><th scope="col">Position</th><th scope="col" class="number">Lag</th><th scope="col" class="number">Seconds behind</th>${held && html`<th scope="col">Open transaction</th>`}</tr></thead>
    <tbody>${topic.lags.map((one) => html`<tr><th scope="row">${one.partition}</th><td><code>${one.position}</code></td>
      <td class="number">${one.lag === null ? "unknown" : count(one.lag)}</td><td class="number">${one.lag_seconds === null ? "unknown" : one.lag_seconds.toFixed(1)}</td>${held && html`<td>${heldBy(one)}</td>`}</tr>`)}</tbody>
  </table></div>`;
}

function Indexes({ indexes }) {
  if (!indexes.length) return html`<p class="muted">No query has needed an index yet.</p>`;
  return html`<div class="card scroll" tabindex="0" role="region" aria-label="indexes"><table class="list dense">
    <thead><tr><th scope="col">Index</th><th scope="col">Fields</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Uses</th></tr></thead>
    <tbody>${indexes.map((one) => html`<tr><td>${one.kind}</td><td><code>${one.fields}</code></td><td class="number">${bytes(one.bytes)}</td><td class="number">${count(one.uses)}</td></tr>`)}</tbody>
  </table></div>`;
}

const duration = (ms) => (ms === undefined ? "–" : Number(ms) < 0 ? "without limit" : Number(ms) === 0 ? "none" : span(Number(ms) / 1000));

function KafkaTopics({ topic }) {
  const [found, setFound] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    askJson(topicPath(topic.name, "kafka")).then(({ kafka_topics }) => { setFound(kafka_topics); setError(undefined); }, setError);
  }, [topic.name, service.logons]);
  if (error) return html`<p class="notice" role="status"><strong>${error.reason}</strong> ${error.message}</p>`;
  if (!found) return html`<p class="muted" role="status">Asking Kafka…</p>`;
  return html`<div class="card scroll" tabindex="0" role="region" aria-label="Kafka topics"><table class="list dense">
    <thead><tr><th scope="col">Kafka topic</th><th scope="col" class="number">Offsets kept</th><th scope="col">Cleanup</th><th scope="col">Kept for</th><th scope="col">Compacted after</th><th scope="col">Consumer groups</th></tr></thead>
    <tbody>${found.map(({ kafka_topic: name, settings, partitions, consumer_groups: groups }) => html`<tr><th scope="row"><code>${name}</code></th>
      <td class="number">${count(partitions.reduce((sum, { begin, end }) => sum + end - begin, 0))}</td>
      <td>${settings["cleanup.policy"]}</td><td>${settings["cleanup.policy"] === "compact" ? "–" : duration(settings["retention.ms"])}</td>
      <td>${settings["cleanup.policy"].includes("compact") ? duration(settings["min.compaction.lag.ms"]) : "–"}</td>
      <td>${groups.length ? groups.map((group) => html`<code>${group}</code> `) : "–"}</td></tr>`)}</tbody>
  </table></div>`;
}

function Message({ one, kind, topic, onRetry, onReason }) {
  const { "sow.reason": reason, "sow.message": why, "sow.command": command, "sow.previous": previous, ...headers } = one.headers;
  const value = one.value ?? "";
  const canRetry = kind === "dead" && !isComputed(topic) && one.value !== null && !one.cut && (command ?? "publish") in WAYS;
  return html`<li class="message card">
    <div class="when"><time>${clock(one.timestamp)}</time> <span class="muted">partition ${one.partition} offset ${one.offset}</span>
      ${one.key !== null && html`<span class="muted">key</span> <code>${one.key}</code>`}
      ${command && html`<strong>${command}</strong>`}
      ${reason && html`<button type="button" class="small" onClick=${() => onReason(reason)} title="only dead letters with this reason">${reason}</button>`}
      <span class="grow"></span><span class="muted">${one.value === null ? "no value" : bytes(one.bytes)}</span>
      ${canRetry && html`<button type="button" class="small" onClick=${() => onRetry(one, command ?? "publish")}>Publish again…</button>`}</div>
    ${why && html`<p>${why}</p>`}
    ${one.value !== null && html`<pre class="value">${value.slice(0, VALUE_CHARS)}${(value.length > VALUE_CHARS || one.cut) && "…"}</pre>`}
    ${Object.keys(headers).length > 0 && html`<details><summary class="muted">${plural(Object.keys(headers).length, "header")}</summary><dl class="headers">${Object.entries(headers).map(([name, text]) => html`<div><dt><code>${name}</code></dt><dd><code>${text}</code></dd></div>`)}</dl></details>`}
  </li>`;
}

function Tail({ topic, route, onRetry }) {
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
      (answer) => { setFound({ kind, ...answer }); setError(undefined); },
      (problem) => problem.name !== "AbortError" && setError(problem),
    );
    return () => stop.abort();
  }, [topic.name, kind, route.key, reason, looked]);
  const change = (more) => go({ ...route, ...more }, { quietly: true });
  const here = found?.kind === kind ? found : undefined;
  return html`
    <div class="tail-bar">
      <div class="switch" role="group" aria-label="which messages">${Object.entries(TAILS).map(([name, title]) => html`<button type="button" aria-pressed=${kind === name} onClick=${() => change({ tail: name, reason: "" })}>${title}</button>`)}</div>
      <form onSubmit=${(event) => { event.preventDefault(); change({ key: key.trim() }); }}><label class="field">Kafka key <input class="mono" value=${key} placeholder="any" onInput=${(event) => setKey(event.target.value)} /></label></form>
      <button type="button" onClick=${() => look((number) => number + 1)}>Read again</button>
      ${reason && html`<span class="chip warn">${reason}</span><button type="button" class="small" onClick=${() => change({ reason: "" })}>every reason</button>`}
    </div>
    ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
    ${!here && !error && html`<p class="muted" role="status">Reading…</p>`}
    ${here && html`<p class="muted">${here.messages.length ? `The newest ${plural(here.messages.length, "message")}` : kind === "dead" ? "No dead letters" : "No messages"}${here.searched.every(({ complete }) => complete) ? "" : `; examined ${count(here.searched.reduce((sum, { begin, end }) => sum + end - begin, 0))} offsets`}.</p>
      <ol class="messages">${here.messages.map((one) => html`<${Message} key=${`${one.partition}@${one.offset}`} one=${one} kind=${kind} topic=${topic} onRetry=${onRetry} onReason=${(chosen) => change({ reason: chosen })} />`)}</ol>`}
  `;
}

export function TopicPage({ topic, route }) {
  const [answer] = usePolled("topics", EVERY_MS);
  const [writing, setWriting] = useState();
  const now = answer?.body.topics.find(({ name }) => name === topic.name) ?? topic;
  return html`
    <section class="topic" aria-labelledby="topic-title">
      <${Breadcrumb} route=${route} page="topic" />
      <div class="title"><h1 id="topic-title">${topic.name}</h1><${Origin} topic=${now} /><${State} topic=${now} />
        <div class="actions"><a class="button primary" href=${writeRoute({ view: "grid", topic: topic.name })}>Records</a></div></div>
      <h2>Definition</h2><${Facts} topic=${now} />
      ${now.view && html`<h2>View</h2><${ViewFacts} topic=${now} topics=${answer?.body.topics ?? []} />`}
      ${now.message_type !== "json" && html`<h2>Schema</h2><${Schemas} topic=${now} />`}
      <h2>Partitions</h2><${Partitions} topic=${now} />
      ${now.indexes && html`<h2>Indexes</h2><${Indexes} indexes=${now.indexes} />`}
      <h2>In Kafka</h2><${KafkaTopics} topic=${topic} />
      <h2>Messages</h2><${Tail} topic=${topic} route=${route} onRetry=${({ value }, way) => setWriting(way === "delta" ? { way, delta: value } : { way, text: value })} />
      ${writing && html`<${WriteDialog} topic=${topic} begin=${writing} onClose=${() => setWriting(undefined)} />`}
    </section>
  `;
}
