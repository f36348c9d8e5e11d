/**
 * The machine that leads a subscription or query through its lifecycle, for its subscriber: events in, actions out.
 *
 * It knows no connection and no clock. The Python client has the same machine, and docs/architecture.md describes it;
 * `tests/conformance/lifecycle/` drives both.
 */

import type { Ask, Selecting } from "./ask.js";
import { SowlineError } from "./errors.js";
import { isContinued, type Message } from "./message.js";
import { PositionTracker } from "./position.js";
import { Queue } from "./queue.js";

const STATES = ["unsent", "asked", "postponed", "snapshot", "catching up", "live", "ended", "failed"] as const;

/** What the service has of the subscription. */
export type State = (typeof STATES)[number];

/** What the subscriber has taken: `void` until a new group has ended, `renewed` if that group was requested. */
export type Holding = "nothing" | "part" | "whole" | "void" | "renewed";

/** Number 0 is the request, any other one a replacement. */
export type Event =
  | { readonly type: "connected"; readonly rightsChanged?: boolean }
  | { readonly type: "again" | "replaced"; readonly number: number }
  | { readonly type: "accepted"; readonly bookmark?: string | undefined; readonly end?: string | undefined }
  | { readonly type: "fail" | "refused" | "not_proven"; readonly error: SowlineError }
  | { readonly type: "not_replaced"; readonly number: number; readonly error: SowlineError; readonly ends: boolean }
  | { readonly type: "arrived"; readonly command: string; readonly messages: Message[]; readonly more: boolean }
  | { readonly type: "take"; readonly limit: number }
  | { readonly type: "replace"; readonly changes: Selecting }
  | { readonly type: "lost" | "completed" | "pause" | "unpause" | "hold" | "release" | "prove" | "leave" };

export type Sent = "pause" | "resume" | "prove" | "leave";

/** What is left to the connection. */
export type Outgoing =
  | { readonly type: "begin"; readonly ask: Ask }
  | { readonly type: "replace_by"; readonly number: number; readonly ask: Ask }
  | { readonly type: "send"; readonly what: Sent }
  | { readonly type: "ask_later"; readonly number: number };

/** `settled` says what became of the first replacement without an answer. */
export type Action =
  | Outgoing
  | { readonly type: "started" }
  | { readonly type: "settled" | "over"; readonly error: SowlineError | undefined }
  | { readonly type: "give"; readonly messages: Message[] };

/** The request whose whole group the subscriber has taken, and the number of replacements before it. */
export interface ShownGroup {
  readonly replacements: number;
  readonly ask: Ask;
}

/** A replacement that the service has not answered, and how far its sending is. */
interface Pending {
  readonly number: number;
  readonly changes: Selecting;
  sending: "due" | "done" | "postponed";
}

type Row = readonly [legal: string, effect: (machine: ClientMachine, event: any) => void];

/**
 * One subscription or query; `handle` is the only way to change it.
 *
 * If the connection is lost, a subscription resumes after the last message that its subscriber took. A query that has
 * given messages fails with `disconnected`; one that has given none is sent again.
 *
 * If the connection is lost before the service has answered a replacement, the old subscription resumes and is
 * replaced then. If it is lost before the subscriber took the new group, or within a group that replaces everything
 * that it holds, the subscription starts with a whole group.
 */
export class ClientMachine {
  state: State = "unsent";
  holding: Holding = "nothing";
  /** Whether the service was paused because too many messages wait. */
  isHeld = false;
  /** The number of replacements by the service. */
  replacements = 0;
  shown: ShownGroup | undefined;
  /** Why it is over, once all messages are taken; undefined if it has reached its end. */
  error: SowlineError | undefined;
  #actions: Action[] = [];
  #isPaused: boolean;
  #wantsProof = false;
  readonly #inbox = new Queue<Message>();
  #isInStep = false;
  #position = new PositionTracker();
  #end: string | undefined;
  #pending: Pending[] = [];
  #numbered = 0;
  #groupsOfBefore = 0;

  constructor(public ask: Ask) {
    this.#isPaused = ask.isPaused;
  }

