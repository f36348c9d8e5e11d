// The frames of Sowline's WebSocket API, as types.
// Made by `python -m contract` from docs/protocol/frames.schema.json: change the Python types, not this file.

/** What a client sends. One message, or an array of messages. */
export type ClientFrame = ClientMessage | ClientMessage[];

/** One command of a client, by its `command`. */
export type ClientMessage =
  | SowRequest
  | ExplainRequest
  | TimelineRequest
  | SubscribeRequest
  | SowAndSubscribeRequest
  | DeltaSubscribeRequest
  | SowAndDeltaSubscribeRequest
  | UnsubscribeRequest
  | PauseRequest
  | ResumeRequest
  | HeartbeatRequest
  | LogonRequest
  | PublishRequest
  | DeltaPublishRequest
  | DeltaRequest
  | SowDeleteRequest
  | FlushRequest;

/** What a service sends. One message, or an array of messages. */
export type ServerFrame = ServerMessage | ServerMessage[];

/** One message of a service, by its `command`. */
export type ServerMessage =
  | GroupBegin
  | Sow
  | GroupEnd
  | Timeline
  | Explain
  | Publish
  | Oof
  | Progress
  | Heartbeat
  | Ack;

/** The JSON of a binary frame, which bodies of records follow. One message, or an array of messages. */
export type NativeFrame = NativeMessage | NativeMessage[];

/** One message in a binary frame, by its `command`, and `size` or `data`. */
export type NativeMessage = NativeSow | NativePublish | NativeOof | ServerMessage;

/** The data of one event of an event stream, by its `command`. */
export type StreamMessage = GroupBegin | Sow | GroupEnd | Publish | Oof | Progress | Ack | StreamFailure;

/** An acknowledgement, by its `status` and `ack_type`. */
export type Ack = AckSuccess | AckStats | AckFailure;

/** One of the options of a command; `options` has them with commas between. */
export type Option =
  | "oof"
  | "no_empties"
  | "no_sowkey"
  | "no_redundant"
  | "send_keys"
  | "timestamp"
  | "intrinsics"
  | "replace"
  | "pause"
  | "current"
  | "partial"
  | "rank"
  | "reset"
  | `bookmark_not_found=${string}`
  | `rate=${string}`
  | `conflation=${string}`
  | `conflation_key=${string}`
  | `format=${string}`
  | `select=${string}`
  | `grouping=${string}`
  | `projection=${string}`;

/** Reads matching records. */
export interface SowRequest {
  /** The command. */
  command: "sow";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /** Selects records by a document condition, in addition to `filter`. */
  condition?: string;
  /** Options, separated by commas. */
  options?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The order of the records in a message group. */
  order_by?: string;
  /**
   * The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the first
   * records by SOW key.
   */
  top_n?: number | null;
  /**
   * The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
   * `sow_and_subscribe`, it requests a page.
   */
  skip_n?: number | null;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
}

/** Explains how a `sow` would find its records. */
export interface ExplainRequest {
  /** The command. */
  command: "explain";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /** Selects records by a document condition, in addition to `filter`. */
  condition?: string;
  /** Options, separated by commas. */
  options?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The order of the records in a message group. */
  order_by?: string;
  /**
   * The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the first
   * records by SOW key.
   */
  top_n?: number | null;
  /**
   * The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
   * `sow_and_subscribe`, it requests a page.
   */
  skip_n?: number | null;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
}

/** Lists the writes to one record. */
export interface TimelineRequest {
  /** The command. */
  command: "timeline";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** Where a subscription ends: positions, a time or `now`. */
  up_to?: string;
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The key text of the document that a `delta` changes, or of the record that a `timeline` is for. */
  key: string;
  /** The maximum number of writes in a `timeline`: 1 to 1,000; the default is 100. */
  limit?: number;
  /** Whether a `timeline` lists the newest write first; `true` by default. */
  reversed?: boolean;
}

/** Subscribes to changes. */
export interface SubscribeRequest {
  /** The command. */
  command: "subscribe";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /** Selects records by a document condition, in addition to `filter`. */
  condition?: string;
  /** Options, separated by commas. */
  options?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** Where a subscription ends: positions, a time or `now`. */
  up_to?: string;
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The order of the records in a message group. */
  order_by?: string;
  /**
   * The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the first
   * records by SOW key.
   */
  top_n?: number | null;
  /**
   * The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
   * `sow_and_subscribe`, it requests a page.
   */
  skip_n?: number | null;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
}

