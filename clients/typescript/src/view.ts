/** A live view: a subscription's records as a map that is always up to date. */

import { Ask, type Reading, type Selecting } from "./ask.js";
import { bookmarkText, isReturn } from "./bookmark.js";
import type { Connection } from "./connection.js";
import { Deferred } from "./deferred.js";
import { Emitter } from "./emitter.js";
import { SowlineError } from "./errors.js";
import type { JsonObject } from "./json.js";
import type { Progress } from "./message.js";
import type { OpenStreams } from "./openStreams.js";
import { hasOption } from "./options.js";
import { Order } from "./order.js";
import { PositionTracker } from "./position.js";
import { RecordSet } from "./records.js";
import { RecordView, type Row } from "./recordView.js";
import type { Stream } from "./stream.js";

/**
 * The state of a view: `loading` until its records are there, and while it is replaced; `live` while it is kept up to
 * date; `reconnecting` while the connection is lost; `catching up` while it gets what has changed since; then `ended` at
 * its end, `closed` by its user or with its client, or `failed`.
 */
export type ViewStatus = "loading" | "live" | "reconnecting" | "catching up" | "ended" | "closed" | "failed";

export interface ViewReading extends Reading {
  /** `false` asks for whole records instead of what has changed. That makes no difference to what the view shows. */
  delta?: boolean;
  /** With the `bookmark` that belongs to them: begin from a saved copy. */
  records?: Iterable<readonly [string, JsonObject]>;
  /** How many records the view holds at most. It leaves out those that come when it has no room. A `topN` asks for a page. */
  limit?: number;
}

/** The records that a subscription shows. It stays readable after its end. */
export class View<T = JsonObject> extends RecordView<T> {
  /** Resolves once all records are there; rejects with a refusal. */
  readonly ready: Promise<void>;
  readonly topic: string;
  readonly #set: RecordSet<Row<T>>;
  readonly #streams: OpenStreams;
  readonly #stream: Stream;
  readonly #statuses = new Emitter<ViewStatus>();
  readonly #waiting = new Set<() => void>();
  readonly #stopWatching: () => void;
  #warnings: readonly string[] = [];
  #hashOf: ((keys: Iterable<string>) => string) | undefined;
  #proofs: Deferred<boolean>[] = [];
  #order: { readonly ask: Ask; readonly order: Order };
  #isBegun = false;
  #status: ViewStatus = "loading";
  #error: SowlineError | undefined;

  constructor(streams: OpenStreams, connection: Connection, topic: string, reading: ViewReading) {
    const { records, limit, ...rest } = reading;
    const ask = askOf(topic, rest, records !== undefined, limit);
    // A list or a range names no single position: then the service does, once it has accepted the command.
    const isPosition = records !== undefined && !/^\s*[[(]/.test(ask.bookmark);
    const set = new RecordSet<Row<T>>(records, new PositionTracker(isPosition ? ask.bookmark : undefined), limit);
    const order = new Order(ask.reading.orderBy);
    super(set, order, (record) => connection.codec.present(record));
    this.topic = topic;
    this.#set = set;
    this.#order = { ask, order };
    this.#streams = streams;
    this.#stream = streams.open(ask);
    this.#stream.onNews = () => this.#follow();
    this.#stopWatching = connection.onStatus(() => this.#update());
    this.ready = this.#waitUntil(() => this.#stream.machine.taken.shown !== undefined);
    this.ready.catch(() => {});
    this.#follow();
  }

  get status(): ViewStatus {
    return this.#status;
  }

  /** Why the view is no longer kept up to date; undefined while it is. */
  get error(): SowlineError | undefined {
    return this.#error;
  }

  /** What is probably a mistake in the request, in the service's sentences. */
  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** Call `listener` with each new status; the result ends that. */
  onStatus(listener: (status: ViewStatus) => void): () => void {
    return this.#statuses.add(listener);
  }

  /** Wait until the condition is true after a step; rejects with the view's error if it ends before. */
  waitFor(condition: (view: this) => unknown): Promise<void> {
    return this.#waitUntil(() => Boolean(condition(this)));
  }

  /**
   * Show something else: what is not given stays as it is. Resolves once the view shows it. A refusal changes
   * nothing.
   */
  async replace(changes: Selecting): Promise<void> {
    await this.#streams.replace(this.#stream, viewChanges(this.#stream.machine.ask.reading, changes));
    const { replacements } = this.#stream.machine.taken.served;
    await this.#waitUntil(() => (this.#stream.machine.taken.shown?.replacements ?? -1) >= replacements);
  }

  /** Return whether the view holds exactly the records that the service expects it to hold, at one position. */
  async prove(): Promise<boolean> {
    this.#hashOf = (await import("./key.js")).hashOf;
    if (this.#error !== undefined) throw this.#error;
    const proof = new Deferred<boolean>();
    this.#proofs.push(proof);
    this.#streams.command(this.#stream, { type: "prove" });
    return proof.promise;
  }

  /** Leave it: what it shows stays readable, and no listener is called any more. */
  close(): void {
    this.#finish("closed", new SowlineError("disconnected", "the view was closed"));
  }

  #follow(): void {
    try {
      this.#begin();
      for (let message = this.#stream.next(); message !== undefined; message = this.#stream.next()) {
        if (message.command === "group_begin") this.#warnings = message.warnings;
        if (message.command === "progress") this.#compare(message);
        else this.take(message, this.#shownOrder());
      }
    } catch (error) {
      this.#finish("failed", asSowlineError(error));
      return;
    }
    const { error, isOver } = this.#stream.machine;
    if (error !== undefined) this.#finish(error.reason === "disconnected" ? "closed" : "failed", error);
    else if (isOver) this.#finish("ended", new SowlineError("disconnected", "the view has reached its end"));
    this.#update();
  }

  /** Take over the position at which the service begins after a saved copy. */
  #begin(): void {
    if (this.#isBegun || this.#stream.machine.taken.holding !== "whole") return;
    this.#isBegun = true;
    this.#set.position = new PositionTracker(this.#stream.machine.bookmark);
  }

  /** The order of what has been shown whole. A replaced subscription may have another one. */
  #shownOrder(): Order {
    const ask = this.#stream.machine.taken.shown?.ask ?? this.#order.ask;
    if (ask !== this.#order.ask) {
      const isSame = ask.reading.orderBy === this.#order.ask.reading.orderBy;
      this.#order = { ask, order: isSame ? this.#order.order : new Order(ask.reading.orderBy) };
    }
    return this.#order.order;
  }

  /** Compare the SOW keys with the service's count and hash. */
  #compare({ records, hash, reason }: Progress): void {
    for (const proof of this.#proofs.splice(0)) {
      if (hash !== undefined) proof.resolve(records === this.size && hash === this.#hashOf!(this.keys()));
      else proof.reject(new SowlineError(reason!, "the service has no checksum of this view"));
    }
  }

  /** Note the status, and answer those who wait for something that is true now. */
  #update(): void {
    this.#setStatus(this.#error === undefined ? this.#liveStatus() : this.#status);
    for (const look of this.#waiting) look();
  }

  #liveStatus(): ViewStatus {
    const { isAccepted, state, taken } = this.#stream.machine;
    const { shown, isWhole } = taken;
    if (!isAccepted) return shown === undefined ? "loading" : "reconnecting";
    if (!isWhole) return "loading";
    return state === "live" ? "live" : "catching up";
  }

  #setStatus(status: ViewStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#statuses.emit(status);
  }

