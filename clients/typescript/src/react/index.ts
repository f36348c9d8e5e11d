/** React hooks: live views, queries and writes, over one connection and one subscription for equal queries. */

export type { Edit } from "./edits.js";
export {
  useKeys,
  useRecord,
  useRow,
  useSharedView,
  useSow,
  useStatus,
  useView,
  type ReadOptions,
  type RecordState,
} from "./hooks.js";
export { SowlineProvider, useClient, type SowlineProviderProps } from "./provider.js";
export type { ClientSource } from "./sharedClient.js";
export type { QueryState } from "./sharedQuery.js";
export type { SharedReading, SharedView, ViewState } from "./sharedView.js";
export { useMutation, type Mutation, type MutationOptions, type MutationState, type Write } from "./useMutation.js";