/** Reads matching records, and subscribes to their changes. */
export interface SowAndSubscribeRequest {
  /** The command. */
  command: "sow_and_subscribe";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /** Selects records by a document condition, in addition to `filter`. */
  condition?: string;
  /** Options, separated by commas. */
  options?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** Where a subscription ends: positions, a time or `now`. */
  up_to?: string;
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The order of the records in a message group. */
  order_by?: string;
  /**
   * The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the first
   * records by SOW key.
   */
  top_n?: number | null;
  /**
   * The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
   * `sow_and_subscribe`, it requests a page.
   */
  skip_n?: number | null;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
}

/** Subscribes to changes as deltas. */
export interface DeltaSubscribeRequest {
  /** The command. */
  command: "delta_subscribe";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /** Selects records by a document condition, in addition to `filter`. */
  condition?: string;
  /** Options, separated by commas. */
  options?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** Where a subscription ends: positions, a time or `now`. */
  up_to?: string;
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The order of the records in a message group. */
  order_by?: string;
  /**
   * The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the first
   * records by SOW key.
   */
  top_n?: number | null;
  /**
   * The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
   * `sow_and_subscribe`, it requests a page.
   */
  skip_n?: number | null;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
}

/** Reads matching records, and subscribes to their changes as deltas. */
export interface SowAndDeltaSubscribeRequest {
  /** The command. */
  command: "sow_and_delta_subscribe";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /** Selects records by a document condition, in addition to `filter`. */
  condition?: string;
  /** Options, separated by commas. */
  options?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
   * 10,000.
   */
  batch_size?: number;
  /**
   * Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: positions, a time, a list
   * or a range.
   */
  bookmark?: string | string[];
  /** Where a subscription ends: positions, a time or `now`. */
  up_to?: string;
  /** The positions that the result of a read must reflect: fresh reads. */
  at_least?: string;
  /** How far behind the log the result of a read may be, such as `500ms`: fresh reads. */
  max_staleness?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The order of the records in a message group. */
  order_by?: string;
  /**
   * The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the first
   * records by SOW key.
   */
  top_n?: number | null;
  /**
   * The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
   * `sow_and_subscribe`, it requests a page.
   */
  skip_n?: number | null;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
}

/** Ends subscriptions, or a query. */
export interface UnsubscribeRequest {
  /** The command. */
  command: "unsubscribe";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id?: string;
  /** The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort. */
  query_id?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
}

/** Pauses subscriptions. */
export interface PauseRequest {
  /** The command. */
  command: "pause";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
}

/** Resumes paused subscriptions. */
export interface ResumeRequest {
  /** The command. */
  command: "resume";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
}

/** Requests a heartbeat, or the checksum of a subscription's view. */
export interface HeartbeatRequest {
  /** The command. */
  command: "heartbeat";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /**
   * The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
   * comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
   * no effect. A `heartbeat` with a `sub_id` requests the checksum of its view.
   */
  sub_id?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
}

/** Logs a user on, or renews a token. */
export interface LogonRequest {
  /** The command. */
  command: "logon";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The token of a `logon`. */
  token?: string;
}

/** Writes a record. */
export interface PublishRequest {
  /** The command. */
  command: "publish";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The record that a command writes, or the text of a `delta`. */
  data: Record<string, unknown>;
  /** The lifetime in seconds of a record that a command writes. With 0, the record never expires. */
  expiration?: number | null;
  /** Text that a write passes to subscribers. */
  correlation_id?: string;
  /** The SOW key of the record to write, on a topic whose publishers supply the keys. Reads take `sow_keys`. */
  sow_key?: string;
  /** The tags of a write to a document: an array of strings, or one comma-separated string. */
  tags?: string | string[];
  /** The writer's own id for a write to a document. */
  change_id?: string;
  /** The span of a trace that a write belongs to. */
  traceparent?: string;
}

