// The schemas of a topic: its reader schema, and those that messages have named, each with what it changed.
import { html, useEffect, useState } from "./lib.js";
import { askJson, service, topicPath } from "./service.js";
import { laidOut, plural } from "./text.js";

// Pairs of lines that are compared at most. Larger differences are shown as all the old and all the new lines.
const PAIRS_MAX = 4_000_000;
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

// Lines with their marks: a space for those that both texts have, - and + for those of the older or the newer only.
export function lineChanges(before, after) {
  const least = Math.min(before.length, after.length);
  let start = 0;
  while (start < least && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < least - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const marked = (mark, lines) => lines.map((line) => [mark, line]);
  return [
    ...marked(" ", before.slice(0, start)),
    ...between(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...marked(" ", before.slice(before.length - end)),
  ];
}

// The same between the first and the last difference, by a longest common subsequence.
function between(before, after) {
  const found = [];
  const [rows, columns] = before.length * after.length > PAIRS_MAX ? [0, 0] : [before.length, after.length];
  const common = Array.from({ length: rows + 1 }, () => new Uint32Array(columns + 1));
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      common[i][j] = before[i] === after[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (i < rows && j < columns) {
    if (before[i] === after[j]) {
      found.push([" ", before[i]]);
      i += 1;
      j += 1;
    } else if (common[i + 1][j] >= common[i][j + 1]) {
      found.push(["-", before[i]]);
      i += 1;
    } else {
      found.push(["+", after[j]]);
      j += 1;
    }
  }
  return [...found, ...before.slice(i).map((line) => ["-", line]), ...after.slice(j).map((line) => ["+", line])];
}

const Text = ({ schema, label }) => html`<pre class="value" tabindex="0" role="region" aria-label=${label}>${allLinesOf(schema).join("\n")}</pre>`;

function Changes({ before, after, label }) {
  return html`<pre class="value changes" tabindex="0" role="region" aria-label=${label}>${lineChanges(allLinesOf(before), allLinesOf(after)).map(([mark, line]) => {
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
    ${before && html`<details><summary>${before.schema.digest === schema.digest ? `The same as ${nameOf(before)}` : `Changes since ${nameOf(before)}`}</summary><${Changes} before=${before.schema} after=${schema} label="changes of schema ${id}" /></details>`}
    ${schema && html`<details><summary>Text</summary><${Text} schema=${schema} label="schema ${id}" /></details>`}
  </li>`;
}

// The schemas come by subject and version: the one before has the same subject.
function beforeEach(schemas) {
  return schemas.map((one, index) => [one, schemas.slice(0, index).findLast(({ subject, schema }) => subject === one.subject && schema && one.schema)]);
}

export function Schemas({ topic }) {
  const [found, setFound] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    askJson(topicPath(topic.name, "schemas")).then((answer) => { setFound(answer); setError(undefined); }, setError);
  }, [topic.name, service.logons]);
  const reader = found?.reader_schema ?? topic.reader_schema;
  const registered = found?.schemas.find(({ version, schema }) => version !== null && schema?.digest === found.reader_schema.digest);
  const facts = [
    ["Message type", topic.message_type],
    ["Framing", topic.framing],
    ["Subject", reader?.subject || "–"],
    ["Version", registered?.version ?? "–"],
    ["Id", reader?.id ?? "–"],
    ["Reader schemas so far", found?.reader_schemas.length ?? "–"],
  ];
  return html`
    <dl class="facts card schema">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${reader && html`<details class="card message"><summary>Reader schema</summary><${Text} schema=${reader} label="reader schema" /></details>`}
    ${error && html`<p class="notice" role="status"><strong>${error.reason}</strong> ${error.message}</p>`}
    ${!found && !error && html`<p class="muted" role="status">Reading the schemas…</p>`}
    ${found && html`<p class="muted">${found.schemas.length ? `Messages have named ${plural(found.schemas.length, "schema")}` : "Messages have named no schema"}.</p>
      <ol class="messages" aria-label="schemas of messages">${beforeEach(found.schemas).map(([one, before]) => html`<${Named} one=${one} before=${before} />`)}</ol>`}
  `;
}
