/**
 * The records that a subscription shows, kept up to date by its messages: messages in, effects out.
 *
 * Messages that belong together are applied together: the messages with `more` and the one behind them, and a group from
 * its `group_begin` to its `group_end`. A record that is sent again unchanged keeps its identity. That is a change only
 * if it comes with a timestamp or intrinsics.
 */

import { merge, takeOut } from "./delta.js";
import { SowlineError } from "./errors.js";
import { same, type JsonObject } from "./json.js";
import { isContinued, type Message, type OofReason, type Published, type SnapshotRecord } from "./message.js";
import type { SortKey } from "./order.js";
import { PositionTracker } from "./position.js";

/** The reason for the removal of a record that a new group lacks; its own fate is unknown. */
export const GONE = "gone";

export type RemoveReason = OofReason | typeof GONE;

/** A message that has a record. */
type RecordMessage = Published<JsonObject> | SnapshotRecord<JsonObject>;

/** A record that is held, and what a view makes of it: one object as long as the record is held. */
export class Held<Row> {
  row: Row | undefined;
  sortKey: SortKey = [];

  constructor(
    readonly key: string,
    public record?: JsonObject,
  ) {}
}

/** The effect of a step on one record. Without `before` it is an insert; without `now`, a removal with a reason. */
export interface Effect<Row> {
  readonly held: Held<Row>;
  readonly before: JsonObject | undefined;
  now?: JsonObject | undefined;
  /** The message that says when the record changed. */
  readonly message?: RecordMessage;
  readonly reason?: RemoveReason;
  /** Whether the record is known to differ from the one before the step. Otherwise they have to be compared. */
  readonly differs?: boolean;
}

/** Records by SOW key, in the order in which they came, and the position of their state. */
export class RecordSet<Row> {
  readonly records = new Map<string, Held<Row>>();
  /** Records that came when there was no room for them. */
  leftOut = 0;
  #step: Message[] = [];
  #sent: number | undefined;

  /** Records beyond `limit` are left out. */
  constructor(
    records: Iterable<readonly [string, JsonObject]> = [],
    public position = new PositionTracker(),
    readonly limit = Infinity,
  ) {
    for (const [key, record] of records) this.records.set(key, new Held(key, record));
  }

  /**
   * Apply the next message; return the effects of the step that it completes, undefined if the step is incomplete.
   *
   * The records after a `group_begin` are all that is held. After one with `replace`, they are added instead. A
   * step or group that breaks off, because its stream starts again, is discarded. Throws `gap` if something is
   * missing.
   */
  take(message: Message): Effect<Row>[] | undefined {
    switch (message.command) {
      case "group_begin":
        if (this.#sent !== undefined || !message.replace) this.#step = [];
        this.#sent = 0;
        break;
      case "sow":
        if (this.#sent === undefined) throw gap("expected a group_begin before a record of a group, got none");
        this.#sent++;
        break;
      case "group_end":
        if (this.#sent !== message.records) {
          throw gap(`expected a group of ${message.records} records, got ${this.#sent ?? "no group"}`);
        }
        this.#sent = undefined;
        break;
      default:
        if (this.#sent !== undefined) this.#step = [];
        this.#sent = undefined;
    }
    if (this.#sent !== undefined || isContinued(message)) {
      this.#step.push(message);
      return undefined;
    }
    // Nearly all steps are one message.
    if (this.#step.length === 0) {
      const effect = this.#effect(message);
      const effects = effect && this.#keep(effect) ? [effect] : [];
      this.position.note(message);
      return effects;
    }
    const step = [...this.#step, message];
    this.#step = [];
    const effects = this.#effects(step).filter((effect) => this.#keep(effect));
    for (const message of step) this.position.note(message);
    return effects;
  }

  /** Take the effect over; return whether there is one. */
  #keep(effect: Effect<Row>): boolean {
    const { held, before, now, message } = effect;
    if (now === undefined) return this.records.delete(held.key);
    if (before === undefined && this.records.size >= this.limit) {
      this.leftOut++;
      return false;
    }
    if (!effect.differs && same(before, now)) {
      if (message?.timestamp === undefined && message?.intrinsics === undefined) return false;
      effect.now = before;
    }
    held.record = effect.now;
    if (before === undefined) this.records.set(held.key, held);
    return true;
  }

  /** Return what becomes of the records that the step is about. */
  #effects(step: readonly Message[]): Effect<Row>[] {
    const changed = new Map<string, Effect<Row>>();
    let isWhole = false;
    for (const message of step) {
      if (message.command === "group_begin") isWhole ||= !message.replace;
      const effect = this.#effect(message, changed);
      if (effect) changed.set(effect.held.key, effect);
    }
    if (!isWhole) return [...changed.values()];
    this.leftOut = 0;
    const gone = [...this.records.values()].filter(({ key }) => !changed.has(key)).map((held) => removal(held, GONE));
    return [...gone, ...changed.values()];
  }

  /** Return what becomes of a record by a message, after others of its step; undefined if nothing does. */
  #effect(message: Message, changed?: ReadonlyMap<string, Effect<Row>>): Effect<Row> | undefined {
    if (!("sowKey" in message)) return undefined;
    const key = keyOf(message);
    const held = this.records.get(key) ?? new Held<Row>(key);
    if (message.command === "oof") return removal(held, message.reason);
    const before = held.record;
    const earlier = changed?.get(key);
    const last = earlier ? earlier.now : before;
    const now = this.#updated(last, message);
    if (now === undefined) return undefined;
    // A merge returns the record itself unless a field changes.
    const isMerged = message.command === "publish" && message.delta && message.removed.length === 0;
    return { held, before, now, message, differs: !earlier && isMerged && now !== last };
  }

  /** Return a record after a message; undefined if it is a delta of a record that was left out. */
  #updated(held: JsonObject | undefined, message: RecordMessage): JsonObject | undefined {
    if (message.command === "sow" || !message.delta) return message.data;
    if (held !== undefined) return takeOut(merge(held, message.data), message.removed);
    if (this.limit < Infinity) return undefined;
    throw gap(`expected a delta of a record that is held, got one of ${message.sowKey}`);
  }
}

const removal = <Row>(held: Held<Row>, reason: RemoveReason): Effect<Row> => ({ held, before: held.record, reason });

function keyOf(message: { readonly command: string; readonly sowKey: string | undefined }): string {
  if (message.sowKey !== undefined) return message.sowKey;
  throw new SowlineError(
    "no sow",
    `expected a ${message.command} with a SOW key, got none: a topic without a SOW has no view`,
  );
}

const gap = (message: string): SowlineError => new SowlineError("gap", message);
