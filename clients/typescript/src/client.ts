/** The client of a query service: queries, subscriptions, live views, and writes. */

import { Ask, type Fresh, type ReadCommand, type Reading } from "./ask.js";
import { Connection, type ConnectionStatus, type ConnectOptions, type Login } from "./connection.js";
import { SowlineError } from "./errors.js";
import type { JsonObject } from "./json.js";
import type { Message } from "./message.js";
import { OpenStreams } from "./openStreams.js";
import type { Explanation, Requests, Timeline, TimelineReading } from "./requests.js";
import { Subscription } from "./subscription.js";
import { View, type ViewReading } from "./view.js";
import type { DeleteOutcome, DeleteSelection, Outcome, WriteOptions } from "./writing.js";

export type OnMessage<T> = (message: Message<T>) => void;

/**
 * Connect to a query service. The client connects by itself, and reconnects whenever the connection is lost. Until
 * then, what is asked of it waits.
 */
export const connect = (url: string, options: ConnectOptions = {}): Client => new Client(url, options);

/**
 * A client of a query service.
 *
 * If the connection is lost, every subscription continues after the last message that its caller has taken, without
 * a gap or a repeat. If it was lost within a group, the group is sent again: a `group_begin` always means that the
 * whole group follows.
 */
export class Client {
  readonly #streams = new OpenStreams();
  readonly #connection: Connection;
  readonly #url: string;
  #requests: Requests | undefined;
  #loading: Promise<Requests> | undefined;

