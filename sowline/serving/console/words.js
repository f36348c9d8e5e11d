// Phrases for the protocol's words, of which the mouse shows the word itself; and what the words mean that have no phrase.
import { html } from "./lib.js";
import { OVER, SHOWN } from "./rates.js";

const MEANINGS = {
  // Of a record.
  Key: "The fields whose values tell a record from all others, or who gives its SOW key",
  "SOW key": "The number or the text by which the service names a record: it is made from the values of the key, or given with the record",
  "Kafka key": "The key of a message in Kafka, as its producer wrote it: of a command, it may be the values of the record's key",
  Publisher: "The name under which a program writes: that of a pipeline is its own name, that of its source, and the number of a partition",
  "Key domain": "Topics of the same domain give equal keys the same SOW key",
  "Computed fields": "Fields that are computed before the key",
  "Largest record": "Larger ones are refused",
  // Of the log.
  Bookmark: "A position in the history of the topic: every change up to it is shown, and a client that begins there misses none",
  Position: "The last offset of the log that is in the answers; after a point, which of its changes, where it makes several",
  Partition: "A part of the topic: a record is always in the same one, and each has a position of its own",
  "Seconds behind": "How long ago the oldest record was written to the log that this query service has not read yet",
  "Open transaction": "A producer has not ended it: what was written after its beginning can't be read yet",
  Offset: "The number of a message in its partition of a Kafka topic",
  "Offsets in the log": "The numbers of the first and the last message of the partition that Kafka keeps of the log",
  "Offsets kept": "How many numbers of messages there are from the first one that Kafka keeps to the end, of all partitions. A compacted topic has at most so many messages: of equal keys only the newest stays, and the other numbers are gaps",
  Lag: "Offsets of the log after the position: records that this query service has not read yet, though their changes may be written, and ends of transactions",
  "Lag (records)": "Records of the log that this query service has not read yet",
  "Dead letters": "Input that could not be applied, as Kafka keeps it",
  "Changes kept for": "A subscriber that was away for longer loads the records again",
  "Kept for": "Kafka deletes messages that are older",
  "Compacted after": "Kafka keeps each message for at least this long, though a newer one has the same key",
  "Consumer groups": "The programs that share the reading of the Kafka topic, by the names of their groups",
  Cleanup: "Whether Kafka deletes what is old, or compacts: keeps the newest message of each key",
  "Newest change": "How long ago the newest change was made",
  // Of what is read.
  Subscriptions: "Live subscriptions of all clients",
  Conflation: "How often the service sends what has changed: several changes of a record in one interval are sent as one",
  conflated: "Computed by its service, and read-only: it follows another topic, but changes each record at most once in an interval",
  view: "Computed by its service from other topics, and read-only",
  changes: `How many changes came to this page in a second, on average ${OVER}: with conflation, several changes of a record in one interval are one`,
  updates: `How many of the values shown here changed in a second, on average ${OVER}: each may stand for many records`,
  messages: `How many messages came to this page in a second, on average ${OVER}`,
  [`Changes/s ${OVER}`]: `Changes a second that this query service applied: the number is their mean ${OVER}, and the line is the last ${SHOWN}. Dots: nothing was measured, because this page was not open. One dot on them is the newest change`,
  [`Messages ${OVER}`]: "Messages sent to it: the mean of the last ten seconds",
  Unsent: "What waits to be sent to it, and the limit above which its subscriptions are no longer live",
  "Behind (records)": "Log records that were not sent to it yet",
  "Behind for": "For how long it has not been live. What a live one is behind is sent at once or at the end of its conflation interval",
  "Rows to load": "How many records the browser loads at most",
  "Order by": "The service sorts all matching records, and keeps the first ones as a live page",
  "Further options": "Options of a subscription as the API has them: select=[-/,+/id], for example, sends only /id",
  Indexes: "How many, and their memory",
  Uses: "Queries that it found or sorted records for",
  Framing: "How a message names its schema",
  "Reader schemas so far": "The schemas by which records were read since the topic began",
};

export const meaningOf = (word) => MEANINGS[word];

// A word with its meaning: the mouse shows it, and a screen reader says it; below the page it stands while the word has the focus.
export function Term({ word, children = word }) {
  return MEANINGS[word] ? html`<abbr class="term" title=${MEANINGS[word]} tabindex="0">${children}</abbr>` : children;
}

// All of them, for who has no mouse and no keyboard to come to the words.
export const Words = () => html`<details><summary>What the words mean</summary>
  <dl class="help">${Object.entries(MEANINGS).map(([word, meaning]) => html`<div><dt>${word}</dt><dd>${meaning}</dd></div>`)}</dl></details>`;

// What a cell is called where its table folds, and what that means: a tap on the cell shows it.
export const labeled = (word) => ({ "data-label": word, ...(MEANINGS[word] && { "data-meaning": MEANINGS[word], tabindex: -1 }) });

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
