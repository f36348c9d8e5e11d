/**
 * `order_by`: parses an order and compares records by it.
 *
 * The order is total: NULL first, then numbers by their exact value (true is 1, false is 0), then strings by code
 * point. With `TEXT`, values are compared as texts; `DESC` is the exact reverse of a term. Records that are equal in
 * all terms are in ascending order of their SOW keys.
 */

import { SowlineError } from "./errors.js";
import type { JsonObject } from "./json.js";
import { parsePath, readScalar, type Scalar, type Step } from "./path.js";

interface Term {
  readonly steps: readonly Step[];
  readonly sign: 1 | -1;
  readonly text: boolean;
}

const NAME = String.raw`\/@?[\p{L}\p{N}_][\p{L}\p{N}_.:-]*`;
const PATH = String.raw`(?:${NAME}|\[\/[^\]]*\])(?:${NAME}|\[\/[^\]]*\]|\[[0-9]+\])*`;
const TERM = new RegExp(
  String.raw`\s*(${PATH})\s*(?:(ASC|DESC)(?![\p{L}\p{N}_]))?\s*(TEXT(?![\p{L}\p{N}_]))?\s*(,|$)`,
  "iuy",
);

/** The values that a record is sorted by, one for each term. */
export type SortKey = readonly Scalar[];

/** An order of records. Without terms, records stay in the order in which they came. */
export class Order {
  readonly #terms: readonly Term[];

  /** Parse an order such as `/a, /b/c DESC, [/d e] ASC TEXT`; throws `invalid order by`. */
  constructor(readonly text = "") {
    this.#terms = text.trim() === "" ? [] : parseTerms(text);
  }

  get isEmpty(): boolean {
    return this.#terms.length === 0;
  }

  keyOf(record: JsonObject): SortKey {
    return this.#terms.map(({ steps, text }) => {
      const value = narrowed(readScalar(record, steps));
      return text ? textOf(value) : value;
    });
  }

  /** Return a negative number if the first record comes first, a positive one if the second does. */
  compare(one: SortKey, oneSowKey: string, other: SortKey, otherSowKey: string): number {
    for (let at = 0; at < this.#terms.length; at++) {
      const difference = compareScalars(one[at]!, other[at]!);
      if (difference !== 0) return this.#terms[at]!.sign * difference;
    }
    return compareTexts(oneSowKey, otherSowKey);
  }
}

function parseTerms(text: string): Term[] {
  const terms: Term[] = [];
  for (TERM.lastIndex = 0; ;) {
    const found = TERM.exec(text);
    if (found === null) {
      throw new SowlineError("invalid order by", `expected an order like /status, /qty DESC, got ${text}`);
    }
    const [, path, direction, asText, comma] = found;
    terms.push({
      steps: parsePath(path!),
      sign: direction?.toUpperCase() === "DESC" ? -1 : 1,
      text: asText !== undefined,
    });
    if (comma === "") return terms;
  }
}

const rank = (value: Scalar): number => (value === null ? 0 : typeof value === "string" ? 2 : 1);

function compareScalars(one: Scalar, other: Scalar): number {
  const difference = rank(one) - rank(other);
  if (difference !== 0 || one === null || other === null) return difference;
  if (typeof one === "string") return compareTexts(one, other as string);
  // A number and a bigint compare by their exact values.
  const [left, right] = [numeric(one as boolean | number | bigint), numeric(other as boolean | number | bigint)];
  return left < right ? -1 : left > right ? 1 : 0;
}

const numeric = (value: boolean | number | bigint): number | bigint =>
  typeof value === "boolean" ? Number(value) : value;

/** Compare by code point. JavaScript's `<` compares UTF-16 units, where surrogates are below U+E000 to U+FFFF. */
function compareTexts(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at++) {
    const [left, right] = [one.charCodeAt(at), other.charCodeAt(at)];
    if (left !== right) return codePointRank(left) - codePointRank(right);
  }
  return one.length - other.length;
}

const codePointRank = (unit: number): number => (unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit);

/** The service holds integers of 64 bits, and larger ones as doubles. */
const narrowed = (value: Scalar): Scalar =>
  typeof value === "bigint" && (value < -(2n ** 63n) || value >= 2n ** 64n) ? Number(value) : value;

/** Return a value as the service writes it: `true`, `17`, `0.5`, `1e-05`. */
function textOf(value: Scalar): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value !== "number" || Number.isSafeInteger(value)) return String(value);
  const [digits, exponent] = value.toExponential().split("e") as [string, string];
  const power = Number(exponent);
  if (power >= -4 && power < 16) return Number.isInteger(value) ? `${value}.0` : String(value);
  return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
