import assert from "node:assert/strict";
import { test } from "node:test";

import { merge, takeOut } from "../src/delta.js";
import { asTexts, parse, stringify } from "../src/exact.js";
import { same, type Json, type JsonObject } from "../src/json.js";
import { hashOf } from "../src/key.js";
import { splitOptions, withPause } from "../src/options.js";
import { parsePath } from "../src/path.js";
import { Select } from "../src/select.js";

const PROTO = JSON.parse('{"__proto__": {"a": 1}}') as JsonObject;

test("a delta is merged field by field, and all other values are replaced", () => {
  const record = { id: 1, o: { a: 1, b: [1] }, n: null };
  assert.deepEqual(merge(record, { o: { b: [2], c: {} }, n: { x: 1 }, id: null }), {
    id: null,
    o: { a: 1, b: [2], c: {} },
    n: { x: 1 },
  });
  assert.deepEqual(record, { id: 1, o: { a: 1, b: [1] }, n: null });
});

test("what a delta does not change keeps its identity", () => {
  const record: JsonObject = { id: 1, one: { a: 1 }, two: { b: [1, { c: 2 }] } };
  assert.equal(merge(record, { id: 1, two: { b: [1, { c: 2 }] } }), record);
  const changed = merge(record, { one: { a: 2 } });
  assert.notEqual(changed, record);
  assert.equal(changed["two"], record["two"]);
  assert.equal(takeOut(record, ["/one/x", "/x/y", "/two/b/c", "/id/z"]), record);
});

test("a field may have any name", () => {
  const merged = merge(merge({ id: 1 }, PROTO), JSON.parse('{"__proto__": {"b": 2}, "constructor": 1}') as JsonObject);
  assert.equal(JSON.stringify(merged), '{"id":1,"__proto__":{"a":1,"b":2},"constructor":1}');
  assert.equal(Object.getPrototypeOf(merged), Object.prototype);
  assert.equal(JSON.stringify(takeOut(merged, ["/__proto__/a", "/constructor"])), '{"id":1,"__proto__":{"b":2}}');
  assert.equal(JSON.stringify(new Select("[-/,+/__proto__]").apply(PROTO)), JSON.stringify(PROTO));
});

test("removed fields are named by paths", () => {
  const record: JsonObject = { a: { b: 1, c: 2 }, "x y": { z: 1 }, "é": 1 };
  assert.deepEqual(takeOut(record, ["/a/b", "[/x y/z]", "/é"]), { a: { c: 2 }, "x y": {} });
  for (const wrong of ["", "a", "/a//b", "/a[", "[/]", "[0]"]) assert.throws(() => parsePath(wrong), { reason: "bad path" });
});

test("values are the same in any order of their fields", () => {
  const value: Json = { a: [1, { b: null }], c: "x" };
  assert.ok(same(value, { c: "x", a: [1, { b: null }] }));
  for (const other of [{ a: [1, { b: null }] }, { ...value, c: "y" }, { ...value, a: [1] }, [value], null, 1]) {
    assert.ok(!same(value, other) && !same(other, value));
  }
  assert.ok(!same({ toString: 1 }, { x: 1 }));
  assert.ok(!same(PROTO, { a: 1 }));
});

test("the exact parser reads what JSON.parse reads, and keeps integers", () => {
  const text = `{"a" : [ 12345678901234567890, -9007199254740993 ,1.5e3, 1e400, -0, 9007199254740991],"b":"\\u00e9\\"12345678901234567",
    "c":{}, "d":[], "__proto__":{"x":true}, "e":[null,false]}`;
  const rounded = JSON.stringify(JSON.parse(text));
  const value = parse(text) as JsonObject;
  assert.deepEqual((value["a"] as Json[]).slice(0, 2), [12345678901234567890n, -9007199254740993n]);
  assert.equal(rounded, JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? Number(inner) : inner)));
  assert.equal(stringify({ a: [12345678901234567890n, undefined], b: undefined, d: new Date(0), "é": { n: 1n } }),
    '{"a":[12345678901234567890,null],"d":"1970-01-01T00:00:00.000Z","é":{"n":1}}');
});

test("the exact parser refuses what JSON.parse refuses", () => {
  for (const rest of ["]", ",]", ", }", ",01]", ",1.]", ",+1]", ",tru]", ',"a', ',"\n"]', ",'a']", "] 1", ',{"a":1,}]', ',{"a" 1}]', ',{1:1}]', ',"\\x"]']) {
    const text = `[12345678901234567890${rest}`;
    if (rest === "]") assert.doesNotThrow(() => parse(text));
    else assert.throws(() => parse(text), SyntaxError, text);
  }
});

test("as texts, integers beyond 2^53 are their digits, and other parts keep their identity", () => {
  const value = parse('{"a":{"b":1},"n":[12345678901234567890,1]}') as JsonObject;
  const texts = asTexts(value) as JsonObject;
  assert.deepEqual(texts, { a: { b: 1 }, n: ["12345678901234567890", 1] });
  assert.equal(texts["a"], value["a"]);
  assert.equal(asTexts(texts), texts);
});

test("the checksum is that of the service", () => {
  assert.equal(hashOf([]), "0000000000000000");
  assert.equal(hashOf(["15266929873826298676"]), "0d3bd03b3be000bf");
  assert.equal(hashOf(["a".repeat(128)]), "f06643fe9c7e18da");
  assert.equal(hashOf(["é".repeat(150)]), "28b9f39990973bc4");
  assert.equal(hashOf(["1", "15266929873826298676", "1"]), "0d3bd03b3be000bf");
});

test("options are split outside of brackets and strings", () => {
  const projection = `projection=[/a AS /b, CONCAT('],', "]") AS /c, r'\\']`;
  assert.deepEqual(splitOptions(`oof, select=[-/,+/id,+[/a,b]],,${projection},pause`), [
    "oof",
    "select=[-/,+/id,+[/a,b]]",
    projection,
    "pause",
  ]);
  assert.equal(withPause("oof,pause,select=[-/,+/id]", false), "oof,select=[-/,+/id]");
  assert.equal(withPause("", true), "pause");
});

test("a select list keeps the fields that it names", () => {
  const record: JsonObject = { id: 1, a: { b: 1, c: 2 }, legs: [{ q: 1, x: 2 }, { x: 3 }, 4], empty: {}, none: [] };
  const cases: [string, JsonObject][] = [
    ["[-/,+/id,+/a/b]", { id: 1, a: { b: 1 } }],
    ["[-/a]", { id: 1, legs: record["legs"]!, empty: {}, none: [] }],
    ["[-/,+/legs/q]", { legs: [{ q: 1 }] }],
    ["[-/a/c,-/legs/x]", { id: 1, a: { b: 1 }, legs: [{ q: 1 }, 4], empty: {}, none: [] }],
    ["[-/a,+/a]", { id: 1, legs: record["legs"]!, empty: {}, none: [] }],
    ["[-/,+/empty/x,+/none]", { none: [] }],
    ["[-/,+/nothing]", {}],
    ["[-/,+[/id]]", { id: 1 }],
  ];
  for (const [list, expected] of cases) assert.deepEqual(new Select(list).apply(record), expected, list);
});
