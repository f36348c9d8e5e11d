/** Merges deltas into records, and removes fields by path. The arguments stay as they are. */

import { isObject, own, put, same, type JsonObject, type MutableObject } from "./json.js";
import { parsePath, type Step } from "./path.js";

/**
 * Return the record with the fields of a delta merged into it: objects field by field, all other values whole. Null
 * is a value. Fields that do not change keep their identity; without any change, the result is the record itself.
 */
export function merge(record: JsonObject, delta: JsonObject): JsonObject {
  let merged: MutableObject | undefined;
  for (const name of Object.keys(delta)) {
    const value = delta[name]!;
    const before = own(record, name);
    const now = isObject(value) && isObject(before) ? merge(before, value) : same(before, value) ? before! : value;
    if (now !== before) put((merged ??= { ...record }), name, now);
  }
  return merged ?? record;
}

/** Return the record without the fields at the paths. Fields that it does not have are ignored. */
export function takeOut(record: JsonObject, paths: readonly string[]): JsonObject {
  return paths.reduce((left, path) => without(left, parsePath(path), 0), record);
}

function without(object: JsonObject, steps: readonly Step[], at: number): JsonObject {
  const name = steps[at]!;
  if (typeof name === "number" || !Object.hasOwn(object, name)) return object;
  if (at === steps.length - 1) {
    const { [name]: _, ...rest } = object;
    return rest;
  }
  const before = object[name];
  if (!isObject(before)) return object;
  const now = without(before, steps, at + 1);
  if (now === before) return object;
  const changed: MutableObject = { ...object };
  put(changed, name, now);
  return changed;
}
