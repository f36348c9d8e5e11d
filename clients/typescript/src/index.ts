export { connect, Client, type OnMessage } from "./client.js";
export type { Fresh, Reading, Selecting } from "./ask.js";
export type { Bookmark } from "./bookmark.js";
export type { Integers } from "./codec.js";
export type { ConnectionStatus, ConnectOptions, Login, Socket } from "./connection.js";
export { SowlineError } from "./errors.js";
export type * as frames from "./frames.js";
export type { Json, JsonObject } from "./json.js";
export { JsonText } from "./jsonText.js";
export { literal } from "./literal.js";
export type {
  GroupBegin,
  GroupEnd,
  Message,
  OofReason,
  OutOfFocus,
  Progress,
  Published,
  SnapshotRecord,
} from "./message.js";
export type { RemoveReason } from "./records.js";
export type { Change, Patch, Row, Saved } from "./recordView.js";
export type { Explanation, Timeline, TimelineReading } from "./requests.js";
export { Subscription } from "./subscription.js";
export { View, type ViewReading, type ViewStatus } from "./view.js";
export type { DeleteOutcome, DeleteSelection, Outcome, WriteOptions } from "./writing.js";
