/** Hooks that read. */

import { useCallback, useSyncExternalStore } from "react";

import type { Reading } from "../ask.js";
import type { ConnectionStatus } from "../connection.js";
import { SowlineError } from "../errors.js";
import type { JsonObject } from "../json.js";
import { useSharedClient } from "./provider.js";
import type { Shared, SharedState } from "./shared.js";
import type { QueryState } from "./sharedQuery.js";
import type { SharedReading, SharedView, ViewState } from "./sharedView.js";

export interface ReadOptions {
  /** Suspend until the records are there; an error before that goes to the next error boundary. */
  suspense?: boolean;
}

/** The view of a topic, for `useKeys` and `useRow`. The component that has it does not render again. */
export function useSharedView<T = JsonObject>(topic: string, reading: SharedReading = {}): SharedView<T> {
  return useSharedClient().view<T>(topic, reading);
}

/** The records of a live view, in their order, and its status. */
export function useView<T = JsonObject>(
  topic: string,
  reading: SharedReading = {},
  options: ReadOptions = {},
): ViewState<T> & { readonly view: SharedView<T> } {
  const view = useSharedView<T>(topic, reading);
  return { ...useShared(view, options), view };
}

/** The SOW keys of a view, in their order. The component renders again when a record comes, leaves or moves. */
export function useKeys<T>(view: SharedView<T>): readonly string[] {
  return useSyncExternalStore(view.subscribe, view.getKeys, () => NO_KEYS);
}

/** One record of a view; undefined if it has none. The component renders again only when this record changes. */
export function useRow<T>(view: SharedView<T>, key: string): T | undefined {
  return useSyncExternalStore(
    useCallback((listener: () => void) => view.subscribeRow(key, listener), [view, key]),
    () => view.getRecord(key),
    () => undefined,
  );
}

export interface RecordState<T> extends Omit<ViewState<T>, "rows"> {
  readonly record: T | undefined;
}

/** One record, always up to date, by its SOW key; undefined if there is none. */
export function useRecord<T = JsonObject>(topic: string, key: string, options: ReadOptions = {}): RecordState<T> {
  const { rows, status, isReady, error } = useView<T>(topic, { sowKeys: [key] }, options);
  return { record: rows[0]?.record, status, isReady, error };
}

/** The records that match at one instant; `refresh` asks again. */
export function useSow<T = JsonObject>(
  topic: string,
  reading: Reading = {},
  options: ReadOptions = {},
): QueryState<T> & { readonly refresh: () => Promise<void> } {
  const query = useSharedClient().query<T>(topic, reading);
  return { ...useShared(query, options), refresh: query.refresh };
}

/** The status of the connection. */
export function useStatus(): ConnectionStatus {
  const shared = useSharedClient();
  return useSyncExternalStore(
    useCallback((listener: () => void) => shared.client().onStatus(listener), [shared]),
    () => shared.status,
    () => "connecting",
  );
}

const NO_KEYS: readonly string[] = [];

function useShared<S extends SharedState>(shared: Shared<S>, { suspense = false }: ReadOptions): S {
  const state = useSyncExternalStore(shared.subscribe, shared.getState, shared.getServerState);
  if (!suspense || state.isReady) return state;
  if (state.error !== undefined) throw state.error;
  // React shows the fallback for a component that fails on a server, and renders it again in the browser.
  if (state === shared.serverState) throw new SowlineError("not supported", "expected a browser: it subscribes there");
  throw shared.load();
}