/** Merges fields into a record. */
export interface DeltaPublishRequest {
  /** The command. */
  command: "delta_publish";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The record that a command writes, or the text of a `delta`. */
  data: Record<string, unknown>;
  /** The lifetime in seconds of a record that a command writes. With 0, the record never expires. */
  expiration?: number | null;
  /** Text that a write passes to subscribers. */
  correlation_id?: string;
  /** The SOW key of the record to write, on a topic whose publishers supply the keys. Reads take `sow_keys`. */
  sow_key?: string;
  /** The tags of a write to a document: an array of strings, or one comma-separated string. */
  tags?: string | string[];
  /** The writer's own id for a write to a document. */
  change_id?: string;
  /** The span of a trace that a write belongs to. */
  traceparent?: string;
}

/** Applies a delta to a document. */
export interface DeltaRequest {
  /** The command. */
  command: "delta";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /** The record that a command writes, or the text of a `delta`. */
  data: string;
  /** Text that a write passes to subscribers. */
  correlation_id?: string;
  /** The key text of the document that a `delta` changes, or of the record that a `timeline` is for. */
  key?: string;
  /** The SOW key of the record to write, on a topic whose publishers supply the keys. Reads take `sow_keys`. */
  sow_key?: string;
  /** The tags of a write to a document: an array of strings, or one comma-separated string. */
  tags?: string | string[];
  /** The writer's own id for a write to a document. */
  change_id?: string;
  /** The span of a trace that a write belongs to. */
  traceparent?: string;
}

/** Deletes records. */
export interface SowDeleteRequest {
  /** The command. */
  command: "sow_delete";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /** The topic's name, or `^` and a pattern: several topics. */
  topic: string;
  /** Selects records: filters. Empty by default, which selects every record. */
  filter?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
  /**
   * Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string with
   * commas or as a JSON array. The list also applies to live messages. An empty list selects by `filter` alone.
   * Keys without a record are ignored.
   */
  sow_keys?: string[] | string;
  /** The record that a command writes, or the text of a `delta`. */
  data?: Record<string, unknown>;
  /** Text that a write passes to subscribers. */
  correlation_id?: string;
  /** The SOW key of the record to write, on a topic whose publishers supply the keys. Reads take `sow_keys`. */
  sow_key?: string;
  /** The tags of a write to a document: an array of strings, or one comma-separated string. */
  tags?: string | string[];
  /** The writer's own id for a write to a document. */
  change_id?: string;
  /** The span of a trace that a write belongs to. */
  traceparent?: string;
}

/** Waits for the outcome of each earlier write on the connection. */
export interface FlushRequest {
  /** The command. */
  command: "flush";
  /** Identifies the command in acknowledgements; the default for `sub_id` and `query_id`. */
  command_id?: string;
  /**
   * The acknowledgements to send, separated by commas: `received`, `processed`, `completed`, `persisted`,
   * `stats`. Failures are always sent.
   */
  ack_type?: string;
}

/** How a query finds its records in one topic. */
export interface AccessPath {
  /** The topic. */
  topic: string;
  /** How the query finds its records. */
  access_path: "hash index" | "history" | "key" | "memo index" | "scan" | "sow keys";
  /** The fields of the index, or of the key, that was used. */
  index?: string;
  /** The part of the filter that memo indexes have answered. */
  indexed?: string;
  /** Records that there were to compare; missing where the user may not see some, as `candidates` and `read` are. */
  records?: number;
  /** Records that were left by the index. */
  candidates?: number;
  /** Records whose bodies were read to evaluate the rest of the filter. */
  read?: number;
  /** Records that match. */
  matches: number;
  /** Why there was no better access path. */
  note?: string;
  /** What a view computes; missing for other topics, and for a user who may read only some of its fields. */
  view?: View;
  /** Of a view: the bookmark up to which all of it reflects what it reads; null while that is not known. */
  reflects?: string | null;
  /** Of a view: log records of what it reads that the service has and the view does not reflect; null if unknown. */
  behind?: number | null;
  /** At a gateway: the shard of the query service that answered. */
  shard?: string;
}

/** A command failed, or a query or a subscription ended early. No other acknowledgement of the command follows. */
export interface AckFailure {
  command: "ack";
  /** The id of the command, if it has one. */
  command_id?: string;
  /** `completed` if it had begun. */
  ack_type: "completed" | "processed";
  /** The command failed. */
  status: "failure";
  /** The reason code, for programs. */
  reason: string;
  /** What was expected, what came and what to do, for people. */
  message: string;
  /** The subscription that ended. */
  sub_id?: string;
}

