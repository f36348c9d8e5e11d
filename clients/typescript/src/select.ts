/**
 * Select lists such as `[-/,+/id,+/pocket/left]`: which fields of a record a reader gets.
 *
 * `+` sends a field and all below it, `-` leaves them out; the most specific directive that covers a field decides.
 */

import { isObject, own, put, type Json, type JsonObject, type MutableObject } from "./json.js";
import { parsePath } from "./path.js";

interface Node {
  isSent: boolean;
  readonly fields: Map<string, Node>;
}

// One directive, between commas. A name in brackets may contain commas.
const DIRECTIVE = /(?:[^[,]|\[[^\]]*\]?)+/g;

export class Select {
  readonly #root: Node = { isSent: true, fields: new Map() };

  constructor(text: string) {
    const directives = new Map<string, { names: string[]; isSent: boolean }>();
    for (const [found] of text.trim().slice(1, -1).matchAll(DIRECTIVE)) {
      const directive = found.trim();
      const path = directive.slice(1);
      const names = path === "/" ? [] : parsePath(path).map(String);
      const key = JSON.stringify(names);
      if (directive !== "" && !directives.has(key)) directives.set(key, { names, isSent: directive[0] === "+" });
    }
    // The shortest paths first: a directive also applies to the fields below, unless a more specific one differs.
    for (const { names, isSent } of [...directives.values()].sort(
      (one, other) => one.names.length - other.names.length,
    )) {
      let node = this.#root;
      for (const name of names) {
        let below = node.fields.get(name);
        if (below === undefined) node.fields.set(name, (below = { isSent: node.isSent, fields: new Map() }));
        node = below;
      }
      node.isSent = isSent;
    }
  }

  /** Return the record without the fields that are not sent; an empty object if none is. */
  apply(record: JsonObject): JsonObject {
    return (selected(record, this.#root) as JsonObject | undefined) ?? {};
  }
}

/**
 * Return the part of a value that is sent. What loses all its content is left out; what was empty before is a
 * value.
 */
function selected(value: Json, node: Node): Json | undefined {
  const whole = node.isSent ? value : undefined;
  if (node.fields.size === 0) return whole;
  if (Array.isArray(value)) {
    const kept = (value as readonly Json[])
      .map((inner) => selected(inner, node))
      .filter((inner) => inner !== undefined);
    return value.length === 0 ? whole : kept.length > 0 ? kept : undefined;
  }
  if (!isObject(value)) return whole;
  const names = Object.keys(value);
  if (names.length === 0) return whole;
  const kept: MutableObject = {};
  for (const name of names) {
    const inner = own(value, name)!;
    const below = node.fields.get(name);
    const part = below !== undefined ? selected(inner, below) : node.isSent ? inner : undefined;
    if (part !== undefined) put(kept, name, part);
  }
  return Object.keys(kept).length > 0 ? kept : undefined;
}
