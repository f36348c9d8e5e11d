/** One query or subscription from its caller's point of view: a queue of messages with a bookmark. No I/O. */

import type { Ask, Selecting } from "./ask.js";
import { Deferred } from "./deferred.js";
import { SowlineError } from "./errors.js";
import type { Ack, ServerMessage } from "./frames.js";
import { ClientMachine, type Event, type Outgoing } from "./lifecycle.js";
import { addMessages, errorOf, isContinued, type Command, type Message } from "./message.js";

/** Messages that wait for the caller before the client pauses the subscription. */
export const WAITING_MAX = 10_000;

/**
 * Messages of one query or subscription, in order. It translates frames and calls into the events of its machine, and
 * carries out the machine's actions.
 */
export class Stream {
  readonly machine: ClientMachine;
  /** What is left to the connection, in order. */
  outgoing: Outgoing[] = [];
  /** Called when there are messages, or the stream has ended. */
  onNews: () => void = () => {};
  readonly started = new Deferred();
  #replacements: Deferred[] = [];

  constructor(
    readonly id: string,
    ask: Ask,
  ) {
    this.machine = new ClientMachine(ask);
  }

  /** Let the machine take an event, and carry out its actions; return a message that it gives. */
  handle(event: Event): Message | undefined {
    if (event.type === "lost") this.outgoing = [];
    for (const action of this.machine.handle(event)) {
      switch (action.type) {
        case "give":
          return action.messages[0];
        case "started":
          this.started.resolve();
          break;
        case "settled":
          if (action.error === undefined) this.#replacements.shift()!.resolve();
          else this.#replacements.shift()!.reject(action.error);
          break;
        case "over":
          this.started.reject(action.error ?? new SowlineError("disconnected", "the subscription was closed"));
          this.onNews();
          break;
        default:
          this.outgoing.push(action);
      }
    }
    return undefined;
  }

  /** Take a message of the service; `onNews` is to be called after it. */
  receive(frame: ServerMessage): void {
    if (frame.command === "ack") {
      const event = answerOf(frame);
      if (event !== undefined) this.handle(event);
    } else if (frame.command in ClientMachine.ROWS) {
      const messages: Message[] = [];
      addMessages(frame, "sids" in frame && frame.sids.length > 1 ? this.machine.ask.select : undefined, messages);
      this.handle({ type: "arrived", command: frame.command, messages, more: isContinued(frame) });
    }
  }

  /** Return the command that an action sends. */
  request(action: Exclude<Outgoing, { type: "ask_later" }>): Command {
    const { id } = this;
    if (action.type === "begin") return action.ask.request(id);
    if (action.type === "replace_by") return action.ask.replacement(id, `${id}.${action.number}`);
    switch (action.what) {
      case "leave":
        return {
          command: "unsubscribe",
          command_id: `${id}.leave`,
          [this.machine.ask.isQuery ? "query_id" : "sub_id"]: id,
          ack_type: "processed",
        };
      case "prove":
        return { command: "heartbeat", command_id: `${id}.proof`, sub_id: id };
      default:
        return { command: action.what, command_id: `${id}.${action.what}`, sub_id: id };
    }
  }

  /** Note a new request; replacements are sent and answered one after the other. */
  replace(changes: Selecting): Promise<void> {
    if (this.machine.ask.isQuery) {
      throw new SowlineError("not supported", "expected a subscription to replace, got a query");
    }
    this.handle({ type: "replace", changes });
    const settled = new Deferred();
    this.#replacements.push(settled);
    return settled.promise;
  }

  /** Take the next message; the position moves behind it. Undefined if none waits. */
  next(): Message | undefined {
    return this.handle({ type: "take", limit: 1 });
  }
}

/** Return what an acknowledgement means; undefined if it means nothing for the lifecycle. */
function answerOf(ack: Ack): Event | undefined {
  const { command_id: id = "" } = ack;
  const about = id.slice(streamId(id).length + 1);
  const error = errorOf(ack);
  if (about === "leave") return { type: "left" };
  if (about === "proof") return error && { type: "not_proven", error };
  const number = Number(about);
  if (Number.isNaN(number)) return undefined;
  if (error !== undefined) {
    if (number === 0) return { type: "refused", error };
    return { type: "not_replaced", number, error, ends: "sub_id" in ack };
  }
  if (ack.ack_type === "completed") return { type: "completed" };
  if (ack.status !== "success" || ack.ack_type !== "processed") return undefined;
  return number > 0
    ? { type: "replaced", number }
    : { type: "accepted", bookmark: ack.bookmark, end: ack.up_to };
}

/** Return the id of the stream that sent the command. */
export function streamId(commandId: string): string {
  const dot = commandId.indexOf(".");
  return dot < 0 ? commandId : commandId.slice(0, dot);
}
