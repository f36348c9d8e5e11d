/**
 * The machine that leads a subscription or query through its lifecycle, for its subscriber: events in, actions out.
 *
 * It knows no connection and no clock. The Python client has the same machine, and docs/architecture.md describes it;
 * `tests/conformance/lifecycle/` drives both.
 */

import type { Ask, Selecting } from "./ask.js";
import { SowlineError } from "./errors.js";
import type { Message } from "./message.js";
import { Taken } from "./taken.js";

const STATES = ["unsent", "asked", "leaving", "postponed", "snapshot", "catching up", "live", "ended", "failed"] as const;

/** What the service has of the subscription. */
export type State = (typeof STATES)[number];

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
  | { readonly type: "lost" | "left" | "completed" | "pause" | "unpause" | "full" | "room" | "prove" | "leave" };

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

/**
 * A replacement that the service has not answered, and how far its sending is. They are sent one by one: each after the
 * answer to the one before it.
 */
interface Pending {
  readonly number: number;
  readonly changes: Selecting;
  /** Whether it begins paused: by its own options, or because its subscriber has paused since. */
  isPaused: boolean;
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
 *
 * A service takes a replacement that arrives after the end of its subscription for a new subscription. So the machine
 * leaves whenever the service ends the subscription while a replacement is on its way. To ask again, it waits for the
 * answer to that. A service refuses a checksum of a subscription that it does not serve, and forgets one when the
 * subscription is replaced. So a checksum is asked for after the acceptance, and again after a replacement.
 */
export class ClientMachine {
  state: State = "unsent";
  readonly taken: Taken;
  /** Whether the service was paused because too many messages wait. */
  isFull = false;
  /** Why it is over, once all messages are taken; undefined if it has reached its end. */
  error: SowlineError | undefined;
  #actions: Action[] = [];
  #isPaused: boolean;
  /** What became of the checksum that the subscriber has asked for; `arrived` waits to be taken. */
  #proof: "none" | "wanted" | "asked" | "arrived" = "none";
  #end: string | undefined;
  #pending: Pending[] = [];
  #numbered = 0;

  constructor(ask: Ask) {
    this.taken = new Taken(ask);
    this.#isPaused = ask.isPaused;
  }

