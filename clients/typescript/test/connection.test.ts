/** The connection of a client: logons, losses, silence, and its end. */

import assert from "node:assert/strict";
import { test, mock } from "node:test";

import { connect } from "../src/index.js";
import { connected, FakeService, refused, turns } from "./fakeSocket.js";

test("a client logs on, and knows its user and rights", async () => {
  const service = new FakeService();
  service.logon = { user: "ada", roles: ["desk"], version: "0.1.0" };
  const client = connect("https://service/base/", service.options({ token: " sow_1 " }));
  const statuses: string[] = [];
  client.onStatus((status) => statuses.push(status));
  const socket = await service.connected();
  assert.equal(socket.url, "wss://service/base/v1");
  assert.deepEqual(socket.sent, [{ command: "logon", command_id: "logon", token: "sow_1" }]);
  assert.equal(client.status, "connecting");
  socket.logOn();
  await client.opened;
  assert.deepEqual(client.login, { rights: "r1", user: "ada", roles: ["desk"], version: "0.1.0" });
  client.close();
  assert.deepEqual(statuses, ["open", "closed"]);
  assert.ok(socket.isClosed);
});

test("a refused logon ends the client, and what waits for it", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options({ token: "wrong" }));
  const view = client.view("orders");
  const socket = await service.connected();
  socket.give(refused("logon", "auth failure"));
  for (const waiting of [client.opened, view.ready, client.publish("orders", {})]) {
    await assert.rejects(waiting, { reason: "auth failure" });
  }
  assert.deepEqual([client.status, client.error?.reason, view.status], ["closed", "auth failure", "failed"]);
});

test("without a connection in time, the client gives up", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options({ connectSeconds: 0.1 }));
  void (async () => {
    for (let number = 0; client.status !== "closed"; number++) (await service.connected(number)).lose();
  })();
  await assert.rejects(client.opened, { reason: "not connected" });
});

test("a client that reconnects asks for a token again, also after refusals", async () => {
  let tokens = 0;
  const service = new FakeService();
  const getToken = async (): Promise<string> => `t${++tokens}`;
  const client = connect("http://service", service.options({ getToken }));
  (await service.accept(0)).lose();
  const second = await service.connected(1);
  assert.equal(second.sent[0]!["token"], "t2");
  second.give(refused("logon", "auth failure"));
  const third = await service.connected(2);
  assert.equal(third.sent[0]!["token"], "t3");
  third.logOn();
  await turns();
  assert.equal(client.status, "open");
  client.close();
});

test("a logon is renewed over the same connection before it ends", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    let tokens = 0;
    const service = new FakeService();
    service.logon = { expires_in: 100 };
    const client = connect("http://service", service.options({ getToken: () => `t${++tokens}` }));
    await turns();
    const socket = service.sockets[0]!;
    socket.onopen?.({});
    socket.logOn();
    mock.timers.tick(74_000);
    await turns();
    assert.equal(socket.sent.length, 0);
    mock.timers.tick(1000);
    await turns();
    assert.deepEqual(socket.sent, [{ command: "logon", command_id: "logon", token: "t2" }]);
    socket.give(refused("logon", "rights changed"));
    assert.ok(socket.isClosed);
    assert.equal(client.status, "reconnecting");
    client.close();
  } finally {
    mock.timers.reset();
  }
});

test("a renewal that gets no token leaves requests the one that is still valid", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const sent: unknown[] = [];
  const fetch = mock.method(globalThis, "fetch", async (_: string, { headers }: { headers: Headers }) => {
    sent.push(headers.get("Authorization"));
    return new Response("{}");
  });
  try {
    const tokens = ["t1", "", "t3"];
    const service = new FakeService();
    service.logon = { expires_in: 100 };
    const client = connect("http://service", service.options({ getToken: () => tokens.shift()! }));
    await turns();
    const socket = service.sockets[0]!;
    socket.onopen?.({});
    socket.logOn();
    mock.timers.tick(75_000);
    await turns();
    assert.deepEqual([tokens, socket.sent], [["t3"], []]);
    for (let request = 0; request < 2; request++) await client.topics();
    assert.deepEqual([tokens, sent], [["t3"], ["Bearer t1", "Bearer t1"]]);
    client.close();
  } finally {
    fetch.mock.restore();
    mock.timers.reset();
  }
});

test("a connection that is silent is asked for a sign of life, and given up without one", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const service = new FakeService();
    const client = connect("http://service", service.options());
    await turns();
    const socket = service.sockets[0]!;
    socket.onopen?.({});
    socket.logOn();
    for (let check = 0; check < 4; check++) mock.timers.tick(5000);
    assert.deepEqual(socket.sent, [{ command: "heartbeat", command_id: "alive" }]);
    socket.give({ command: "heartbeat", command_id: "alive" });
    for (let check = 0; check < 5; check++) mock.timers.tick(5000);
    assert.equal(client.status, "open");
    // A computer that was asleep: its clock jumps.
    mock.timers.setTime(Date.now() + 3_600_000);
    mock.timers.tick(5000);
    mock.timers.tick(5000);
    assert.equal(client.status, "reconnecting");
    client.close();
  } finally {
    mock.timers.reset();
  }
});

test("a frame that is none of the protocol ends the client", async () => {
  for (const text of ["{", '{"command":"replay"}', '[{"command":"publish","sids":["1"]}]', "1"]) {
    const [client, socket] = await connected();
    const subscription = client.subscribe("orders");
    socket.giveText(text);
    await assert.rejects(subscription.next(), { reason: "bad message" }, text);
    assert.equal(client.status, "closed");
  }
});

test("closing a client frees everything", async () => {
  const [client, socket] = await connected();
  const subscription = client.subscribe("orders");
  const view = client.view("orders");
  const write = client.publish("orders", { id: 1 });
  await turns();
  client.close();
  await assert.rejects(subscription.closed, { reason: "disconnected" });
  await assert.rejects(write, { reason: "disconnected" });
  assert.equal(view.status, "closed");
  assert.deepEqual([socket.onopen, socket.onmessage, socket.onclose], [null, null, null]);
  await assert.rejects(client.subscribe("orders").started, { reason: "disconnected" });
  await assert.rejects(client.publish("orders", {}), { reason: "disconnected" });
});

test("without a WebSocket, the client ends with what it needs", async () => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  Object.defineProperty(globalThis, "WebSocket", { value: undefined, configurable: true });
  try {
    await assert.rejects(connect("http://service").opened, { reason: "not supported" });
  } finally {
    if (own === undefined) delete (globalThis as { WebSocket?: unknown }).WebSocket;
    else Object.defineProperty(globalThis, "WebSocket", own);
  }
  assert.throws(() => connect("service:8080"), { reason: "bad request" });
});

test("a client says when it was last sent something, why the service left, and when it tries to connect again", async () => {
  const service = new FakeService();
  const client = connect("http://service", service.options());
  assert.deepEqual([client.heardAt, client.retryAt], [undefined, undefined]);
  const socket = await service.accept();
  await client.opened;
  assert.ok(client.heardAt! <= new Date());
  assert.equal(client.retryAt, undefined);
  socket.lose();
  assert.ok(client.retryAt! > client.heardAt!);
  const next = await service.accept();
  assert.equal(client.retryAt, undefined);
  next.lose(1001, "the server is stopping");
  assert.equal(client.closeReason, "the server is stopping");
  const last = await service.accept();
  assert.equal(client.closeReason, undefined);
  last.lose();
  assert.equal(client.closeReason, undefined);
  client.close();
});
