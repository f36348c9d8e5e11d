// One record: its stored text, its keys, and its recent changes.
import { html, useEffect, useRef, useState } from "./lib.js";
import { ask, askJson, topicPath } from "./wire.js";
import { Json, clock, plural } from "./text.js";
import { asKind, flatten, keyText } from "./fields.js";

const WRITES = 50;
const WAIT_MS = 200;
const AGO = [["the last 10 minutes", 600], ["the last hour", 3600], ["the last day", 86_400]];

export function Copy({ text, what }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="quiet small" onClick=${copy} aria-label="copy ${what}">${done ? "copied" : "copy"}</button>`;
}

// The fields that differ between two states of a record.
export function difference(before, after) {
  const old = new Map(before === null || before === undefined ? [] : flatten(before));
  const now = new Map(after === null || after === undefined ? [] : flatten(after));
  const paths = [...new Set([...old.keys(), ...now.keys()])].filter((path) => old.get(path) !== now.get(path) || old.has(path) !== now.has(path));
  return paths.map((path) => ({ path, old: old.get(path), now: now.get(path), was: old.has(path), is: now.has(path) }));
}

const shown = (value) => (value === null ? "null" : asKind(value, "string"));

function Effect({ before, after }) {
  const fields = difference(before, after);
  if (!fields.length) return html`<p class="muted">nothing changed</p>`;
  return html`<ul class="effect">${fields.slice(0, 40).map(({ path, old, now, was, is }) => html`
    <li><code>${path}</code> ${was && html`<del>${shown(old)}</del>`} ${is && html`<ins>${shown(now)}</ins>`}</li>`)}
    ${fields.length > 40 && html`<li class="muted">and ${plural(fields.length - 40, "more field")}</li>`}</ul>`;
}

function Write({ write, before }) {
  const outcome = write.reason ?? write.outcome;
  const tone = outcome === "applied" ? "ok" : outcome === "condition_false" || write.data === null ? "warn" : "muted";
  return html`
    <li class="write">
      <div class="when"><time>${clock(write.timestamp)}</time><span class="chip ${tone}">${outcome}</span>
        <strong>${write.command}</strong>${write.version !== undefined && html`<span class="muted">version ${write.version}</span>`}
        ${(write.tags ?? []).map((tag) => html`<span class="tag">${tag}</span>`)}</div>
      ${write.delta && html`<pre class="delta">${write.delta}</pre>`}
      <${Effect} before=${before} after=${write.data} />
    </li>
  `;
}

const stamp = (seconds) => new Date(Date.now() - seconds * 1000).toISOString().replace(/[-:]/g, "").replace(/\.\d+/, "");

// The recent changes of one record, newest first, as far as they are still kept.
export function changesOf(wire, topic, sowKey, seconds) {
  const id = wire.name("changes");
  const changes = [];
  return new Promise((resolve, reject) => {
    wire.listen(id, (message) => {
      if (message.command === "publish" || message.command === "oof") {
        const isGone = message.command === "oof" && message.reason !== "match";
        changes.push({ timestamp: message.timestamp, command: message.command, outcome: message.reason ?? "publish", data: isGone ? null : message.data });
      } else if (message.status === "failure") {
        wire.forget(id);
        reject(message);
      } else if (message.ack_type === "completed") {
        wire.forget(id);
        resolve(changes.reverse());
      }
    });
    wire.send({ command: "subscribe", command_id: id, topic: topic.name, sow_keys: [sowKey], bookmark: stamp(seconds), up_to: "now", options: "oof,timestamp,bookmark_not_found=epoch", ack_type: "completed" });
  });
}

function Timeline({ wire, topic, sowKey, keyOf, version }) {
  const [seconds, setSeconds] = useState(AGO[0][1]);
  const [timeline, setTimeline] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    let closed = false;
    const look = async () => {
      try {
        const answer = topic.documents
          ? await askJson(`${topicPath(topic.name, `records/${encodeURIComponent(keyOf)}/timeline`)}?limit=${WRITES}`)
          : { writes: await changesOf(wire, topic, sowKey, seconds) };
        if (!closed) {
          setTimeline(answer);
          setError(undefined);
        }
      } catch (problem) {
        if (!closed) setError(problem);
      }
    };
    const timer = setTimeout(look, timeline ? WAIT_MS : 0);
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, [sowKey, keyOf, seconds, version]);
  const writes = timeline?.writes ?? [];
  return html`
    <section class="timeline" aria-label="what has happened to this record">
      ${topic.documents
        ? timeline && html`<p class="muted">${writes.length === WRITES ? `The newest ${WRITES} writes` : plural(writes.length, "write")}; none is missing since ${clock(timeline.since)}.</p>`
        : html`<p><label>Changes of <select value=${seconds} onChange=${(event) => setSeconds(Number(event.target.value))}>${AGO.map(([name, value]) => html`<option value=${value}>${name}</option>`)}</select></label>
            <span class="muted"> as far as every single one is still kept</span></p>`}
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${!timeline && !error && html`<p class="muted" role="status">Reading…</p>`}
      ${timeline && !writes.length && html`<p class="muted">It did not change in that time.</p>`}
      <ol>${writes.map((write, index) => html`<${Write} key=${write.bookmark ?? index} write=${write} before=${"previous" in write ? write.previous : writes[index + 1]?.data} />`)}</ol>
    </section>
  `;
}

// The stored record, byte for byte: parsing it would lose digits of large numbers.
async function storedText(topic, sowKey, signal) {
  const line = await ask(topicPath(topic.name, "sow"), { method: "POST", body: JSON.stringify({ sow_keys: [sowKey] }), signal });
  return line && line.slice(line.indexOf(',"data":') + 8, line.lastIndexOf("}"));
}

export function RecordPanel({ wire, topic, feed, sowKey, version, onClose, onWrite }) {
  const [view, setView] = useState("record");
  const title = useRef();
  const [text, setText] = useState();
  const [error, setError] = useState();
  const held = feed.records.get(sowKey);
  const [last, setLast] = useState({ record: held, known: feed.known.get(sowKey) });
  if (held !== undefined && held !== last.record) setLast({ record: held, known: feed.known.get(sowKey) });
  const { record, known } = last;
  const isOne = topic.sow && !feed.isGrouped;
  const keyOf = record === undefined || !isOne ? undefined : keyText(topic, record, sowKey, known);

  useEffect(() => {
    if (!isOne) {
      setText(record === undefined ? undefined : JSON.stringify(record));
      return undefined;
    }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await storedText(topic, sowKey, stop.signal);
        if (found) setText(found);
        setError(undefined);
      } catch (problem) {
        if (problem.name !== "AbortError") setError(problem);
      }
    }, text === undefined ? 0 : WAIT_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [sowKey, isOne, version]);

  useEffect(() => title.current.focus(), []);

  return html`
    <aside class="panel" aria-labelledby="record-title">
      <header>
        <h2 id="record-title" tabindex="-1" ref=${title}>${keyOf ?? sowKey}</h2>
        <button type="button" class="quiet" onClick=${onClose} aria-label="close the record">✕</button>
      </header>
      <p class="keys"><span class="muted">SOW key</span> <code>${sowKey}</code> <${Copy} text=${sowKey} what="the SOW key" /></p>
      ${known && html`<p class="keys"><span class="muted">Version</span> ${known["~version"]} <span class="muted">last written</span> ${clock(known["~lastUpdateAt"])} <span class="muted">signature</span> <code>${known["~signature"]}</code></p>`}
      ${record !== undefined && held === undefined && topic.sow && html`<p class="notice">It is not among the records shown any more: it was deleted, or does not match.</p>`}
      ${record === undefined && html`<p class="notice">No record with this SOW key is among those shown.</p>`}
      <div class="switch" role="group" aria-label="what to show">
        ${[["record", "Record"], ...(isOne ? [["timeline", "Timeline"]] : [])].map(([name, title]) => html`<button type="button" aria-pressed=${view === name} onClick=${() => setView(name)}>${title}</button>`)}
        <span class="grow"></span>
        ${isOne && html`<button type="button" disabled=${text === undefined} onClick=${() => onWrite({ way: topic.select === null ? "publish" : "delta_publish", body: text, key: keyOf ?? "", sowKey })}>Edit…</button>`}
        ${text && html`<${Copy} text=${text} what="the record" />`}
      </div>
      ${view === "record" && error && html`<p class="notice bad"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${view === "record" && text && !error && html`<${Json} text=${text} label="the record as JSON" />`}
      ${view === "timeline" && keyOf !== undefined && html`<${Timeline} wire=${wire} topic=${topic} sowKey=${sowKey} keyOf=${keyOf} version=${version} />`}
    </aside>
  `;
}