  #finish(status: ViewStatus, error: SowlineError): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    this.#stopWatching();
    this.#streams.end(this.#stream);
    this.#setStatus(status);
    for (const proof of this.#proofs.splice(0)) proof.reject(error);
    for (const look of this.#waiting) look();
    this.#statuses.clear();
    this.release();
  }

  #waitUntil(condition: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        try {
          if (condition()) resolve();
          else if (this.#error !== undefined) reject(this.#error);
          else return;
        } catch (error) {
          reject(error as Error); // the error is that of the caller's condition
        }
        this.#waiting.delete(look);
      };
      this.#waiting.add(look);
      look();
    });
  }
}

const asSowlineError = (error: unknown): SowlineError =>
  error instanceof SowlineError
    ? error
    : new SowlineError("internal", `the view could not go on: ${String(error)}`, { cause: error });

/** Return the request of a view; throws if no view can hold its result. */
function askOf(
  topic: string,
  { delta = true, ...reading }: Omit<ViewReading, "records" | "limit">,
  hasRecords: boolean,
  limit?: number,
): Ask {
  if (topic.startsWith("^")) {
    throw new SowlineError(
      "regex topic not supported",
      `expected the name of one topic, got ${topic}; use a view of each`,
    );
  }
  if (hasRecords !== isReturn(bookmarkText(reading.bookmark ?? ""))) {
    throw new SowlineError(
      "invalid bookmark",
      "expected a bookmark together with the records there, got one of them",
    );
  }
  const { options = "", topN } = reading;
  const changes = viewChanges(reading, topN === undefined ? { options } : { options, topN });
  const command = delta ? "sow_and_delta_subscribe" : "sow_and_subscribe";
  return new Ask(command, topic, { topN: limit, ...reading, ...changes });
}

/**
 * Return changes with what a view needs. Only a page keeps just the first `topN` records: any `topN` asks for one.
 */
function viewChanges(before: Readonly<Reading>, changes: Selecting): Selecting {
  const changed: Selecting = { ...changes };
  if (changes.options !== undefined) changed.options = viewOptions(changes.options);
  if ("topN" in changes && !("skipN" in changes)) {
    changed.skipN = changes.topN === undefined ? undefined : (before.skipN ?? 0);
  }
  if (changes.orderBy !== undefined) new Order(changes.orderBy); // throws what is wrong with it
  return changed;
}

/** Return the options with those that a view needs in front, because later options take precedence. */
function viewOptions(options: string): string {
  if (hasOption(options, "no_sowkey")) {
    throw new SowlineError("invalid options", "expected options of a view without no_sowkey");
  }
  return ["oof", "reset", options].filter((option) => option !== "").join(",");
}
