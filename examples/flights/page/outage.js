// What the visitor is told while a part is dead and afterwards: from the demo's states, and from what the page itself receives.
import { count, many, seconds, wall } from "./text.js";

const PARTS = {
  materializer: { name: "Materializer", done: "Materializer was killed" },
  "query-service": { name: "Query service", done: "Query service was killed" },
  kafka: { name: "Kafka", done: "Kafka was killed and restarted" },
};

/** At night, and where batches take long, nothing comes for some seconds. After more, nothing on the page is live. */
const QUIET_S = 10;

const BACK = { "catching-up": "Back: catching up", checking: "Back: comparing every record" };

/** So many lines are listed with what came of them; the others are in one sentence, which names so many of them. */
export const LISTED = 2;
const NAMED = 6;

/** The sentence about the lines that are not listed. */
export function earlier(lines) {
  const rest = lines.slice(LISTED);
  if (!rest.length) return "";
  const bad = rest.filter(({ kind }) => kind === "bad").length;
  const named = rest.slice(0, NAMED).map(({ when, what }) => `${when} ${what}`);
  const more = rest.length > NAMED ? `; and ${count(rest.length - NAMED)} more` : "";
  return `${count(rest.length)} earlier${bad ? `, ${bad} of them with a problem` : ""}: ${named.join("; ")}${more}.`;
}

/** When the outage of an event was over, in seconds since 1970; undefined while it is not. One that nothing came after has no length. */
const overAt = ({ pressed_s: since, back_s: back, is_lossless: lossless }) => (back === null && lossless === null ? undefined : since + (back ?? 0));

/** An outage begins when a button is pressed, and ends when the demo's subscriber has a later change: on each page at the same moment. */
export class Outages {
  #events = [];
  /** Whether the page's views have been live since the newest outage: until then, it explains why they are not. */
  #isBack = true;
  /** When the page's views lost the connection, where no event explains it. */
  #lost;
  /** Whether all that was fed has come. */
  #isSettled = true;
  /** For how many seconds no change has come to the demo's subscriber; Infinity before the first one. */
  #silence = 0;
  /** The times in which nothing came for long and no button explains it, each with its beginning and its end. */
  #stalls = [];

  /** Take the events of a state, and whether the page's views are live. */
  take({ events, is_settled: isSettled, came_s: came, stalls = [] }, isLive, now) {
    this.#events = events;
    this.#stalls = stalls.filter(([since, until]) => !events.some((event) => since < (overAt(event) ?? now) && event.pressed_s < until));
    this.#silence = came === null ? Infinity : now - came;
    this.#isSettled = isSettled;
    if (this.current !== undefined) this.#isBack = false;
    else if (isLive) this.#isBack = true;
    if (isLive || !this.#isBack) this.#lost = undefined;
    else this.#lost ??= now;
  }

  /** The event that nothing comes through for, if there is one. */
  get current() {
    const newest = this.#events.at(-1);
    return newest !== undefined && overAt(newest) === undefined ? newest : undefined;
  }

  /** One of live, quiet, down, catching-up and checking. */
  get phase() {
    if (this.current !== undefined || this.#lost !== undefined) return "down";
    if (!this.#isBack) return "catching-up";
    if (this.#events.at(-1)?.is_lossless !== null) return this.#silence < QUIET_S ? "live" : "quiet";
    return this.#isSettled ? "checking" : "catching-up";
  }

  /** Since when something is dead, in seconds since 1970; undefined while nothing is. */
  get since() {
    return this.current?.pressed_s ?? this.#lost;
  }

  /** What the length of the outage counts from. Changes that were on their way still come for a moment. */
  get sinceWhat() {
    return this.current === undefined ? "since the connection was lost" : "since it was killed";
  }

  /** What is dead, or that nothing is. */
  get chip() {
    const { current } = this;
    if (current !== undefined) return `${PARTS[current.part].name} dead`;
    if (this.#lost !== undefined) return "Connection lost";
    if (this.phase === "quiet") return this.#silence === Infinity ? "No change yet" : `No change for ${Math.floor(this.#silence)} s`;
    return BACK[this.phase] ?? "Live";
  }

  /** The outages and stalls for the chart, in their order: each with its beginning and, if it is over, its end. */
  get spans() {
    const spans = this.#events.map((event) => ({ since: event.pressed_s, until: overAt(event) }));
    const stalls = this.#stalls.map(([since, until]) => ({ since, until }));
    const all = [...spans, ...stalls].sort((one, other) => one.since - other.since);
    return this.#lost === undefined ? all : [...all, { since: this.#lost, until: undefined }];
  }

  /** The lines about what was done and what stood still, the newest first: a kind, when, what, and what came of it. */
  get lines() {
    const events = this.#events.map((event) => ({
      since: event.pressed_s,
      kind: event.is_lossless === null ? "" : event.is_lossless ? "ok" : "bad",
      when: wall(event.pressed_s),
      what: overAt(event) !== undefined ? PARTS[event.part].done : `${PARTS[event.part].name} is dead`,
      result: this.#result(event),
    }));
    const stalls = this.#stalls.map(([since, until]) => ({
      since,
      kind: "",
      when: wall(since),
      what: `No changes for ${seconds(until - since)}`,
      result: "No button was pressed: a part hung, or was too slow. The changes have come since.",
    }));
    return [...events, ...stalls].sort((one, other) => other.since - one.since);
  }

  #result(event) {
    if (overAt(event) === undefined) return "It starts again by itself. The page waits for a change that was written after that.";
    const { back_s: back, is_lossless: lossless, verdict, records } = event;
    const waited = back === null ? "" : `Back after ${seconds(back)}. `;
    if (lossless === null) return `${waited}${this.#isSettled ? "Comparing every record…" : "What was written meanwhile is arriving…"}`;
    return `${waited}${lossless ? `${count(records)} flights compared: ${verdict}.` : verdict}`;
  }

  /** What the comparisons so far have found, where none follows. */
  get checks() {
    const made = this.#events.filter(({ is_lossless: lossless }) => lossless !== null);
    const clean = made.filter(({ is_lossless: lossless }) => lossless).length;
    const rest = "What came afterwards was not compared.";
    if (made.length === 0) return "Nothing was compared with what was fed.";
    const share = clean === made.length ? "" : `${clean} of `;
    return `${share}${many(made.length, "comparison")} before found that nothing was lost. ${rest}`;
  }
}
