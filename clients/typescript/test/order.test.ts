import assert from "node:assert/strict";
import { test } from "node:test";

import { layOver, formatBookmark, isReturn, splitRange, bookmarkText, type Positions } from "../src/bookmark.js";
import type { Json, JsonObject } from "../src/json.js";
import { Order } from "../src/order.js";

function sorted(text: string, records: readonly JsonObject[]): JsonObject[] {
  const order = new Order(text);
  const rows = records.map((record, at) => ({
    record,
    key: String(at).padStart(3, "0"),
    sortKey: order.keyOf(record),
  }));
  rows.sort((one, other) => order.compare(one.sortKey, one.key, other.sortKey, other.key));
  return rows.map(({ record }) => record);
}

const values = (text: string, ...given: Json[]): unknown[] =>
  sorted(
    text,
    given.map((v) => ({ v })),
  ).map(({ v }) => v);

test("NULL is first, then numbers by their exact value, then strings by code point", () => {
  const expected: Json[] = [
    null,
    -1,
    false,
    1,
    2 ** 53,
    2n ** 53n + 1n,
    1e300,
    "10",
    "Z",
    "b",
    "\ufffd",
    "\u{1f600}",
  ];
  const reversed = [...expected].reverse();
  assert.deepEqual(values("/v", ...reversed), expected);
  assert.deepEqual(values("/v DESC", ...expected), reversed);
  const equal: Json[] = ["", [], { a: 1 }, null];
  assert.deepEqual(values("/v", true, 1, ...equal, 0, false), [...equal, 0, false, true, 1]);
});

test("records that are equal are in the order of their SOW keys, also with DESC", () => {
  const records = [{ id: 2 }, { id: 1 }, { id: 3 }];
  assert.deepEqual(sorted("/x DESC", records), records);
});

test("with TEXT, values are where their texts belong", () => {
  assert.deepEqual(values("/v TEXT", 9, 10, "1e", true, 0.00001, 1e16, 2.5), [10, "1e", 1e16, 0.00001, 2.5, 9, true]);
  assert.deepEqual(values("/v desc text", 9, 10), [9, 10]);
});

test("an array counts as its first element, and paths go through arrays", () => {
  assert.deepEqual(values("/v", [3, 1], 2, [[1]], [{}, 4]), [[[1]], 2, [3, 1], [{}, 4]]);
  assert.deepEqual(values("/v/a", { a: 2 }, [{ b: 1 }, { a: 1 }], [{ a: 3 }]), [
    [{ b: 1 }, { a: 1 }],
    { a: 2 },
    [{ a: 3 }],
  ]);
  assert.deepEqual(values("/v[1]", [3, 1], [1, 3], 0), [0, [3, 1], [1, 3]]);
});

test("an order is a list of terms", () => {
  const records = [
    { a: 1, "b c": 1 },
    { a: 1, "b c": 2 },
    { a: 0, "b c": 0 },
  ];
  assert.deepEqual(sorted("/a ASC , [/b c] desc", records), [records[2], records[1], records[0]]);
  assert.ok(new Order("  ").isEmpty);
  for (const wrong of ["a", "/a,", "/a DESC DESC", "/a TEXT DESC", "/a b", ", /a"]) {
    assert.throws(() => new Order(wrong), { reason: "invalid order by" }, wrong);
  }
});

test("a bookmark is laid over another one, partition by partition", () => {
  const positions: Positions = new Map();
  for (const bookmark of ["epoch", "a:0@-1,10@3/5.2,2@7", "b.c:0@9999999999999999999", "a:2@7", "a:002@8"]) {
    layOver(positions, bookmark);
  }
  assert.equal(formatBookmark(positions), "a:0@-1,2@8,10@3/5.2;b.c:0@9999999999999999999");
  assert.equal(formatBookmark(new Map()), "epoch");
  for (const wrong of ["x", "a:0", "a:0@", "a:x@1", "a:0@1,"]) {
    assert.throws(() => layOver(new Map(), wrong), { reason: "invalid bookmark" }, wrong);
  }
  for (const wrong of ["a:2@", "a:2@x", "a:2@9,", "a:2@9;b", "a:@9", "a: 2@9"]) {
    assert.throws(() => layOver(positions, wrong), { reason: "invalid bookmark" }, wrong);
  }
  layOver(positions, "a:2@9,0@1;b.c:0@3");
  assert.equal(formatBookmark(positions), "a:0@1,2@9,10@3/5.2;b.c:0@3");
});

test("a start is a return unless it is now or a time", () => {
  for (const start of [
    "",
    "now",
    " NOW ",
    "0|1|",
    "20261121T120000Z",
    "20261121T120000.5",
    '["now"]',
    "[20261121T120000Z..now)",
    "(now..a:0@1]",
  ]) {
    assert.ok(!isReturn(start), start);
  }
  for (const start of [
    "epoch",
    "0",
    "a:0@1",
    '["now","a:0@1"]',
    "(a:0@1..now]",
    "[epoch..20261121T120000Z)",
    "(a..b:0@1;c:1@2.3..now]",
  ]) {
    assert.ok(isReturn(start), start);
  }
  assert.deepEqual(splitRange("(a..b:0@1;c:1@2.3..d..e:0@5]"), {
    start: "a..b:0@1;c:1@2.3",
    end: "d..e:0@5",
    takesEnd: true,
  });
  assert.equal(bookmarkText(new Date("2026-11-21T12:00:00.250Z")), "20261121T120000.250Z");
  assert.equal(bookmarkText(["a:0@1", new Date(0)]), '["a:0@1","19700101T000000.000Z"]');
});
