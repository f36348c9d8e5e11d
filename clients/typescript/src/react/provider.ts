/** The client of a tree of components. */

import { createContext, createElement, useContext, type ReactElement, type ReactNode } from "react";

import type { Client } from "../client.js";
import { SowlineError } from "../errors.js";
import { sharedClient, type ClientSource, type SharedClient } from "./sharedClient.js";

const SharedClientContext = createContext<SharedClient | undefined>(undefined);

export interface SowlineProviderProps {
  /**
   * The client, or a function that makes it. A function is called once, when the first component needs the client,
   * and never on a server; define it outside of components. The provider does not close the client.
   */
  client: ClientSource;
  children?: ReactNode;
}

/** Gives the components below it a client, whose connection and subscriptions they share. */
export function SowlineProvider({ client, children }: SowlineProviderProps): ReactElement {
  return createElement(SharedClientContext.Provider, { value: sharedClient(client) }, children);
}

export function useSharedClient(): SharedClient {
  const client = useContext(SharedClientContext);
  if (client === undefined) throw new SowlineError("bad request", "expected a SowlineProvider around the component");
  return client;
}

/** Return a function that returns the client, for event handlers and effects. */
export const useClient = (): (() => Client) => useSharedClient().client;
