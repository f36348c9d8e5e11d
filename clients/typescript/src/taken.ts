/** What the subscriber of a query or subscription has taken, and what waits for it. */

import type { Ask } from "./ask.js";
import { isContinued, type Message } from "./message.js";
import { PositionTracker } from "./position.js";
import { Queue } from "./queue.js";

/** What the subscriber has taken: `void` until a new group has ended, `renewed` if that group was requested. */
export type Holding = "nothing" | "part" | "whole" | "void" | "renewed";

/** A request, and the number of replacements by the service before it. */
export interface ServedRequest {
  readonly replacements: number;
  readonly ask: Ask;
}

/** The messages that came, in order, and how far its subscriber has taken them. */
export class Taken {
  /** The request that the service serves. */
  served: ServedRequest;
  /** The request whose whole group the subscriber has taken. */
  shown: ServedRequest | undefined;
  holding: Holding = "nothing";
  readonly inbox = new Queue<Message>();
  #isInStep = false;
  #position = new PositionTracker();
  #groupsOfBefore = 0;

  constructor(ask: Ask) {
    this.served = { replacements: 0, ask };
  }

  /** The bookmark to resume from, after the last message that was taken; undefined until a group has ended. */
  get bookmark(): string | undefined {
    return this.isWhole ? this.#position.bookmark : undefined;
  }

  /** Whether the subscription can resume from what was taken. */
  get isWhole(): boolean {
    return this.holding === "whole";
  }

  /** Whether what was taken is no longer valid. */
  get isVoid(): boolean {
    return this.holding === "void" || this.holding === "renewed";
  }

  /** Whether the next request begins again, because the subscriber has not taken a whole group yet. */
  get beginsAgain(): boolean {
    return this.holding === "nothing" || this.holding === "part";
  }

  /** Return the bookmark after the last message that waits. */
  endBookmark(): string {
    const position = this.#position.copy();
    for (const message of this.inbox) position.note(message);
    return position.bookmark;
  }

  // what the service sends

  /** Begin at a bookmark, without a group. */
  beginAt(bookmark: string | undefined): void {
    this.#position = new PositionTracker(bookmark);
    this.#becomeWhole();
  }

  /** Note that the service has replaced the request. What waits belongs to the previous one. */
  replace(ask: Ask): void {
    this.served = { replacements: this.served.replacements + 1, ask };
    if (!ask.hasNoGroup) {
      if (this.isWhole) this.holding = "part";
      this.#groupsOfBefore = 0;
      for (const message of this.inbox) if (message.command === "group_end") this.#groupsOfBefore++;
    } else if (!this.isVoid) {
      this.#becomeWhole();
    }
  }

  /** Add a message. A group that was requested because all was void replaces everything. */
  add(message: Message): void {
    if (message.command === "group_begin" && this.holding === "renewed") {
      this.holding = "void";
      message = { ...message, reset: true };
    }
    this.inbox.push(message);
  }

  // without the service

  /**
   * Drop the messages that were not taken, except for the rest of a step of which the subscriber has taken part. With
   * `makeVoid`, what was taken is no longer valid either.
   */
  dropWaiting(makeVoid: boolean): void {
    const kept: Message[] = [];
    if (makeVoid) {
      this.holding = "void";
      this.#isInStep = false;
    }
    for (let goesOn = this.#isInStep; goesOn && this.inbox.length > 0; goesOn = isContinued(kept.at(-1)!)) {
      kept.push(this.inbox.shift()!);
    }
    this.inbox.reset(kept);
    this.#groupsOfBefore = 0;
  }

  // what the subscriber takes

  /** Return the next messages, up to the next `group_end`; the position moves behind them. */
  take(limit: number): Message[] {
    const messages: Message[] = [];
    this.#passSilent();
    for (let message; messages.length < limit && (message = this.inbox.shift()) !== undefined; this.#passSilent()) {
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
    return messages;
  }

  /** Move past messages that the subscriber does not get: they only move the bookmark on. */
  #passSilent(): void {
    for (let first = this.inbox.first; first !== undefined && isSilent(first); first = this.inbox.first) {
      this.#position.note(this.inbox.shift()!);
    }
  }

  #becomeWhole(): void {
    this.holding = "whole";
    this.shown = this.served;
  }
}

const isSilent = (message: Message): boolean =>
  message.command === "progress" && message.hash === undefined && message.reason === undefined;
