/** Counts the users of something that is shared. */

/**
 * How long something without users is kept. React's StrictMode, and a user who goes back at once, leave and return
 * within it, and nothing is subscribed again.
 */
export const GRACE_MS = 1000;

/** Calls `end` once there has been no user for the grace time. */
export class Lease {
  readonly #end: () => void;
  #users = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(end: () => void) {
    this.#end = end;
  }

  /** Add a user; the result removes it. */
  take(): () => void {
    this.#users++;
    clearTimeout(this.#timer);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#users--;
      this.linger();
    };
  }

  /** Begin the grace time, if there is no user. */
  linger(): void {
    clearTimeout(this.#timer);
    if (this.#users === 0) this.#timer = setTimeout(this.#end, GRACE_MS);
  }
}
