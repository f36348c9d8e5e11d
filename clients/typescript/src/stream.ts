/** One query or subscription from its caller's point of view: a queue of messages with a bookmark. No I/O. */

import type { Ask, Selecting } from "./ask.js";
import { Deferred } from "./deferred.js";
import { SowlineError } from "./errors.js";
import type { Ack, AckFailure, AckSuccess, ServerMessage } from "./frames.js";
import { addMessages, errorOf, isContinued, type Command, type Message } from "./message.js";
import { optionValue } from "./options.js";
import { PositionTracker } from "./position.js";
import { Queue } from "./queue.js";
import { Select } from "./select.js";

/** Messages that wait for the caller before the client pauses the subscription. */
export const WAITING_MAX = 10_000;

/** What a command about a subscription does; it is the suffix of the command's id. */
export type About = "pause" | "resume" | "proof";

const ABOUT: readonly string[] = ["pause", "resume", "proof"] satisfies About[];

/** The request whose whole group the caller has received, and the number of replacements before it. */
export interface ShownGroup {
  readonly replacements: number;
  readonly ask: Ask;
}

class Replacement {
  isSent = false;
  readonly settled = new Deferred();

  constructor(
    readonly commandId: string,
    readonly changes: Selecting,
  ) {}

  /** Return the new request: parameters that are not given stay as they are. */
  ask(before: Ask): Ask {
    return before.with({ bookmark: "", ...this.changes });
  }
}

/**
 * Messages of one query or subscription, in order.
 *
 * If the connection is lost, a subscription resumes after the last message that its caller took. A query that has
 * given messages fails with `disconnected`; one that has given none is sent again.
 *
 * A subscription can be replaced. If the connection is lost before the service has answered, the old subscription
 * resumes and is replaced then. If it is lost before the caller took the new group, the new subscription starts
 * with a whole group. So does one that loses the connection within a group that replaces everything the caller
 * holds.
 */
export class Stream {
  /** The number of replacements by the service. */
  replacements = 0;
  shown: ShownGroup | undefined;
  /** Whether the caller wants no messages for now. */
  isPaused: boolean;
  /** Whether the client has paused it, because too many messages wait. */
  isHeld = false;
  /** Whether a checksum of the caller's view was requested, and has not arrived yet. */
  wantsProof = false;
  /** Called when there are messages, or the stream has ended. */
  onNews: () => void = () => {};
  readonly started = new Deferred();
  #ask: Ask;
  #select: Select | undefined;
  readonly #waiting = new Queue<Message>();
  #isInStep = false;
  #position = new PositionTracker();
  #isWhole = false;
  #isVoid = false;
  #beginsAfresh = false;
  #hasGiven = false;
  /** Whether the service has accepted it, on this connection. */
  isTaken = false;
  /** Whether the caller gets what happens as it happens, and no longer what happened since its bookmark. */
  isCaughtUp = false;
  #isAnswered = false;
  #replacements: Replacement[] = [];
  #replacementsAsked = 0;
  #groupsOfBefore = 0;
  #error: SowlineError | undefined;
  #hasEnded = false;
  #end = "";

  constructor(
    readonly id: string,
    ask: Ask,
  ) {
    this.#ask = ask;
    this.isPaused = ask.isPaused;
    this.#setSelect();
  }

  // what the connection calls

  /** Take a message of the service; `onNews` is to be called after it. */
  receive(frame: ServerMessage): void {
    if (this.#error !== undefined) return;
    if (frame.command === "ack") {
      this.#receiveAck(frame);
    } else {
      this.#addMessages(frame);
    }
  }

  #addMessages(frame: ServerMessage): void {
    const isShared = "sids" in frame && frame.sids.length > 1;
    if (frame.command === "group_begin" && this.#beginsAfresh) {
      this.#beginsAfresh = false;
      frame = { ...frame, reset: true };
    }
    addMessages(frame, isShared ? this.#select : undefined, this.#waiting);
    if (frame.command === "progress" && frame.hash !== undefined) this.wantsProof = false;
    if (frame.command === "group_end") this.#isAnswered = this.isCaughtUp = true;
    if (!isContinued(frame)) this.#waiting.finish();
  }

  #receiveAck(ack: Ack): void {
    const about = partOf(ack);
    if (about === "proof" && this.wantsProof) {
      this.wantsProof = false;
      const reason = errorOf(ack)?.reason ?? "internal";
      this.#waiting.insert({ command: "progress", bookmark: undefined, records: undefined, hash: undefined, reason });
    }
    if (ABOUT.includes(about)) return;
    if (ack.status === "failure") this.#refused(ack);
    else if (ack.ack_type === "processed") this.#accepted(ack);
    else if (ack.ack_type === "completed") {
      this.isCaughtUp = true;
      this.#hasEnded = this.#ask.command === "sow" || this.#ask.hasEnd;
    }
  }

