/**
 * Calls listeners. One that throws is reported, as an error that nobody catches is, and keeps no other from its
 * call.
 */
export class Emitter<T> {
  // Another array after each change, so that a call may change it.
  #listeners: readonly { call: (value: T) => void }[] = [];

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

  emit(value: T): void {
    for (const listener of this.#listeners) {
      try {
        listener.call(value);
      } catch (error) {
        report(error);
      }
    }
  }

  clear(): void {
    this.#listeners = [];
  }
}

export function report(error: unknown): void {
  if (typeof globalThis.reportError === "function") globalThis.reportError(error);
  else console.error(error);
}
