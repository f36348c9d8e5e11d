// Records as rows: nested fields become columns named by their paths. A column's kind widens as values arrive.
import { stringify } from "./service.js";
import { instant, second } from "./text.js";

export const COLUMNS_MAX = 300;
export const KEY_COLUMN = "sow_key";
export const UPDATED = "updated";

// A time of a column with its date and zone; that of the last change to the second, which many rows have in common.
export const moment = (name, ms) => (name === UPDATED ? second(ms) : instant(ms));

const STEPS_MAX = 10_000;
// What a filter has that looks like a path and is none; and a path.
const TEXT = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/g;
const PATH = /\[\/[^\]]+\]|(?:\/[\p{L}\p{N}_@#$][\p{L}\p{N}_.:-]*)+/gu;
const NAME = /^@?[\p{L}\p{N}_][\p{L}\p{N}_.:-]*$/u;
const steps = new Map();

// The step of a path to a field of this name. Records share their names, and a pattern takes long.
function step(name) {
  const known = steps.get(name);
  if (known !== undefined) return known;
  const found = NAME.test(name) ? `/${name}` : `[/${name}]`;
  if (steps.size < STEPS_MAX) steps.set(name, found);
  return found;
}
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// Returns the columns of a record as [path, value] pairs: scalars as they are, arrays and empty objects as JSON.
export function flatten(value, path = "", found = []) {
  if (isObject(value) && Object.keys(value).length) {
    for (const name of Object.keys(value)) flatten(value[name], path + step(name), found);
  } else {
    found.push([path || "/", value !== null && typeof value === "object" ? stringify(value) : value]);
  }
  return found;
}

const KNOWN = ["~id", "~version", "~lastUpdateAt", "~tags"];

// The columns of a row: when it was updated, in ms since 1970, the intrinsics of a document, and its content.
export function columnsOf({ record, intrinsics: known, timestamp }) {
  const pairs = timestamp === undefined ? [] : [[UPDATED, Date.parse(timestamp)]];
  if (known) pairs.push(...KNOWN.map((name) => [name, name === "~tags" ? known[name]?.join(", ") : known[name]]));
  return flatten(record, "", pairs);
}

// The fields that differ between two states of a record.
export function difference(before, after) {
  const old = new Map(before === null || before === undefined ? [] : flatten(before));
  const now = new Map(after === null || after === undefined ? [] : flatten(after));
  const paths = [...new Set([...old.keys(), ...now.keys()])].filter((path) => old.get(path) !== now.get(path) || old.has(path) !== now.has(path));
  return paths.map((path) => ({ path, old: old.get(path), now: now.get(path), was: old.has(path), is: now.has(path) }));
}

// Texts that are a date with a time; without a zone they are taken as UTC.
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/;
export const timeOf = (text) => Date.parse(/[T ].*(Z|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text.replace(" ", "T")}Z`);
const isTime = (text) => TIME.test(text) && !Number.isNaN(timeOf(text));

function kindOf(value) {
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "string" && isTime(value)) return "datetime";
  if (typeof value === "number") return Number.isInteger(value) && Math.abs(value) < 2 ** 31 ? "integer" : "float";
  return "string";
}

const NUMBERS = new Set(["integer", "float"]);
const joined = (one, other) => {
  if (one === undefined || one === other) return other;
  return NUMBERS.has(one) && NUMBERS.has(other) ? "float" : "string";
};

// Whether a column of this kind can hold the value as it is.
export const fits = (value, kind) => value === null || value === undefined || kind === "string" || joined(kind, kindOf(value)) === kind;

// The columns of all records so far. `take` adds a record; it returns whether a column is new or has another kind.
export class Schema {
  kinds = new Map();
  cut = 0;

  take(pairs) {
    let grew = false;
    for (const [path, value] of pairs) {
      if (value === null || value === undefined) {
        if (!this.kinds.has(path)) this.kinds.set(path, undefined);
        continue;
      }
      const before = this.kinds.get(path);
      if (before === "string") continue;
      const kind = path === UPDATED ? "datetime" : joined(before, kindOf(value));
      if (kind !== before) {
        this.kinds.set(path, kind);
        grew = true;
      }
    }
    return grew;
  }

  // The first columns that fit; a field that was only ever null is a string.
  get columns() {
    const all = [...this.kinds];
    this.cut = Math.max(0, all.length - COLUMNS_MAX);
    return new Map(all.slice(0, COLUMNS_MAX).map(([path, kind]) => [path, kind ?? "string"]));
  }
}

export function asKind(value, kind) {
  if (value === null || value === undefined) return null;
  if (kind === "datetime") return typeof value === "number" ? value : timeOf(value);
  return kind === "string" && typeof value !== "string" ? String(value) : value;
}

// Whether a column is a field of the record, which the service knows by this path.
export const isField = (path) => /^(\/|\[\/).+/.test(path);

export const stepsOf = (path) => [...path.matchAll(/\/([^/[]+)|\[\/([^\]]+)\]/g)].map(([, plain, bracketed]) => plain ?? bracketed);

// The names of a field's path, as a header or a chart shows them.
export const nameOf = (path) => stepsOf(path).join(".") || path;

// A name in brackets may be several levels.
const namesIn = (path) => stepsOf(path).flatMap((name) => name.split("/"));

// The columns that a filter reads, in its order: of a field within an array or an object, the column that has it.
export function columnsRead(filter, columns) {
  const names = new Map(columns.map((path) => [path, namesIn(path)]));
  const reads = (read) => columns.filter((path) => names.get(path).length && names.get(path).every((name, at) => name === read[at]));
  return [...new Set([...filter.replaceAll(TEXT, "").matchAll(PATH)].flatMap(([path]) => reads(namesIn(path))))];
}

export const at = (record, path) => stepsOf(path).reduce((value, name) => value?.[name], record);

// The paths of a topic's key fields; none if its keys come from publishers or from a key generator.
export const keyPaths = (topic) => (Array.isArray(topic.key) ? topic.key : []);

// Whether publishers give the keys of a topic's records.
export const takesKeys = (topic) => topic.key.from !== undefined;

// Splits a text into SOW keys: separated by commas, or a JSON array if the text starts with a bracket.
export function splitKeys(text) {
  if (!text.trim().startsWith("[")) return text.split(",").map((one) => one.trim()).filter(Boolean);
  return JSON.parse(text).map(String);
}

// Writes one SOW key as a text that `splitKeys` reads.
export const joinedKey = (key) => (/^[^,[\s]([^,]*[^,\s])?$/.test(key) ? key : JSON.stringify([key]));

// The key text of a record, which names its document and is used to delete by key.
export function keyText(topic, record, sowKey, known) {
  if (known) return known["~id"];
  const paths = keyPaths(topic);
  if (!paths.length) return sowKey;
  const texts = paths.map((path) => String(at(record, path)));
  return texts.length === 1 ? texts[0] : JSON.stringify(texts);
}
