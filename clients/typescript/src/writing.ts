/** Commands that write, through the service, and their outcomes. */

import { formatBookmark, layOver, type Positions } from "./bookmark.js";
import type { Calls } from "./calls.js";
import type { AckStats, AckSuccess, ServerMessage } from "./frames.js";
import type { Command } from "./message.js";

/** What goes with a command that writes. */
export interface WriteOptions {
  /** The record's lifetime in seconds, 0 for none. */
  expiration?: number;
  /** A text that goes with the change to subscribers. */
  correlationId?: string;
  /** The record's SOW key, on a topic whose keys publishers give. */
  sowKey?: string;
  /** Tags of a write to a document. */
  tags?: readonly string[];
  /** The writer's own id for a write to a document. */
  changeId?: string;
  /** The span of a trace that it belongs to. */
  traceparent?: string;
  /**
   * What to wait for: `processed`, until the service's queries see it and its outcome is known (if not given), or
   * `persisted`, until Kafka has it.
   */
  until?: "processed" | "persisted";
  /**
   * Gives the write up: the promise rejects with the signal's reason. What still waits for a connection is never sent;
   * what was sent may be applied all the same.
   */
  signal?: AbortSignal;
}

/** What a delete selects: exactly one of these. */
export interface DeleteSelection {
  /** A filter; `1=1` is every record. */
  filter?: string;
  sowKeys?: readonly string[];
  /** A record, of which the key fields count. */
  data?: unknown;
  sowKey?: string;
  tags?: readonly string[];
  changeId?: string;
  /** Gives it up, as that of a write. */
  signal?: AbortSignal;
}

/** What became of a command. */
export interface Outcome {
  /** Its position on the log. */
  readonly bookmark: string;
  /** `applied`, `repeat`, `deleted 3`; of a document also `noop` and `condition_false`. Undefined until processed. */
  readonly outcome: string | undefined;
  /** The bookmark from which the effect is visible; undefined until processed. */
  readonly effect: string | undefined;
}

/** What became of a delete. */
export interface DeleteOutcome extends Outcome {
  readonly recordsDeleted: number;
}

/** Sends commands that write, and notes their effects. */
export class Writing {
  readonly #effects: Positions = new Map();

  constructor(readonly calls: Calls) {}

  /** The bookmark of the effects of all writes that this client has waited for; empty if there are none. */
  get effect(): string {
    return this.#effects.size === 0 ? "" : formatBookmark(this.#effects);
  }

  async write(
    command: "publish" | "delta_publish" | "delta",
    topic: string,
    fields: { data: unknown; key?: string },
    options: WriteOptions = {},
  ): Promise<Outcome> {
    const { until = "processed", signal, ...given } = options;
    const frames = await this.calls.call({ command, topic, ...fields, ...wire(given) }, [until], signal);
    return this.#outcome(frames);
  }

  async delete(topic: string, selection: DeleteSelection): Promise<DeleteOutcome> {
    const { filter, sowKeys, data, signal, ...given } = selection;
    const command: Command = { command: "sow_delete", topic, filter, sow_keys: sowKeys, data, ...wire(given) };
    const frames = await this.calls.call(command, ["processed", "stats"], signal);
    const stats = frames.find((frame): frame is AckStats => frame.command === "ack" && frame.ack_type === "stats");
    return { ...this.#outcome(frames), recordsDeleted: stats?.records_deleted ?? 0 };
  }

  async flush(): Promise<void> {
    await this.calls.call({ command: "flush" }, ["persisted"]);
  }

  #outcome([first]: readonly ServerMessage[]): Outcome {
    const { bookmark = "", outcome, effect } = first as AckSuccess;
    if (effect !== undefined) this.#note(effect);
    return { bookmark, outcome, effect };
  }

  /** Move the positions forward to those of a bookmark, where they are newer. */
  #note(effect: string): void {
    const moved: Positions = new Map();
    layOver(moved, effect);
    for (const [partition, position] of moved) {
      const held = this.#effects.get(partition);
      if (held === undefined || isNewer(position, held)) this.#effects.set(partition, position);
    }
  }
}

function wire(options: Omit<WriteOptions, "until" | "signal">): Omit<Command, "command"> {
  return {
    expiration: options.expiration,
    correlation_id: options.correlationId,
    sow_key: options.sowKey,
    tags: options.tags?.length ? options.tags : undefined,
    change_id: options.changeId,
    traceparent: options.traceparent,
  };
}

/** Whether the first position is newer than the second. */
export function isNewer(one: string, other: string): boolean {
  const [left, right] = [parts(one), parts(other)];
  const at = left.findIndex((part, index) => part !== right[index]);
  return at >= 0 && left[at]! > right[at]!;
}

function parts(position: string): [bigint, bigint, bigint] {
  const [, era = "0", offset = "0", nth = "0"] = /^(?:(\d+)\/)?(-1|\d+)(?:\.(\d+))?$/.exec(position) ?? [];
  return [BigInt(era), BigInt(offset), BigInt(nth)];
}
