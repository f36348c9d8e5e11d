/** What all components below a provider share: one client, and one subscription for equal queries. */

import type { Reading } from "../ask.js";
import type { Client } from "../client.js";
import type { ConnectionStatus } from "../connection.js";
import { Edits } from "./edits.js";
import { FrameTimer } from "./frameTimer.js";
import type { KeptWhileUsed } from "./shared.js";
import { SharedQuery } from "./sharedQuery.js";
import { SharedView, type SharedReading, type Surroundings } from "./sharedView.js";

/** A client, or a function that makes it when the first component needs it. */
export type ClientSource = Client | (() => Client);

export class SharedClient implements Surroundings {
  readonly frames = new FrameTimer();
  readonly edits = new Edits(() => this.#views.values());
  readonly #source: ClientSource;
  readonly #views = new Map<string, SharedView<any>>();
  readonly #queries = new Map<string, SharedQuery<any>>();
  #client: Client | undefined;

  constructor(source: ClientSource) {
    this.#source = source;
  }

  client = (): Client =>
    (this.#client ??= typeof this.#source === "function" ? this.#source() : this.#source);

  get status(): ConnectionStatus {
    return this.#client?.status ?? "connecting";
  }

  view<T>(topic: string, reading: SharedReading): SharedView<T> {
    return shared(this.#views, topic, reading, (kept) => new SharedView<T>(this, topic, reading, kept));
  }

  query<T>(topic: string, reading: Reading): SharedQuery<T> {
    return shared(this.#queries, topic, reading, (kept) => new SharedQuery<T>(this.client, topic, reading, kept));
  }
}

const clients = new WeakMap<ClientSource, SharedClient>();

/** Return what belongs to a client; the same for the same client or function. */
export function sharedClient(source: ClientSource): SharedClient {
  let client = clients.get(source);
  if (client === undefined) clients.set(source, (client = new SharedClient(source)));
  return client;
}

/** Return what is kept for this topic and an equal reading, or make it. */
function shared<S>(all: Map<string, S>, topic: string, reading: object, make: (kept: KeptWhileUsed) => S): S {
  const name = JSON.stringify([topic, ...Object.entries(reading).sort(([one], [other]) => (one < other ? -1 : 1))]);
  const held = all.get(name);
  if (held !== undefined) return held;
  const made = make({
    add: () => void (all.has(name) || all.set(name, made)),
    remove: () => void (all.get(name) === made && all.delete(name)),
  });
  all.set(name, made);
  return made;
}