  /** By state, what becomes of each event: `+` it acts, `-` it is late and has no effect, `.` it is refused. */
  static readonly ROWS: Readonly<Record<string, Row>> = {
    connected: ["+......--", (machine, { rightsChanged }) => machine.#connect(rightsChanged)],
    lost: ["-++++++--", (machine) => (machine.state = "unsent")],
    again: ["---++++--", (machine, { number }) => machine.#askAgain(number)],
    fail: ["+++++++--", (machine, { error }) => machine.#comeToEnd(error)],
    accepted: [".+-....--", (machine, event) => machine.#accept(event)],
    refused: [".+-.+++--", (machine, { error }) => machine.#endOrPostpone(error)],
    replaced: ["..-.+++--", (machine, event) => machine.#becomeReplaced(event)],
    not_replaced: [".---+++--", (machine, event) => machine.#keepRequest(event)],
    not_proven: [".---+++--", (machine, { error }) => machine.#noteNoProof(error)],
    left: ["..+....--", (machine) => machine.#postpone()],
    completed: ["..-.+++--", (machine) => machine.#complete()],
    group_begin: ["..-.+++--", (machine, event) => machine.#takeIn(event)],
    sow: ["..-.+..--", (machine, event) => machine.#takeIn(event)],
    group_end: ["..-.+..--", (machine, event) => machine.#takeIn(event)],
    publish: ["..-.+++--", (machine, event) => machine.#takeIn(event)],
    oof: ["..-.+++--", (machine, event) => machine.#takeIn(event)],
    progress: ["..-.+++--", (machine, event) => machine.#takeIn(event)],
    take: ["+++++++++", (machine, { limit }) => machine.#give(limit)],
    replace: ["+++++++..", (machine, { changes }) => machine.#noteReplacement(changes)],
    pause: ["+++++++--", (machine) => machine.#pause(true)],
    unpause: ["+++++++--", (machine) => machine.#pause(false)],
    full: ["-----++--", (machine) => machine.#pauseWhileFull(true)],
    room: ["----+++--", (machine) => machine.#pauseWhileFull(false)],
    prove: ["+++++++--", (machine) => machine.#prove()],
    leave: ["+++++++++", (machine) => machine.#leave()],
  };

  // what it is asked

  /** The request that the service serves. */
  get ask(): Ask {
    return this.taken.served.ask;
  }

  /** The bookmark to resume from, after the last message that was taken; undefined until a group has ended. */
  get bookmark(): string | undefined {
    return this.taken.bookmark;
  }

  /** Whether the service sends nothing more. */
  get isOver(): boolean {
    return this.#stage > 6;
  }

  /** Whether the service has accepted it, on this connection. */
  get isAccepted(): boolean {
    return this.#stage > 3 && !this.isOver;
  }

  get waitingCount(): number {
    return this.taken.inbox.length;
  }

  get #stage(): number {
    return STATES.indexOf(this.state);
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
      throw this.error ?? new SowlineError("disconnected", "expected a subscription that has not ended, got one that has");
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
    const { holding, isWhole } = this.taken;
    if (isQuery && holding !== "nothing") {
      this.#comeToEnd(
        new SowlineError("disconnected", "the connection was lost while the query ran; run it again"),
      );
      return;
    }
    this.#dropWaiting(rightsChanged && !isQuery && (isWhole || bookmark !== ""));
    this.#detach();
    this.#begin();
  }

  #dropWaiting(makeVoid: boolean): void {
    this.taken.dropWaiting(makeVoid);
    // The checksum waited, and was dropped with the rest.
    if (this.#proof === "arrived") this.#proof = "wanted";
  }

  /** Forget what the service had of it. */
  #detach(): void {
    this.isFull = false;
    this.taken.inbox.dropUnfinished();
    for (const replacement of this.#pending) replacement.sending = "due";
    this.#askForProofAgain();
  }

  #begin(): void {
    // Another group comes. If the subscriber took the end of this one meanwhile, it would continue from there in the
    // middle of the other.
    if (this.taken.beginsAgain) this.#dropWaiting(false);
    this.state = "asked";
    this.#actions.push({ type: "begin", ask: this.#goingOn() });
  }

  /** Return the request that continues after the last message that was taken, or that waits. */
  #goingOn(): Ask {
    if (this.ask.isQuery) return this.ask;
    const ask = this.ask.paused(this.#isPaused);
    const { taken } = this;
    if (taken.isVoid) {
      taken.holding = "renewed";
      return ask.afresh(this.#end);
    }
    return taken.isWhole ? ask.goingOn(taken.endBookmark(), this.#end) : ask;
  }

  #askAgain(number: number): void {
    if (this.state === "postponed") {
      if (number === 0) this.#begin();
      return;
    }
    const postponed = this.#first("postponed");
    if (postponed?.number === number) postponed.sending = "due";
    this.#sendDue();
  }

  // what the service answers

  #accept({ bookmark, end }: { bookmark?: string; end?: string }): void {
    this.#end = end ?? this.#end;
    const { isWhole, isVoid } = this.taken;
    if (!isWhole && (isVoid || !this.ask.hasNoGroup)) {
      this.state = "snapshot";
    } else {
      if (!isWhole) this.taken.beginAt(bookmark);
      // One that has an end is completed only there.
      this.state = this.ask.hasEnd ? "live" : "catching up";
    }
    this.#actions.push({ type: "started" });
    this.#sendDue();
  }

  #endOrPostpone(error: SowlineError): void {
    const isLeaving = this.#leaveReplacement();
    if (!this.#isPassing(error)) {
      this.#comeToEnd(error);
      return;
    }
    this.#detach();
    if (isLeaving) this.state = "leaving";
    else this.#postpone();
  }

  #postpone(): void {
    this.state = "postponed";
    this.#actions.push({ type: "ask_later", number: 0 });
  }

  /** Leave what the service begins once a replacement arrives whose subscription it has ended. */
  #leaveReplacement(): boolean {
    const isSent = this.#first("done") !== undefined;
    if (isSent) this.#send("leave");
    return isSent;
  }

  /** Whether a refusal is for now: the service is loading, behind the bookmark, or lacks a shard. */
  #isPassing({ reason }: SowlineError): boolean {
    return (
      reason === "not ready" ||
      (reason === "behind" && this.taken.isWhole) ||
      // Unlike a query, a subscription continues from what was taken.
      (reason === "shard unavailable" && !this.ask.isQuery)
    );
  }

  /** Continue as the request that the service has accepted. Waiting messages belong to the previous one. */
  #becomeReplaced({ number, type }: { number: number; type: string }): void {
    const sent = this.#first("done");
    if (sent?.number !== number) {
      this.#refuse(type);
      return;
    }
    this.taken.replace(this.ask.replaced(sent.changes));
    this.#isPaused = sent.isPaused;
    if (!this.ask.hasNoGroup) this.state = "snapshot";
    this.#askForProofAgain();
    this.#settle();
  }

  /** Settle a replacement that is refused at once; a later refusal is one of the subscription. */
  #keepRequest({ number, error, ends }: { number: number; error: SowlineError; ends: boolean }): void {
    const sent = this.#first("done");
    const isAnswer = sent?.number === number;
    if (isAnswer) sent.sending = ends ? "due" : "postponed";
    if (ends || !isAnswer) {
      this.#endOrPostpone(error);
    } else if (this.#isPassing(error)) {
      this.#actions.push({ type: "ask_later", number });
    } else {
      this.#settle(error);
    }
  }

  #settle(error?: SowlineError): void {
    this.#pending.shift();
    this.#actions.push({ type: "settled", error });
    this.#sendDue();
  }

  /** Send the next replacement or, while none is on its way, the request for a checksum. */
  #sendDue(): void {
    if (!this.isAccepted) return;
    const next = this.#first("due");
    if (next !== undefined) {
      next.sending = "done";
      // What is full stays full: the service pauses the new subscription as well, until `room`.
      const ask = this.ask.replaced(next.changes).paused(next.isPaused || this.isFull);
      this.#actions.push({ type: "replace_by", number: next.number, ask });
    } else if (this.#proof === "wanted" && this.#first("done") === undefined && !this.isFull) {
      this.#proof = "asked";
      this.#send("prove");
    }
  }

  /** Return the first replacement, if its sending is that far. */
  #first(sending: Pending["sending"]): Pending | undefined {
    const first = this.#pending[0];
    return first?.sending === sending ? first : undefined;
  }

  /** Note that the service has forgotten the request for a checksum. */
  #askForProofAgain(): void {
    if (this.#proof === "asked") this.#proof = "wanted";
  }

  #noteNoProof({ reason }: SowlineError): void {
    if (this.#proof !== "asked") return;
    this.#proof = "arrived";
    this.taken.inbox.insert({ command: "progress", bookmark: undefined, records: undefined, hash: undefined, reason });
  }

  #complete(): void {
    if (this.ask.isQuery || this.ask.hasEnd) {
      this.#leaveReplacement();
      this.#comeToEnd();
    } else if (this.state === "catching up") {
      this.state = "live";
    }
  }

  #comeToEnd(error?: SowlineError): void {
    this.state = error === undefined ? "ended" : "failed";
    this.error = error;
    const gone = error ?? new SowlineError("disconnected", "the subscription was closed");
    while (this.#pending.length > 0) this.#settle(gone);
    this.#actions.push({ type: "over", error });
  }

  // messages

  #takeIn({ command, messages, more }: { command: string; messages: Message[]; more: boolean }): void {
    if (command === "group_begin") this.state = "snapshot";
    if (command === "group_end") this.state = "live";
    for (const message of messages) {
      if (message.command === "progress" && message.hash !== undefined && this.#proof === "asked") {
        this.#proof = "arrived";
      }
      this.taken.add(message);
    }
    if (!more) this.taken.inbox.finish();
  }

  #give(limit: number): void {
    const messages = this.taken.take(limit);
    if (messages.length === 0) return;
    if (this.#proof === "arrived" && messages.some(({ command }) => command === "progress")) this.#proof = "none";
    this.#actions.push({ type: "give", messages });
  }

  // what the subscriber wants

  #noteReplacement(changes: Selecting): void {
    const { isPaused } = this.ask.replaced(changes);
    this.#pending.push({ number: ++this.#numbered, changes, isPaused, sending: "due" });
    this.#sendDue();
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    for (const replacement of this.#pending) replacement.isPaused = isPaused;
    if (!this.isFull) this.#send(isPaused ? "pause" : "resume");
  }

  /** Pause the service, unless the subscriber has. */
  #pauseWhileFull(isFull: boolean): void {
    if (isFull === this.isFull || this.ask.isQuery) return;
    this.isFull = isFull;
    if (!this.#isPaused) this.#send(isFull ? "pause" : "resume");
    this.#sendDue();
  }

  #prove(): void {
    if (this.#proof === "none") this.#proof = "wanted";
    this.#sendDue();
  }

  #leave(): void {
    this.taken.inbox.reset();
    this.#send("leave");
    if (!this.isOver) this.#comeToEnd();
  }

  /** Send a command about the subscription. Without a connection, the next request says the same. */
  #send(what: Sent): void {
    if (this.state === "asked" || this.isAccepted) this.#actions.push({ type: "send", what });
  }
}
