/** The open queries and subscriptions of a client: gives each message to the streams that it is for. */

import type { Ask, Selecting } from "./ask.js";
import type { Connection } from "./connection.js";
import type { SowlineError } from "./errors.js";
import type { ServerMessage } from "./frames.js";
import type { Event } from "./lifecycle.js";
import { Stream, streamId, WAITING_MAX } from "./stream.js";

/** Streams by their ids, over one connection. After a lost connection, each stream resumes over the next one. */
export class OpenStreams {
  /** The connection of the streams; set before the first of them is opened. */
  connection!: Connection;
  readonly #byId = new Map<string, Stream>();
  /** Those whose callers don't know yet that there are messages. */
  readonly #news = new Set<Stream>();
  #opened = 0;
  #failure: SowlineError | undefined;

  // what the client calls

  /** Start a query or subscription. Without a connection, the next one does so. */
  open(ask: Ask): Stream {
    const stream = new Stream(String(++this.#opened), ask);
    if (this.#failure !== undefined) {
      stream.handle({ type: "fail", error: this.#failure });
      return stream;
    }
    ask.request(stream.id); // throws what is wrong with it
    this.#byId.set(stream.id, stream);
    if (this.connection.isOpen) this.command(stream, { type: "connected" });
    return stream;
  }

  /** Change the request of a subscription; resolves once the service has accepted it. */
  replace(stream: Stream, changes: Selecting): Promise<void> {
    const settled = stream.replace(changes);
    this.#send(stream);
    return settled;
  }

  /** Unsubscribe, if the stream is still open. */
  end(stream: Stream): void {
    if (this.#byId.delete(stream.id)) this.command(stream, { type: "leave" });
  }

  /** Note that a caller has taken messages: a subscription that was full goes on once few are left. */
  taken(stream: Stream): void {
    const { isFull, waitingCount } = stream.machine;
    if (isFull && waitingCount <= WAITING_MAX / 2) this.command(stream, { type: "room" });
  }

  /** Let a stream take an event, and send what follows from it. */
  command(stream: Stream, event: Event): void {
    stream.handle(event);
    this.#send(stream);
  }

  #send(stream: Stream): void {
    for (const action of stream.outgoing.splice(0)) {
      if (action.type !== "ask_later") this.connection.send(stream.request(action));
      else this.connection.later(() => this.command(stream, { type: "again", number: action.number }));
    }
  }

  // what the connection calls

  receive(frame: ServerMessage): void {
    // An answer changes what a stream does with the messages before it.
    if (frame.command === "ack") this.deliver();
    for (const id of "sids" in frame ? frame.sids : [idOf(frame)]) {
      const stream = this.#byId.get(streamId(id));
      if (stream === undefined) continue;
      stream.receive(frame);
      this.#news.add(stream);
      this.#send(stream);
    }
  }

  /** Let the callers take what was received: once for all messages that have come together. */
  deliver(): void {
    const news = [...this.#news];
    this.#news.clear();
    for (const stream of news) {
      stream.onNews();
      // A browser can't stop reading its connection: pause a subscription whose caller has too many messages to take.
      if (stream.machine.waitingCount >= WAITING_MAX) this.command(stream, { type: "full" });
    }
  }

  lost(): void {
    for (const stream of this.#byId.values()) stream.handle({ type: "lost" });
  }

  resume(rightsChanged: boolean): void {
    for (const stream of this.#byId.values()) {
      if (stream.machine.state === "unsent") this.command(stream, { type: "connected", rightsChanged });
    }
  }

  fail(error: SowlineError): void {
    this.#failure = error;
    for (const stream of [...this.#byId.values()]) stream.handle({ type: "fail", error });
    this.#byId.clear();
  }
}

function idOf(frame: Exclude<ServerMessage, { sids: string[] }>): string {
  const { query_id, sub_id, command_id } = frame as { query_id?: string; sub_id?: string; command_id?: string };
  return query_id || sub_id || command_id || "";
}
