interface Listener<T> {
  call: (value: T) => void;
}

/**
 * Calls listeners. One that throws is reported, as an error that nobody catches is, and keeps no other from its
 * call.
 */
export class Emitter<T> {
  // Another array after each change, so that a call may change it.
  #listeners: readonly Listener<T>[] = [];
  #waiting: [readonly Listener<T>[], T][] = [];

  get isEmpty(): boolean {
    return this.#listeners.length === 0;
  }

  /** Add a listener; the result removes it. */
  add(call: (value: T) => void): () => void {
    const listener = { call };
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== listener);
      listener.call = () => {}; // it may be removed by another one, during a call of all
    };
  }

  /** Call all listeners. A value that one of them emits follows, so that all get the values in the same order. */
  emit(value: T): void {
    if (this.#waiting.push([this.#listeners, value]) > 1) return;
    for (const [listeners, next] of this.#waiting) {
      for (const listener of listeners) {
        try {
          listener.call(next);
        } catch (error) {
          report(error);
        }
      }
    }
    this.#waiting = [];
  }

  clear(): void {
    this.#listeners = [];
  }
}

export function report(error: unknown): void {
  if (typeof globalThis.reportError === "function") globalThis.reportError(error);
  else console.error(error);
}
