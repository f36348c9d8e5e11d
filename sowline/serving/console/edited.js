// What an edit changes of a record. Values stay the texts that they are, so that nothing loses a digit: a record is a map
// of its fields, whose values are maps again, or texts of JSON.
import { stepsOf } from "./fields.js";
import { JsonText, SowlineError } from "./service.js";

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

// Reads a text of JSON; throws `not json`.
export function read(text) {
  const tokens = new JsonText(text).text.match(TOKEN);
  let at = 0;
  const array = () => {
    const begin = at;
    let depth = 0;
    do {
      if (tokens[at] === "[" || tokens[at] === "{") depth += 1;
      else if (tokens[at] === "]" || tokens[at] === "}") depth -= 1;
      at += 1;
    } while (depth > 0);
    return tokens.slice(begin, at).join("");
  };
  const value = () => {
    if (tokens[at] !== "{") return array();
    const fields = new Map();
    at += 1;
    while (tokens[at] !== "}") {
      const name = JSON.parse(tokens[at]);
      at += 2; // the name and its colon
      fields.set(name, value());
      if (tokens[at] === ",") at += 1;
    }
    at += 1;
    return fields;
  };
  return value();
}

// Reads a record; throws `not json`, also of what is no object.
export function readRecord(text) {
  const record = read(text);
  if (!(record instanceof Map)) throw new SowlineError("not json", "expected a record: an object of JSON");
  return record;
}

// The JSON of a value.
export const write = (value) => (value instanceof Map ? `{${[...value].map(([name, inner]) => `${JSON.stringify(name)}:${write(inner)}`).join(",")}}` : value);

export const find = (value, path) => stepsOf(path).reduce((inner, name) => (inner instanceof Map ? inner.get(name) : undefined), value);

// The record with another value at a path.
export function placed(record, path, value) {
  const put = (fields, [name, ...rest]) => {
    const inner = fields.get(name);
    return new Map(fields).set(name, rest.length ? put(inner instanceof Map ? inner : new Map(), rest) : value);
  };
  return put(record, stepsOf(path));
}

// The changes that make the second record of the first one: for each field that changed its new value, null if it was
// removed, or { within } with the changes of its fields.
export function changes(earlier, now) {
  const found = new Map();
  for (const [name, value] of now) {
    const old = earlier.get(name);
    if (old instanceof Map && value instanceof Map) {
      const within = changes(old, value);
      if (within.size) found.set(name, { within });
    } else if (old === undefined || write(old) !== write(value)) {
      found.set(name, value);
    }
  }
  for (const name of earlier.keys()) {
    if (!now.has(name)) found.set(name, null);
  }
  return found;
}

// The record after these changes.
export function applied(record, found) {
  const now = new Map(record);
  for (const [name, change] of found) {
    const old = now.get(name);
    if (change === null) now.delete(name);
    else now.set(name, change.within ? applied(old instanceof Map ? old : new Map(), change.within) : change);
  }
  return now;
}

// Whether a field was removed: no merge does that.
export const removes = (found) => [...found.values()].some((change) => change === null || (change.within && removes(change.within)));

// What `delta_publish` merges: the key fields, by which it finds the record, and the changes.
export function merging(record, keys, found) {
  const given = keys.filter((path) => find(record, path) !== undefined).reduce((named, path) => placed(named, path, find(record, path)), new Map());
  return write(applied(given, found));
}

// The changes as a delta of a document.
export const delta = (found) =>
  `{${["..", ...[...found].map(([name, change]) => `${JSON.stringify(name)}:${change === null ? "~" : change.within ? delta(change.within) : write(change)}`)].join(",")}}`;

// Whether a path leads to a field that is changed, or into one.
export function touches(found, path) {
  let inner = found;
  for (const name of stepsOf(path)) {
    if (!inner.has(name)) return false;
    const change = inner.get(name);
    if (!change?.within) return true;
    inner = change.within;
  }
  return true;
}