  constructor(url: string, options: ConnectOptions = {}) {
    this.#url = url;
    this.#connection = new Connection(url, options, {
      receive: (frame) => {
        this.#streams.receive(frame);
        this.#requests?.calls.receive(frame);
      },
      deliver: () => this.#streams.deliver(),
      resume: (isVoid) => {
        this.#streams.resume(isVoid);
        this.#requests?.calls.sendUnsent();
      },
      lost: () => {
        this.#streams.lost();
        this.#requests?.calls.lost();
      },
      fail: (error) => {
        this.#streams.fail(error);
        this.#requests?.calls.fail(error);
      },
    });
    this.#streams.connection = this.#connection;
  }

  // the connection

  /** Resolves once the client is connected; rejects with `not connected`, or the reason of a refusal. */
  get opened(): Promise<void> {
    return this.#connection.opened.promise;
  }

  get status(): ConnectionStatus {
    return this.#connection.status;
  }

  /** Why the client is closed; undefined while it is not. */
  get error(): SowlineError | undefined {
    return this.#connection.error;
  }

  /** Call `listener` with each new status; the result ends that. */
  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    return this.#connection.onStatus(listener);
  }

  /** When the next attempt to connect begins; undefined while none is due. */
  get retryAt(): Date | undefined {
    return this.#connection.retryAt;
  }

  /** What the service said when it closed the connection, while there is none; undefined if it said nothing. */
  get closeReason(): string | undefined {
    return this.#connection.closeReason;
  }

  /** When the last message of the service came; undefined before the first one. */
  get heardAt(): Date | undefined {
    const at = this.#connection.heardAt;
    return at === 0 ? undefined : new Date(at);
  }

  /** The user of this client and the name of its rights, as of the last logon. */
  get login(): Login {
    return this.#connection.login;
  }

  /** Close the connection. Subscriptions and views fail with `disconnected`. */
  close(): void {
    this.#connection.fail(new SowlineError("disconnected", "the client was closed"));
  }

  // reading

  /** The records that match at one instant, between a `group_begin` and a `group_end`. */
  sow<T = JsonObject>(topic: string, reading?: Reading): Subscription<T> {
    return this.#read("sow", topic, reading);
  }

  /** The changes as they happen, from now or from a bookmark on. */
  subscribe<T = JsonObject>(topic: string, reading?: Reading, onMessage?: OnMessage<T>): Subscription<T> {
    return this.#read("subscribe", topic, reading, onMessage);
  }

  /** The records that match at one instant, then every change after it: no gap, no repeat. */
  sowAndSubscribe<T = JsonObject>(topic: string, reading?: Reading, onMessage?: OnMessage<T>): Subscription<T> {
    return this.#read("sow_and_subscribe", topic, reading, onMessage);
  }

  /** The changes as they happen; of a record that you hold, only the key fields and what has changed. */
  deltaSubscribe<T = JsonObject>(
    topic: string,
    reading?: Reading,
    onMessage?: OnMessage<Partial<T>>,
  ): Subscription<Partial<T>> {
    return this.#read("delta_subscribe", topic, reading, onMessage);
  }

  /** The records that match at one instant, then what every change after it has changed. */
  sowAndDeltaSubscribe<T = JsonObject>(
    topic: string,
    reading?: Reading,
    onMessage?: OnMessage<Partial<T>>,
  ): Subscription<Partial<T>> {
    return this.#read("sow_and_delta_subscribe", topic, reading, onMessage);
  }

  /** A map of SOW keys to the records that match, which is always up to date. */
  view<T = JsonObject>(topic: string, reading: ViewReading = {}): View<T> {
    return new View<T>(this.#streams, this.#connection, topic, reading);
  }

  /** The access path that a query would take in each topic, and how many records it would examine. */
  async explain(topic: string, reading?: Omit<Reading, "batchSize" | "upTo">): Promise<Explanation> {
    return (await this.#load()).explain(topic, reading);
  }

  /** The writes to the record with this key text. */
  async timeline(topic: string, key: string, reading?: TimelineReading): Promise<Timeline> {
    return (await this.#load()).timeline(topic, key, reading);
  }

  /** One record by its key text; throws `no record` if there is none. A document contains its intrinsics. */
  async record<T = JsonObject>(topic: string, key: string, fresh?: Fresh): Promise<T> {
    return (await this.#load()).record(topic, key, fresh) as Promise<T>;
  }

  /** The service's description of its topics. */
  async topics(): Promise<JsonObject> {
    return (await this.#load()).topics();
  }

  /**
   * Send a request of the HTTP API, such as `topics/orders/fields`, with the client's token; throws the service's
   * error.
   */
  async fetch(path: string, init?: RequestInit): Promise<Response> {
    return (await this.#load()).http.fetch(path, init);
  }

  // writing

  /** Insert the record, or replace it whole. */
  async publish(topic: string, data: unknown, options?: WriteOptions): Promise<Outcome> {
    return (await this.#load()).write("publish", topic, { data }, options);
  }

  /** Merge the fields into the record that the key fields in `data`, or the `sowKey`, name. */
  async deltaPublish(topic: string, data: unknown, options?: WriteOptions): Promise<Outcome> {
    return (await this.#load()).write("delta_publish", topic, { data }, options);
  }

  /** Apply a delta, such as `{..,"rating":5}`, to the document with this key text. */
  async delta(topic: string, key: string, delta: string, options?: WriteOptions): Promise<Outcome> {
    return (await this.#load()).write("delta", topic, { data: delta, key }, options);
  }

  /** Delete the records that a filter, SOW keys, a record or a key select; the topic may be a pattern. */
  async sowDelete(topic: string, selection: DeleteSelection): Promise<DeleteOutcome> {
    return (await this.#load()).delete(topic, selection);
  }

  /** Wait until Kafka has every earlier command of this client. */
  async flush(): Promise<void> {
    await (await this.#load()).flush();
  }

  /**
   * The bookmark of the effects of all writes that this client has waited for; empty if there are none. A read with
   * it as `atLeast` sees these writes, from any client and at any service.
   */
  get effect(): string {
    return this.#requests?.effect ?? "";
  }

  /** Load what most pages need later or not at all. */
  #load(): Promise<Requests> {
    return (this.#loading ??= import("./requests.js").then(
      ({ Requests }) => (this.#requests = new Requests(this.#url, this.#connection)),
      (error: unknown) => {
        this.#loading = undefined; // the next request tries again
        throw error;
      },
    ));
  }

  #read<T>(command: ReadCommand, topic: string, reading?: Reading, onMessage?: OnMessage<T>): Subscription<T> {
    const stream = this.#streams.open(new Ask(command, topic, reading));
    return new Subscription<T>(this.#streams, stream, (record) => this.#present(record), onMessage);
  }

  #present(record: JsonObject): JsonObject {
    return this.#connection.codec.present(record);
  }
}
