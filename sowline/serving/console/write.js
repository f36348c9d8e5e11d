// The form to write whole records, deltas, deltas of documents, and deletions; it shows the outcome.
import { useAttempt } from "./attempt.js";
import { describedFields, isNumeric } from "./columns.js";
import { Offline, useService } from "./connection.js";
import { EditForm } from "./edit.js";
import { joinedKey, keyPaths, splitKeys, stepsOf, takesKeys } from "./fields.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { Mistake, Outcome, plural, pretty } from "./text.js";
import { JsonText, SowlineError, matchesOf, service } from "./service.js";

const WAYS = {
  edit: { title: "Edit" },
  publish: { title: "Publish", hint: "The whole record. It replaces the record with the same key, if there is one." },
  delta_publish: { title: "Merge", hint: "The key fields, and the fields to change. Other fields stay." },
  delta: { title: "Delta", hint: 'A delta of the document, e.g. {..,"stars":5}. The document does not have to exist.' },
  sow_delete: { title: "Delete", hint: "Deletes the records that match a filter, or have these SOW keys." },
};

const TITLES = { edit: (name) => `Edit a record of ${name}`, sow_delete: (name) => `Delete records from ${name}` };

const waysOf = (topic, isOne) => Object.keys(WAYS).filter((way) => (isOne || way !== "edit") && (topic.documents || way !== "delta") && (topic.sow || way === "publish"));

// A new record starts with the key fields, each a number or a text as the records have it. A time is left empty: the present
// one is the key of no record of another year.
function emptyRecord(topic, columns) {
  const record = {};
  const begins = new Map(columns.map((one) => [one.path, isNumeric(one) ? 0 : ""]));
  for (const path of keyPaths(topic)) {
    const names = stepsOf(path);
    names.slice(0, -1).reduce((inner, name) => (inner[name] ??= {}), record)[names.at(-1)] = begins.get(path) ?? "";
  }
  return JSON.stringify(record, null, 2);
}

// The fields that the service describes, as columns: their kinds before the grid has its columns, or where there is none.
const KINDS = { integer: "integer", number: "float" };
const columnsOf = ({ fields }) => fields.map(({ path, kinds }) => ({ path, kind: kinds.map((kind) => KINDS[kind] ?? kind).sort().at(-1) }));

function listed(text) {
  try {
    return splitKeys(text);
  } catch (error) {
    throw new SowlineError("bad request", `expected SOW keys separated by commas, or as a JSON array: ${error.message}`);
  }
}

// A signal that is aborted when the component leaves the page: what it waits for is not written later.
function useClosed() {
  const [controller] = useState(() => new AbortController());
  useEffect(() => () => controller.abort(), []);
  return controller.signal;
}

