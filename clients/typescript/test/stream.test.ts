import assert from "node:assert/strict";
import { test } from "node:test";

import { Ask, type ReadCommand, type Reading } from "../src/ask.js";
import type { ServerMessage } from "../src/frames.js";
import type { Command } from "../src/message.js";
import { Stream } from "../src/stream.js";

type Given = Record<string, unknown>;

function give(stream: Stream, ...frames: Given[]): void {
  for (const frame of frames) stream.receive(frame as unknown as ServerMessage);
}

/** Return a stream whose request is sent. */
function open(command: ReadCommand, reading: Reading = {}): Stream {
  const stream = new Stream("1", new Ask(command, "orders", reading));
  stream.handle({ type: "connected" });
  stream.outgoing = [];
  return stream;
}

/** Let the connection be made again; return the first request on it. */
function resumed(stream: Stream): Command | undefined {
  stream.handle({ type: "lost" });
  stream.handle({ type: "connected" });
  return nextRequest(stream);
}

/** Return the next request; undefined if there is none. */
function nextRequest(stream: Stream): Command | undefined {
  const action = stream.outgoing.shift();
  return action === undefined || action.type === "ask_later" ? undefined : stream.request(action);
}

const ack = (id = "1", more: Given = {}): Given => ({
  command: "ack",
  ack_type: "processed",
  command_id: id,
  status: "success",
  bookmark: "orders:0@1,1@1",
  ...more,
});

const failure = (reason: string, more: Given = {}): Given =>
  ack("1", { status: "failure", reason, message: "", ...more });

const publish = (bookmark: string, more: Given = {}): Given => ({
  command: "publish",
  sids: ["1"],
  topic: "orders",
  sow_key: "k",
  bookmark,
  data: {},
  ...more,
});

const begin = { command: "group_begin", query_id: "1", topic: "orders", bookmark: "orders:0@1,1@1" };
const end = { command: "group_end", query_id: "1", topic: "orders", bookmark: "orders:0@1,1@1", records: 0 };

test("a subscription resumes at the position of each partition, without demands on freshness", () => {
  const stream = open("sow_and_subscribe", { filter: "/a = 1", atLeast: "orders:0@1", maxStaleness: "1s" });
  give(stream, ack(), begin, end, publish("orders:1@5"), publish("orders:0@7"), publish("orders:1@6"));
  for (let taken = 0; taken < 4; taken++) stream.next();
  const request = resumed(stream)!;
  assert.deepEqual(
    [request.command, request.bookmark, request.filter, request.at_least, request.max_staleness],
    ["subscribe", "orders:0@7,1@5", "/a = 1", "", ""],
  );
});

test("a page and groups resume as what they are", () => {
  for (const reading of [{ skipN: 0, topN: 5 }, { options: "grouping=[/a],projection=[/a,COUNT(1) AS /n]" }]) {
    const stream = open("sow_and_subscribe", reading);
    give(stream, ack(), begin, end);
    stream.next();
    stream.next();
    const request = resumed(stream)!;
    assert.deepEqual([request.command, request.bookmark], ["sow_and_subscribe", "orders:0@1,1@1"]);
  }
});

test("the rest of a step that its caller has begun to take is kept", () => {
  const stream = open("subscribe");
  give(
    stream,
    ack(),
    publish("orders:0@1,1@1", { more: true }),
    publish("orders:0@2,1@1"),
    publish("orders:0@3,1@1"),
  );
  stream.next();
  assert.equal(resumed(stream)!.bookmark, "orders:0@2,1@1");
  assert.equal(stream.machine.waitingCount, 1);
});

test("a step that is not complete is not given", () => {
  const stream = open("subscribe");
  give(stream, ack(), publish("orders:0@1", { more: true }));
  assert.equal(stream.next(), undefined);
  give(stream, publish("orders:0@2"));
  assert.equal(stream.machine.waitingCount, 2);
});

test("an end stays the end", () => {
  const range = open("subscribe", { bookmark: "[epoch..orders:0@9,1@9)" });
  give(range, ack(), publish("orders:0@2"));
  range.next();
  assert.equal(resumed(range)!.bookmark, "(orders:0@2,1@1..orders:0@9,1@9)");
  const now = open("subscribe", { bookmark: "epoch", upTo: "now" });
  give(now, ack("1", { up_to: "orders:0@9,1@9" }), publish("orders:0@2"));
  now.next();
  const request = resumed(now)!;
  assert.deepEqual([request.bookmark, request.up_to], ["orders:0@2,1@1", "orders:0@9,1@9"]);
});

