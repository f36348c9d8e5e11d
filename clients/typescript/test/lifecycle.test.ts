/**
 * The sequences of events that every client's machine is held to. `tests/conformance/lifecycle_cases.py` describes them.
 */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { Ask, type Reading } from "../src/ask.js";
import { SowlineError } from "../src/errors.js";
import { ClientMachine, type Action, type Event } from "../src/lifecycle.js";
import type { Message } from "../src/message.js";

type Fields = Record<string, any>;

const DIRECTORY = new URL("../../../../tests/conformance/lifecycle/", import.meta.url);
const files = readdirSync(DIRECTORY).filter((name) => name.endsWith(".jsonl"));
const TABLE = JSON.parse(readFileSync(new URL("table.json", DIRECTORY), "utf8")) as Fields;

const camel = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );

const askOf = ({ command, topic, ...reading }: Fields): Ask => new Ask(command, topic, camel(reading) as Reading);

/** Return an event as this client has it. */
function eventOf(line: string | Fields): Event {
  if (typeof line === "string") return { type: line } as Event;
  const { reason, message = "", ...fields } = line;
  const event: Fields = { number: 0, more: false, ends: false, ...camel(fields) };
  if (reason !== undefined) event["error"] = new SowlineError(reason, message);
  if (line["changes"] !== undefined) event["changes"] = camel(line["changes"]);
  return event as unknown as Event;
}

/** Return the fields that a text of JSON has: not those that are empty. */
const reported = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== "" && value !== false));

function requestOf(ask: Ask): Fields {
  const { command_id, topic, batch_size, ack_type, ...fields } = ask.request("1");
  return reported(fields);
}

const messageOf = (message: Message): Fields => {
  const { command, bookmark, reset } = message as Fields;
  return reported({ command, bookmark, reset });
};

function lineOf(action: Action): unknown {
  switch (action.type) {
    case "begin":
      return { begin: requestOf(action.ask) };
    case "replace_by":
      return { replace_by: action.number, request: requestOf(action.ask) };
    case "send":
      return { send: action.what };
    case "ask_later":
      return { ask_later: action.number };
    case "started":
      return "started";
    case "give":
      return { give: action.messages.map(messageOf) };
    default:
      return { [action.type]: action.error?.reason ?? null };
  }
}

function handled(machine: ClientMachine, event: Event): unknown[] {
  try {
    return machine.handle(event).map(lineOf);
  } catch (error) {
    return [{ raises: (error as SowlineError).reason }];
  }
}

/** Return the lines of a sequence as this client has them. */
function* played([head, ...steps]: Fields[]): Generator<Fields> {
  yield head!;
  const machine = new ClientMachine(askOf(head!["ask"]));
  for (const { event } of steps) {
    const actions = handled(machine, eventOf(event));
    const { state, taken, bookmark } = machine;
    yield { event, actions, state, holds: taken.holding, ...reported({ bookmark }) };
  }
}

test("there are sequences", () => assert.ok(files.length > 50));

for (const file of files) {
  test(`the lifecycle: ${file}`, () => {
    const lines = readFileSync(new URL(file, DIRECTORY), "utf8").trim().split("\n");
    const expected = lines.map((line) => JSON.parse(line) as Fields);
    assert.deepEqual([...played(expected)], expected);
  });
}

test("the table is the one of all clients", () => {
  const legal = Object.entries(ClientMachine.ROWS).map(([name, [marks]]) => [name, marks]);
  assert.deepEqual(Object.fromEntries(legal), TABLE["legal"]);
});

for (const [row, marks] of Object.entries(TABLE["legal"] as Record<string, string>)) {
  for (const [number, state] of Object.keys(TABLE["states"]).entries()) {
    test(`the event ${row} while it is ${state}`, () => {
      const machine = new ClientMachine(askOf(TABLE["ask"]));
      for (const line of TABLE["states"][state]) machine.handle(eventOf(line));
      assert.equal(machine.state, state);
      const actions = handled(machine, eventOf(TABLE["events"][row])) as Fields[];
      const isRefused = actions.some((action) => action["raises"] !== undefined || action["over"] === "bad message");
      const mark = marks[number];
      // Where no replacement was sent, an answer to one is refused, too.
      assert.equal(isRefused, mark === "." || (mark === "+" && row === "replaced"));
      if (mark === "-") assert.deepEqual([actions, machine.state], [[], state]);
    });
  }
}
