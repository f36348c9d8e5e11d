/** Commands with one answer each: writes, `explain` and `timeline`. */

import type { Connection } from "./connection.js";
import { Deferred } from "./deferred.js";
import { SowlineError } from "./errors.js";
import type { Ack, ServerMessage } from "./frames.js";
import { errorOf, type Command } from "./message.js";

interface Call {
  /** Empty until the command is sent. */
  id: string;
  readonly command: Command;
  readonly lastAck: string;
  readonly frames: ServerMessage[];
  readonly answer: Deferred<ServerMessage[]>;
}

/** The commands whose answers have not come yet. */
export class Calls {
  /** Those that wait for a connection, in the order in which they are sent. */
  readonly #unsent = new Set<Call>();
  /** Those that were sent, by their ids. */
  readonly #byId = new Map<string, Call>();
  #sentCount = 0;

  constructor(readonly connection: Connection) {}

  /**
   * Send a command and return the messages of its answer, whose last one is the last of the acknowledgements that
   * it asks for. Commands are sent in the order of the calls. If the connection is lost before the answer, the call
   * fails with `disconnected`: a command that writes may have been executed. After `signal` is aborted, nothing is
   * sent.
   */
  async call(command: Command, acks: readonly Ack["ack_type"][], signal?: AbortSignal): Promise<ServerMessage[]> {
    signal?.throwIfAborted();
    if (this.connection.error !== undefined) throw this.connection.error;
    const call: Call = {
      id: "",
      command: { ...command, ack_type: acks.join(",") },
      lastAck: acks.at(-1)!,
      frames: [],
      answer: new Deferred(),
    };
    const giveUp = (): void => {
      this.#unsent.delete(call);
      this.#byId.delete(call.id);
      call.answer.reject(signal!.reason);
    };
    signal?.addEventListener("abort", giveUp);
    this.#unsent.add(call);
    this.sendUnsent();
    try {
      return await call.answer.promise;
    } finally {
      signal?.removeEventListener("abort", giveUp);
    }
  }

  /** Send what waits, if the connection is open. A new one calls this before its listeners, who may write, too. */
  sendUnsent(): void {
    if (!this.connection.isOpen) return;
    for (const call of this.#unsent) {
      this.#unsent.delete(call);
      call.id = `c${++this.#sentCount}`;
      this.#byId.set(call.id, call);
      try {
        this.connection.send({ ...call.command, command_id: call.id });
      } catch (error) {
        // What can't be written as JSON concerns no other command.
        this.#byId.delete(call.id);
        call.answer.reject(error);
      }
    }
  }

  receive(frame: ServerMessage): void {
    if ("sids" in frame || this.#byId.size === 0) return;
    const id = "query_id" in frame ? frame.query_id : (frame as Ack).command_id;
    const error = frame.command === "ack" ? errorOf(frame) : undefined;
    if (error !== undefined && id === undefined) {
      // The service could not read a frame: it is not known whose command that was.
      this.#failSent(error);
      return;
    }
    const call = id === undefined ? undefined : this.#byId.get(id);
    if (id === undefined || call === undefined) return;
    call.frames.push(frame);
    if (frame.command !== "ack" || (error === undefined && frame.ack_type !== call.lastAck)) return;
    this.#byId.delete(id);
    if (error === undefined) call.answer.resolve(call.frames);
    else call.answer.reject(error);
  }

  lost(): void {
    this.#failSent(
      new SowlineError(
        "disconnected",
        "the connection was lost before the answer came; a write may have been executed",
      ),
    );
  }

  fail(error: SowlineError): void {
    this.#failSent(error);
    for (const call of this.#unsent) call.answer.reject(error);
    this.#unsent.clear();
  }

  #failSent(error: SowlineError): void {
    for (const call of this.#byId.values()) call.answer.reject(error);
    this.#byId.clear();
  }
}
