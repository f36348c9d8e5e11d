/** A write from a component, shown before the service has it. */

import { useCallback, useEffect, useRef, useState } from "react";

import type { Client } from "../client.js";
import type { Outcome } from "../writing.js";
import type { Edit } from "./edits.js";
import { useSharedClient } from "./provider.js";

/** Writes with a client, and returns the outcome. */
export type Write<V, O extends Outcome> = (client: Client, variables: V) => Promise<O>;

export interface MutationOptions<V> {
  /** What views show until the outcome is known. It is taken back, if the write is refused. */
  optimistic?: (variables: V) => Edit | readonly Edit[];
}

/** What became of the last write. */
export interface MutationState<V, O extends Outcome> {
  readonly status: "idle" | "pending" | "settled" | "refused";
  readonly variables: V | undefined;
  readonly outcome: O | undefined;
  readonly error: Error | undefined;
}

export interface Mutation<V, O extends Outcome> extends MutationState<V, O> {
  /** Write. The result rejects with a refusal, which the state has as well: a caller need not handle it. */
  readonly mutate: (variables: V) => Promise<O>;
  /** Forget the last write. */
  readonly reset: () => void;
}

const IDLE = { status: "idle", variables: undefined, outcome: undefined, error: undefined } as const;

export function useMutation<V = void, O extends Outcome = Outcome>(
  write: Write<V, O>,
  options: MutationOptions<V> = {},
): Mutation<V, O> {
  const shared = useSharedClient();
  const [state, setState] = useState<MutationState<V, O>>(IDLE);
  const latest = useRef({ write, options });
  useEffect(() => {
    latest.current = { write, options };
  });
  const last = useRef(0);

  const mutate = useCallback(
    (variables: V): Promise<O> => {
      const number = ++last.current;
      const note = (found: Partial<MutationState<V, O>>): void => {
        if (number === last.current) setState({ ...IDLE, variables, ...found });
      };
      const result = (async () => {
        const { write, options } = latest.current;
        const attempt = shared.edits.show([options.optimistic?.(variables) ?? []].flat() as Edit[]);
        note({ status: "pending" });
        try {
          const outcome = await write(shared.client(), variables);
          attempt.settle(outcome);
          note({ status: "settled", outcome });
          return outcome;
        } catch (error) {
          attempt.undo();
          note({ status: "refused", error: error as Error });
          throw error;
        }
      })();
      result.catch(() => {});
      return result;
    },
    [shared],
  );

  const reset = useCallback(() => {
    last.current++;
    setState(IDLE);
  }, []);

  return { ...state, mutate, reset };
}