test("a group that is not whole begins again", () => {
  const stream = open("sow_and_subscribe");
  give(stream, ack(), begin);
  stream.next();
  assert.equal(resumed(stream)!.command, "sow_and_subscribe");
  give(stream, ack(), begin, end, { ...begin, reset: true });
  for (let taken = 0; taken < 3; taken++) stream.next();
  assert.equal(stream.machine.bookmark, undefined);
  const request = resumed(stream)!;
  assert.deepEqual([request.command, request.bookmark], ["sow_and_subscribe", ""]);
  give(stream, ack(), begin);
  assert.equal((stream.next() as { reset: boolean }).reset, true);
});

test("a refusal that passes is one of a service that loads, or that is behind what the caller holds", () => {
  const stream = open("subscribe");
  /** Whether a refusal lets the stream ask again. */
  const isPassing = (of: Stream, reason: string, more: Given = {}): boolean => {
    give(of, failure(reason, more));
    const [later] = of.outgoing.splice(0);
    of.handle({ type: "again", number: 0 });
    of.outgoing = [];
    return later?.type === "ask_later";
  };
  assert.deepEqual(
    ["not ready", "shard unavailable", "behind"].map((reason) => isPassing(stream, reason)),
    [true, true, false],
  );
  assert.ok(!isPassing(open("subscribe"), "bad filter"));
  const accepted = open("subscribe");
  give(accepted, ack());
  assert.ok(isPassing(accepted, "behind"));
  give(accepted, ack());
  assert.ok(!isPassing(accepted, "not ready", { command_id: "1.pause" }));
  assert.ok(!isPassing(open("sow"), "shard unavailable"));
});

test("messages that wait at a replacement belong to the request before it", async () => {
  const stream = open("sow_and_subscribe");
  give(stream, ack(), begin, end);
  const settled = stream.replace({ filter: "/b = 1" });
  assert.equal(nextRequest(stream)!.command_id, "1.1");
  assert.equal(nextRequest(stream), undefined);
  give(stream, ack("1.1"), { ...begin, replace: true }, end);
  await settled;
  stream.next();
  stream.next();
  assert.equal(stream.machine.bookmark, undefined);
  stream.next();
  stream.next();
  assert.equal(stream.machine.bookmark, "orders:0@1,1@1");
  assert.deepEqual([stream.machine.taken.shown?.replacements, stream.machine.ask.reading.filter], [1, "/b = 1"]);
});

test("a replacement that is refused at once changes nothing; later, it ends the subscription", async () => {
  const stream = open("subscribe", { filter: "/a = 1" });
  give(stream, ack());
  const refused = stream.replace({ filter: "/b =" });
  give(stream, failure("bad filter", { command_id: "1.1" }));
  await assert.rejects(refused, { reason: "bad filter" });
  assert.deepEqual([stream.machine.ask.reading.filter, stream.machine.isOver], ["/a = 1", false]);
  const failed = stream.replace({ filter: "/c = 1" });
  give(stream, failure("too many records", { command_id: "1.2", sub_id: "1" }));
  await assert.rejects(failed, { reason: "too many records" });
  assert.equal(stream.machine.error?.reason, "too many records");
  assert.throws(() => stream.replace({}), { reason: "too many records" });
  assert.throws(() => open("sow").replace({}), { reason: "not supported" });
});

test("a message that only moves the bookmark is not given", () => {
  const stream = open("subscribe");
  give(stream, ack(), { command: "progress", sids: ["1"], bookmark: "orders:0@8,1@9" });
  assert.equal(stream.next(), undefined);
  assert.equal(stream.machine.bookmark, "orders:0@8,1@9");
});

test("a checksum that is refused comes before the rest of a step, and does not break it up", () => {
  const stream = open("sow_and_subscribe");
  give(stream, ack(), begin, end);
  stream.next();
  stream.next();
  stream.handle({ type: "prove" });
  give(stream, publish("orders:0@2", { more: true }), ack("1.proof", { status: "failure", reason: "no", message: "" }));
  assert.deepEqual([stream.next()?.command, stream.next()], ["progress", undefined]);
  give(stream, publish("orders:0@2"));
  assert.deepEqual([stream.machine.waitingCount, stream.next()?.command, stream.next()?.command], [2, "publish", "publish"]);
});
