/** The cases that any client can be held to. `tests/conformance/client_cases.py` describes the lines of their files. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { parse, stringify } from "../src/exact.js";
import { connect, SowlineError, type Client, type Integers, type View } from "../src/index.js";
import { FakeService, turns, type Fields, type FakeSocket } from "./fakeSocket.js";

const DIRECTORY = new URL("../../../../tests/conformance/client/", import.meta.url);
const files = readdirSync(DIRECTORY).filter((name) => name.endsWith(".jsonl"));

/** Plays a case, and returns the lines as this client has them. */
class Player {
  #client!: Client;
  #socket!: FakeSocket;
  #view!: View;
  #changes: unknown[] = [];
  readonly #service = new FakeService();
  readonly #outcomes: Fields = {};

  async play(lines: readonly Fields[], integers: Integers): Promise<unknown[]> {
    this.#client = connect("http://service", this.#service.options({ integers }));
    this.#socket = await this.#service.accept();
    const played: unknown[] = [];
    for (const line of lines) played.push(await this.#play(line));
    this.#client.close();
    return played;
  }

  async #play(line: Fields): Promise<Fields> {
    const [name, given] = Object.entries(line)[0] as [string, any];
    switch (name) {
      case "view":
        this.#open(given as Fields);
        return line;
      case "replace":
        this.#start("replaced", this.#view.replace(reading(given as Fields)));
        return line;
      case "prove":
        this.#start("proven", this.#view.prove());
        return line;
      case "lost":
        this.#socket.lose();
        this.#socket = await this.#service.accept();
        return line;
      case "frame":
        return this.#frame(given);
      case "sent":
        return { sent: partsOf(await this.#socket.next(), given as Fields) };
      case "shows":
        return { shows: [...this.#view.entries()], bookmark: this.#view.bookmark };
      case "error":
        return { error: this.#view.error?.reason };
      case "replaced":
      case "proven":
        return { [name]: this.#outcomes[name] };
      default:
        return line;
    }
  }

  #open({ topic, ...given }: Fields): void {
    this.#view = this.#client.view(topic as string, reading(given));
    this.#view.onChange(({ changes }) => {
      for (const change of changes) {
        if (change.type === "insert") this.#changes.push(["insert", change.key, change.record]);
        else if (change.type === "update") this.#changes.push(["update", change.key, change.record, change.before]);
        else this.#changes.push(["remove", change.key, change.before, change.reason]);
      }
    });
  }

  async #frame(frame: unknown): Promise<Fields> {
    this.#changes = [];
    this.#socket.giveText(stringify(frame)!);
    await turns();
    return this.#changes.length === 0 ? { frame } : { frame, changes: this.#changes };
  }

  #start(name: string, outcome: Promise<unknown>): void {
    outcome.then(
      (value) => (this.#outcomes[name] = value ?? true),
      (error: SowlineError) => (this.#outcomes[name] = error.reason),
    );
  }
}

/** Return the fields of a command as the arguments of a view. */
function reading(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), value]),
  );
}

/** Return the fields of a command that a line names; the options may be in another order. */
function partsOf(command: Fields, expected: Fields): Fields {
  const sorted = (options: unknown): string => String(options).split(",").sort().join();
  return Object.fromEntries(
    Object.entries(expected).map(([name, value]) => {
      const own = command[name] === "" ? null : (command[name] ?? null);
      return [name, name === "options" && sorted(own) === sorted(value) ? value : own];
    }),
  );
}

test("there are cases", () => assert.ok(files.length > 20));

for (const file of files) {
  const text = readFileSync(new URL(file, DIRECTORY), "utf8").trim().split("\n");
  test(`${file}: integers are exact`, async () => {
    const lines = text.map((line) => parse(line) as Fields);
    assert.deepEqual(await new Player().play(lines, "bigint"), lines);
  });
  if (file === "integers.jsonl") continue;
  test(`${file}: in the default mode`, async () => {
    const lines = text.map((line) => JSON.parse(line) as Fields);
    assert.deepEqual(await new Player().play(lines, "number"), lines);
  });
}
