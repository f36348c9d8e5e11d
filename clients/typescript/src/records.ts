/**
 * The records that a subscription shows, kept up to date by its messages: messages in, effects out.
 *
 * Messages that belong together are applied together: the messages with `more` and the one behind them, and a group
 * from its `group_begin` to its `group_end`. A record that is sent again unchanged keeps its identity.
 */

import { merge, takeOut } from "./delta.js";
import { SowlineError } from "./errors.js";
import { same, type JsonObject } from "./json.js";
import type { Message, OofReason, Published, SnapshotRecord } from "./message.js";
import { PositionTracker } from "./position.js";

/** The reason for the removal of a record that a new group lacks; its own fate is unknown. */
export const GONE = "gone";

export type RemoveReason = OofReason | typeof GONE;

/** The effect of a step on one record. Without `before` it is an insert; without `now`, a removal with a reason. */
export interface Effect {
  readonly key: string;
  readonly before: JsonObject | undefined;
  readonly now: JsonObject | undefined;
  readonly reason: RemoveReason | undefined;
}

/** Records by SOW key, in the order in which they came, and the position of their state. */
export class RecordSet {
  readonly records: Map<string, JsonObject>;
  #step: Message[] = [];
  #sent: number | undefined;

  constructor(
    records: Iterable<readonly [string, JsonObject]> = [],
    public position = new PositionTracker(),
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
    for (const [key, now] of outcome) {
      const before = this.records.get(key);
      if (now === undefined) {
        if (this.records.delete(key)) effects.push({ key, before, now, reason: reasons.get(key) ?? GONE });
      } else if (!same(before, now)) {
        this.records.set(key, now);
        effects.push({ key, before, now, reason: undefined });
      }
    }
    for (const message of step) this.position.note(message);
    return effects;
  }

  /** Return the records that the step changes; undefined for those that are no longer held. */
  #outcome(step: readonly Message[]): Map<string, JsonObject | undefined> {
    const changed = new Map<string, JsonObject | undefined>();
    let isWhole = false;
    for (const message of step) {
      if (message.command === "group_begin") {
        isWhole ||= !message.replace;
      } else if (message.command === "oof") {
        changed.set(keyOf(message), undefined);
      } else if (message.command === "publish" || message.command === "sow") {
        const key = keyOf(message);
        changed.set(key, updated(changed.has(key) ? changed.get(key) : this.records.get(key), message));
      }
    }
    if (!isWhole) return changed;
    const gone = [...this.records.keys()].filter((key) => !changed.has(key));
    return new Map([...gone.map((key) => [key, undefined] as const), ...changed]);
  }
}

function keyOf(message: { readonly command: string; readonly sowKey: string | undefined }): string {
  if (message.sowKey !== undefined) return message.sowKey;
  throw new SowlineError(
    "no sow",
    `expected a ${message.command} with a SOW key, got none: a topic without a SOW has no view`,
  );
}

/** Return a record after a message. */
function updated(
  held: JsonObject | undefined,
  message: Published<JsonObject> | SnapshotRecord<JsonObject>,
): JsonObject {
  if (message.command === "sow" || !message.delta) return message.data;
  if (held === undefined) throw gap(`expected a delta of a record that is held, got one of ${message.sowKey}`);
  return takeOut(merge(held, message.data), message.removed);
}

const gap = (message: string): SowlineError => new SowlineError("gap", message);