/** The counts of a query or a write. */
export interface AckStats {
  command: "ack";
  /** The id of the command, if it has one. */
  command_id?: string;
  /** Counts follow. */
  ack_type: "stats";
  /** The command succeeded. */
  status: "success";
  /** Records that were compared. */
  topic_matches: number;
  /** Records that match the filter. */
  matches: number;
  /** Records or groups that were sent. */
  records_returned: number;
  /** Records that were deleted. */
  records_deleted: number;
  /** How far the answer is behind the log; missing if that is not known, or if the query is of the past. */
  lag_seconds?: number;
}

/** The acknowledgement of a command that succeeded. */
export interface AckSuccess {
  command: "ack";
  /** The id of the command, if it has one. */
  command_id?: string;
  /** What has happened. */
  ack_type: "completed" | "persisted" | "processed" | "received";
  /** The command succeeded. */
  status: "success";
  /** The instant of a read, the begin or end of a subscription, or the position of a write in the log. */
  bookmark?: string;
  /** The subscription that the command began. */
  sub_id?: string;
  /** The end of the subscription as positions, if it has one. */
  up_to?: string;
  /** The outcome of a write, such as `applied`; several with commas. */
  outcome?: string;
  /** The bookmark from which the effect of a write is visible. */
  effect?: string;
  /** The user of a logon, if one was identified. */
  user?: string;
  /** The roles of that user. */
  roles?: string[];
  /** A name of what that user may do; equal names, equal rights. */
  rights?: string;
  /** The seconds until the token of a logon ends, if it does. */
  expires_in?: number;
  /** The version of the service, after a logon. */
  version?: string;
}

/** The result of an `explain`. */
export interface Explain {
  command: "explain";
  /** The id of the command, if it has one. */
  command_id?: string;
  /** The instant. */
  bookmark: string;
  /** An entry for each topic, and at a past time another. */
  access_paths: AccessPath[];
}

/** Begins a message group: the records of one instant. */
export interface GroupBegin {
  command: "group_begin";
  /** The query, if it has a name. */
  query_id?: string;
  /** The topic, or the pattern of topics. */
  topic: string;
  /** The instant. */
  bookmark: string;
  /** Sentences about probable mistakes in the request, such as an unknown field. */
  warnings?: string[];
  /** By topic, the partitions whose records are missing, with the option `partial`. */
  missing?: Record<string, number[]>;
  /** The group replaces all records that the client holds. */
  reset?: true;
  /** The group adds to the records that the client holds: the subscription was replaced. */
  replace?: true;
}

/** Ends a message group. */
export interface GroupEnd {
  command: "group_end";
  /** The query, if it has a name. */
  query_id?: string;
  /** The topic, or the pattern of topics. */
  topic: string;
  /** The instant. */
  bookmark: string;
  /** The number of records or of writes that were sent. */
  records: number;
  /** The XOR of the 8-byte BLAKE2b of each SOW key, in hex; a timeline has none. */
  hash?: string;
  /** The time from which a timeline has every write. */
  since?: string;
}

/** The response to a heartbeat. */
export interface Heartbeat {
  command: "heartbeat";
  /** The id of the command, if it has one. */
  command_id?: string;
}

/** The intrinsics of a document. */
export interface Intrinsics {
  /** The key text. */
  "~id": string;
  /** The topic. */
  "~table": string;
  /** The number of writes. */
  "~version": number;
  /** Names the version: a delta may depend on it. */
  "~signature": string;
  /** Whether the document has no content. */
  "~deleted": boolean;
  /** When it was first written. */
  "~firstUpdateAt"?: string;
  /** When it was last written. */
  "~lastUpdateAt"?: string;
  /** When it last changed. */
  "~lastMutateAt"?: string;
  /** The tags of the last write, if it had any. */
  "~tags"?: string[];
}

/** A topic whose records a view adds to those of its source. */
export interface Join {
  /** The topic. */
  topic: string;
  /** The fields of the source, and the fields of the topic that equal them. */
  on: string;
  /** The field that has the topic's record. */
  as: string;
  /** Whether records without a match count, too (left), or not (inner). */
  kind: "inner" | "left";
  /** Whether several records of the topic may be added, each in a record of the view. */
  multiply: boolean;
}

