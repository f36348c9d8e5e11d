/** What a subscriber gets of the service's messages. */

import { SowlineError } from "./errors.js";
import type { Ack, ClientMessage, Intrinsics, Oof, ServerMessage } from "./frames.js";
import { isObject, type JsonObject } from "./json.js";
import type { Select } from "./select.js";

/** A group begins. After `reset`, discard what you hold; after `replace`, what follows is added to it. */
export interface GroupBegin {
  readonly command: "group_begin";
  readonly topic: string;
  readonly bookmark: string;
  readonly reset: boolean;
  readonly replace: boolean;
  readonly warnings: readonly string[];
  readonly missing: Readonly<Record<string, readonly number[]>>;
}

/** A record of a group. */
export interface SnapshotRecord<T> {
  readonly command: "sow";
  readonly topic: string;
  readonly sowKey: string | undefined;
  readonly data: T;
  readonly updatedAt: string | undefined;
  /** With the option `rank`: how many records are before it in the order. */
  readonly rank: number | undefined;
  readonly timestamp: string | undefined;
  readonly intrinsics: Intrinsics | undefined;
}

/** A group has ended: so many records, and the XOR of the hashes of their SOW keys. */
export interface GroupEnd {
  readonly command: "group_end";
  readonly topic: string;
  readonly bookmark: string;
  readonly records: number;
  readonly hash: string | undefined;
}

interface Live<T> {
  readonly topic: string;
  readonly sowKey: string | undefined;
  readonly data: T;
  readonly bookmark: string;
  /** The next message belongs to the same step: apply them together. */
  readonly more: boolean;
  readonly timestamp: string | undefined;
  readonly correlationId: string | undefined;
  readonly intrinsics: Intrinsics | undefined;
}

/** A record matches and is as `data` has it; with `delta`, `data` has the key fields and what has changed. */
export interface Published<T> extends Live<T> {
  readonly command: "publish";
  readonly delta: boolean;
  readonly removed: readonly string[];
  /** With the option `rank`: how many records are before it in the order, after the step. */
  readonly rank: number | undefined;
}

/** Why a record went out of focus. */
export type OofReason = Oof["reason"];

/** A record no longer matches. */
export interface OutOfFocus<T> extends Live<T> {
  readonly command: "oof";
  readonly reason: OofReason;
}

/** The checksum of what a subscriber should hold; without a hash, `reason` is why there is none. */
export interface Progress {
  readonly command: "progress";
  readonly bookmark: string | undefined;
  readonly records: number | undefined;
  readonly hash: string | undefined;
  readonly reason: string | undefined;
}

export type Message<T = JsonObject> =
  GroupBegin | SnapshotRecord<T> | GroupEnd | Published<T> | OutOfFocus<T> | Progress;

type Names<T> = T extends unknown ? keyof T : never;

/** A command that is to be sent; fields without a value are left out. */
export type Command = { readonly command: ClientMessage["command"] } & {
  readonly [name in Names<ClientMessage>]?: unknown;
};

/** Return the messages in a frame of the service; throws `bad message` for anything else. */
export function readFrame(frame: unknown): ServerMessage[] {
  return (Array.isArray(frame) ? frame : [frame]).map(checked);
}

/** Return the error of an acknowledgement; undefined if the command has succeeded. */
export const errorOf = (ack: Ack): SowlineError | undefined =>
  ack.status === "failure" ? new SowlineError(ack.reason, ack.message) : undefined;

/** Whether the next message belongs to the same step. */
export const isContinued = (message: Message | ServerMessage): boolean => (message as { more?: boolean }).more === true;

type Fields = Readonly<Record<string, unknown>>;

const isText = (value: unknown): boolean => typeof value === "string";
const isSent = (record: unknown): boolean => isObject(record) && isObject(record["data"]);
const isLive = (message: Fields): boolean => isText(message["bookmark"]) && isObject(message["data"]);

const IS_WHOLE: Readonly<Record<ServerMessage["command"], (message: Fields) => boolean>> = {
  group_begin: (message) => isText(message["bookmark"]),
  sow: (message) => Array.isArray(message["records"]) && message["records"].every(isSent),
  group_end: (message) => isText(message["bookmark"]) && typeof message["records"] === "number",
  publish: isLive,
  oof: (message) => isLive(message) && isText(message["reason"]),
  progress: (message) => isText(message["bookmark"]),
  ack: (message) => isText(message["status"]),
  heartbeat: () => true,
  explain: (message) => Array.isArray(message["access_paths"]),
  timeline: (message) => Array.isArray(message["writes"]),
};

function checked(message: unknown): ServerMessage {
  const command = isObject(message) ? message["command"] : undefined;
  if (typeof command === "string" && Object.hasOwn(IS_WHOLE, command)) {
    if (IS_WHOLE[command as ServerMessage["command"]](message as Fields)) return message as unknown as ServerMessage;
  }
  throw new SowlineError(
    "bad message",
    `expected a message that docs/api.md describes, got ${String(JSON.stringify(message, bigintText)).slice(0, 200)}`,
  );
}

const bigintText = (_: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);

/**
 * Add a subscriber's messages to `into`: one for each record of a `sow`. A message to several subscriptions may have
 * more fields than one of them selects; `select` keeps those of this one.
 */
export function addMessages(
  frame: ServerMessage,
  select: Select | undefined,
  into: { push(message: Message): void },
): void {
  const part = (data: unknown): JsonObject =>
    (select === undefined ? data : select.apply(data as JsonObject)) as JsonObject;
  switch (frame.command) {
    case "sow":
      for (const record of frame.records) {
        into.push({
          command: "sow",
          topic: frame.topic,
          sowKey: record.sow_key,
          data: record.data as JsonObject,
          updatedAt: record.updated_at,
          rank: record.rank,
          timestamp: record.timestamp,
          intrinsics: record.intrinsics,
        });
      }
      return;
    case "publish":
      into.push({
        command: "publish",
        topic: frame.topic,
        sowKey: frame.sow_key,
        data: part(frame.data),
        bookmark: frame.bookmark,
        more: frame.more ?? false,
        timestamp: frame.timestamp,
        correlationId: frame.correlation_id,
        intrinsics: frame.intrinsics,
        delta: frame.delta ?? false,
        removed: frame.removed ?? NONE,
        rank: frame.rank,
      });
      return;
    case "oof":
      into.push({
        command: "oof",
        topic: frame.topic,
        sowKey: frame.sow_key,
        data: part(frame.data),
        bookmark: frame.bookmark,
        more: frame.more ?? false,
        timestamp: frame.timestamp,
        correlationId: frame.correlation_id,
        intrinsics: frame.intrinsics,
        reason: frame.reason,
      });
      return;
    case "group_begin":
      into.push({
        command: "group_begin",
        topic: frame.topic,
        bookmark: frame.bookmark,
        reset: frame.reset ?? false,
        replace: frame.replace ?? false,
        warnings: frame.warnings ?? NONE,
        missing: frame.missing ?? {},
      });
      return;
    case "group_end":
      into.push({
        command: "group_end",
        topic: frame.topic,
        bookmark: frame.bookmark,
        records: frame.records,
        hash: frame.hash,
      });
      return;
    case "progress":
      into.push({
        command: "progress",
        bookmark: frame.bookmark,
        records: frame.records,
        hash: frame.hash,
        reason: undefined,
      });
  }
}

const NONE: readonly never[] = [];
