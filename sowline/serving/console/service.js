// The client of the query service that all pages share, and the token of its user.
import { connect, JsonText, SowlineError } from "./built/sowline.js";

const URL_OF_SERVICE = new URL("../", document.baseURI).href;
const TOKEN = "sowline.token";
const LOGON_REASONS = ["auth failure", "logon required", "bad request"];

export { JsonText, SowlineError };

class Service extends EventTarget {
  // What depends on the client begins again when this number changes.
  logons = 0;
  client;

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

  // The reason for which the service does not let this user in; undefined if it does, or if that is not known.
  get refusal() {
    const { error } = this.client;
    return LOGON_REASONS.includes(error?.reason) ? error : undefined;
  }

  #connect() {
    const client = connect(URL_OF_SERVICE, {
      token: sessionStorage.getItem(TOKEN) || undefined,
      // A grid that can't add a long number is better than one that shows a wrong one.
      integers: "text",
      connectSeconds: Infinity,
    });
    this.client = client;
    const note = () => client === this.client && this.dispatchEvent(new Event("status"));
    client.onStatus(note);
    note();
  }
}

export const service = new Service();

// Asks the HTTP API for JSON; throws a SowlineError.
export const askJson = async (path, init) => (await service.client.fetch(path, init)).json();

export const topicPath = (topic, rest) => `topics/${topic.split("/").map(encodeURIComponent).join("/")}/${rest}`;

// Counts the records of a topic that a query would find.
export async function matchesOf(topic, query) {
  const { accessPaths } = await service.client.explain(topic, query);
  return accessPaths.reduce((sum, { matches }) => sum + matches, 0);
}

// The options with which a read of records has all that the console shows of them.
export const aboutRecords = (topic) => ["timestamp", ...(topic.documents ? ["intrinsics"] : [])];
