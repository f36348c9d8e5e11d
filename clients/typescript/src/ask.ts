/** The request of a query or subscription, and the commands that send it. */

import { bookmarkText, isReturn, rangeText, splitRange, type Bookmark } from "./bookmark.js";
import type { Command } from "./message.js";
import { hasOption, optionValue, withPause } from "./options.js";
import { Select } from "./select.js";

/** What a subscription asks for besides its topic; a replacement has it too. docs/client.md describes each. */
export interface Selecting {
  /** Which records: a filter of docs/filters.md. */
  filter?: string;
  /** Which documents: a condition that has to be met, too. */
  condition?: string;
  /** Options as on the wire: `oof,select=[-/,+/id]`. */
  options?: string;
  /** Records in one message on the wire, 100 if not given. */
  batchSize?: number;
  /** The order of the records: `/status, /qty DESC`. */
  orderBy?: string;
  /** Only the first so many records. */
  topN?: number | undefined;
  /** Without so many records before them; of a subscription, this asks for a page. */
  skipN?: number | undefined;
  /** Only the records with these SOW keys. */
  sowKeys?: readonly string[];
}

/** How fresh the answer of a read must be. */
export interface Fresh {
  /** A bookmark that the answer must contain. */
  atLeast?: string;
  /** How far behind the log the answer may be, such as `500ms`. */
  maxStaleness?: string;
}

/** The parameters of a query or subscription besides its topic. */
export interface Reading extends Selecting, Fresh {
  /** Where a subscription begins, and at which time a query reads. */
  bookmark?: Bookmark;
  /** Where a subscription ends: positions, a time or `now`. */
  upTo?: string | Date;
}

export type ReadCommand = "sow" | "subscribe" | "sow_and_subscribe" | "delta_subscribe" | "sow_and_delta_subscribe";

const BATCH_SIZE = 100;

/** The request of a stream. */
export class Ask {
  #select: Select | undefined;

  constructor(
    readonly command: ReadCommand,
    readonly topic: string,
    readonly reading: Readonly<Reading> = {},
  ) {}

  get options(): string {
    return this.reading.options ?? "";
  }

  get bookmark(): string {
    return bookmarkText(this.reading.bookmark ?? "");
  }

  get upTo(): string {
    return bookmarkText(this.reading.upTo ?? "");
  }

  /** Whether it ends with its group. */
  get isQuery(): boolean {
    return this.command === "sow";
  }

  /** The fields that it selects. */
  get select(): Select | undefined {
    const text = optionValue(this.options, "select");
    return text === undefined ? undefined : (this.#select ??= new Select(text));
  }

  /** Whether it is a page or groups, and not the changes of single records. */
  get isView(): boolean {
    return this.reading.skipN !== undefined || optionValue(this.options, "projection") !== undefined;
  }

  /** Whether only changes follow: from now on, or after a bookmark at which the caller has the records. */
  get hasNoGroup(): boolean {
    return !this.isQuery && (!this.command.startsWith("sow") || isReturn(this.bookmark));
  }

  /** Whether a subscription has an end. */
  get hasEnd(): boolean {
    return !this.isQuery && (this.upTo !== "" || splitRange(this.bookmark) !== undefined);
  }

  get isPaused(): boolean {
    return hasOption(this.options, "pause");
  }

  with(changes: Reading, command = this.command): Ask {
    return new Ask(command, this.topic, { ...this.reading, ...changes });
  }

  /** Return the request with changes. What they don't name stays as it is, but it does not begin paused. */
  replaced(changes: Selecting): Ask {
    const ask = this.with({ bookmark: "", ...changes });
    return "options" in changes ? ask : ask.paused(false);
  }

  paused(isPaused: boolean): Ask {
    return isPaused === this.isPaused ? this : this.with({ options: withPause(this.options, isPaused) });
  }

  /** Return the request for the current group and the changes after it, with the same end. */
  afresh(end: string | undefined): Ask {
    const command = this.command.startsWith("sow_and_") ? this.command : (`sow_and_${this.command}` as ReadCommand);
    return this.with({ ...BEGUN, bookmark: "", upTo: end || this.upTo }, command);
  }

  /** Return the request that continues after a bookmark, with the same end; `end` is that end, if known. */
  goingOn(bookmark: string, end: string | undefined): Ask {
    const command = this.isView ? this.command : (this.command.replace("sow_and_", "") as ReadCommand);
    const given = end ? undefined : splitRange(this.bookmark);
    const start = given === undefined ? bookmark : rangeText(bookmark, given);
    return this.with({ ...BEGUN, bookmark: start, upTo: end || this.upTo }, command);
  }

  /** Return the command in the form that is sent. */
  request(id: string): Command {
    const { reading } = this;
    return {
      command: this.command,
      command_id: id,
      topic: this.topic,
      filter: reading.filter,
      condition: reading.condition,
      options: this.options,
      bookmark: this.bookmark,
      up_to: this.upTo,
      batch_size: reading.batchSize ?? BATCH_SIZE,
      order_by: reading.orderBy,
      top_n: reading.topN,
      skip_n: reading.skipN,
      sow_keys: reading.sowKeys?.length ? reading.sowKeys : undefined,
      at_least: reading.atLeast,
      max_staleness: reading.maxStaleness,
      ack_type: "processed,completed",
    };
  }

  /** Return the command that replaces the subscription with this id by this request. */
  replacement(id: string, commandId: string): Command {
    const options = ["replace", this.options].filter((text) => text !== "").join(",");
    return { ...this.request(commandId), sub_id: id, query_id: id, options };
  }
}

/** Demands on freshness apply to the start: they must not end a stream that reconnects. */
const BEGUN = { atLeast: "", maxStaleness: "" };
