/** A live view that several components show. What it shows changes at most once a frame. */

import type { Client } from "../client.js";
import type { Row } from "../recordView.js";
import type { View, ViewReading, ViewStatus } from "../view.js";
import type { Edits } from "./edits.js";
import type { FrameTimer } from "./frameTimer.js";
import { Shared, type KeptWhileUsed, type SharedState } from "./shared.js";

/** What a component asks of a view. A saved copy belongs to one view, and so is not among it. */
export type SharedReading = Omit<ViewReading, "records">;

export interface ViewState<T> extends SharedState {
  /** The records in their order. A row is the same object as long as its record does not change. */
  readonly rows: readonly Row<T>[];
  readonly status: ViewStatus;
}

const NO_ROWS: readonly Row<never>[] = [];

/** What a shared view needs of its client. */
export interface Surroundings {
  client(): Client;
  readonly edits: Edits;
  readonly frames: FrameTimer;
}

export class SharedView<T> extends Shared<ViewState<T>> {
  readonly topic: string;
  readonly #around: Surroundings;
  readonly #reading: SharedReading;
  readonly #rowListeners = new Map<string, Set<() => void>>();
  readonly #records = new Map<string, T>();
  readonly #edited = new Map<string, Row<T> | undefined>();
  #changed = new Set<string>();
  #keys: readonly string[] = [];
  #view: View<T> | undefined;
  #isReady = false;

  constructor(around: Surroundings, topic: string, reading: SharedReading, kept: KeptWhileUsed) {
    super({ rows: NO_ROWS, status: "loading", isReady: false, error: undefined }, kept);
    this.topic = topic;
    this.#around = around;
    this.#reading = reading;
  }

  /** The SOW keys in their order; the same array until a record comes, leaves or moves. */
  getKeys = (): readonly string[] => this.#keys;

  getRecord(key: string): T | undefined {
    return this.#records.get(key);
  }

  /** Call `listener` when the record with this SOW key changes; the result ends that. */
  subscribeRow(key: string, listener: () => void): () => void {
    const release = this.use();
    const call = (): void => listener();
    let listeners = this.#rowListeners.get(key);
    if (listeners === undefined) this.#rowListeners.set(key, (listeners = new Set()));
    listeners.add(call);
    return () => {
      listeners.delete(call);
      if (listeners.size === 0 && this.#rowListeners.get(key) === listeners) this.#rowListeners.delete(key);
      release();
    };
  }

  /** Show these records as they are now, without waiting for a frame. */
  refresh(keys: readonly string[]): void {
    if (keys.length === 0) return;
    for (const key of keys) this.#changed.add(key);
    this.#show();
  }

  protected async open(): Promise<void> {
    const later = (): void => this.#around.frames.add(this.#show);
    let view: View<T>;
    try {
      view = this.#around.client().view<T>(this.topic, this.#reading);
    } catch (error) {
      // The reading is wrong: an error of the component, which it gets as a state.
      await Promise.resolve();
      this.setState({ ...this.getState(), status: "failed", error: error as Error });
      return;
    }
    this.#view = view;
    view.onChange(({ changes }) => {
      for (const { key } of changes) this.#changed.add(key);
      later();
    });
    view.onStatus(later);
    later();
    await view.ready.then(
      () => (this.#isReady = true),
      () => {}, // the state has the error
    );
    this.#show();
  }

  protected close(): void {
    this.#view?.close();
    this.#view = undefined;
    this.#isReady = false;
    this.#changed.clear();
    this.#records.clear();
    this.#edited.clear();
    this.#keys = [];
  }

  #show = (): void => {
    const view = this.#view;
    if (view === undefined) return;
    const { edits } = this.#around;
    for (const key of edits.keys(this.topic)) this.#changed.add(key);
    const changed = this.#changed;
    this.#changed = new Set();
    for (const key of changed) this.#take(view, key);
    const rows = this.#rows(view);
    const before = this.getState();
    if (rows.length !== this.#keys.length || rows.some(({ key }, at) => key !== this.#keys[at])) {
      this.#keys = rows.map(({ key }) => key);
    }
    for (const key of changed) for (const listener of [...(this.#rowListeners.get(key) ?? [])]) listener();
    const state = {
      rows,
      status: view.status,
      isReady: this.#isReady,
      error: view.error,
    };
    const isSame = rows === before.rows && state.status === before.status && state.isReady === before.isReady;
    if (!isSame || state.error !== before.error) this.setState(state);
  };

  /** Take the record with this key as it is now. */
  #take(view: View<T>, key: string): void {
    const row = view.row(key);
    const edited =
      row === undefined ? undefined : this.#around.edits.apply(this.topic, key, row.record, view.bookmark);
    if (edited === row?.record) this.#edited.delete(key);
    else this.#edited.set(key, row === undefined || edited === undefined ? undefined : { ...row, record: edited });
    if (edited === undefined) this.#records.delete(key);
    else this.#records.set(key, edited);
  }

  #rows(view: View<T>): readonly Row<T>[] {
    const rows = view.snapshot();
    if (this.#edited.size === 0) return rows;
    return rows.flatMap((row) => (this.#edited.has(row.key) ? (this.#edited.get(row.key) ?? []) : row));
  }
}
