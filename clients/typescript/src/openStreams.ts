/** The open queries and subscriptions of a client: gives each message to the streams that it is for. */

import type { Ask, Selecting } from "./ask.js";
import type { Connection } from "./connection.js";
import type { SowlineError } from "./errors.js";
import type { Ack, ServerMessage } from "./frames.js";
import type { Command } from "./message.js";
import { Stream, streamId, WAITING_MAX, type About } from "./stream.js";

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
      stream.fail(this.#failure);
      return stream;
    }
    const request = ask.request(stream.id);
    this.#byId.set(stream.id, stream);
    this.connection.send(request);
    return stream;
  }

  /** Change the request of a subscription; resolves once the service has accepted it. */
  replace(stream: Stream, changes: Selecting): Promise<void> {
    const settled = stream.replace(changes);
    this.connection.send(stream.nextRequest());
    return settled;
  }

  /** Let the service send nothing to a subscription until it is resumed. */
  pause(stream: Stream): void {
    stream.isPaused = true;
    if (!stream.isHeld) this.#sendAbout(stream, "pause");
  }

  /** Resume a subscription from the position at which it was paused. */
  unpause(stream: Stream): void {
    stream.isPaused = false;
    if (!stream.isHeld) this.#sendAbout(stream, "resume");
  }

  /** Ask for the number of records and the checksum of what a subscriber should hold. */
  prove(stream: Stream): void {
    stream.wantsProof = true;
    this.#sendAbout(stream, "proof");
  }

  /** Unsubscribe, if the stream is still open. */
  end(stream: Stream): void {
    if (!this.#byId.delete(stream.id)) return;
    if (!stream.isOver) this.connection.send(stream.endRequest());
    stream.close();
  }

  /** Note that a caller has taken messages: a subscription that was held goes on once few are left. */
  taken(stream: Stream): void {
    if (!stream.isHeld || stream.waitingCount > WAITING_MAX / 2) return;
    stream.isHeld = false;
    if (!stream.isPaused) this.#sendAbout(stream, "resume");
  }

  #sendAbout(stream: Stream, what: About): void {
    this.connection.send(stream.requestAbout(what));
  }

  // what the connection calls

  receive(frame: ServerMessage): void {
    // An answer changes what a stream does with the messages before it.
    if (frame.command === "ack") this.deliver();
    for (const id of "sids" in frame ? frame.sids : [idOf(frame)]) {
      const stream = this.#byId.get(streamId(id));
      if (stream === undefined) continue;
      if (stream.isToAskAgain(frame)) {
        this.connection.sendLater(() => (this.#byId.has(stream.id) ? stream.again(frame as Ack) : undefined));
      } else {
        stream.receive(frame);
        this.#news.add(stream);
        if (frame.command === "ack") this.connection.send(stream.nextRequest());
      }
    }
  }

  /** Let the callers take what was received: once for all messages that have come together. */
  deliver(): void {
    const news = [...this.#news];
    this.#news.clear();
    for (const stream of news) {
      stream.onNews();
      this.#hold(stream);
    }
  }

  /** Pause a subscription whose caller has too many messages to take. A browser can't stop reading its connection. */
  #hold(stream: Stream): void {
    if (stream.waitingCount < WAITING_MAX || stream.isHeld || !stream.canBeHeld) return;
    stream.isHeld = true;
    if (!stream.isPaused) this.#sendAbout(stream, "pause");
  }

  *resume(isVoid: boolean): Generator<Command> {
    for (const stream of [...this.#byId.values()]) {
      const request = stream.resumed(isVoid);
      if (request === undefined) continue;
      yield request;
      if (stream.wantsProof) yield stream.requestAbout("proof");
    }
  }

  fail(error: SowlineError): void {
    this.#failure = error;
    for (const stream of [...this.#byId.values()]) stream.fail(error);
    this.#byId.clear();
  }
}

function idOf(frame: Exclude<ServerMessage, { sids: string[] }>): string {
  const { query_id, sub_id, command_id } = frame as { query_id?: string; sub_id?: string; command_id?: string };
  return query_id || sub_id || command_id || "";
}
