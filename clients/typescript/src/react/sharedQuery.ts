/** The result of a query that several components show. */

import type { Reading } from "../ask.js";
import type { Client } from "../client.js";
import type { Row } from "../recordView.js";
import { Shared, type KeptWhileUsed, type SharedState } from "./shared.js";

export interface QueryState<T> extends SharedState {
  /** The records of one instant, in their order. */
  readonly rows: readonly Row<T>[];
  /** `loading` also while it is asked again; the rows stay until then. */
  readonly status: "loading" | "done" | "failed";
}

const NO_ROWS: readonly Row<never>[] = [];

export class SharedQuery<T> extends Shared<QueryState<T>> {
  readonly #client: () => Client;
  readonly #topic: string;
  readonly #reading: Reading;
  #stop = new AbortController();

  constructor(client: () => Client, topic: string, reading: Reading, kept: KeptWhileUsed) {
    super({ rows: NO_ROWS, status: "loading", isReady: false, error: undefined }, kept);
    this.#client = client;
    this.#topic = topic;
    this.#reading = reading;
  }

  /** Ask again. Resolves once the state has the records, or the error. */
  refresh = async (): Promise<void> => {
    const release = this.use();
    this.setState({ ...this.getState(), status: "loading" });
    await this.#ask().finally(release);
  };

  protected open(): Promise<void> {
    return this.#ask();
  }

  protected close(): void {
    this.#stop.abort();
  }

  /** Ask the service; an earlier answer that has not come is dropped. */
  async #ask(): Promise<void> {
    this.#stop.abort();
    const { signal } = (this.#stop = new AbortController());
    let state: QueryState<T>;
    try {
      const rows = await this.#read(signal);
      state = { rows, status: "done", isReady: true, error: undefined };
    } catch (error) {
      state = { ...this.getState(), status: "failed", error: error as Error };
    }
    if (!signal.aborted) this.setState(state);
  }

  async #read(signal: AbortSignal): Promise<readonly Row<T>[]> {
    await Promise.resolve(); // no state changes while a component renders
    const rows: Row<T>[] = [];
    const messages = this.#client().sow<T>(this.#topic, this.#reading);
    signal.addEventListener("abort", () => messages.close());
    for await (const message of messages) {
      if (message.command !== "sow") continue;
      const { sowKey, data, timestamp, intrinsics } = message;
      rows.push({ key: sowKey ?? "", record: data, timestamp, intrinsics });
    }
    return rows;
  }
}
