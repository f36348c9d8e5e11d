// The records of a topic as the grid shows them: a view of the client, or the newest messages of a topic without a SOW.
import { difference } from "./fields.js";
import { matchesOf, service } from "./service.js";

export const MESSAGES_MAX = 5000;
export const PAGE_MAX = 10_000;

// How long a change is shown as new.
export const FRESH_MS = 1200;

// What is shown, with these events: `accepted`, once the first records are there; `state`; `put` and `gone`, with a key.
class Live extends EventTarget {
  // The changes of the last moments by key: when they came, and the paths that they changed; null for a new record.
  changed = new Map();
  // A status of the client's views.
  state = "loading";
  error;
  // The number of changes received.
  messages = 0;

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  fail(error) {
    this.error = error;
    this.become("failed");
  }

  accept() {
    this.dispatchEvent(new Event("accepted"));
  }

  // Notes the change of a record, and forgets the changes that are no longer new.
  put(key, before, after) {
    const now = performance.now();
    for (const [noted, { at }] of this.changed) {
      if (now - at < FRESH_MS) break;
      this.changed.delete(noted);
    }
    this.changed.delete(key);
    this.changed.set(key, { at: now, paths: before === undefined ? null : new Set(difference(before, after).map(({ path }) => path)) });
    this.dispatchEvent(new CustomEvent("put", { detail: key }));
  }

  remove(key) {
    this.changed.delete(key);
    this.dispatchEvent(new CustomEvent("gone", { detail: key }));
  }
}

class LiveView extends Live {
  #view;
  // The number of records that matched when they were loaded.
  matches = 0;
  isGrouped;
  // Whether the service keeps the order and the number of the records.
  isPage;
  // The order that the service keeps, as pairs of a path and a direction.
  order;

  constructor(topic, { filter, condition, options, order, limit }) {
    super();
    this.isGrouped = options.some((option) => option.includes("grouping="));
    this.isPage = Boolean(order);
    this.order = order.split(",").map((term) => term.trim().split(/\s+/)).filter(([path]) => path)
      .map(([path, direction = "ASC"]) => [path, direction.toLowerCase()]);
    const about = this.isGrouped ? [] : ["timestamp", ...(topic.documents ? ["intrinsics"] : [])];
    const most = this.isPage ? Math.min(limit, PAGE_MAX) : limit;
    const bounds = this.isPage ? { orderBy: order, skipN: 0, topN: most } : { limit: most };
    try {
      this.#view = service.client.view(topic.name, { filter, condition, options: [...about, ...options].join(","), batchSize: 500, ...bounds });
    } catch (error) {
      this.fail(error);
      return;
    }
    this.#view.onStatus((status) => (status === "failed" ? this.fail(this.#view.error) : this.become(status)));
    const count = () => matchesOf(topic.name, { filter, condition });
    this.#view.ready.then(() => this.#begin(most, count), () => {}); // a failure is a status
  }

  async #begin(most, count) {
    this.#view.onChange(({ changes }) => this.#take(changes));
    this.matches = this.size;
    // If the view is full, the service knows how many there are.
    if (this.size >= most && !this.isGrouped) {
      await count().then((matches) => { this.matches = matches; }, (error) => console.warn("the records could not be counted", error));
    }
    this.accept();
  }

  #take(changes) {
    this.messages += changes.length;
    for (const { type, key, before, record } of changes) {
      if (type === "remove") this.remove(key);
      else this.put(key, before, record);
    }
  }

  get size() {
    return this.#view.size;
  }

  // The record with its `timestamp` and, of a document, its `intrinsics`.
  row(key) {
    return this.#view.row(key);
  }

  keys() {
    return this.#view.keys();
  }

  get bookmark() {
    return this.#view.bookmark;
  }

  get warnings() {
    return this.#view.warnings;
  }

  // The number of records that did not fit.
  get cut() {
    return this.#view.leftOut;
  }

  close() {
    this.#view?.close();
  }
}

// Has the same parts as `LiveView`, as far as messages have them.
class LiveMessages extends Live {
  #subscription;
  #leave;
  #number = 0;
  #rows = new Map();
  matches = 0;
  isGrouped = false;
  isPage = false;
  order = [];
  warnings = [];
  // The number of messages that had to give way to newer ones.
  cut = 0;

  constructor(topic, { filter, condition, options }) {
    super();
    const { client } = service;
    const reading = { filter, condition, options: ["timestamp", ...options].join(",") };
    this.#subscription = client.subscribe(topic.name, reading, (message) => this.#take(message));
    const follow = () => this.become(client.status === "open" ? "live" : "reconnecting");
    this.#subscription.started.then(() => {
      this.#leave = client.onStatus(follow);
      follow();
      this.accept();
    }, () => {});
    this.#subscription.closed.then(() => this.become("closed"), (error) => this.fail(error));
  }

  #take({ command, data, timestamp }) {
    if (command !== "publish") return;
    this.messages += 1;
    this.#number += 1;
    const key = `message ${this.#number}`;
    this.#rows.set(key, { key, record: data, timestamp });
    this.put(key, undefined, data);
    if (this.size > MESSAGES_MAX) {
      const [oldest] = this.#rows.keys();
      this.#rows.delete(oldest);
      this.cut += 1;
      this.remove(oldest);
    }
  }

  get size() {
    return this.#rows.size;
  }

  row(key) {
    return this.#rows.get(key);
  }

  keys() {
    return this.#rows.keys();
  }

  get bookmark() {
    return this.#subscription.bookmark ?? "";
  }

  close() {
    this.#leave?.();
    this.#subscription.close();
  }
}

export const liveOf = (topic, asked) => new (topic.sow ? LiveView : LiveMessages)(topic, asked);
