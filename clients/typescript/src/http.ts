/** The HTTP API of a query service: one request, one answer, with the client's token. */

import { SowlineError } from "./errors.js";

/** Return a topic's or a key's name as one step of a URL's path; dots alone would be the directory or its parent. */
export const pathStep = (text: string): string => {
  const quoted = encodeURIComponent(text);
  return text === "." || text === ".." ? quoted.replaceAll(".", "%2E") : quoted;
};

/** What a request needs of its client's credentials. */
export interface Tokens {
  /** Whether there may be another token when this one is refused. */
  readonly renews: boolean;
  token(isFresh: boolean): Promise<string | undefined>;
}

/** How Node says that a service took too long to answer. A time-out of the connection means that there is none. */
const ANSWER_TIMEOUT = /^UND_ERR_(?:HEADERS|BODY)_TIMEOUT$/;

export class HttpApi {
  readonly #base: string;
  readonly #tokens: Tokens;

  constructor(url: string, tokens: Tokens) {
    this.#base = url.replace(/^ws/, "http").replace(/\/*$/, "");
    this.#tokens = tokens;
  }

  /** Send a request below `/v1/`; throws the service's error unless the answer is a success. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    let response = await this.#send(path, init, false);
    if (response.status === 401 && this.#tokens.renews) response = await this.#send(path, init, true);
    if (!response.ok) throw await refusal(response);
    return response;
  }

  async #send(path: string, init: RequestInit, isFresh: boolean): Promise<Response> {
    const token = await this.#tokens.token(isFresh);
    const headers = new Headers(init.headers);
    if (token !== undefined) headers.set("Authorization", `Bearer ${token}`);
    try {
      return await fetch(`${this.#base}/v1/${path}`, { cache: "no-store", ...init, headers });
    } catch (cause) {
      if ((cause as Error).name === "AbortError") throw cause;
      throw noAnswer(this.#base, cause);
    }
  }
}

/** Return the error for a request that was not answered: no service is there, or it takes too long. */
function noAnswer(base: string, cause: unknown): SowlineError {
  const { name, cause: inner } = cause as { name?: string; cause?: { code?: string } };
  if (name === "TimeoutError" || ANSWER_TIMEOUT.test(inner?.code ?? "")) {
    return new SowlineError(
      "request timeout",
      `expected a query service at ${base} to go on with its answer in time, got nothing; it may still do what was` +
        " asked, so look before you ask again",
      { cause },
    );
  }
  return new SowlineError("not connected", `expected a query service at ${base}: ${String(cause)}`, { cause });
}

async function refusal(response: Response): Promise<SowlineError> {
  try {
    const { reason, message } = (await response.json()) as { reason: string; message: string };
    if (typeof reason === "string") return new SowlineError(reason, message);
  } catch {
    // The answer is not the service's, but that of a proxy before it.
  }
  return new SowlineError("not connected", `expected an answer of a query service, got ${response.status}`);
}
