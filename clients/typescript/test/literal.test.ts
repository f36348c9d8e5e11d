import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { parse } from "../src/exact.js";
import { literal } from "../src/index.js";

/** Values and their literals; `tests/unit/sowline/language/filter/test_literals.py` reads them with the parser. */
const LINES = readFileSync(new URL("../../../../tests/conformance/literals.jsonl", import.meta.url), "utf8");

for (const line of LINES.trim().split("\n")) {
  test(`the literal of ${line}`, () => {
    const known = parse(line) as { value: string | number | bigint | boolean; literal: string };
    assert.equal(literal(known.value), known.literal);
  });
}

test("NULL has a literal; what JSON can't contain has none", () => {
  assert.equal(literal(null), "NULL");
  for (const value of [NaN, Infinity, -Infinity]) assert.throws(() => literal(value), { reason: "bad filter" });
});
