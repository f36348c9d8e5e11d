/** A result that several components show, with its listeners. It begins with its first user. */

import { Lease } from "./lease.js";

/** What each state has. */
export interface SharedState {
  /** Whether the records have come; they stay, also while the connection is lost. */
  readonly isReady: boolean;
  /** Why it failed. */
  readonly error: Error | undefined;
}

/** The result of one query or subscription for all components that ask for it. */
export abstract class Shared<S extends SharedState> {
  /** The state on a server, and until a page from a server has been taken over. */
  readonly serverState: S;
  #state: S;
  #ready: Promise<void> | undefined;
  readonly #listeners = new Set<() => void>();
  readonly #lease: Lease;
  readonly #kept: KeptWhileUsed;

  constructor(initial: S, kept: KeptWhileUsed) {
    this.#state = initial;
    this.serverState = { ...initial };
    this.#kept = kept;
    this.#lease = new Lease(() => this.#end());
    this.#lease.linger();
  }

  getState = (): S => this.#state;

  getServerState = (): S => this.serverState;

  /** Call `listener` when the state changes; the result ends that. */
  subscribe = (listener: () => void): (() => void) => {
    const call = (): void => listener();
    const release = this.use();
    this.#listeners.add(call);
    return () => {
      this.#listeners.delete(call);
      release();
    };
  };

  /** Return what a suspended component waits for. It holds the result until then, as the component can't. */
  load(): Promise<void> {
    const release = this.use();
    void this.#ready!.finally(release);
    return this.#ready!;
  }

  /** Keep it until the returned function is called. */
  protected use(): () => void {
    const release = this.#lease.take();
    if (this.#ready === undefined) {
      this.#kept.add();
      this.#ready = this.open();
    }
    return release;
  }

  protected setState(state: S): void {
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Begin; resolves once the state has the records, or the error. */
  protected abstract open(): Promise<void>;

  /** End it, and return to the state before the beginning. */
  protected abstract close(): void;

  #end(): void {
    this.#kept.remove();
    if (this.#ready === undefined) return;
    this.#ready = undefined;
    this.close();
    this.#state = { ...this.serverState };
  }
}

/** Where others find a result as long as it is used. */
export interface KeptWhileUsed {
  add(): void;
  remove(): void;
}
