/** The calls of listeners, in the order in which the values came. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Emitter } from "../src/emitter.js";

test("a value that a listener emits follows the one it is called with", () => {
  const emitter = new Emitter<string>();
  const seen: string[] = [];
  emitter.add((value) => {
    if (value === "open") {
      emitter.emit("closed");
      emitter.clear(); // as a client does that ends
    }
  });
  emitter.add((value) => seen.push(value));
  emitter.emit("open");
  assert.deepEqual(seen, ["open", "closed"]);
});
