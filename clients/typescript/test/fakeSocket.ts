/** Connections that a test holds in its hands, and the frames that it gives them. */

import { setImmediate, setTimeout } from "node:timers/promises";

import { connect, type Client, type ConnectOptions, type Socket } from "../src/index.js";

export type Fields = Record<string, unknown>;

/** The service's side of the connections of one client. */
export class FakeService {
  readonly sockets: FakeSocket[] = [];
  rights = "r1";
  logon: Fields = {};

  /** The options that let a client connect to this service. */
  options(more: ConnectOptions = {}): ConnectOptions {
    const service = this;
    class Connected extends FakeSocket {
      constructor(url: string) {
        super(url, service);
      }
    }
    return { WebSocket: Connected, ...more };
  }

  /** Wait for a connection, the first or the one after so many, and answer its logon. */
  async accept(number = this.sockets.length): Promise<FakeSocket> {
    const socket = await this.connected(number);
    socket.logOn();
    return socket;
  }

  /** Wait for a connection that has not been answered. */
  async connected(number = this.sockets.length): Promise<FakeSocket> {
    while (this.sockets.length <= number) await setTimeout(1);
    const socket = this.sockets[number]!;
    socket.onopen?.({});
    return socket;
  }
}

export class FakeSocket implements Socket {
  onopen: ((event: unknown) => void) | null = null;
  onmessage: ((event: unknown) => void) | null = null;
  onclose: ((event: unknown) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  readonly sent: Fields[] = [];
  isClosed = false;

  constructor(
    readonly url: string,
    readonly service: FakeService,
  ) {
    service.sockets.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Fields);
  }

  close(): void {
    this.isClosed = true;
  }

  /** Let a frame arrive. */
  give(...messages: Fields[]): void {
    this.giveText(JSON.stringify(messages.length === 1 ? messages[0] : messages));
  }

  giveText(data: string): void {
    this.onmessage?.({ data });
  }

  /** Let the connection be lost, or closed by the service. */
  lose(code = 1006, reason = ""): void {
    this.onclose?.({ code, reason });
  }

  logOn(): void {
    this.sent.shift();
    const ack = { command: "ack", ack_type: "processed", command_id: "logon", status: "success" };
    this.give({ ...ack, rights: this.service.rights, ...this.service.logon });
  }

  /** Wait for the next command of the client. */
  async next(): Promise<Fields> {
    while (this.sent.length === 0) await setImmediate();
    return this.sent.shift()!;
  }
}

/** Wait until whatever can go on has done so. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

// frames of a service

export const accepted = (id: string, more: Fields = {}): Fields => ({
  command: "ack",
  ack_type: "processed",
  command_id: id,
  sub_id: id,
  status: "success",
  bookmark: "orders:0@1",
  ...more,
});

export const refused = (id: string, reason: string, more: Fields = {}): Fields => ({
  command: "ack",
  ack_type: "processed",
  command_id: id,
  status: "failure",
  reason,
  message: `${reason}!`,
  ...more,
});

export const publish = (key: string, data: Fields, at: number, more: Fields = {}): Fields => ({
  command: "publish",
  sids: ["1"],
  topic: "orders",
  sow_key: key,
  bookmark: `orders:0@${at}`,
  data,
  ...more,
});

export const group = (id: string, records: Record<string, Fields>, more: Fields = {}): Fields[] => [
  { command: "group_begin", query_id: id, topic: "orders", bookmark: "orders:0@1", ...more },
  {
    command: "sow",
    query_id: id,
    topic: "orders",
    records: Object.entries(records).map(([sow_key, data]) => ({ sow_key, data })),
  },
  {
    command: "group_end",
    query_id: id,
    topic: "orders",
    bookmark: "orders:0@1",
    records: Object.keys(records).length,
  },
];

/** A client that is connected, the socket that it has, and its service. */
export async function connected(options: ConnectOptions = {}): Promise<[Client, FakeSocket, FakeService]> {
  const service = new FakeService();
  const client = connect("http://service:8080/", service.options(options));
  const socket = await service.accept();
  await client.opened;
  return [client, socket, service];
}
