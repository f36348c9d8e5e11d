/** Components of a test: on a page, below a provider, with a client whose service the test holds in its hands. */

import { element } from "./dom.js";

import assert from "node:assert/strict";
import { afterEach, mock } from "node:test";
import { createElement as h, StrictMode, act, type ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";

import { connect, type Client } from "../src/index.js";
import { SowlineProvider } from "../src/react/index.js";
import { GRACE_MS } from "../src/react/lease.js";
import { FakeService, turns, type FakeSocket, type Fields } from "./fakeSocket.js";

export type Order = { id: number; qty: number };

export const roots: Root[] = [];
export const clients: Client[] = [];

afterEach(async () => {
  mock.reset();
  for (const root of roots.splice(0)) await act(async () => root.unmount());
  for (const client of clients.splice(0)) client.close();
});

/** A client whose connection is open, and the socket on which the service would have its commands. */
export async function opened(): Promise<{ client: Client; socket: FakeSocket }> {
  const service = new FakeService();
  const client = connect("http://service.example", service.options());
  clients.push(client);
  return { client, socket: await service.accept() };
}

export type Shown = { root: Root; page: HTMLElement };

/** Show components below a provider, in StrictMode. */
export async function show(client: Client | (() => Client), ...children: ReactNode[]): Promise<Shown> {
  const page = element();
  const root = createRoot(page);
  roots.push(root);
  await render(root, client, ...children);
  return { root, page };
}

export const app = (client: Client | (() => Client), ...children: ReactNode[]): ReactNode =>
  h(StrictMode, null, h(SowlineProvider, { client }, ...children));

export const render = (root: Root, client: Client | (() => Client), ...children: ReactNode[]): Promise<void> =>
  act(async () => root.render(app(client, ...children)));

/** Let what was given reach the page. */
export async function shown(condition: () => boolean): Promise<void> {
  while (!condition()) await act(turns);
}

/** Let time pass, the grace time if not given. */
export const pause = (ms = GRACE_MS): Promise<void> =>
  act(async () => {
    mock.timers.tick(ms);
    await turns();
  });

/** Accept a subscription, and send its group. */
export function group(socket: FakeSocket, id: unknown, ...orders: Order[]): void {
  const records = orders.map((data) => ({ sow_key: `k${data.id}`, data }));
  const about = { query_id: id, topic: "orders" };
  socket.give(
    { command: "ack", ack_type: "processed", command_id: id, status: "success" },
    { command: "group_begin", ...about, bookmark: "orders:0@1" },
    { command: "sow", ...about, records },
    { command: "group_end", ...about, bookmark: "orders:0@1", records: records.length },
    { command: "ack", ack_type: "completed", command_id: id, status: "success", bookmark: "orders:0@1" },
  );
}

/** A message about a change of an order. */
export const changed = (id: unknown, offset: number, data: Order): Fields => ({
  command: "publish",
  sids: [id],
  topic: "orders",
  sow_key: `k${data.id}`,
  bookmark: `orders:0@${offset}`,
  data,
});

/** Take the next command, which has to be the start of a subscription. */
export async function subscribed(socket: FakeSocket): Promise<unknown> {
  const { command, command_id } = await socket.next();
  assert.equal(command, "sow_and_delta_subscribe");
  return command_id;
}

export const texts = (page: HTMLElement): string => page.textContent;
