/** A page for a test in a browser: `start` shows a topic in StrictMode, and notes what is rendered. */

import { createElement as h, memo, StrictMode, Suspense, useEffect, useState, type FC } from "react";
import { createRoot } from "react-dom/client";

import { connect } from "../src/index.js";
import {
  SowlineProvider,
  useKeys,
  useMutation,
  useRow,
  useSharedView,
  useView,
  type Edit,
  type SharedView,
} from "../src/react/index.js";

interface Order {
  readonly id: number;
  readonly qty: number;
}

interface Change {
  readonly key: string;
  /** Without its `id`, a write names no record, and is refused. */
  readonly id?: number;
  readonly qty: number;
}

const noted = {
  /** How often each was rendered, by the record's id. */
  renders: {} as Record<string, number>,
  /** What the first record was shown as, each time that it was another value. */
  quantities: [] as (number | undefined)[],
  fallbacks: 0,
  mutate: async (_: Change): Promise<unknown> => undefined,
  hide: (_: boolean): void => {},
};

const Fallback: FC = () => {
  useEffect(() => void noted.fallbacks++, []);
  return "waiting";
};

const Row = memo<{ view: SharedView<Order>; name: string }>(({ view, name }) => {
  const order = useRow(view, name);
  if (order === undefined) return null;
  const { id, qty } = order;
  noted.renders[id] = (noted.renders[id] ?? 0) + 1;
  if (id === 1 && noted.quantities.at(-1) !== qty) noted.quantities.push(qty);
  return h("li", { "data-key": name }, `${id}=${qty}`);
});

const Rows: FC<{ topic: string }> = ({ topic }) => {
  const view = useSharedView<Order>(topic, { orderBy: "/id" }, { suspense: true });
  return h("ul", null, useKeys(view).map((key) => h(Row, { view, name: key, key })));
};

const Count: FC<{ topic: string }> = ({ topic }) => {
  const { rows, status } = useView<Order>(topic, { orderBy: "/id" });
  return h("p", { id: "count" }, `${rows.length} ${status}`);
};

const Editor: FC<{ topic: string }> = ({ topic }) => {
  const { mutate, status, outcome, error } = useMutation(
    (client, { id, qty }: Change) => client.deltaPublish(topic, { id, qty }),
    { optimistic: ({ key, qty }): Edit<Order> => ({ topic, key, change: (order) => ({ ...order, qty }) }) },
  );
  useEffect(() => void (noted.mutate = mutate), [mutate]);
  return h("p", { id: "edit" }, `${status} ${outcome?.outcome ?? (error as { reason?: string })?.reason ?? ""}`);
};

const App: FC<{ topic: string }> = ({ topic }) => {
  const [isHidden, hide] = useState(false);
  useEffect(() => void (noted.hide = hide), []);
  if (isHidden) return "hidden";
  return h(Suspense, { fallback: h(Fallback) }, h(Rows, { topic }), h(Count, { topic }), h(Editor, { topic }));
};

function start(url: string, topic: string): void {
  const client = connect(url);
  createRoot(document.getElementById("root")!).render(
    h(StrictMode, null, h(SowlineProvider, { client, children: h(App, { topic }) })),
  );
}

Object.assign(globalThis, { start, noted });
