// The form that edits one record: it writes only what was changed, and nothing over what it has not shown.
import { useAttempt } from "./attempt.js";
import { Offline } from "./connection.js";
import { applied, changes, delta, find, merging, placed, read, readRecord, removes, touches, write } from "./edited.js";
import { difference, keyPaths, keyText, takesKeys } from "./fields.js";
import { html, useEffect, useState } from "./lib.js";
import { JsonText, SowlineError, parse, service, topicPath } from "./service.js";
import { Effect, Mistake, Outcome, pretty } from "./text.js";

// The stored record with every digit, and what is known of a document; undefined if there is none.
export async function storedRecord(topic, sowKey, signal) {
  const body = JSON.stringify({ sow_keys: [sowKey], options: topic.documents ? "intrinsics" : "" });
  const answer = await service.request(topicPath(topic.name, "sow"), { method: "POST", body, signal });
  const line = await answer.text();
  if (!line) return undefined;
  const fields = readRecord(line);
  const text = write(fields.get("data"));
  return { text, fields: fields.get("data"), record: parse(text), intrinsics: fields.has("intrinsics") ? parse(write(fields.get("intrinsics"))) : undefined };
}

const gone = () => new SowlineError("no record", "Nothing was written: the record was deleted while this form was open. Publish it whole if it is to be there again.");

function checkKey(topic, before, now) {
  const path = keyPaths(topic).find((one) => write(find(before, one) ?? "") !== write(find(now, one) ?? ""));
  if (path) throw new SowlineError("key changed", `${path} is part of the key, which an edit can't change: publish another record, and delete this one`);
}

// Writes the changes of a record in the way that its topic has for that.
function send(topic, { fields, record, intrinsics }, found, sowKey, client, signal) {
  if (topic.documents) return client.delta(topic.name, intrinsics["~id"], `if intrinsic("~signature":${JSON.stringify(intrinsics["~signature"])}) then ${delta(found)} end`, { signal });
  const more = { signal, ...(takesKeys(topic) ? { sowKey: keyText(topic, record, sowKey) } : {}) };
  if (removes(found)) {
    if (topic.select !== null) throw new SowlineError("bad request", "You may read some fields only: a merge can't remove a field, and to publish the record whole would remove those that you don't see.");
    return client.publish(topic.name, new JsonText(write(applied(fields, found))), more);
  }
  // Which fields a key generator needs is not known: it gets all.
  const body = topic.key.generator ? write(applied(fields, found)) : merging(fields, keyPaths(topic), found);
  return client.deltaPublish(topic.name, new JsonText(body), more);
}

// The publisher of the last write to a record, if it is known.
async function lastPublisher(topic, sowKey, { record, intrinsics }) {
  const { writes } = await service.client.timeline(topic.name, keyText(topic, record, sowKey, intrinsics), { limit: 1 }).catch(() => ({ writes: [] }));
  return writes[0]?.publisher;
}

// The newest state of the record while the form is open: undefined until it is known, null if there is none.
function useNewest(topic, sowKey) {
  const [newest, setNewest] = useState();
  useEffect(() => {
    const view = service.client.view(topic.name, { sowKeys: [sowKey] });
    const look = () => setNewest(view.row(sowKey)?.record ?? null);
    view.ready.then(() => {
      view.onChange(look);
      look();
    }, () => {});
    return () => view.close();
  }, [topic.name, sowKey, service.logons]);
  return newest;
}

function Meanwhile({ asked, fields }) {
  if (!asked && !fields.length) return null;
  return html`<div class="notice warn" role="alert">
    ${asked
      ? html`<p><strong>Nothing is written yet.</strong> ${asked.who ? html`<code>${asked.who}</code> has` : "Somebody has"} changed the record while this form was open. Look at it, and write your change over that, or close the form.</p>`
      : html`<p>The record has changed while this form was open:</p>`}
    <${Effect} fields=${asked ? asked.fields : fields} /></div>`;
}

export function EditForm({ topic, sowKey, path, closed, onClose }) {
  const [stored, setStored] = useState();
  const [text, setText] = useState("");
  const [asked, setAsked] = useState();
  const { outcome, error, isBusy, attempt, setOutcome } = useAttempt(closed);
  const newest = useNewest(topic, sowKey);
  const meanwhile = stored && newest ? difference(stored.record, newest) : [];

  // Shows the stored record, with changes that are still to be written.
  const show = (found, changed = new Map()) => {
    setStored(found);
    const now = applied(found.fields, changed);
    const value = path ? find(now, path) : now;
    setText(path ? write(value ?? "") : pretty(write(value)));
  };
  const load = async () => {
    const found = await storedRecord(topic, sowKey, closed);
    if (!found) throw gone();
    return found;
  };
  useEffect(() => void attempt(async () => show(await load())), [sowKey]);

  const ask = async (changed) => {
    const found = await load();
    setAsked({ fields: difference(stored.record, found.record), who: await lastPublisher(topic, sowKey, found) });
    show(found, changed);
  };

  const submit = (event) => {
    event.preventDefault();
    attempt(async () => {
      const now = path ? placed(stored.fields, path, read(text)) : readRecord(text);
      checkKey(topic, stored.fields, now);
      const changed = changes(stored.fields, now);
      if (!changed.size) throw new SowlineError("nothing changed", "The record has these values already: there is nothing to write.");
      if (newest === null) throw gone();
      // Who was asked once has seen the record. After that only what the edit itself would replace counts.
      const isAll = !asked || removes(changed);
      if (!topic.documents && meanwhile.some((field) => isAll || touches(changed, field.path))) {
        await ask(changed);
        return;
      }
      const done = await service.write((client, signal) => send(topic, stored, changed, sowKey, client, signal), closed);
      if (done.outcome === "condition_false") {
        await ask(changed);
        return;
      }
      setAsked(undefined);
      setOutcome({ more: "", ...done });
      show(await load());
    });
  };

  return html`
    <form onSubmit=${submit}>
      <p class="muted">${topic.documents ? "Only what you change is written, and only if nobody writes to the document before you." : "Only what you change is written. If the record changes meanwhile, you are asked."}</p>
      ${takesKeys(topic) && html`<label class="field">SOW key <input class="mono" value=${sowKey} readonly /></label>`}
      ${path
        ? html`<label class="field">${path} <input class="mono" value=${text} spellcheck="false" autocomplete="off" autofocus onInput=${(event) => setText(event.target.value)} /></label>
          <p class="muted">A value of JSON: texts stand in double quotes.</p>`
        : html`<label class="field">Record <textarea class="mono" rows="14" spellcheck="false" autofocus value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>`}
      <${Mistake} text="" error=${error} />
      <${Meanwhile} asked=${asked} fields=${meanwhile} />
      <${Outcome} outcome=${outcome} />
      <${Offline} />
      <footer>
        <button type="button" class="quiet" onClick=${onClose}>Close</button>
        <button type="submit" class="primary" disabled=${isBusy || !stored || service.isLost}>${asked ? "Write all the same" : "Write changes"}</button>
      </footer>
    </form>
  `;
}
