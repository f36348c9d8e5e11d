/** The position of a subscription's reader: after the messages that it has received, in all partitions. */

import { formatBookmark, layOver, type Positions } from "./bookmark.js";
import type { Message } from "./message.js";

/** A position for each partition, moved forward by messages. */
export class PositionTracker {
  #positions: Positions = new Map();
  #last: string | undefined;
  #text: string | undefined;

  constructor(bookmark?: string) {
    if (bookmark !== undefined) this.#move(bookmark);
  }

  /** The position as text; `epoch` before the first message. */
  get bookmark(): string {
    return (this.#text ??= formatBookmark(this.#positions));
  }

  /** Move to the position after a message. A group has a position at its end; a record in it has none. */
  note(message: Message): void {
    if (message.command === "publish" || message.command === "oof") {
      this.#move(message.bookmark);
    } else if (
      message.command === "group_end" ||
      (message.command === "progress" && message.bookmark !== undefined)
    ) {
      this.#positions = new Map();
      this.#last = undefined;
      this.#move(message.bookmark!);
    }
  }

  /** Return a copy that moves independently. */
  copy(): PositionTracker {
    return new PositionTracker(this.bookmark);
  }

  #move(bookmark: string): void {
    // The messages of one step carry the same bookmark.
    if (bookmark === this.#last) return;
    this.#last = bookmark;
    this.#text = layOver(this.#positions, bookmark) && this.#positions.size === 1 ? bookmark : undefined;
  }
}
