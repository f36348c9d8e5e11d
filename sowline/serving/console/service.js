// The client of the query service that all pages share, and the token of its user.
import { JsonText, SowlineError, connect, literal, parse, stringify } from "./built/sowline.js";

const URL_OF_SERVICE = new URL("../", document.baseURI).href;
const TOKEN = "sowline.token";
const LOGON_REASONS = ["auth failure", "logon required", "bad request"];

// What to do, for each way in which a network fails. Browsers name these in their own words, such as "Failed to fetch".
const NETWORK = {
  "not connected": "The query service does not answer. The console tries again by itself. If this lasts, see whether the service runs, and whether this computer reaches it.",
  "request timeout": "The query service took too long to answer. It may still do what was asked of it: look before you ask again.",
  disconnected: "The connection was lost before the answer came. A write may have been applied: look before you write again.",
};

export { JsonText, SowlineError, literal, parse, stringify };

// The error as the console shows it.
export const said = (error) => (error?.reason in NETWORK ? new SowlineError(error.reason, NETWORK[error.reason], { cause: error }) : error);

class Service extends EventTarget {
  // What depends on the client begins again when this number changes.
  logons = 0;
  client;
  #answeredAt;

  constructor() {
    super();
    this.#connect();
  }

  // Makes another client, with another token: its user may read other records.
  logOn(token) {
    if (token) sessionStorage.setItem(TOKEN, token);
    else sessionStorage.removeItem(TOKEN);
    this.client.close();
    this.logons += 1;
    this.#connect();
  }

  // Whether there is no connection, though there may be one again: what is shown is as old as `heardAt`.
  get isLost() {
    return this.client.status === "connecting" || this.client.status === "reconnecting";
  }

  // When the newest message or answer came; undefined before the first one.
  get heardAt() {
    const { heardAt } = this.client;
    return heardAt > this.#answeredAt || !this.#answeredAt ? heardAt : this.#answeredAt;
  }

  // Sends a request of the HTTP API; throws a SowlineError.
  async request(path, init) {
    try {
      const answer = await this.client.fetch(path, init);
      this.#answeredAt = new Date();
      return answer;
    } catch (error) {
      throw said(error);
    }
  }

  // Runs a write, which is given up when `closed` is aborted, or when the connection is lost before it is sent: it would
  // be applied later, when nobody expects it any more.
  async write(work, closed) {
    const stop = new AbortController();
    const lost = () => this.isLost && stop.abort(new SowlineError("not connected", "Nothing was written: there is no connection to the query service. Try again once it is back."));
    const left = () => stop.abort(closed.reason);
    if (closed.aborted) left();
    closed.addEventListener("abort", left);
    this.addEventListener("status", lost);
    lost();
    try {
      stop.signal.throwIfAborted();
      return await work(this.client, stop.signal);
    } catch (error) {
      throw error === stop.signal.reason ? error : said(error);
    } finally {
      closed.removeEventListener("abort", left);
      this.removeEventListener("status", lost);
    }
  }

  // The reason for which the service does not let this user in; undefined if it does, or if that is not known.
  get refusal() {
    const { error } = this.client;
    return LOGON_REASONS.includes(error?.reason) ? error : undefined;
  }

  #connect() {
    const client = connect(URL_OF_SERVICE, {
      token: sessionStorage.getItem(TOKEN) || undefined,
      // Every digit counts, also in what is filtered by and written.
      integers: "bigint",
      connectSeconds: Infinity,
    });
    this.client = client;
    const note = () => client === this.client && this.dispatchEvent(new Event("status"));
    client.onStatus(note);
    note();
  }
}

export const service = new Service();

// Asks the HTTP API for JSON, in which integers beyond 2^53 are bigints; throws a SowlineError.
export const askJson = async (path, init) => parse(await (await service.request(path, init)).text());

export const topicPath = (topic, rest) => `topics/${topic.split("/").map(encodeURIComponent).join("/")}/${rest}`;

// Counts the records of a topic that a query would find.
export async function matchesOf(topic, query) {
  const { accessPaths } = await service.client.explain(topic, query);
  return accessPaths.reduce((sum, { matches }) => sum + matches, 0);
}

// The options with which a read of records has all that the console shows of them.
export const aboutRecords = (topic) => ["timestamp", ...(topic.documents ? ["intrinsics"] : [])];