/** The record is out of focus, and its body is behind the JSON of the binary frame. */
export interface NativeOof {
  command: "oof";
  /** The subscriptions. */
  sids: string[];
  /** The next message belongs to the same step: apply both together. */
  more?: true;
  /** The topic of the record. */
  topic: string;
  /** The SOW key; missing with the option `no_sowkey`, and on a topic without a SOW. */
  sow_key?: string;
  /** The log time of the change, with the option `timestamp`. */
  timestamp?: string;
  /** The position of the change, to lay over the bookmark of the subscription. */
  bookmark: string;
  /** The correlation id of the command that made the change. */
  correlation_id?: string;
  /** The intrinsics of a document, with the option `intrinsics`. */
  intrinsics?: Intrinsics;
  /** The size of the record, which is behind the JSON. */
  size: number;
  /** Why the record can't be written in the message type of its topic; its size is 0 then. */
  problem?: string;
  /** Why: `match` comes with the new body, the others with the previous one. */
  reason: "deleted" | "entitlement" | "expired" | "match";
}

/** The record matches now, and its body is behind the JSON of the binary frame. */
export interface NativePublish {
  command: "publish";
  /** The subscriptions. */
  sids: string[];
  /** The next message belongs to the same step: apply both together. */
  more?: true;
  /** The topic of the record. */
  topic: string;
  /** The SOW key; missing with the option `no_sowkey`, and on a topic without a SOW. */
  sow_key?: string;
  /** The log time of the change, with the option `timestamp`. */
  timestamp?: string;
  /** The position of the change, to lay over the bookmark of the subscription. */
  bookmark: string;
  /** The correlation id of the command that made the change. */
  correlation_id?: string;
  /** The intrinsics of a document, with the option `intrinsics`. */
  intrinsics?: Intrinsics;
  /** The size of the record, which is behind the JSON. */
  size: number;
  /** Why the record can't be written in the message type of its topic; its size is 0 then. */
  problem?: string;
}

/** Some records of a message group, in a binary frame. */
export interface NativeSow {
  command: "sow";
  /** The query; empty if it has no name. */
  query_id: string;
  /** The topic of the records. */
  topic: string;
  /** The records, up to `batch_size`. */
  records: NativeSowRecord[];
}

/** One record of a `sow` message in a binary frame. */
export interface NativeSowRecord {
  /** The SOW key; missing with the option `no_sowkey`. */
  sow_key?: string;
  /** The log time of the last change, with the option `timestamp`. */
  timestamp?: string;
  /** The position of the last change; not a bookmark to resume from. Groups have none. */
  updated_at?: string;
  /** The intrinsics of a document, with the option `intrinsics`. */
  intrinsics?: Intrinsics;
  /** The number of records before it in the order, with the option `rank`. */
  rank?: number;
  /** The size of the record, which is behind the JSON. */
  size: number;
  /** Why the record can't be written in the message type of its topic; its size is 0 then. */
  problem?: string;
}

/** The record is out of focus. */
export interface Oof {
  command: "oof";
  /** The subscriptions. */
  sids: string[];
  /** The next message belongs to the same step: apply both together. */
  more?: true;
  /** The topic of the record. */
  topic: string;
  /** The SOW key; missing with the option `no_sowkey`, and on a topic without a SOW. */
  sow_key?: string;
  /** The log time of the change, with the option `timestamp`. */
  timestamp?: string;
  /** The position of the change, to lay over the bookmark of the subscription. */
  bookmark: string;
  /** The correlation id of the command that made the change. */
  correlation_id?: string;
  /** The intrinsics of a document, with the option `intrinsics`. */
  intrinsics?: Intrinsics;
  /** The record. */
  data: Record<string, unknown>;
  /** Why: `match` comes with the new body, the others with the previous one. */
  reason: "deleted" | "entitlement" | "expired" | "match";
}

/** The current bookmark of idle subscriptions, or the checksum of one subscription's view. */
export interface Progress {
  command: "progress";
  /** The heartbeat that asked for the checksum. */
  command_id?: string;
  /** The subscriptions. */
  sids: string[];
  /** Their bookmark. */
  bookmark: string;
  /** The number of records that the client holds at this bookmark. */
  records?: number;
  /** The XOR of the hashes of their SOW keys, as in `group_end`. */
  hash?: string;
}

