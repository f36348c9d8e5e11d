/**
 * A live, ordered, read-only map of SOW keys to records, with a patch for each step of changes. No I/O.
 */

import { Emitter } from "./emitter.js";
import type { JsonObject } from "./json.js";
import type { Intrinsics } from "./frames.js";
import type { Message } from "./message.js";
import { Order } from "./order.js";
import type { Effect, Held, RecordSet, RemoveReason } from "./records.js";

/** The effect of a step on one record of a view. */
export type Change<T> =
  | { readonly type: "insert"; readonly key: string; readonly record: T }
  | { readonly type: "update"; readonly key: string; readonly record: T; readonly before: T }
  | { readonly type: "remove"; readonly key: string; readonly before: T; readonly reason: RemoveReason };

/** The effects of one step, and the bookmark after it. Without changes, only the order is another. */
export interface Patch<T> {
  readonly changes: readonly Change<T>[];
  readonly bookmark: string;
}

/** A copy of a view to begin from: the records by SOW key, and the bookmark of their state. */
export interface Saved {
  readonly bookmark: string;
  readonly records: readonly (readonly [string, JsonObject])[];
}

/** A record of a snapshot, with its SOW key. It is the same object as long as the record does not change. */
export interface Row<T> {
  readonly key: string;
  readonly record: T;
  /** The log time of its last change, with the option `timestamp`. */
  readonly timestamp: string | undefined;
  /** Of a document, with the option `intrinsics`. */
  readonly intrinsics: Intrinsics | undefined;
}

/** Makes what a caller sees of a record. */
export type Present = (record: JsonObject) => JsonObject;

/** The records that a subscription shows. They belong to the view: do not change them. */
export class RecordView<T> {
  readonly #set: RecordSet<Row<T>>;
  readonly #present: Present;
  readonly #patches = new Emitter<Patch<T>>();
  #order: Order;
  #sorted: Held<Row<T>>[] = [];
  #snapshot: readonly Row<T>[] | undefined;

  constructor(set: RecordSet<Row<T>>, order: Order, present: Present) {
    this.#set = set;
    this.#order = order;
    this.#present = present;
    for (const held of set.records.values()) this.#show(held);
    this.#sort();
  }

  // what a caller reads

  get size(): number {
    return this.#set.records.size;
  }

  get(key: string): T | undefined {
    return this.row(key)?.record;
  }

  row(key: string): Row<T> | undefined {
    return this.#set.records.get(key)?.row;
  }

  has(key: string): boolean {
    return this.#set.records.has(key);
  }

  /** The SOW keys, in the order of the view. An iteration shows one instant. */
  *keys(): IterableIterator<string> {
    for (const row of this.snapshot()) yield row.key;
  }

  *values(): IterableIterator<T> {
    for (const row of this.snapshot()) yield row.record;
  }

  *entries(): IterableIterator<[string, T]> {
    for (const row of this.snapshot()) yield [row.key, row.record];
  }

  [Symbol.iterator](): IterableIterator<[string, T]> {
    return this.entries();
  }

  /**
   * The rows in their order. It is the same array until something changes, and a row the same object until its
   * record does.
   */
  snapshot(): readonly Row<T>[] {
    const held = this.#order.isEmpty ? this.#set.records.values() : this.#sorted;
    return (this.#snapshot ??= Array.from(held, ({ row }) => row!));
  }

  /** The bookmark to resume from, which continues after the state of the view. */
  get bookmark(): string {
    return this.#set.position.bookmark;
  }

  /** How many records the view has left out, because it holds as many as its `limit` lets it hold. */
  get leftOut(): number {
    return this.#set.leftOut;
  }

  /** Return the bookmark and the records of one instant, to begin from later. */
  saved(): Saved {
    const { records, position } = this.#set;
    return { bookmark: position.bookmark, records: this.snapshot().map(({ key }) => [key, records.get(key)!.record!]) };
  }

  /** Call `listener` after each step that changes something; the result ends that. */
  onChange(listener: (patch: Patch<T>) => void): () => void {
    return this.#patches.add(listener);
  }

  // what keeps it up to date calls

  /** Apply the next message of the subscription. The step that it completes may have another order. */
  protected take(message: Message, order: Order): void {
    const effects = this.#set.take(message);
    if (effects === undefined) return;
    const isReordered = order.text !== this.#order.text;
    if (effects.length === 0 && !isReordered) return;
    // One by one, each costs two searches and moves of what is behind; many at once cost less as a sort of all.
    const isFew = !isReordered && effects.length * 16 <= this.#sorted.length;
    const changes = effects.map((effect) => this.#change(effect, isFew));
    if (isReordered) this.#reorder(order);
    else if (!isFew) this.#sort();
    this.#snapshot = undefined;
    if (!this.#patches.isEmpty) this.#patches.emit({ changes, bookmark: this.bookmark });
  }

  /** Forget the listeners: no more changes come. */
  protected release(): void {
    this.#patches.clear();
  }

  #change({ held, before, now, message, reason }: Effect<Row<T>>, isFew: boolean): Change<T> {
    const { key, row: old } = held;
    if (isFew && old !== undefined) this.#sorted.splice(this.#rank(held), 1);
    if (now === undefined) return { type: "remove", key, before: old!.record, reason: reason! };
    const { record } = this.#show(held, message);
    if (isFew) this.#sorted.splice(this.#rank(held), 0, held);
    return before === undefined
      ? { type: "insert", key, record }
      : { type: "update", key, record, before: old!.record };
  }

  #show(held: Held<Row<T>>, message?: Effect<Row<T>>["message"]): Row<T> {
    this.#sortBy(held);
    return (held.row = {
      key: held.key,
      record: this.#present(held.record!) as T,
      timestamp: message?.timestamp,
      intrinsics: message?.intrinsics,
    });
  }

  // the order

  #sortBy(held: Held<Row<T>>): void {
    if (!this.#order.isEmpty) held.sortKey = this.#order.keyOf(held.record!);
  }

  #compare = (one: Held<Row<T>>, other: Held<Row<T>>): number =>
    this.#order.compare(one.sortKey, one.key, other.sortKey, other.key);

  /** Return the number of rows that come before this one. */
  #rank(row: Held<Row<T>>): number {
    let [low, high] = [0, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(this.#sorted[middle]!, row) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #sort(): void {
    this.#sorted = this.#order.isEmpty ? [] : [...this.#set.records.values()].sort(this.#compare);
  }

  #reorder(order: Order): void {
    this.#order = order;
    for (const held of this.#set.records.values()) this.#sortBy(held);
    this.#sort();
  }
}
