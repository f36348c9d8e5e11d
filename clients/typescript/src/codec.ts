/** How a client reads and writes JSON. */

import type { JsonObject } from "./json.js";

/**
 * What integers beyond 2^53 become: `number`, which rounds them (as `JSON.parse` does), `bigint`, or `text`, their
 * digits.
 */
export type Integers = "number" | "bigint" | "text";

export interface Codec {
  parse(text: string): unknown;
  stringify(value: unknown): string;
  /** Return what a caller sees of a record. */
  present(record: JsonObject): JsonObject;
}

const asItIs = (record: JsonObject): JsonObject => record;

/** The codec of the default mode: JSON as JavaScript has it. */
export const FAST: Codec = { parse: JSON.parse, stringify: JSON.stringify, present: asItIs };

/** Return a codec; those that keep integers are loaded at first use. */
export async function codecOf(integers: Integers): Promise<Codec> {
  if (integers === "number") return FAST;
  const { parse, stringify, asTexts } = await import("./exact.js");
  return {
    parse,
    stringify: (value) => stringify(value) ?? "null",
    present: integers === "text" ? (record) => asTexts(record) as JsonObject : asItIs,
  };
}
