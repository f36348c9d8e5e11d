/** JSON that is sent as it is written. */

import { SowlineError } from "./errors.js";

/** The text of a record for a write: a client that keeps integers sends every digit of it. */
export class JsonText {
  /** Throws `not json`. */
  constructor(readonly text: string) {
    try {
      JSON.parse(text);
    } catch (cause) {
      throw new SowlineError("not json", `expected a record as JSON: ${(cause as Error).message}`, { cause });
    }
  }

  /** A client that does not keep integers sends what it would have parsed. */
  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}
