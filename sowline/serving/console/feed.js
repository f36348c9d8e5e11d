// One live subscription: its records, its bookmark, and resuming at that bookmark after a lost connection.
import { Bookmark } from "./bookmark.js";
import { difference, merged, without } from "./fields.js";

export const MESSAGES_MAX = 5000;
export const PAGE_MAX = 10_000;

// How long a change is shown as new.
export const FRESH_MS = 1200;

export class Feed extends EventTarget {
  #wire;
  #topic;
  #asked;
  #id = "";
  #number = 0;
  #onWire = () => this.#wireMoved();
  #resumable = false;
  bookmark = new Bookmark();
  records = new Map();
  // The intrinsics of each document.
  known = new Map();
  state = "beginning";
  error = null;
  // When each record was updated, in ms since 1970.
  times = new Map();
  // The changes of the last moments by key: when they came, and the paths that they changed; null for a new record.
  changed = new Map();
  // Sentences of the service about what is probably a mistake in the request.
  warnings = [];
  // The number of records that matched at the start, and of live records that did not fit.
  matches = 0;
  cut = 0;
  messages = 0;

  constructor(wire, topic, asked) {
    super();
    this.#wire = wire;
    this.#topic = topic;
    this.#asked = asked;
    wire.addEventListener("state", this.#onWire);
    this.#wireMoved();
  }

  // Whether this is a subscription to groups.
  get isGrouped() {
    return this.#asked.options.some((option) => option.includes("grouping="));
  }

  // The order that the service keeps, as pairs of a path and a direction.
  get order() {
    return (this.#asked.order ?? "").split(",").map((term) => term.trim().split(/\s+/)).filter(([path]) => path)
      .map(([path, direction = "ASC"]) => [path, direction.toLowerCase()]);
  }

  // Whether the service keeps the order and the number of the records: a page.
  get isPage() {
    return this.#topic.sow && Boolean(this.#asked.order);
  }

  // Ends the subscription permanently.
  close() {
    this.#wire.removeEventListener("state", this.#onWire);
    this.#leave();
    this.state = "closed";
  }

  #leave() {
    if (!this.#id) return;
    this.#wire.forget(this.#id);
    this.#wire.send({ command: "unsubscribe", sub_id: this.#id });
    this.#id = "";
  }

  #wireMoved() {
    if (this.state === "failed" || this.state === "closed") return;
    if (this.#wire.state === "open") {
      this.#begin();
    } else if (this.#id) {
      this.#wire.forget(this.#id);
      this.#id = "";
      this.#become("reconnecting");
    }
  }

  #begin() {
    this.#leave();
    const { filter, condition, options, limit, order } = this.#asked;
    const isBack = this.#resumable && !this.bookmark.isEmpty;
    if (!isBack) this.#clear();
    this.#id = this.#wire.name("grid");
    this.#wire.listen(this.#id, (message) => this.#take(message));
    const hasSow = this.#topic.sow;
    const isOfDocuments = this.#topic.documents && !this.isGrouped;
    const page = this.isPage ? { order_by: order, skip_n: 0, top_n: Math.min(limit, PAGE_MAX) } : {};
    this.#wire.send({
      command: hasSow ? "sow_and_delta_subscribe" : "subscribe",
      command_id: this.#id,
      topic: this.#topic.name,
      filter,
      condition,
      options: [...(hasSow ? ["oof", "reset"] : []), ...(isOfDocuments ? ["intrinsics"] : []), ...(this.isGrouped ? [] : ["timestamp"]), ...options].join(","),
      ack_type: hasSow ? "processed,completed,stats" : "processed",
      ...(isBack ? { bookmark: this.bookmark.toString() } : hasSow ? { batch_size: 500, top_n: limit } : {}),
      ...page,
    });
  }

  #clear() {
    this.records.clear();
    this.known.clear();
    this.times.clear();
    this.changed.clear();
    this.cut = 0;
    this.matches = 0;
    this.#resumable = false;
    this.#emit("cleared");
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state");
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #take(message) {
    const take = { ack: this.#ack, group_begin: this.#groupBegin, sow: this.#sow, group_end: this.#groupEnd, publish: this.#publish, oof: this.#oof, progress: this.#progress };
    take[message.command]?.call(this, message);
  }

  #ack(message) {
    if (message.status !== "success") {
      this.error = message;
      this.#wire.forget(this.#id);
      this.#id = "";
      this.#become("failed");
    } else if (message.ack_type === "processed") {
      this.#emit("accepted");
      if (this.#resumable) this.#become("behind");
      else if (!this.#topic.sow) this.#live(message.bookmark);
      else this.#become("loading");
    } else if (message.ack_type === "stats") {
      this.matches = message.matches;
      this.#emit("state");
    } else if (message.ack_type === "completed" && this.#resumable) {
      this.#become("live");
    }
  }

  #live(bookmark) {
    this.bookmark.replace(bookmark);
    this.#resumable = true;
    this.#become("live");
  }

  #groupBegin({ warnings = [] }) {
    this.#clear();
    this.warnings = warnings;
    this.#become("loading");
  }

  #sow({ records }) {
    for (const { sow_key, data, intrinsics, timestamp } of records) this.#put(sow_key, data, intrinsics, timestamp);
    this.#emit("state");
  }

  #groupEnd({ bookmark }) {
    this.#live(bookmark);
  }

  #publish({ sow_key, data, delta, removed, bookmark, intrinsics, timestamp }) {
    this.messages += 1;
    this.bookmark.lay(bookmark);
    if (!this.#topic.sow) {
      this.#append(data, timestamp);
      return;
    }
    const held = this.records.get(sow_key);
    if (delta && held === undefined) return;
    const record = delta ? (removed ?? []).reduce(without, merged(held, data)) : data;
    this.#note(sow_key, held, record);
    this.#put(sow_key, record, intrinsics, timestamp);
  }

  // Notes what a change has changed, and forgets those that are no longer new.
  #note(key, before, after) {
    const now = performance.now();
    for (const [noted, { at }] of this.changed) {
      if (now - at < FRESH_MS) break;
      this.changed.delete(noted);
    }
    this.changed.delete(key);
    this.changed.set(key, { at: now, paths: before === undefined ? null : new Set(difference(before, after).map(({ path }) => path)) });
  }

  // Messages of a topic without a SOW: only the newest are kept.
  #append(data, timestamp) {
    this.#number += 1;
    const key = `message ${this.#number}`;
    this.#note(key, undefined, data);
    this.#put(key, data, undefined, timestamp);
    if (this.records.size > MESSAGES_MAX) {
      this.cut += 1;
      this.#remove(this.records.keys().next().value);
    }
  }

  #oof({ sow_key, bookmark }) {
    this.messages += 1;
    this.bookmark.lay(bookmark);
    this.#remove(sow_key);
  }

  #progress({ bookmark }) {
    this.bookmark.lay(bookmark);
    if (this.state === "behind") this.#become("live");
  }

  #put(key, record, known, timestamp) {
    if (!this.records.has(key) && this.#topic.sow && this.records.size >= this.#asked.limit) {
      this.cut += 1;
      return;
    }
    this.records.set(key, record);
    if (known) this.known.set(key, known);
    if (timestamp) this.times.set(key, Date.parse(timestamp));
    this.#emit("put", key);
  }

  #remove(key) {
    this.known.delete(key);
    this.times.delete(key);
    this.changed.delete(key);
    if (this.records.delete(key)) this.#emit("gone", key);
  }
}
