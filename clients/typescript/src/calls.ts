/** Commands with one answer each: writes, `explain` and `timeline`. */

import { unlessAborted } from "./abort.js";
import type { Connection } from "./connection.js";
import { Deferred } from "./deferred.js";
import { SowlineError } from "./errors.js";
import type { Ack, ServerMessage } from "./frames.js";
import { errorOf, type Command } from "./message.js";

interface Call {
  readonly lastAck: string;
  readonly frames: ServerMessage[];
  readonly answer: Deferred<ServerMessage[]>;
}

/** The commands whose answers have not come yet, by their ids. */
export class Calls {
  readonly #byId = new Map<string, Call>();
  #made = 0;

  constructor(readonly connection: Connection) {}

  /**
   * Send a command and return the messages of its answer, whose last one is the last of the acknowledgements that
   * it asks for. If the connection is lost before that, it fails with `disconnected`: a command that writes may
   * have been executed. After `signal` is aborted, nothing is sent.
   */
  async call(command: Command, acks: readonly Ack["ack_type"][], signal?: AbortSignal): Promise<ServerMessage[]> {
    // Here, as the connection may be lost again before a wait continues: then no answer would come
    // ("a client that is closed right after a write").
    while (!this.connection.isOpen) await unlessAborted(this.connection.nextStatus(), signal);
    signal?.throwIfAborted();
    const id = `c${++this.#made}`;
    const answer = new Deferred<ServerMessage[]>();
    this.#byId.set(id, { lastAck: acks.at(-1)!, frames: [], answer });
    try {
      this.connection.send({ ...command, command_id: id, ack_type: acks.join(",") });
      return await unlessAborted(answer.promise, signal);
    } finally {
      this.#byId.delete(id);
    }
  }

  receive(frame: ServerMessage): void {
    if ("sids" in frame || this.#byId.size === 0) return;
    const id = "query_id" in frame ? frame.query_id : (frame as Ack).command_id;
    const error = frame.command === "ack" ? errorOf(frame) : undefined;
    if (error !== undefined && id === undefined) {
      // The service could not read a frame: it is not known whose command that was.
      this.fail(error);
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
    this.fail(
      new SowlineError(
        "disconnected",
        "the connection was lost before the answer came; a write may have been executed",
      ),
    );
  }

  fail(error: SowlineError): void {
    const calls = [...this.#byId.values()];
    this.#byId.clear();
    for (const call of calls) call.answer.reject(error);
  }
}
