/** Values as the filter language writes them. */

import { SowlineError } from "./errors.js";
import type { Scalar } from "./path.js";

const QUOTED = /[\x00-\x1f\x7f'\\]/g;
/** The letters of the characters 7 to 13 after a backslash; the one of 11 has none. */
const LETTERS = "abtn fr";

/**
 * Return the literal of a filter that has this value: `'it\'s'`, `12`, `TRUE`, `NULL`. Nothing compares as equal to
 * NULL, nor to an empty string, which is NULL: ask for these with `IS NULL`. Throws `bad filter` for NaN and infinities.
 */
export function literal(value: Scalar): string {
  if (typeof value === "string") return `'${value.replace(QUOTED, escaped)}'`;
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new SowlineError("bad filter", `expected a value that a filter can contain, got ${value}`);
  }
  return String(value).toUpperCase();
}

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  const letter = (LETTERS[code - 7] ?? " ").trim();
  if (code > 31 && code < 127) return `\\${character}`;
  return `\\${letter || `x${code.toString(16).padStart(2, "0")}`}`;
}
