/** A collection of TanStack DB that is a live view, and whose mutations are writes. */

import type { CollectionConfig } from "@tanstack/db";

import type { Client } from "./client.js";
import { contains, hasChanged, SETTLE_MS } from "./effect.js";
import type { View, ViewReading } from "./view.js";
import type { Outcome } from "./writing.js";

export interface SowlineCollection<T extends object> {
  client: Client;
  topic: string;
  /** The fields of the record at its top that are its key. */
  keyFields: readonly (keyof T & string)[];
  /** Which records; all of the topic if not given. */
  reading?: Omit<ViewReading, "records">;
  /** The name of the collection. */
  id?: string;
}

type Synced<T extends object> = Required<Pick<CollectionConfig<T, string>, "onInsert" | "onUpdate" | "onDelete">> &
  Pick<CollectionConfig<T, string>, "id" | "getKey" | "sync">;

/**
 * Return the options of `createCollection`. The collection has the records of a view, from its first user to its last.
 * An insert is a `publish`, an update is a `deltaPublish` of the fields that have changed, and a delete is a `sowDelete`.
 */
export function sowlineCollection<T extends object>(options: SowlineCollection<T>): Synced<T> {
  const { client, topic, keyFields, reading = {}, id = `sowline:${topic}` } = options;
  let view: View<T> | undefined;
  const keyOf = (record: T): Partial<T> =>
    Object.fromEntries(keyFields.map((name) => [name, record[name]])) as Partial<T>;

  /** Wait for writes, and until the view shows them: TanStack DB drops its optimistic state after that. */
  async function settle(writes: readonly Promise<Outcome>[]): Promise<void> {
    const effects = (await Promise.all(writes)).filter(hasChanged).flatMap(({ effect }) => effect ?? []);
    if (view === undefined || effects.length === 0) return;
    await Promise.race([
      view.waitFor(({ bookmark }) => effects.every((effect) => contains(bookmark, effect))).catch(() => {}),
      new Promise((resolve) => setTimeout(resolve, SETTLE_MS)),
    ]);
  }

  return {
    id,
    // The key text, so that `1` and `"1"` are one record here, too.
    getKey: (record) => {
      const texts = keyFields.map((name) => String(record[name]));
      return texts.length === 1 ? texts[0]! : JSON.stringify(texts);
    },
    sync: {
      sync: ({ begin, write, commit, markReady, markError }) => {
        const shown = (view = client.view<T>(topic, reading));
        shown.onChange(({ changes }) => {
          begin();
          for (const change of changes) {
            if (change.type === "remove") write({ type: "delete", value: change.before });
            else write({ type: change.type, value: change.record });
          }
          commit();
        });
        shown.ready.then(markReady, markError);
        shown.onStatus((status) => {
          if (status === "failed") markError(shown.error);
        });
        return () => shown.close();
      },
    },
    onInsert: ({ transaction }) => settle(transaction.mutations.map(({ modified }) => client.publish(topic, modified))),
    onUpdate: ({ transaction }) =>
      settle(
        transaction.mutations.map(({ original, changes }) =>
          client.deltaPublish(topic, { ...keyOf(original), ...changes }),
        ),
      ),
    onDelete: ({ transaction }) =>
      settle(transaction.mutations.map(({ original }) => client.sowDelete(topic, { data: keyOf(original) }))),
  };
}
