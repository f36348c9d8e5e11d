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

/** The view of a topic, for `useKeys` and `useRow`. The component does not render again when records change. */
export function useSharedView<T = JsonObject>(
  topic: string,
  reading: SharedReading = {},
  options: ReadOptions = {},
): SharedView<T> {
  const view = useSharedClient().view<T>(topic, reading);
  useReady(view, options);
  return view;
}

/** The records of a live view, in their order, and its status. */
export function useView<T = JsonObject>(
  topic: string,
  reading: SharedReading = {},
  options: ReadOptions = {},
): ViewState<T> & { readonly view: SharedView<T> } {
  const view = useSharedView<T>(topic, reading, options);
  return { ...useSharedState(view), view };
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
  useReady(query, options);
  return { ...useSharedState(query), refresh: query.refresh };
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

const useSharedState = <S extends SharedState>(shared: Shared<S>): S =>
  useSyncExternalStore(shared.subscribe, shared.getState, shared.getServerState);

/** Keep a result while the component is there. With `suspense`, suspend until it has its records. */
function useReady(shared: Shared<SharedState>, { suspense = false }: ReadOptions): void {
  const phase = useSyncExternalStore(
    shared.subscribe,
    () => (suspense ? phaseOf(shared.getState()) : undefined),
    () => (suspense ? "on a server" : undefined),
  );
  if (phase === "loading") throw shared.load();
  if (phase === "failed") throw shared.getState().error;
  // React shows the fallback for a component that fails on a server, and renders it again in the browser.
  if (phase === "on a server") throw new SowlineError("not supported", "expected a browser: it subscribes there");
}

const phaseOf = ({ isReady, error }: SharedState): "ready" | "failed" | "loading" =>
  isReady ? "ready" : error === undefined ? "loading" : "failed";
