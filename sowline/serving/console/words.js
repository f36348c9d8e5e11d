// Phrases for the protocol's words. The word itself is what the mouse shows.
import { html } from "./lib.js";

export const SOW_KEY = "SOW key: the number or the text by which the service names a record";
export const BOOKMARK = "A position in the history of the topic: every change up to it is shown, and a client that begins there misses none";

// What clients ask for, and what is written, by command.
const COMMANDS = {
  sow: "query",
  subscribe: "changes",
  delta_subscribe: "changed fields",
  sow_and_subscribe: "records, then changes",
  sow_and_delta_subscribe: "records, then changed fields",
  publish: "whole record",
  delta_publish: "some fields",
  delta: "delta",
  sow_delete: "deletion",
};

const OUTCOMES = { noop: "no change", condition_false: "condition not met" };

export const outcomeWords = (outcome) => OUTCOMES[outcome] ?? outcome;

const INDEXES = {
  "memo index": ["one field's values", "memo index: made by the first query on the field, or when the topic is loaded"],
  "hash index": ["combinations of values", "hash index: the records of each combination of values, made when the topic is loaded"],
};

export const commandWords = (name) => COMMANDS[name] ?? name;

export const Command = ({ name }) => html`<span title=${name}>${commandWords(name)}</span>`;

export const IndexKind = ({ kind }) => html`<span title=${INDEXES[kind]?.[1]}>${INDEXES[kind]?.[0] ?? kind}</span>`;
