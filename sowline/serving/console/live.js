// The records of a topic as the grid shows them: those that match, which come bit by bit and are followed then; a page or
// groups that the service keeps; or the newest messages of a topic without a SOW.
import { columnsOf, difference } from "./fields.js";
import { groupedOptions, recordsIn, valuesOf } from "./groups.js";
import { aboutRecords, matchesOf, service, SowlineError } from "./service.js";

export const MESSAGES_MAX = 5000;
export const PAGE_MAX = 10_000;
const BATCH = 500;

// How long a change is shown as new.
export const FRESH_MS = 1200;

// What is shown, with these events: `accepted`, once the first records are there; `state`; `came`, with the keys of records
// that were loaded; `put` and `gone`, with the key of one that has changed.
class Live extends EventTarget {
  // The changes of the last moments by key: when they came, and the paths that they changed; null for a new record.
  changed = new Map();
  // A status of the client's views.
  state = "loading";
  error;
  // The number of changes received.
  messages = 0;
  // The number of records that matched when they were loaded, and when that was; undefined while it is not known.
  matches;
  matchesAt;
  warnings = [];
  // When it was stopped; undefined while it is followed.
  stoppedAt;
  // The order that the service keeps, as pairs of a path and a direction.
  order = [];
  // Whether the service keeps the order and the number of the records.
  isPage = false;
  // Whether these are groups of records.
  isGrouped = false;
  // The groups that the console asked for; undefined if it asked for records.
  groups;
  // What the console asked for.
  asked;

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  // Stays as it is from now on.
  stop() {
    this.stoppedAt = new Date();
    this.close();
  }

  fail(error) {
    this.error = error;
    this.become("failed");
  }

  accept() {
    this.dispatchEvent(new Event("accepted"));
  }

  // Whether these are all records that match.
  get isWhole() {
    return false;
  }

  // The number of records that are shown, or that the groups shown have.
  get rows() {
    return this.size;
  }

  // The first rows are drawn: what there is more may come.
  goOn() {}