export function WriteDialog({ topic, begin, columns = [], onClose }) {
  const dialog = useRef();
  const [way, setWay] = useState(begin.way ?? "publish");
  const [body, setBody] = useState(begin.text ?? (begin.body ? pretty(begin.body) : emptyRecord(topic, columns)));
  const [delta, setDelta] = useState(begin.delta ?? "{..}");
  const [key, setKey] = useState(begin.key ?? "");
  const [by, setBy] = useState(begin.sowKey ? "keys" : "filter");
  const [filter, setFilter] = useState(begin.filter ?? "");
  const [keys, setKeys] = useState(begin.sowKey === undefined ? "" : joinedKey(begin.sowKey));
  const [expiration, setExpiration] = useState("");
  const [asked, setAsked] = useState();
  const closed = useClosed();
  const { outcome, error, isBusy, attempt, forget, setOutcome } = useAttempt(closed);
  useService();

  useEffect(() => {
    dialog.current.showModal();
    const usual = emptyRecord(topic, columns);
    const known = new Set(columns.map(({ path }) => path));
    if (body !== usual || keyPaths(topic).every((path) => known.has(path))) return;
    describedFields(topic).then((found) => setBody((now) => (now === usual ? emptyRecord(topic, [...columnsOf(found), ...columns]) : now)), () => {}); // texts do
  }, []);

  const selection = () => (by === "keys" ? { sowKeys: listed(keys) } : { filter });

  const send = () => attempt(async () => {
    const more = { ...(expiration === "" ? {} : { expiration: Number(expiration) }), ...(takesKeys(topic) ? { sowKey: key } : {}) };
    const ways = {
      publish: (client, signal) => client.publish(topic.name, new JsonText(body), { ...more, signal }),
      delta_publish: (client, signal) => client.deltaPublish(topic.name, new JsonText(body), { ...more, signal }),
      delta: (client, signal) => client.delta(topic.name, key, delta, { signal }),
    };
    setOutcome({ more: "", ...(await service.write(ways[way], closed)) });
  });

  // Counts the records that a deletion would delete, before the user confirms it.
  const look = () => attempt(async () => {
    const chosen = selection();
    if (by === "keys" && !chosen.sowKeys.length) throw new SowlineError("key missing", "expected at least one SOW key");
    if (by === "filter" && !chosen.filter.trim()) throw new SowlineError("bad filter", "expected a filter; 1=1 matches every record");
    setAsked({ chosen, matches: await service.write(() => matchesOf(topic.name, chosen), closed) });
  });

  const remove = () => attempt(async () => {
    const { recordsDeleted, bookmark } = await service.write((client, signal) => client.sowDelete(topic.name, { ...asked.chosen, signal }), closed);
    setAsked(undefined);
    setOutcome({ outcome: `deleted ${recordsDeleted}`, more: "in all partitions", bookmark });
  });

  const submit = (event) => {
    event.preventDefault();
    if (way !== "sow_delete") send();
    else if (asked) remove();
    else look();
  };

  const choose = (next) => {
    setWay(next);
    setAsked(undefined);
    forget();
  };

  return html`
    <dialog ref=${dialog} class="write" aria-labelledby="write-title" onClose=${onClose}>
      <header><h2 id="write-title">${(TITLES[way] ?? ((name) => `Write to ${name}`))(topic.name)}</h2>
        <button type="button" class="quiet" onClick=${() => dialog.current.close()} aria-label="close">✕</button></header>
      ${!begin.path && html`<div class="switch" role="group" aria-label="what to write">
        ${waysOf(topic, begin.way === "edit").map((name) => html`<button type="button" aria-pressed=${way === name} onClick=${() => choose(name)}>${WAYS[name].title}</button>`)}
      </div>`}
      ${way === "edit" ? html`<${EditForm} topic=${topic} sowKey=${begin.sowKey} path=${begin.path} closed=${closed} onClose=${() => dialog.current.close()} />` : html`<form onSubmit=${submit}>
        <p class="muted">${WAYS[way].hint}</p>
        ${way === "publish" && topic.select !== null && html`<p class="notice">You may read some fields only. Publishing a record whole removes the fields that you do not see: merge it instead.</p>`}
        ${(way === "publish" || way === "delta_publish") && html`
          ${takesKeys(topic) && html`<label class="field">SOW key <input class="mono" value=${key} required spellcheck="false" onInput=${(event) => setKey(event.target.value)} /></label>`}
          <label class="field">Record <textarea class="mono" rows="14" spellcheck="false" autofocus value=${body} onInput=${(event) => setBody(event.target.value)}></textarea></label>
          <label class="field short">Lifetime in seconds <input type="number" min="0" step="any" value=${expiration} placeholder="the topic's" onInput=${(event) => setExpiration(event.target.value)} /></label>`}
        ${way === "delta" && html`
          <label class="field">Key <input class="mono" value=${key} required spellcheck="false" onInput=${(event) => setKey(event.target.value)} /></label>
          <label class="field">Delta <textarea class="mono" rows="6" spellcheck="false" value=${delta} onInput=${(event) => setDelta(event.target.value)}></textarea></label>`}
        ${way === "sow_delete" && html`
          <div class="switch" role="group" aria-label="which records">
            ${[["filter", "By filter"], ["keys", "By SOW keys"]].map(([name, title]) => html`<button type="button" aria-pressed=${by === name} onClick=${() => { setBy(name); setAsked(undefined); }}>${title}</button>`)}</div>
          ${by === "filter"
            ? html`<label class="field">Filter <input class="mono" value=${filter} spellcheck="false" onInput=${(event) => { setFilter(event.target.value); setAsked(undefined); }} /></label>`
            : html`<label class="field">SOW keys, with commas or as a JSON array <input class="mono" value=${keys} spellcheck="false" onInput=${(event) => { setKeys(event.target.value); setAsked(undefined); }} /></label>`}`}
        <${Mistake} text=${way === "delta" ? delta : way === "sow_delete" && by === "filter" ? filter : ""} error=${error} />
        ${asked && html`<p class="notice bad" role="alert">${asked.matches === 0 ? "No record matches; there is nothing to delete." : html`This deletes <strong>${plural(asked.matches, "record")}</strong> of ${topic.name}. It can't be undone.`}</p>`}
        <${Outcome} outcome=${outcome} />
        <${Offline} />
        <footer>
          <button type="button" class="quiet" onClick=${() => (asked ? setAsked(undefined) : dialog.current.close())}>${asked ? "Keep them" : "Close"}</button>
          ${!(asked && asked.matches === 0) && html`<button type="submit" class=${way === "sow_delete" ? "danger" : "primary"} disabled=${isBusy || service.isLost}>${way !== "sow_delete" ? WAYS[way].title : asked ? `Delete ${plural(asked.matches, "record")}` : "Delete…"}</button>`}
        </footer>
      </form>`}
    </dialog>
  `;
}