/** The record matches now, and this is its body. */
export interface Publish {
  command: "publish";
  /** The subscriptions. */
  sids: string[];
  /** The next message belongs to the same step: apply both together. */
  more?: true;
  /** The topic of the record. */
  topic: string;
  /** The SOW key; missing with the option `no_sowkey`, and on a topic without a SOW. */
  sow_key?: string;
  /** The log time of the change, with the option `timestamp`. */
  timestamp?: string;
  /** The position of the change, to lay over the bookmark of the subscription. */
  bookmark: string;
  /** The correlation id of the command that made the change. */
  correlation_id?: string;
  /** The intrinsics of a document, with the option `intrinsics`. */
  intrinsics?: Intrinsics;
  /** The record, or the part of it that a delta has. */
  data: Record<string, unknown>;
  /** `data` has only the key fields and the changed fields: merge it into the record that you hold. */
  delta?: true;
  /** The paths of the fields that a delta removes. */
  removed?: string[];
  /** The number of records before it in the order after this step, with the option `rank`. */
  rank?: number;
}

/** Some records of a message group. */
export interface Sow {
  command: "sow";
  /** The query; empty if it has no name. */
  query_id: string;
  /** The topic of the records. */
  topic: string;
  /** The records, up to `batch_size`. */
  records: SowRecord[];
}

/** One record of a `sow` message, or one group. */
export interface SowRecord {
  /** The SOW key; missing with the option `no_sowkey`. */
  sow_key?: string;
  /** The log time of the last change, with the option `timestamp`. */
  timestamp?: string;
  /** The position of the last change; not a bookmark to resume from. Groups have none. */
  updated_at?: string;
  /** The intrinsics of a document, with the option `intrinsics`. */
  intrinsics?: Intrinsics;
  /** The number of records before it in the order, with the option `rank`. */
  rank?: number;
  /** The record. */
  data: Record<string, unknown>;
}

/** The last event of an event stream that fails, with the reason. */
export interface StreamFailure {
  command: "failure";
  /** The reason code, for programs. */
  reason: string;
  /** What was expected, what came and what to do, for people. */
  message: string;
}

/** Some writes of a timeline. */
export interface Timeline {
  command: "timeline";
  /** The query; empty if it has no name. */
  query_id: string;
  /** The topic. */
  topic: string;
  /** The SOW key of the record. */
  sow_key: string;
  /** The key text of the record. */
  key: string;
  /** The writes, up to `batch_size`. */
  writes: TimelineWrite[];
}

/** One write of a timeline; the fields from `version` to `redundant` are those of documents. */
export interface TimelineWrite {
  /** The position of the write. */
  bookmark: string;
  /** Its log time. */
  timestamp: string;
  /** The command that wrote. */
  command: string;
  /** The number of writes, this one included. */
  version?: number;
  /** The signature after the write. */
  signature?: string;
  /** The id of the write. */
  change_id?: string;
  /** The tags of the write. */
  tags?: string[];
  /** The outcome: `applied`, `noop` or `condition_false`. */
  outcome?: string;
  /** Whether it changed neither content nor tags. */
  redundant?: boolean;
  /** The publisher, if the command named one. */
  publisher?: string;
  /** The correlation id, if the command had one. */
  correlation_id?: string;
  /** The text of the delta, if the write was one. */
  delta?: string;
  /** `expired` or `deleted`, where that ended the record. */
  reason?: string;
  /** The record before the write; null if there was none. */
  previous: Record<string, unknown> | null;
  /** The record after the write; null if there is none. */
  data: Record<string, unknown> | null;
}

/** What a view computes. */
export interface View {
  /** The topic or view that it is computed from. */
  from: string;
  /** Which records of that topic count; empty for all. */
  filter: string;
  /** The paths that records are grouped by; empty if each record of the view is one of that topic. */
  grouping: string[];
  /** The fields of its records; empty for those of that topic. */
  projection: string;
  /** Which results are records of the view; empty for all. */
  having: string;
  /** The topics whose records are added to those of that topic. */
  joins: Join[];
  /** How long a conflated topic merges the changes of a record; 0 in a view. */
  interval_ms: number;
}
