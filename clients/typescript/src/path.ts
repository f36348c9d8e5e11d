/** Paths to the fields of a record: `/a/b`, `/data[0]`, `[/any name]`. */

import { SowlineError } from "./errors.js";
import { isObject, type Json, type JsonObject } from "./json.js";

/** A field's name, or the number of an array's element, counted from 0. */
export type Step = string | number;

const SEGMENT = /\/(@?[\p{L}\p{N}_][\p{L}\p{N}_.:-]*)|\[(\/[^\]]+)\]|\[([0-9]+)\]/uy;

/** Return the steps of a path; throws `bad path`. */
export function parsePath(text: string): Step[] {
  const steps: Step[] = [];
  SEGMENT.lastIndex = 0;
  let end = 0;
  for (let segment = SEGMENT.exec(text); segment !== null; segment = SEGMENT.exec(text)) {
    const [, name, bracketed, number] = segment;
    if (name !== undefined) steps.push(name);
    else if (bracketed !== undefined) steps.push(...bracketed.slice(1).split("/"));
    else steps.push(Number(number));
    end = SEGMENT.lastIndex;
  }
  if (end < text.length || typeof steps[0] !== "string" || steps.includes("")) {
    throw new SowlineError("bad path", `expected a path like /order/qty, /legs[0] or [/any name], got ${text}`);
  }
  return steps;
}

/** Yield all values that are not arrays, in order, from arrays of any depth. */
function* leaves(nodes: Iterable<Json>): Generator<Exclude<Json, readonly Json[]>> {
  for (const node of nodes) {
    if (Array.isArray(node)) yield* leaves(node as readonly Json[]);
    else yield node as Exclude<Json, readonly Json[]>;
  }
}

export type Scalar = null | boolean | number | bigint | string;

/** Return the first scalar at a path, null if there is none. An empty string is null, and objects are skipped. */
export function readScalar(record: JsonObject, steps: readonly Step[]): Scalar {
  let nodes: Json[] = [record];
  for (const step of steps) {
    if (typeof step === "number") {
      // A node that is not an array counts as one element.
      const elements = nodes.flatMap((node) => (Array.isArray(node) ? (node as Json[]) : [node]));
      nodes = elements.slice(step, step + 1);
    } else {
      const found: Json[] = [];
      for (const leaf of leaves(nodes)) {
        if (isObject(leaf) && Object.hasOwn(leaf, step)) found.push(leaf[step] as Json);
      }
      nodes = found;
    }
  }
  for (const leaf of leaves(nodes)) {
    if (!isObject(leaf)) return leaf === "" ? null : leaf;
  }
  return null;
}
