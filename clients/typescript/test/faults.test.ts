/** What goes wrong for a minute or for an hour, over a clock that the test moves. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { connect } from "../src/index.js";
import { accepted, FakeService, group, publish, refused, turns, type FakeSocket } from "./fakeSocket.js";

const BACK_OFF_MS = [50, 100, 200, 500, 1000, 2000, 5000];
const TICK_MS = 10;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

const completed = (id: string) => ({ ...accepted(id), ack_type: "completed" });

/** Run a test whose clock stands still until the test moves it. */
const timed = (name: string, run: (service: FakeService) => Promise<void>): void =>
  void test(name, async () => {
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
    try {
      await run(new FakeService());
    } finally {
      mock.timers.reset();
    }
  });

async function accept(service: FakeService): Promise<FakeSocket> {
  await turns();
  const socket = service.sockets.at(-1)!;
  socket.onopen?.({});
  socket.logOn();
  return socket;
}

/** Let time pass until there is another connection, or for a minute; return how long that took. */
async function next(service: FakeService): Promise<number> {
  const [began, count] = [Date.now(), service.sockets.length];
  while (service.sockets.length === count && Date.now() - began < MINUTE_MS) {
    mock.timers.tick(TICK_MS);
    await turns();
  }
  return Date.now() - began;
}

timed("a service that is gone for a minute: bounded pauses with jitter, then the view resumes", async (service) => {
  const client = connect("http://service", service.options());
  const view = client.view("orders");
  const first = await accept(service);
  first.give(accepted("1"), ...group("1", { a: { n: 1 }, b: { n: 1 } }), publish("a", { n: 2 }, 5));
  const statuses: string[] = [];
  view.onStatus((status) => statuses.push(status));
  mock.timers.tick(1000);
  first.lose();
  const pauses: number[] = [];
  for (const began = Date.now(); Date.now() - began < MINUTE_MS; service.sockets.at(-1)!.lose()) {
    pauses.push(await next(service));
  }
  pauses.forEach((pause, at) => {
    const usual = BACK_OFF_MS[Math.min(at, BACK_OFF_MS.length - 1)]!;
    assert.ok(pause >= usual / 2 && pause <= usual * 1.5 + TICK_MS, `pause ${at}: ${pause}`);
  });
  assert.ok(new Set(pauses.slice(BACK_OFF_MS.length - 1)).size > 1, `pauses without jitter: ${pauses}`);
  await next(service);
  const again = await accept(service);
  const request = again.sent[0]!;
  assert.deepEqual([request["command"], request["bookmark"]], ["delta_subscribe", "orders:0@5"]);
  again.give(accepted("1"), publish("b", { n: 3 }, 6), completed("1"));
  assert.deepEqual([...view.values()], [{ n: 2 }, { n: 3 }]);
  assert.deepEqual(statuses, ["reconnecting", "catching up", "live"]);
  client.close();
});

timed("after an hour of sleep, a dead connection is replaced with a fresh token", async (service) => {
  let tokens = 0;
  service.logon = { expires_in: 600 };
  const client = connect("http://service", service.options({ getToken: () => `t${++tokens}` }));
  const view = client.view("orders");
  const first = await accept(service);
  first.give(accepted("1"), ...group("1", { a: { n: 1 } }));
  mock.timers.tick(1000);
  first.sent.length = 0;
  // All timers are late, and the other end is gone without a report.
  mock.timers.setTime(Date.now() + HOUR_MS);
  const pause = await next(service);
  assert.ok(pause <= 20_000, `replaced after ${pause} ms`);
  assert.ok(first.isClosed);
  assert.deepEqual(first.sent.map(({ command }) => command).sort(), ["heartbeat", "heartbeat", "logon"]);
  await turns();
  const again = service.sockets[1]!;
  again.onopen?.({});
  assert.equal(again.sent[0]!["token"], `t${tokens}`);
  again.logOn();
  assert.equal(again.sent[0]!["bookmark"], "orders:0@1");
  again.give(accepted("1"), publish("a", { n: 2 }, 2), publish("b", { n: 1 }, 3), completed("1"));
  assert.deepEqual([[...view], view.status], [[["a", { n: 2 }], ["b", { n: 1 }]], "live"]);
  client.close();
});

timed("after an hour of sleep, a connection that answers stays", async (service) => {
  const client = connect("http://service", service.options());
  const socket = await accept(service);
  socket.send = () => socket.give({ command: "heartbeat", command_id: "alive" });
  mock.timers.setTime(Date.now() + HOUR_MS);
  assert.equal(await next(service), MINUTE_MS);
  assert.equal(client.status, "open");
  client.close();
});

timed("a connection that was being made while the computer slept is replaced", async (service) => {
  const client = connect("http://service", service.options());
  (await accept(service)).lose();
  await next(service);
  mock.timers.setTime(Date.now() + HOUR_MS);
  assert.ok((await next(service)) <= 20_000);
  await accept(service);
  assert.equal(client.status, "open");
  client.close();
});

timed("a page whose origin is refused makes no other attempt, also when it was open before", async (service) => {
  for (const wasOpen of [false, true]) {
    const client = connect("http://service", service.options({ getToken: () => "t" }));
    if (wasOpen) {
      (await accept(service)).lose();
      await next(service);
    }
    await turns();
    service.sockets.at(-1)!.lose(4403, "origin refused: this origin is not allowed");
    await turns();
    assert.deepEqual([client.status, client.error?.message], ["closed", "this origin is not allowed"]);
    assert.equal(await next(service), MINUTE_MS);
    if (!wasOpen) await assert.rejects(client.opened, { reason: "origin refused" });
  }
});

timed("a client whose new tokens are all refused gives up", async (service) => {
  const client = connect("http://service", service.options({ getToken: () => "old" }));
  const view = client.view("orders");
  (await accept(service)).lose(1008, "logon expired: log on again");
  let attempts = 0;
  for (; (await next(service)) < MINUTE_MS; attempts++) {
    service.sockets.at(-1)!.onopen?.({});
    service.sockets.at(-1)!.give(refused("logon", "auth failure"));
  }
  assert.deepEqual([attempts, client.error?.reason, view.status], [6, "auth failure", "failed"]);
});

timed("a client that is closed while it waits for a token asks for no other", async (service) => {
  let asked = 0;
  let refuse: (error: Error) => void = () => {};
  const getToken = (): string | Promise<string> =>
    ++asked === 1 ? "t1" : new Promise((_, reject) => (refuse = reject));
  const client = connect("http://service", service.options({ getToken }));
  (await accept(service)).lose();
  mock.timers.tick(100);
  await turns();
  client.close();
  refuse(new Error("no network"));
  assert.equal(await next(service), MINUTE_MS);
  assert.equal(asked, 2);
});

timed("a later token that can't be sent is asked for again", async (service) => {
  const tokens = ["t1", "", "t2"];
  const client = connect("http://service", service.options({ getToken: () => tokens.shift()! }));
  (await accept(service)).lose();
  assert.ok((await next(service)) < MINUTE_MS);
  await accept(service);
  assert.deepEqual([tokens, client.status], [[], "open"]);
  client.close();
});
