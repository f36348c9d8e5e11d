// Views and subscriptions of the TypeScript client for a test in another language, in Node and in pages.
//
// A command is a line of JSON: its `id`, which the answer repeats, what to `do`, and what that needs.

/** Load the package from the URL of its modules; return the function that answers a command. */
export async function drive(modules, WebSocket) {
  const load = (module) => import(new URL(module, modules));
  const { connect, SowlineError } = await load("index.js");
  const { parse, stringify } = await load("exact.js");

  let isAway = false;
  let groups = 0;
  let resets = 0;
  let attempts = 0;
  let tokensAsked = 0;
  const complaints = [];
  const sockets = new Set();

  console.error = (...given) => complaints.push(given.map((one) => one?.stack ?? String(one)).join(" "));
  globalThis.addEventListener?.("error", ({ message }) => complaints.push(message));
  globalThis.addEventListener?.("unhandledrejection", ({ reason }) => complaints.push(String(reason)));

  // A connection that the test can lose; while the client is away, there is none.
  class Line extends WebSocket {
    constructor(url) {
      super(url);
      attempts++;
      sockets.add(this);
      this.addEventListener("message", ({ data }) => {
        groups += String(data).includes('"group_begin"') ? 1 : 0;
        resets += String(data).includes('"reset":true') ? 1 : 0;
      });
      this.addEventListener("close", () => sockets.delete(this));
      if (isAway) this.close();
    }

    lose() {
      const lost = this.onclose;
      this.close();
      lost?.({ code: 1006, reason: "" });
    }
  }

  // A view, and what its patches alone lead to.
  class Followed {
    constructor(client, topic, reading) {
      this.view = client.view(topic, reading);
      this.records = new Map(reading.records ?? []);
      this.statuses = [];
      this.view.onStatus((status) => this.statuses.push(status));
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
      if (
        rows.length !== records.size ||
        rows.some(({ key, record }) => records.get(key) !== record && !isSame(record, records.get(key)))
      ) {
        throw new Error("the patches lead to something else than the view shows");
      }
      const { bookmark, status, error } = view;
      return {
        records: rows.map(({ key, record }) => [key, record]),
        bookmark,
        status,
        error: error?.reason ?? null,
        statuses: this.statuses,
      };
    }
  }

  const isSame = (one, other) => stringify(one) === stringify(other);

  let client;
  const views = new Map();
  const subscriptions = new Map();

  const commands = {
    // With `tokens`, the client gets one after the other, and the last one again and again.
    async connect({ url, token, tokens }) {
      const getToken = tokens && (() => tokens[Math.min(tokensAsked++, tokens.length - 1)]);
      client = connect(url, { WebSocket: Line, integers: "bigint", token, getToken });
      await client.opened;
    },
    about: () => ({
      status: client.status,
      error: client.error?.reason ?? null,
      attempts,
      tokensAsked,
      groups,
      resets,
    }),
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
    async subscribe({ subscription, topic }) {
      subscriptions.set(subscription, client.subscribe(topic));
      await subscriptions.get(subscription).started;
    },
    // The records of the next so many messages of a subscription that nothing else reads.
    async take({ subscription, count }) {
      const records = [];
      while (records.length < count) records.push((await subscriptions.get(subscription).next()).value.data);
      return records;
    },
    lose: () => sockets.forEach((socket) => socket.lose()),
    leave() {
      isAway = true;
      commands.lose();
    },
    comeBack: () => void (isAway = false),
    // Close everything; return what was reported as an error that nobody caught.
    end() {
      client?.close();
      return complaints;
    },
  };

  return async (command) => {
    const { id, do: name, ...given } = parse(command);
    try {
      return stringify({ id, value: (await commands[name](given)) ?? null });
    } catch (error) {
      const { reason, message } = error;
      return stringify({ id, ...(error instanceof SowlineError ? { reason, message } : { failure: String(error.stack) }) });
    }
  };
}
