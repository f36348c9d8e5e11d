// Views of the TypeScript client for a test in another language: commands in, answers out, a line of JSON each.
//
// The argument is the directory of the package. Each command has an `id`, which its answer repeats, and what to `do`.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const directory = `${process.argv[2]}/`;
const load = (module) => import(new URL(module, pathToFileURL(directory)));
const { connect, SowlineError } = await load("dist/index.js");
const { parse, stringify } = await load("dist/exact.js");
const { WebSocket } = createRequire(pathToFileURL(directory))("ws");

let isAway = false;
let resets = 0;
const sockets = new Set();

// A connection that the test can lose; while the client is away, there is none.
class Line extends WebSocket {
  constructor(url) {
    super(url);
    sockets.add(this);
    this.on("message", (data) => (resets += String(data).includes('"reset":true') ? 1 : 0));
    this.on("close", () => sockets.delete(this));
    if (isAway) this.terminate();
  }
}

// A view, and what its patches alone lead to.
class Followed {
  constructor(client, topic, reading) {
    this.view = client.view(topic, reading);
    this.records = new Map(reading.records ?? []);
    this.view.onChange(({ changes }) => changes.forEach((change) => this.follow(change)));
  }

  follow({ type, key, record, before }) {
    if ((type === "insert") === this.records.has(key)) throw new Error(`${type} of ${key}`);
    if (type !== "insert" && before !== this.records.get(key) && !isSame(before, this.records.get(key))) {
      throw new Error(`${type} of ${key}: another record was before`);
    }
    if (type === "remove") this.records.delete(key);
    else this.records.set(key, record);
  }

  state() {
    const { view, records } = this;
    const rows = view.snapshot();
    if (rows !== view.snapshot()) throw new Error("a snapshot without a change is another one");
    if (rows.length !== records.size || rows.some(({ key, record }) => records.get(key) !== record && !isSame(record, records.get(key)))) {
      throw new Error("the patches lead to something else than the view shows");
    }
    const { bookmark, status, error } = view;
    return { records: rows.map(({ key, record }) => [key, record]), bookmark, status, error: error?.reason ?? null };
  }
}

const isSame = (one, other) => stringify(one) === stringify(other);

let client;
const views = new Map();

const commands = {
  async connect({ url }) {
    client = connect(url, { WebSocket: Line, integers: "bigint" });
    await client.opened;
  },
  async open({ view, topic, reading }) {
    views.set(view, new Followed(client, topic, reading));
    await views.get(view).view.ready;
  },
  async reopen({ view, topic, reading }) {
    const { bookmark, records } = views.get(view).view.saved();
    views.get(view).view.close();
    await commands.open({ view, topic, reading: { ...reading, bookmark, records } });
  },
  replace: ({ view, changes }) => views.get(view).view.replace(changes),
  prove: ({ view }) => views.get(view).view.prove(),
  state: ({ view }) => views.get(view).state(),
  lose: () => sockets.forEach((socket) => socket.terminate()),
  leave() {
    isAway = true;
    commands.lose();
  },
  comeBack: () => void (isAway = false),
  resets: () => resets,
};

async function answer({ id, do: name, ...given }) {
  let line;
  try {
    line = { id, value: (await commands[name](given)) ?? null };
  } catch (error) {
    line = { id, reason: error instanceof SowlineError ? error.reason : String(error.stack) };
  }
  process.stdout.write(`${stringify(line)}\n`);
}

console.error = (...given) => {
  process.stderr.write(`${given.map((one) => one?.stack ?? one).join(" ")}\n`);
  process.exitCode = 1;
};

for await (const line of createInterface({ input: process.stdin })) void answer(parse(line));
client?.close();
