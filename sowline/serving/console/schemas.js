// The schemas of a topic: its reader schema, and those that messages have named, each with what it changed.
import { lineChanges, nearChanges } from "./changes.js";
import { html, useEffect, useState } from "./lib.js";
import { askJson, service, topicPath } from "./service.js";
import { laidOut, plural } from "./text.js";
import { Term } from "./words.js";

const TONES = { readable: "ok", unknown: "bad", incompatible: "bad" };
const MARKED = { "+": "ins", "-": "del" };

// The lines of a text; JSON is indented, because registries keep it in one line.
function linesOf(text) {
  try {
    JSON.parse(text);
  } catch {
    return text.split("\n");
  }
  return laidOut(text).map(([, token]) => token).join("").split("\n");
}

// The lines of a schema and of all that it refers to.
const allLinesOf = ({ text, references }) => [text, ...Object.entries(references).flatMap(([name, other]) => ["", `${name}:`, other])].flatMap(linesOf);

const Text = ({ schema, label }) => html`<pre class="value" tabindex="0" role="region" aria-label=${label}>${allLinesOf(schema).join("\n")}</pre>`;

function Changes({ before, after, label }) {
  return html`<pre class="value changes" tabindex="0" role="region" aria-label=${label}>${nearChanges(lineChanges(allLinesOf(before), allLinesOf(after))).map(([mark, line]) => {
    const text = `${mark} ${line}\n`;
    return MARKED[mark] ? html`<${MARKED[mark]}>${text}<//>` : text;
  })}</pre>`;
}

const nameOf = ({ id, version }) => (version === null ? `schema ${id}` : `version ${version}`);

function Named({ one, before }) {
  const { id, subject, version, partitions, state, problem, schema } = one;
  return html`<li class="message card" data-schema=${id}>
    <div class="when"><strong>id ${id}</strong>
      ${subject && html`<span class="muted">subject</span> <code>${subject}</code>`}
      ${version !== null && html`<span class="muted">version ${version}</span>`}
      <span class="muted" title=${partitions.join(", ")}>${plural(partitions.length, "partition")}</span>
      <span class="grow"></span><span class="chip ${TONES[state]}">${state}</span></div>
    ${problem && html`<p>${problem}</p>`}
    ${before && (before.schema.digest === schema.digest
      ? html`<p class="muted">The same as ${nameOf(before)}.</p>`
      : html`<details><summary>Changes since ${nameOf(before)}</summary><${Changes} before=${before.schema} after=${schema} label="changes of schema ${id}" /></details>`)}
    ${schema && html`<details><summary>Text</summary><${Text} schema=${schema} label="schema ${id}" /></details>`}
  </li>`;
}

// The schemas come by subject and version: the one before has the same subject.
function beforeEach(schemas) {
  return schemas.map((one, index) => [one, schemas.slice(0, index).findLast(({ subject, schema }) => subject === one.subject && schema && one.schema)]);
}

// `onTrouble` is told in words how many schemas can't be read.
export function Schemas({ topic, onTrouble }) {
  const [found, setFound] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    askJson(topicPath(topic.name, "schemas")).then((answer) => {
      setFound(answer);
      setError(undefined);
      const unread = answer.schemas.filter(({ state }) => state !== "readable").length;
      onTrouble(unread ? `${plural(unread, "schema")} can't be read` : undefined);
    }, setError);
  }, [topic.name, service.logons]);
  const reader = found?.reader_schema ?? topic.reader_schema;
  const registered = found?.schemas.find(({ version, schema }) => version !== null && schema?.digest === found.reader_schema.digest);
  // FIX and other types without schemas have options instead.
  const hasSchemas = topic.message_format === null;
  const facts = [
    ["Message type", topic.message_type],
    ...(hasSchemas
      ? [
          ["Framing", topic.framing],
          ["Subject", reader?.subject || "–"],
          ["Version", registered?.version ?? "–"],
          ["Id", reader?.id ?? "–"],
        ]
      : []),
    ["Reader schemas so far", found?.reader_schemas.length ?? "–"],
  ];
  return html`
    <dl class="facts card schema">${facts.map(([name, value]) => html`<div><dt><${Term} word=${name} /></dt><dd>${value}</dd></div>`)}</dl>
    ${reader && html`<details class="card message"><summary>Reader schema, by which records are read</summary><${Text} schema=${reader} label="reader schema" /></details>`}
    ${error && html`<p class="notice" role="status"><strong>${error.reason}</strong> ${error.message}</p>`}
    ${!found && !error && html`<p class="muted" role="status">Reading the schemas…</p>`}
    ${found && (hasSchemas || found.schemas.length > 0) && html`<p class="muted">${found.schemas.length ? `Messages have named ${plural(found.schemas.length, "schema")}` : "Messages have named no schema"}.</p>
      <ol class="messages" aria-label="schemas of messages">${beforeEach(found.schemas).map(([one, before]) => html`<${Named} one=${one} before=${before} />`)}</ol>`}
  `;
}
