/** A JSON parser and writer that keep integers beyond 2^53. It is loaded only where a client asks for them. */

import { JsonText } from "./jsonText.js";
import { put, type Json, type JsonObject, type MutableObject } from "./json.js";

// An integer of 16 digits or more. Digits within a string may match too: then nothing is lost but time.
const LONG = /[:[,]\s*-?\d{16}/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const INTEGER = /^-?\d+$/;
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;

/** Parse JSON: integers that a number can't hold are bigints. Throws a SyntaxError as `JSON.parse` does. */
export function parse(text: string): Json {
  return LONG.test(text) || /^\s*-?\d{16}/.test(text) ? new Parser(text).parse() : (JSON.parse(text) as Json);
}

class Parser {
  #at = 0;

  constructor(readonly text: string) {}

  parse(): Json {
    const value = this.#value();
    this.#take(SPACE);
    if (this.#at < this.text.length) throw this.#error();
    return value;
  }

  #value(): Json {
    this.#take(SPACE);
    switch (this.text[this.#at]) {
      case "{":
        return this.#object();
      case "[":
        return this.#array();
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  #object(): JsonObject {
    const object: MutableObject = {};
    this.#items("}", () => {
      this.#take(SPACE);
      const name = this.#string();
      this.#take(SPACE);
      this.#word(":", null);
      put(object, name, this.#value());
    });
    return object;
  }

  #array(): Json[] {
    const array: Json[] = [];
    this.#items("]", () => array.push(this.#value()));
    return array;
  }

  #items(close: string, item: () => void): void {
    this.#at++;
    this.#take(SPACE);
    if (this.text[this.#at] === close) {
      this.#at++;
      return;
    }
    for (;;) {
      item();
      this.#take(SPACE);
      const mark = this.text[this.#at++];
      if (mark === close) return;
      if (mark !== ",") throw this.#error();
    }
  }

  #string(): string {
    return JSON.parse(this.#take(STRING) ?? "") as string;
  }

  #number(): number | bigint {
    const text = this.#take(NUMBER);
    if (!text) throw this.#error();
    const number = Number(text);
    return Number.isSafeInteger(number) || !INTEGER.test(text) ? number : BigInt(text);
  }

  #word<V>(word: string, value: V): V {
    if (!this.text.startsWith(word, this.#at)) throw this.#error();
    this.#at += word.length;
    return value;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #error(): SyntaxError {
    return new SyntaxError(`unexpected ${this.text[this.#at] ?? "end"} at position ${this.#at} of JSON`);
  }
}

/** Write JSON with bigints as integers and texts of JSON as they are; undefined for what `JSON.stringify` leaves out. */
export function stringify(value: unknown): string | undefined {
  if (typeof value === "bigint") return String(value);
  if (value instanceof JsonText) return value.text;
  if (typeof value !== "object" || value === null || "toJSON" in value) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => stringify(item) ?? "null").join(",")}]`;
  const fields: string[] = [];
  for (const [name, inner] of Object.entries(value)) {
    const text = stringify(inner);
    if (text !== undefined) fields.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${fields.join(",")}}`;
}

/** Return a record with its bigints as texts. Parts without any keep their identity. */
export function asTexts(value: Json): Json {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items = (value as readonly Json[]).map(asTexts);
    return items.some((item, at) => item !== value[at]) ? items : value;
  }
  let changed: MutableObject | undefined;
  for (const [name, inner] of Object.entries(value as JsonObject)) {
    const text = asTexts(inner);
    if (text !== inner) put((changed ??= { ...(value as JsonObject) }), name, text);
  }
  return changed ?? value;
}
