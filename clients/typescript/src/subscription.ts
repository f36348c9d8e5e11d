/** A query or subscription as its caller has it: an async iterable of messages, or calls of a function. */

import type { Selecting } from "./ask.js";
import type { Present } from "./recordView.js";
import { Deferred } from "./deferred.js";
import { report } from "./emitter.js";
import type { JsonObject } from "./json.js";
import type { Message } from "./message.js";
import type { OpenStreams } from "./openStreams.js";
import type { Stream } from "./stream.js";

/**
 * The messages of a query or subscription, as they come. Leaving the iteration, or `close`, ends it.
 *
 * A caller that takes messages more slowly than they come is sent no more once 10,000 wait, until it has taken half
 * of them. Nothing is lost, and no other subscription waits for it.
 */
export class Subscription<T = JsonObject> implements AsyncIterableIterator<Message<T>> {
  /** Resolves once the service has accepted the command; rejects with its refusal. */
  readonly started: Promise<void>;
  /** Resolves at the end; rejects with the reason if it fails. */
  readonly closed: Promise<void>;
  readonly #streams: OpenStreams;
  readonly #stream: Stream;
  readonly #present: Present;
  readonly #closed = new Deferred();
  #news = new Deferred();

  constructor(streams: OpenStreams, stream: Stream, present: Present, onMessage?: (message: Message<T>) => void) {
    this.#streams = streams;
    this.#stream = stream;
    this.#present = present;
    this.started = stream.started.promise;
    this.closed = this.#closed.promise;
    stream.onNews = onMessage === undefined ? () => this.#wake() : () => this.#deliver(onMessage);
    stream.onNews();
  }

  /** The bookmark to resume from: after the last message that was taken. Undefined until a group has ended. */
  get bookmark(): string | undefined {
    return this.#stream.machine.bookmark;
  }

  /** Let the service send nothing until it is resumed; messages that have arrived can still be taken. */
  pause(): void {
    this.#streams.command(this.#stream, { type: "pause" });
  }

  /** Go on, with every change since the pause. */
  resume(): void {
    this.#streams.command(this.#stream, { type: "unpause" });
  }

  /**
   * Ask for something else without a gap: what is not given stays as it is. Resolves once the service has accepted
   * it; a refusal changes nothing.
   */
  replace(changes: Selecting): Promise<void> {
    return this.#streams.replace(this.#stream, changes);
  }

  /** End it. Messages that have not been taken are dropped. */
  close(): void {
    this.#streams.end(this.#stream);
  }

  async next(): Promise<IteratorResult<Message<T>, undefined>> {
    for (;;) {
      const message = this.#take();
      if (message !== undefined) return { done: false, value: message };
      const { isOver, error } = this.#stream.machine;
      if (isOver) {
        this.#finish();
        if (error !== undefined) throw error;
        return { done: true, value: undefined };
      }
      await this.#news.promise;
    }
  }

  async return(): Promise<IteratorResult<Message<T>, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Take everything up to the end, and return the records that came: of a query, its result. */
  async records(): Promise<T[]> {
    const records: T[] = [];
    for await (const message of this) if (message.command === "sow") records.push(message.data);
    return records;
  }

  #take(): Message<T> | undefined {
    const message = this.#stream.next();
    if (message === undefined) return undefined;
    this.#streams.taken(this.#stream);
    if (!("data" in message)) return message;
    const data = this.#present(message.data);
    return (data === message.data ? message : { ...message, data }) as Message<T>;
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = new Deferred();
    const { isOver, waitingCount } = this.#stream.machine;
    if (isOver && waitingCount === 0) this.#finish();
  }

  #deliver(onMessage: (message: Message<T>) => void): void {
    for (let message = this.#take(); message !== undefined; message = this.#take()) {
      try {
        onMessage(message);
      } catch (error) {
        report(error);
      }
    }
    if (this.#stream.machine.isOver) this.#finish();
  }

  #finish(): void {
    this.#streams.end(this.#stream);
    const { error } = this.#stream.machine;
    if (error === undefined) this.#closed.resolve();
    else this.#closed.reject(error);
  }
}
