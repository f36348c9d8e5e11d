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
import type { Message, OofReason, OutOfFocus, Published, SnapshotRecord } from "./message.js";
import { PositionTracker } from "./position.js";

/** The reason for the removal of a record that a new group lacks; its own fate is unknown. */
export const GONE = "gone";

export type RemoveReason = OofReason | typeof GONE;

/** A message that has a record. */
type RecordMessage = Published<JsonObject> | SnapshotRecord<JsonObject>;

/** A record after a step, and the message that says when it changed; without a record, why it is removed. */
interface Outcome {
  readonly now: JsonObject | undefined;
  readonly message?: RecordMessage;
  readonly reason?: RemoveReason;
  /** Whether the record is known to differ from the one before the step. Otherwise they have to be compared. */
  readonly differs?: boolean;
}

/** The effect of a step on one record. Without `before` it is an insert; without `now`, a removal with a reason. */
export interface Effect {
  readonly key: string;
  readonly before: JsonObject | undefined;
  readonly now: JsonObject | undefined;
  readonly message: RecordMessage | undefined;
  readonly reason: RemoveReason | undefined;
}

/** Records by SOW key, in the order in which they came, and the position of their state. */
export class RecordSet {
  readonly records: Map<string, JsonObject>;
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
    this.records = new Map(records);
  }

  /**
   * Apply the next message; return the effects of the step that it completes, undefined if the step is incomplete.
   *
   * The records after a `group_begin` are all that is held. After one with `replace`, they are added instead. A
   * step or group that breaks off, because its stream starts again, is discarded. Throws `gap` if something is
   * missing.
   */
  take(message: Message): Effect[] | undefined {
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
    if (this.#sent !== undefined || ("more" in message && message.more)) {
      this.#step.push(message);
      return undefined;
    }
    const step = [...this.#step, message];
    this.#step = [];
    return this.#apply(step);
  }

  #apply(step: readonly Message[]): Effect[] {
    const effects: Effect[] = [];
    for (const [key, { now, message, reason, differs }] of this.#outcomes(step)) {
      const before = this.records.get(key);
      let kept = now;
      if (now === undefined) {
        if (!this.records.delete(key)) continue;
      } else if (before === undefined && this.records.size >= this.limit) {
        this.leftOut++;
        continue;
      } else {
        if (!differs && same(before, now)) {
          if (message?.timestamp === undefined && message?.intrinsics === undefined) continue;
          kept = before;
        }
        this.records.set(key, kept!);
      }
      effects.push({ key, before, now: kept, message, reason });
    }
    for (const message of step) this.position.note(message);
    return effects;
  }

  /** Return what becomes of the records that the step is about. */
  #outcomes(step: readonly Message[]): (readonly [string, Outcome])[] {
    // Nearly all steps are one message, and need no map.
    const changed = step.length === 1 ? undefined : new Map<string, Outcome>();
    let isWhole = false;
    for (const message of step) {
      if (message.command === "group_begin") {
        isWhole ||= !message.replace;
      } else if (message.command === "oof" || message.command === "publish" || message.command === "sow") {
        const key = keyOf(message);
        const outcome = this.#outcome(message, key, changed?.get(key));
        if (outcome === undefined) continue;
        if (changed === undefined) return [[key, outcome]];
        changed.set(key, outcome);
      }
    }
    if (changed === undefined) return [];
    if (!isWhole) return [...changed];
    this.leftOut = 0;
    const gone = [...this.records.keys()].filter((key) => !changed.has(key));
    return [...gone.map((key) => [key, { now: undefined, reason: GONE }] as const), ...changed];
  }

  /** Return what becomes of a record by a message; undefined if nothing does. */
  #outcome(message: RecordMessage | OutOfFocus<JsonObject>, key: string, earlier?: Outcome): Outcome | undefined {
    if (message.command === "oof") return { now: undefined, reason: message.reason };
    const held = earlier === undefined ? this.records.get(key) : earlier.now;
    const now = this.#updated(held, message);
    if (now === undefined) return undefined;
    // A merge returns the record itself unless a field changes.
    const isMerged = message.command === "publish" && message.delta && message.removed.length === 0;
    return { now, message, differs: earlier === undefined && isMerged && now !== held };
  }

  /** Return a record after a message; undefined if it is a delta of a record that was left out. */
  #updated(held: JsonObject | undefined, message: RecordMessage): JsonObject | undefined {
    if (message.command === "sow" || !message.delta) return message.data;
    if (held !== undefined) return takeOut(merge(held, message.data), message.removed);
    if (this.limit < Infinity) return undefined;
    throw gap(`expected a delta of a record that is held, got one of ${message.sowKey}`);
  }
}

function keyOf(message: { readonly command: string; readonly sowKey: string | undefined }): string {
  if (message.sowKey !== undefined) return message.sowKey;
  throw new SowlineError(
    "no sow",
    `expected a ${message.command} with a SOW key, got none: a topic without a SOW has no view`,
  );
}

const gap = (message: string): SowlineError => new SowlineError("gap", message);
