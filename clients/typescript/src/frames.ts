/** The messages of the WebSocket API, with the field names of the wire. docs/api.md describes them. */

import type { JsonObject } from "./json.js";

/** A command of a client. Which fields a command takes is in docs/api.md. */
export interface ClientMessage {
  command: string;
  command_id?: string;
  [field: string]: unknown;
}

export interface SowRecord {
  sow_key?: string;
  timestamp?: string;
  updated_at?: string;
  intrinsics?: JsonObject;
  data: JsonObject;
}

export interface GroupBeginMessage {
  command: "group_begin";
  query_id: string;
  topic: string;
  bookmark: string;
  reset?: boolean;
  replace?: boolean;
  warnings?: string[];
  missing?: Record<string, number[]>;
}

export interface SowMessage {
  command: "sow";
  query_id: string;
  topic: string;
  records: SowRecord[];
}

export interface GroupEndMessage {
  command: "group_end";
  query_id: string;
  topic: string;
  bookmark: string;
  records: number;
  hash?: string;
  since?: string;
}

interface LiveMessage {
  sids: string[];
  topic: string;
  sow_key?: string;
  timestamp?: string;
  bookmark: string;
  more?: boolean;
  correlation_id?: string;
  intrinsics?: JsonObject;
  data: JsonObject;
}

export interface PublishMessage extends LiveMessage {
  command: "publish";
  delta?: boolean;
  removed?: string[];
}

export interface OofMessage extends LiveMessage {
  command: "oof";
  reason: "match" | "deleted" | "expired" | "entitlement";
}

export interface ProgressMessage {
  command: "progress";
  command_id?: string;
  sids: string[];
  bookmark: string;
  records?: number;
  hash?: string;
}

export interface AckMessage {
  command: "ack";
  command_id: string;
  ack_type: "received" | "processed" | "completed" | "persisted" | "stats";
  status: "success" | "failure";
  reason?: string;
  message?: string;
  sub_id?: string;
  bookmark?: string;
  up_to?: string;
  outcome?: string;
  effect?: string;
  records_deleted?: number;
  user?: string;
  roles?: string[];
  rights?: string;
  expires_in?: number;
  version?: string;
}

export interface HeartbeatMessage {
  command: "heartbeat";
  command_id: string;
}

export interface ExplainMessage {
  command: "explain";
  command_id: string;
  bookmark: string;
  access_paths: JsonObject[];
}

export interface TimelineMessage {
  command: "timeline";
  query_id: string;
  topic: string;
  sow_key: string;
  key: string;
  writes: JsonObject[];
}

export type ServerMessage =
  | GroupBeginMessage
  | SowMessage
  | GroupEndMessage
  | PublishMessage
  | OofMessage
  | ProgressMessage
  | AckMessage
  | HeartbeatMessage
  | ExplainMessage
  | TimelineMessage;