  // The columns of a row, as pairs of a path and a value; none if it has left.
  pairs(key) {
    const row = this.row(key);
    return row ? columnsOf(row) : [];
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

// Records that are followed by a view of the client.
class LiveView extends Live {
  view;

  follow(topic, reading) {
    this.view = service.client.view(topic, { batchSize: BATCH, ...reading });
    const note = (status) => (status === "failed" ? this.fail(this.view.error) : this.become(status));
    this.view.onStatus(note);
    note(this.view.status);
  }

  // Only the service knows how many records match, if not all of them are here.
  async count(topic, { filter, condition }) {
    try {
      this.matches = await matchesOf(topic, { filter, condition });
      this.matchesAt = new Date();
      this.dispatchEvent(new Event("state"));
    } catch (error) {
      console.warn("the records could not be counted", error);
    }
  }

  take(changes) {
    this.messages += changes.length;
    for (const { type, key, before, record } of changes) {
      if (type === "remove") this.remove(key);
      else this.put(key, before, record);
    }
  }

  get size() {
    return this.view.size;
  }

  // The record with its `timestamp` and, of a document, its `intrinsics`.
  row(key) {
    return this.view.row(key);
  }

  keys() {
    return this.view.keys();
  }

  get bookmark() {
    return this.view?.bookmark;
  }

  // The number of records that did not fit.
  get cut() {
    return this.view?.leftOut ?? 0;
  }

  close() {
    this.view?.close();
  }
}

// The records that match: a first page at once; those of one instant, which are shown as they come; and then each change.
class LiveRecords extends LiveView {
  #topic;
  #query;
  // The rows of that instant by key, but for those that have changed since.
  #loaded = new Map();
  #goOn;
  #drawn = new Promise((resolve) => { this.#goOn = resolve; });
  #isWhole = false;
  #closed = false;

  constructor(topic, { filter, condition, options, conflation, limit }) {
    super();
    this.#topic = topic.name;
    const reading = { filter, condition, options: [...aboutRecords(topic), ...options].join(",") };
    this.#load(reading, conflation, limit).catch((error) => !this.#closed && this.fail(error));
  }

  async #load(reading, conflation, limit) {
    let bookmark = await this.#read({ ...reading, topN: Math.min(BATCH, limit) });
    const isPart = this.size === BATCH && limit > BATCH;
    const counted = isPart || this.size === limit ? this.count(this.#topic, reading) : undefined;
    if (isPart) {
      this.accept();
      // To read and to draw at the same time would take the first rows longer.
      await Promise.all([this.#drawn, counted]);
      if (this.#closed) return;
      bookmark = await this.#read({ ...reading, topN: limit });
    }
    await counted;
    if (this.#closed) return;
    this.matches ??= this.size;
    this.#isWhole = this.size < limit;
    const records = [...this.#loaded].map(([key, { record }]) => [key, record]);
    this.follow(this.#topic, { ...reading, options: [...conflation, reading.options].join(","), limit, records, bookmark });
    this.view.onChange(({ changes }) => this.take(changes));
    this.accept();
  }

  // Reads the records of one instant, and returns its bookmark.
  async #read(reading) {
    this.#query = service.client.sow(this.#topic, { ...reading, batchSize: BATCH });
    let keys = [];
    let sent;
    const tell = () => {
      if (keys.length) this.dispatchEvent(new CustomEvent("came", { detail: keys }));
      keys = [];
    };
    for await (const message of this.#query) {
      if (message.command === "group_begin") {
        // It begins again if the connection was lost in between.
        sent = new Set();
        this.warnings = message.warnings;
      } else if (message.command === "sow") {
        const { sowKey: key, data: record, timestamp, intrinsics } = message;
        this.#loaded.set(key, { key, record, timestamp, intrinsics });
        sent.add(key);
        keys.push(key);
        if (keys.length === BATCH) tell();
      } else if (message.command === "group_end") {
        tell();
        for (const key of this.#loaded.keys()) if (!sent.has(key)) this.remove(key);
        return message.bookmark;
      }
    }
    throw new SowlineError("internal", "the query ended without the end of its records");
  }

  goOn() {
    this.#goOn();
  }

  get isWhole() {
    return this.#isWhole && this.cut === 0;
  }

  put(key, before, after) {
    this.#loaded.delete(key);
    super.put(key, before, after);
  }

  remove(key) {
    this.#loaded.delete(key);
    super.remove(key);
  }

  get size() {
    return this.view ? this.view.size : this.#loaded.size;
  }

  // The view began with the record alone.
  row(key) {
    return this.#loaded.get(key) ?? this.view?.row(key);
  }

  keys() {
    return this.view ? this.view.keys() : this.#loaded.keys();
  }

  close() {
    this.#closed = true;
    this.#query?.close();
    super.close();
  }
}

// Records in an order, or groups, that the service keeps: they come at once.
class LivePage extends LiveView {
  constructor(topic, { filter, condition, options, conflation, order, limit, groups }) {
    super();
    this.groups = groups;
    this.isGrouped = groups !== undefined || isGrouped(options);
    this.isPage = Boolean(order) && !groups;
    if (this.isPage) {
      this.order = order.split(",").map((term) => term.trim().split(/\s+/)).filter(([path]) => path)
        .map(([path, direction = "ASC"]) => [path, direction.toLowerCase()]);
    }
    const most = this.isPage ? Math.min(limit, PAGE_MAX) : limit;
    const bounds = this.isPage ? { orderBy: order, skipN: 0, topN: most } : groups ? {} : { limit: most };
    const asked = groups ? [groupedOptions(groups)] : this.isGrouped ? [] : aboutRecords(topic);
    try {
      this.follow(topic.name, { filter, condition, options: [...conflation, ...asked, ...options].join(","), ...bounds });
    } catch (error) {
      this.fail(error);
      return;
    }
    const count = () => this.count(topic.name, { filter, condition });
    this.view.ready.then(() => this.#begin(most, count), () => {}); // a failure is a status
  }

  async #begin(most, count) {
    this.view.onChange(({ changes }) => this.take(changes));
    this.warnings = this.view.warnings;
    this.matches = this.rows;
    if (this.size >= most && !this.isGrouped) await count();
    this.accept();
  }

  get rows() {
    return this.groups ? recordsIn(this.view.values()) : this.size;
  }

  pairs(key) {
    return this.groups ? valuesOf(this.groups, this.row(key)?.record) : super.pairs(key);
  }
}

const isGrouped = (options) => options.some((option) => option.includes("grouping="));

// The newest messages of a topic without a SOW.
class LiveMessages extends Live {
  #subscription;
  #leave;
  #number = 0;
  #rows = new Map();
  // The number of messages that had to give way to newer ones.
  cut = 0;

  constructor(topic, { filter, condition, options, conflation }) {
    super();
    const { client } = service;
    const reading = { filter, condition, options: ["timestamp", ...conflation, ...options].join(",") };
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

// What was asked for, as live records. Only records without an order are too many to come at once.
export function liveOf(topic, asked) {
  const isPage = asked.groups || asked.order || isGrouped(asked.options);
  const made = !topic.sow ? new LiveMessages(topic, asked) : isPage ? new LivePage(topic, asked) : new LiveRecords(topic, asked);
  return Object.assign(made, { asked });
}
