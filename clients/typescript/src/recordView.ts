/**
 * A live, ordered, read-only map of SOW keys to records, with a patch for each step of changes. No I/O.
 */

import { Emitter } from "./emitter.js";
import type { JsonObject } from "./json.js";
import type { Intrinsics } from "./frames.js";
import type { Message } from "./message.js";
import { Order, type SortKey } from "./order.js";
import { RecordSet, type Effect, type RemoveReason } from "./records.js";

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

class HeldRow<T> implements Row<T> {
  #sortKey: SortKey;

  constructor(
    readonly key: string,
    readonly record: T,
    sortKey: SortKey,
    readonly timestamp: string | undefined,
    readonly intrinsics: Intrinsics | undefined,
  ) {
    this.#sortKey = sortKey;
  }

  sortBy(sortKey: SortKey): void {
    this.#sortKey = sortKey;
  }

  static compare<T>(order: Order, one: HeldRow<T>, other: HeldRow<T>): number {
    return order.compare(one.#sortKey, one.key, other.#sortKey, other.key);
  }
}

/** Makes what a caller sees of a record. */
export type Present = (record: JsonObject) => JsonObject;

/** The records that a subscription shows. They belong to the view: do not change them. */
export class RecordView<T> {
  readonly #set: RecordSet;
  readonly #present: Present;
  readonly #patches = new Emitter<Patch<T>>();
  readonly #rows = new Map<string, HeldRow<T>>();
  #order: Order;
  #sorted: HeldRow<T>[] = [];
  #snapshot: readonly Row<T>[] | undefined;

  constructor(set: RecordSet, order: Order, present: Present) {
    this.#set = set;
    this.#order = order;
    this.#present = present;
    for (const [key, record] of set.records) this.#rows.set(key, this.#row(key, record));
    this.#sort();
  }

  // what a caller reads

  get size(): number {
    return this.#rows.size;
  }

  get(key: string): T | undefined {
    return this.#rows.get(key)?.record;
  }

  row(key: string): Row<T> | undefined {
    return this.#rows.get(key);
  }

  has(key: string): boolean {
    return this.#rows.has(key);
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
    return (this.#snapshot ??= this.#order.isEmpty ? [...this.#rows.values()] : this.#sorted.slice());
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
    return { bookmark: position.bookmark, records: this.snapshot().map(({ key }) => [key, records.get(key)!]) };
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
    const left: HeldRow<T>[] = [];
    const arrived: HeldRow<T>[] = [];
    const changes = effects.map((effect) => this.#change(effect, left, arrived));
    if (isReordered) this.#reorder(order);
    else if (!order.isEmpty) this.#arrange(left, arrived);
    if (changes.length === 0 && !isReordered) return;
    this.#snapshot = undefined;
    if (!this.#patches.isEmpty) this.#patches.emit({ changes, bookmark: this.bookmark });
  }

  /** Forget the listeners: no more changes come. */
  protected release(): void {
    this.#patches.clear();
  }

  #change({ key, before, now, message, reason }: Effect, left: HeldRow<T>[], arrived: HeldRow<T>[]): Change<T> {
    const old = this.#rows.get(key);
    const isSorted = !this.#order.isEmpty;
    if (isSorted && old !== undefined) left.push(old);
    if (now === undefined) {
      this.#rows.delete(key);
      return { type: "remove", key, before: old!.record, reason: reason! };
    }
    const row = this.#row(key, now, message);
    this.#rows.set(key, row);
    if (isSorted) arrived.push(row);
    return before === undefined
      ? { type: "insert", key, record: row.record }
      : { type: "update", key, record: row.record, before: old!.record };
  }

  #row(key: string, record: JsonObject, message?: Effect["message"]): HeldRow<T> {
    const presented = this.#present(record) as T;
    return new HeldRow(key, presented, this.#order.keyOf(record), message?.timestamp, message?.intrinsics);
  }

  // the order

  #compare = (one: HeldRow<T>, other: HeldRow<T>): number => HeldRow.compare(this.#order, one, other);

  #arrange(left: readonly HeldRow<T>[], arrived: readonly HeldRow<T>[]): void {
    // One by one, each costs a search and a move of what is behind it; many at once cost less as a sort of all.
    if ((left.length + arrived.length) * 8 > this.#sorted.length) {
      this.#sort();
      return;
    }
    for (const row of left) this.#sorted.splice(this.#rank(row), 1);
    for (const row of arrived) this.#sorted.splice(this.#rank(row), 0, row);
  }

  /** Return the number of rows that come before this one. */
  #rank(row: HeldRow<T>): number {
    let [low, high] = [0, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(this.#sorted[middle]!, row) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #sort(): void {
    this.#sorted = this.#order.isEmpty ? [] : [...this.#rows.values()].sort(this.#compare);
  }

  #reorder(order: Order): void {
    this.#order = order;
    for (const [key, row] of this.#rows) row.sortBy(order.keyOf(this.#set.records.get(key)!));
    this.#sort();
  }
}
