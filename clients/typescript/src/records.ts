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
import type { Message, OofReason, Published, SnapshotRecord } from "./message.js";
import { PositionTracker } from "./position.js";

/** The reason for the removal of a record that a new group lacks; its own fate is unknown. */
export const GONE = "gone";

export type RemoveReason = OofReason | typeof GONE;

/** A message that has a record. */
type RecordMessage = Published<JsonObject> | SnapshotRecord<JsonObject>;

/** A record after a step, and the message that says when it changed. */
interface Held {
  readonly now: JsonObject;
  readonly message: RecordMessage;
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
    this.#step.push(message);
    if (this.#sent !== undefined || ("more" in message && message.more)) return undefined;
    const step = this.#step;
    this.#step = [];
    return this.#apply(step);
  }

  #apply(step: readonly Message[]): Effect[] {
    const outcome = this.#outcome(step);
    const reasons = new Map<string | undefined, OofReason>();
    for (const message of step) if (message.command === "oof") reasons.set(message.sowKey, message.reason);
    const effects: Effect[] = [];
    for (const [key, held] of outcome) {
      const before = this.records.get(key);
      if (held === undefined) {
        if (this.records.delete(key)) {
          effects.push({ key, before, now: undefined, message: undefined, reason: reasons.get(key) ?? GONE });
        }
        continue;
      }
      const { message } = held;
      if (before === undefined && this.records.size >= this.limit) {
        this.leftOut++;
        continue;
      }
      const isSame = same(before, held.now);
      if (isSame && message.timestamp === undefined && message.intrinsics === undefined) continue;
      const now = isSame ? before! : held.now;
      this.records.set(key, now);
      effects.push({ key, before, now, message, reason: undefined });
    }
    for (const message of step) this.position.note(message);
    return effects;
  }

  /** Return the records that the step changes; undefined for those that are no longer held. */
  #outcome(step: readonly Message[]): Map<string, Held | undefined> {
    const changed = new Map<string, Held | undefined>();
    let isWhole = false;
    for (const message of step) {
      if (message.command === "group_begin") {
        isWhole ||= !message.replace;
      } else if (message.command === "oof") {
        changed.set(keyOf(message), undefined);
      } else if (message.command === "publish" || message.command === "sow") {
        const key = keyOf(message);
        const now = this.#updated(changed.has(key) ? changed.get(key)?.now : this.records.get(key), message);
        changed.set(key, now && { now, message });
      }
    }
    if (!isWhole) return changed;
    this.leftOut = 0;
    const gone = [...this.records.keys()].filter((key) => !changed.has(key));
    return new Map([...gone.map((key) => [key, undefined] as const), ...changed]);
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