  /** By state, what becomes of each event: `+` it acts, `-` it is late and has no effect, `.` it is refused. */
  static readonly ROWS: Readonly<Record<string, Row>> = {
    connected: ["+.....--", (machine, { rightsChanged }) => machine.#connect(rightsChanged)],
    lost: ["-+++++--", (machine) => (machine.state = "unsent")],
    again: ["--++++--", (machine, { number }) => machine.#askAgain(number)],
    fail: ["++++++--", (machine, { error }) => machine.#comeToEnd(error)],
    accepted: [".+....--", (machine, event) => machine.#accept(event)],
    refused: [".+.+++--", (machine, { error }) => machine.#endOrPostpone(error)],
    replaced: ["...+++--", (machine, event) => machine.#becomeReplaced(event)],
    not_replaced: [".--+++--", (machine, event) => machine.#keepRequest(event)],
    not_proven: [".+++++--", (machine, { error }) => machine.#noteNoProof(error)],
    completed: ["...+++--", (machine) => machine.#complete()],
    group_begin: ["...+++--", (machine, event) => machine.#takeIn(event, "snapshot")],
    sow: ["...+..--", (machine, event) => machine.#takeIn(event)],
    group_end: ["...+..--", (machine, event) => machine.#takeIn(event, "live")],
    publish: ["...+++--", (machine, event) => machine.#takeIn(event)],
    oof: ["...+++--", (machine, event) => machine.#takeIn(event)],
    progress: ["...+++--", (machine, event) => machine.#takeIn(event)],
    take: ["++++++++", (machine, { limit }) => machine.#give(limit)],
    replace: ["++++++..", (machine, { changes }) => machine.#noteReplacement(changes)],
    pause: ["++++++--", (machine) => machine.#pause(true)],
    unpause: ["++++++--", (machine) => machine.#pause(false)],
    hold: ["----++--", (machine) => machine.#hold(true)],
    release: ["---+++--", (machine) => machine.#hold(false)],
    prove: ["++++++--", (machine) => machine.#prove()],
    leave: ["++++++++", (machine) => machine.#leave()],
  };

  // what it is asked

  /** The bookmark to resume from, after the last message that was taken; undefined until a group has ended. */
  get bookmark(): string | undefined {
    return this.#isWhole ? this.#position.bookmark : undefined;
  }

  /** Whether the service sends nothing more. */
  get isOver(): boolean {
    return this.#stage > 5;
  }

  /** Whether the service has accepted it, on this connection. */
  get isAccepted(): boolean {
    return this.#stage > 2 && !this.isOver;
  }

  get waitingCount(): number {
    return this.#inbox.length;
  }

  get #stage(): number {
    return STATES.indexOf(this.state);
  }

  get #isWhole(): boolean {
    return this.holding === "whole";
  }

  get #isVoid(): boolean {
    return this.holding === "void" || this.holding === "renewed";
  }

  // what happens

  /**
   * Take an event, and return what to do about it. A message or answer that is not legal ends the subscription with
   * `bad message`; any other event that is not legal changes nothing, and throws why.
   */
  handle(event: Event): Action[] {
    const name = event.type === "arrived" ? event.command : event.type;
    const [legal, effect] = ClientMachine.ROWS[name]!;
    const mark = legal[this.#stage];
    this.#actions = [];
    if (mark === "+") effect(this, event);
    else if (mark === ".") this.#refuse(name);
    return this.#actions;
  }

  #refuse(name: string): void {
    if (name === "replace") {
      throw this.error ?? new SowlineError("disconnected", "expected a subscription that has not ended");
    }
    const got = `expected no ${name} while the subscription is ${this.state}`;
    if (name === "connected") throw new SowlineError("internal", got);
    this.#send("leave");
    this.#comeToEnd(new SowlineError("bad message", got));
  }

  // the connection

  /** Drop the messages that were not taken, and resume. */
  #connect(rightsChanged = false): void {
    const { isQuery, bookmark } = this.ask;
    if (isQuery && this.holding !== "nothing") {
      this.#comeToEnd(
        new SowlineError("disconnected", "the connection was lost while the query ran; run it again"),
      );
      return;
    }
    this.#dropWaiting();
    this.#detach();
    if (rightsChanged && !isQuery && (this.#isWhole || bookmark !== "")) {
      this.holding = "void";
      this.#inbox.reset();
      this.#isInStep = false;
    }
    this.#begin();
  }

  /** Drop the messages that were not taken, except for the rest of a step of which the subscriber has taken part. */
  #dropWaiting(): void {
    const kept: Message[] = [];
    for (let goesOn = this.#isInStep; goesOn && this.waitingCount > 0; goesOn = isContinued(kept.at(-1)!)) {
      kept.push(this.#inbox.shift()!);
    }
    this.#inbox.reset(kept);
    this.#groupsOfBefore = 0;
  }

  /** Forget what the service had of it. */
  #detach(): void {
    this.isHeld = false;
    this.#inbox.dropUnfinished();
    for (const replacement of this.#pending) replacement.sending = "due";
  }

  #begin(): void {
    this.state = "asked";
    this.#actions.push({ type: "begin", ask: this.#goingOn() });
    if (this.#wantsProof) this.#send("prove");
  }

  /** Return the request that continues after the last message that was taken, or that waits. */
  #goingOn(): Ask {
    if (this.ask.isQuery) return this.ask;
    const ask = this.ask.paused(this.#isPaused);
    if (this.#isVoid) {
      this.holding = "renewed";
      return ask.afresh(this.#end);
    }
    if (!this.#isWhole) return ask;
    const position = this.#position.copy();
    for (const message of this.#inbox) position.note(message);
    return ask.goingOn(position.bookmark, this.#end);
  }

  #askAgain(number: number): void {
    if (this.state === "postponed") {
      if (number === 0) this.#begin();
      return;
    }
    if (this.#isNext(number, "postponed")) this.#pending[0]!.sending = "due";
    this.#sendReplacement();
  }

  // what the service answers

  #accept({ bookmark, end }: { bookmark?: string; end?: string }): void {
    this.#end = end ?? this.#end;
    if (!this.#isWhole && (this.#isVoid || !this.ask.hasNoGroup)) {
      this.state = "snapshot";
    } else {
      if (!this.#isWhole) {
        this.#position = new PositionTracker(bookmark);
        this.#becomeWhole();
      }
      // One that has an end is completed only there.
      this.state = this.ask.hasEnd ? "live" : "catching up";
    }
    this.#actions.push({ type: "started" });
    this.#sendReplacement();
  }

  #endOrPostpone(error: SowlineError): void {
    if (this.#isPassing(error)) {
      this.#detach();
      this.state = "postponed";
      this.#actions.push({ type: "ask_later", number: 0 });
    } else {
      this.#comeToEnd(error);
    }
  }

  /** Whether a refusal is for now: the service is loading, behind the bookmark, or lacks a shard. */
  #isPassing({ reason }: SowlineError): boolean {
    return (
      reason === "not ready" ||
      (reason === "behind" && this.#isWhole) ||
      // Unlike a query, a subscription continues from what was taken.
      (reason === "shard unavailable" && !this.ask.isQuery)
    );
  }

  /** Continue as the request that the service has accepted. Waiting messages belong to the previous one. */
  #becomeReplaced({ number, type }: { number: number; type: string }): void {
    if (!this.#isNext(number, "done")) {
      this.#refuse(type);
      return;
    }
    this.ask = this.ask.replaced(this.#pending[0]!.changes);
    this.#isPaused = this.ask.isPaused;
    this.isHeld = false;
    this.replacements++;
    if (!this.ask.hasNoGroup) {
      this.state = "snapshot";
      if (this.#isWhole) this.holding = "part";
      this.#groupsOfBefore = 0;
      for (const message of this.#inbox) if (message.command === "group_end") this.#groupsOfBefore++;
    } else if (!this.#isVoid) {
      this.#becomeWhole();
    }
    this.#settle();
  }

  /** Settle a replacement that is refused at once; a later refusal is one of the subscription. */
  #keepRequest({ number, error, ends }: { number: number; error: SowlineError; ends: boolean }): void {
    if (ends || !this.#isNext(number, "done")) {
      this.#endOrPostpone(error);
    } else if (this.#isPassing(error)) {
      this.#pending[0]!.sending = "postponed";
      this.#actions.push({ type: "ask_later", number });
    } else {
      this.#settle(error);
    }
  }

  #isNext(number: number, sending: Pending["sending"]): boolean {
    const next = this.#pending[0];
    return next?.number === number && next.sending === sending;
  }

  #settle(error?: SowlineError): void {
    this.#pending.shift();
    this.#actions.push({ type: "settled", error });
    this.#sendReplacement();
  }

  /** Send the next replacement, if the service has the subscription that it is for. */
  #sendReplacement(): void {
    const next = this.#pending[0];
    if (!this.isAccepted || next?.sending !== "due") return;
    next.sending = "done";
    this.#actions.push({ type: "replace_by", number: next.number, ask: this.ask.replaced(next.changes) });
  }

  #noteNoProof({ reason }: SowlineError): void {
    if (!this.#wantsProof) return;
    this.#wantsProof = false;
    this.#inbox.insert({ command: "progress", bookmark: undefined, records: undefined, hash: undefined, reason });
  }

  #complete(): void {
    if (this.ask.isQuery || this.ask.hasEnd) this.#comeToEnd();
    else if (this.state === "catching up") this.state = "live";
  }

  #comeToEnd(error?: SowlineError): void {
    this.state = error === undefined ? "ended" : "failed";
    this.error = error;
    const gone = error ?? new SowlineError("disconnected", "the subscription was closed");
    while (this.#pending.length > 0) this.#settle(gone);
    this.#actions.push({ type: "over", error });
  }

  // messages

  #takeIn({ messages, more }: { messages: Message[]; more: boolean }, state = this.state): void {
    this.state = state;
    for (let message of messages) {
      if (message.command === "group_begin" && this.holding === "renewed") {
        this.holding = "void";
        message = { ...message, reset: true };
      }
      if (message.command === "progress" && message.hash !== undefined) this.#wantsProof = false;
      this.#inbox.push(message);
    }
    if (!more) this.#inbox.finish();
  }

  /** Give messages up to the next `group_end`; the position moves behind them. */
  #give(limit: number): void {
    const messages: Message[] = [];
    this.#passSilent();
    for (let message; messages.length < limit && (message = this.#inbox.shift()) !== undefined; this.#passSilent()) {
      messages.push(message);
      this.#position.note(message);
      this.#isInStep = isContinued(message);
      if (this.holding === "nothing") this.holding = "part";
      if (message.command === "group_begin" && message.reset && this.holding !== "renewed") this.holding = "void";
      if (message.command === "group_end") {
        if (this.#groupsOfBefore > 0) this.#groupsOfBefore--;
        else if (this.holding !== "renewed") this.#becomeWhole();
        break;
      }
    }
    if (messages.length > 0) this.#actions.push({ type: "give", messages });
  }

  /** Move past messages that the subscriber does not get: they only move the bookmark on. */
  #passSilent(): void {
    for (let first = this.#inbox.first; first !== undefined && isSilent(first); first = this.#inbox.first) {
      this.#position.note(this.#inbox.shift()!);
    }
  }

  #becomeWhole(): void {
    this.holding = "whole";
    this.shown = { replacements: this.replacements, ask: this.ask };
  }

  // what the subscriber wants

  #noteReplacement(changes: Selecting): void {
    this.#pending.push({ number: ++this.#numbered, changes, sending: "due" });
    this.#sendReplacement();
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (!this.isHeld) this.#send(isPaused ? "pause" : "resume");
  }

  /** Pause the service, unless the subscriber has. */
  #hold(isHeld: boolean): void {
    if (isHeld === this.isHeld || this.ask.isQuery) return;
    this.isHeld = isHeld;
    if (!this.#isPaused) this.#send(isHeld ? "pause" : "resume");
  }

  #prove(): void {
    this.#wantsProof = true;
    this.#send("prove");
  }

  #leave(): void {
    this.#inbox.reset();
    this.#send("leave");
    if (!this.isOver) this.#comeToEnd();
  }

  /** Send a command about the subscription. Without a connection, the next request says the same. */
  #send(what: Sent): void {
    if (this.state === "asked" || this.isAccepted) this.#actions.push({ type: "send", what });
  }
}

const isSilent = (message: Message): boolean =>
  message.command === "progress" && message.hash === undefined && message.reason === undefined;