  #refused(ack: AckFailure): void {
    const error = errorOf(ack)!;
    // A replacement that is refused at once leaves the subscription as it is; later it ends the subscription.
    if (!this.#isOfReplacement(ack) || ack.sub_id !== undefined) this.fail(error);
    else this.#replacements.shift()!.settled.reject(error);
  }

  #accepted(ack: AckSuccess): void {
    if (this.#isOfReplacement(ack)) {
      this.#replaced(this.#replacements.shift()!);
      return;
    }
    this.isTaken = true;
    // One that has an end is completed only there.
    this.isCaughtUp = this.#ask.hasEnd;
    this.started.resolve();
    this.#end = ack.up_to ?? this.#end;
    this.#isAnswered = this.#ask.hasNoGroup || this.#isWhole;
    if (this.#ask.hasNoGroup && !this.#isWhole && !this.#isVoid) {
      this.#position = new PositionTracker(ack.bookmark);
      this.#becomeWhole();
    }
  }

  #isOfReplacement(ack: Ack): boolean {
    return ack.command_id !== undefined && ack.command_id === this.#replacements[0]?.commandId;
  }

  /** Continue as the request that the service has accepted. Waiting messages belong to the previous one. */
  #replaced(replacement: Replacement): void {
    this.#ask = replacement.ask(this.#ask);
    this.#setSelect();
    this.isPaused = this.#ask.isPaused;
    this.isHeld = false;
    this.replacements++;
    if (!this.#ask.hasNoGroup) {
      this.#isWhole = this.#isAnswered = false;
      this.#groupsOfBefore = 0;
      for (const message of this.#waiting) if (message.command === "group_end") this.#groupsOfBefore++;
    } else if (!this.#isVoid) {
      this.#becomeWhole();
    }
    replacement.settled.resolve();
  }

  #setSelect(): void {
    const select = optionValue(this.#ask.options, "select");
    this.#select = select === undefined ? undefined : new Select(select);
  }

  #becomeWhole(): void {
    this.#isWhole = true;
    this.#isVoid = false;
    this.shown = { replacements: this.replacements, ask: this.#ask };
  }

  /** End the stream: the caller gets the messages that were received before, then the error. */
  fail(error: SowlineError): void {
    if (this.#hasEnded) return;
    this.#error ??= error;
    this.#settleAll(error);
    this.onNews();
  }

  /** End the stream: its caller has left. */
  close(): void {
    this.#hasEnded = true;
    this.#waiting.reset();
    this.#settleAll(new SowlineError("disconnected", "the subscription was closed"));
    this.onNews();
  }

  #settleAll(error: SowlineError): void {
    this.started.reject(error);
    for (const replacement of this.#replacements.splice(0)) replacement.settled.reject(error);
  }

  /** Whether a refusal is temporary: the service is loading, behind our bookmark, or lacks a shard. */
  isToAskAgain(frame: ServerMessage): boolean {
    if (frame.command !== "ack" || frame.status !== "failure" || ABOUT.includes(partOf(frame))) return false;
    const passing: string[] = ["not ready"];
    if (this.#isWhole) passing.push("behind");
    // Unlike a query, a subscription continues from what it has received.
    if (this.#ask.command !== "sow") passing.push("shard unavailable");
    return passing.includes(frame.reason);
  }

  /** Return the request that was refused, to send it again. */
  again(refused: Ack): Command {
    if (this.#isOfReplacement(refused)) {
      const replacement = this.#replacements[0]!;
      return replacement.ask(this.#ask).replacement(this.id, replacement.commandId);
    }
    return this.#goingOn().request(this.id);
  }

  /** Return the request that pauses, resumes, or asks for a checksum. */
  requestAbout(what: About): Command {
    const command = what === "proof" ? "heartbeat" : what;
    return { command, command_id: `${this.id}.${what}`, sub_id: this.id };
  }

  /** Return the request that ends the query or subscription. */
  endRequest(): Command {
    const name = this.#ask.command === "sow" ? "query_id" : "sub_id";
    return { command: "unsubscribe", command_id: `${this.id}.end`, [name]: this.id };
  }

  /** Return the request for the next replacement, once, if the service has the subscription that it is for. */
  nextRequest(): Command | undefined {
    const replacement = this.#replacements[0];
    if (!this.isTaken || replacement === undefined || replacement.isSent) return undefined;
    replacement.isSent = true;
    return replacement.ask(this.#ask).replacement(this.id, replacement.commandId);
  }

  /**
   * Drop the messages that the caller has not taken, and return the request that resumes; undefined if none can.
   *
   * If what the caller holds `isVoid`, because its rights have changed, a subscription starts again with a group.
   */
  resumed(isVoid: boolean): Command | undefined {
    if (this.isOver) return undefined;
    const isQuery = this.#ask.command === "sow";
    if (isQuery && this.#hasGiven) {
      this.fail(new SowlineError("disconnected", "the connection was lost while the query ran; run it again"));
      return undefined;
    }
    this.#dropWaiting();
    this.isTaken = this.isCaughtUp = this.#isAnswered = this.isHeld = false;
    for (const replacement of this.#replacements) replacement.isSent = false;
    if (isVoid && !isQuery && (this.#isWhole || this.#ask.bookmark !== "")) {
      this.#isWhole = this.#isInStep = false;
      this.#isVoid = true;
      this.#waiting.reset();
    }
    return this.#goingOn().request(this.id);
  }

  /** Drop the messages that the caller has not taken, except for the rest of a step that it has begun to take. */
  #dropWaiting(): void {
    const kept: Message[] = [];
    while (this.#isInStep && this.#waiting.length > 0) {
      const message = this.#waiting.shift()!;
      kept.push(message);
      if (!isContinued(message)) break;
    }
    this.#waiting.reset(kept);
    this.#groupsOfBefore = 0;
  }

  /** Return the request that continues after the caller's last message. */
  #goingOn(): Ask {
    let ask = this.#ask;
    if (this.#isVoid) {
      this.#beginsAfresh = true;
      ask = ask.afresh(this.#end);
    }
    if (ask.command !== "sow") ask = ask.paused(this.isPaused);
    if (ask.command === "sow" || !this.#isWhole) return ask;
    const position = this.#position.copy();
    for (const message of this.#waiting) position.note(message);
    return ask.goingOn(position.bookmark, this.#end);
  }

  // what the caller uses

  /** The request that the service serves. */
  get ask(): Ask {
    return this.#ask;
  }

  /** The bookmark to resume from, after the last message that the caller took; undefined until a group has ended. */
  get bookmark(): string | undefined {
    return this.#isWhole ? this.#position.bookmark : undefined;
  }

  /** Whether it has a bookmark. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Whether the service has a subscription that can be paused: it has begun, and its group has come. */
  get canBeHeld(): boolean {
    return this.#ask.command !== "sow" && this.isTaken && this.#isAnswered && !this.isOver;
  }

  /** Whether the service sends nothing more. */
  get isOver(): boolean {
    return this.#hasEnded || this.#error !== undefined;
  }

  /** Why it is over, once all messages are taken; undefined if it has reached its end. */
  get error(): SowlineError | undefined {
    return this.#error;
  }

  /** Note a new request; replacements are sent and answered one after the other. */
  replace(changes: Selecting): Promise<void> {
    if (this.#ask.command === "sow") {
      throw new SowlineError("not supported", "a query can't be replaced, only a subscription");
    }
    if (this.isOver) {
      throw this.#error ?? new SowlineError("disconnected", "expected a subscription that has not ended");
    }
    const replacement = new Replacement(`${this.id}.${++this.#replacementsAsked}`, changes);
    this.#replacements.push(replacement);
    return replacement.settled.promise;
  }

  /** Take the next message; the position moves behind it. Undefined if none waits. */
  next(): Message | undefined {
    this.#passSilent();
    const message = this.#waiting.shift();
    if (message === undefined) return undefined;
    this.#position.note(message);
    if (message.command === "group_begin" && message.reset) {
      this.#isWhole = false;
      this.#isVoid = true;
    }
    if (message.command === "group_end") this.#noteGroup();
    this.#hasGiven = true;
    this.#isInStep = isContinued(message);
    this.#passSilent();
    return message;
  }

  /** Move past messages that the caller does not get: they only move the bookmark on. */
  #passSilent(): void {
    for (let first = this.#waiting.first; first !== undefined && isSilent(first); first = this.#waiting.first) {
      this.#position.note(this.#waiting.shift()!);
    }
  }

  #noteGroup(): void {
    if (this.#groupsOfBefore > 0) this.#groupsOfBefore--;
    else this.#becomeWhole();
  }
}

const isSilent = (message: Message): boolean =>
  message.command === "progress" && message.hash === undefined && message.reason === undefined;

/** Return what a command of a stream was about; empty for the stream itself. */
const partOf = ({ command_id: id = "" }: Ack): string => id.slice(streamId(id).length + 1);

/** Return the id of the stream that sent the command. */
export function streamId(commandId: string): string {
  const dot = commandId.indexOf(".");
  return dot < 0 ? commandId : commandId.slice(0, dot);
}
