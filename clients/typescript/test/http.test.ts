/** Requests of the HTTP API that no service answers. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { HttpApi } from "../src/http.js";

const failed = (code?: string): Error => new TypeError("fetch failed", { cause: { code } });

const CASES: readonly (readonly [cause: Error, reason: string])[] = [
  [new DOMException("the operation timed out", "TimeoutError"), "request timeout"],
  [failed("UND_ERR_HEADERS_TIMEOUT"), "request timeout"],
  [failed("UND_ERR_BODY_TIMEOUT"), "request timeout"],
  [failed("UND_ERR_CONNECT_TIMEOUT"), "not connected"],
  [failed("ECONNREFUSED"), "not connected"],
  [failed(), "not connected"],
  [new TypeError("Failed to fetch"), "not connected"],
];

for (const [cause, reason] of CASES) {
  test(`without an answer, the reason is ${reason}: ${(cause.cause as { code?: string })?.code ?? cause.name}`, async () => {
    const fetch = mock.method(globalThis, "fetch", () => Promise.reject(cause));
    const http = new HttpApi("http://service", { renews: false, token: async () => undefined });
    await assert.rejects(http.fetch("topics"), { reason, cause });
    fetch.mock.restore();
  });
}

test("a request that its caller aborts fails as the caller's signal says", async () => {
  const aborted = new DOMException("aborted", "AbortError");
  const fetch = mock.method(globalThis, "fetch", () => Promise.reject(aborted));
  const http = new HttpApi("http://service", { renews: false, token: async () => undefined });
  await assert.rejects(http.fetch("topics"), aborted);
  fetch.mock.restore();
});
