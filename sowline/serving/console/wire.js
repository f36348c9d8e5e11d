// One WebSocket connection to the query service, which reconnects automatically; and its HTTP API.

const WAIT_MS_MIN = 250;
const WAIT_MS_MAX = 5000;
const LOGON = 1008;

const base = new URL("../", document.baseURI);

export class Refusal extends Error {
  constructor({ reason, message, status }) {
    super(message);
    this.reason = reason;
    this.status = status;
  }

  // The column of the mistake in a text, counted from 1; undefined if the message names none.
  get column() {
    const found = /at column (\d+)/.exec(this.message);
    return found ? Number(found[1]) : undefined;
  }
}

export const token = {
  get: () => sessionStorage.getItem("sowline.token") ?? "",
  set: (text) => (text ? sessionStorage.setItem("sowline.token", text) : sessionStorage.removeItem("sowline.token")),
};

// Sends an HTTP request; raises a Refusal unless the answer is a success.
export async function ask(path, { method = "GET", body, type, signal } = {}) {
  const headers = {};
  const used = token.get();
  if (used) headers.Authorization = `Bearer ${used}`;
  if (type) headers["Content-Type"] = type;
  let answer;
  try {
    answer = await fetch(new URL(path, base), { method, body, headers, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ reason: "not connected", message: "the query service does not answer" });
  }
  const text = await answer.text();
  if (answer.ok) return text;
  let problem;
  try {
    problem = JSON.parse(text);
  } catch {
    problem = { reason: "not connected", message: `${answer.status} ${answer.statusText}` };
  }
  if (answer.status === 401 && used === token.get()) dispatchEvent(new CustomEvent("token-wanted", { detail: problem.message }));
  throw new Refusal({ ...problem, status: answer.status });
}

export const askJson = async (path, more) => JSON.parse(await ask(path, more));

export const topicPath = (topic, rest) => `v1/topics/${topic.split("/").map(encodeURIComponent).join("/")}/${rest}`;

// Integers that a double can't hold stay texts: a grid that can't add a number is better than one that shows a wrong one.
const LONG = /[:[,]\s*-?\d{16}/;
const exact = (key, value, { source } = {}) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && source ? source : value;
export const parse = (text) => (LONG.test(text) ? JSON.parse(text, exact) : JSON.parse(text));

export class Wire extends EventTarget {
  #socket;
  #handlers = new Map();
  #number = 0;
  #waitMs = WAIT_MS_MIN;
  #timer;
  state = "connecting";
  why = "";

  connect() {
    clearTimeout(this.#timer);
    this.#become("connecting");
    const address = new URL("v1", base);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = (this.#socket = new WebSocket(address));
    socket.addEventListener("open", () => socket === this.#socket && this.#opened(socket));
    socket.addEventListener("message", ({ data }) => socket === this.#socket && this.#take(data));
    socket.addEventListener("close", ({ code, reason }) => this.#closed(socket, code, reason));
  }

  // Closes the connection as if it were lost; it reconnects.
  drop() {
    this.#socket?.close();
  }

  // Reconnects with another token.
  reconnect() {
    this.#waitMs = WAIT_MS_MIN;
    const before = this.#socket;
    this.connect();
    before?.close();
  }

  #opened(socket) {
    if (token.get()) {
      const id = this.name("logon");
      this.#handlers.set(id, (message) => {
        this.#handlers.delete(id);
        if (message.status === "success") this.#ready();
        else this.#refused(message);
      });
      socket.send(JSON.stringify({ command: "logon", command_id: id, token: token.get(), ack_type: "processed" }));
    } else {
      this.#ready();
    }
  }

  #ready() {
    this.#waitMs = WAIT_MS_MIN;
    this.#become("open");
  }

  // Does not reconnect until the user gives another token.
  #refused({ message }) {
    this.why = message;
    this.#lock();
    this.#socket.close();
  }

  #lock() {
    this.#become("locked");
    dispatchEvent(new CustomEvent("token-wanted", { detail: this.why }));
  }

  #closed(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    this.why ||= reason || "the connection was lost";
    for (const [id, handler] of [...this.#handlers]) {
      if (handler.once) {
        this.#handlers.delete(id);
        handler({ command: "ack", status: "failure", reason: "disconnected", message: this.why });
      }
    }
    if (this.state === "locked") return;
    if (code === LOGON && reason.startsWith("logon")) {
      this.#lock();
      return;
    }
    this.#become("waiting");
    const wait = this.#waitMs * (0.75 + Math.random() / 2);
    this.#waitMs = Math.min(WAIT_MS_MAX, this.#waitMs * 2);
    this.#timer = setTimeout(() => this.connect(), wait);
  }

  #become(state) {
    if (state === "open") this.why = "";
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  name(kind) {
    this.#number += 1;
    return `${kind}-${this.#number}`;
  }

  // Sends every message about this id to the handler, until `forget`.
  listen(id, handler) {
    this.#handlers.set(id, handler);
  }

  forget(id) {
    this.#handlers.delete(id);
  }

  send(message) {
    if (this.state === "open") this.#socket.send(JSON.stringify(message));
  }

  // Sends one command and returns its acknowledgements by type; raises a Refusal. `data` is the text of a body: it goes
  // out as it was written, so that its numbers keep their digits.
  command(fields, ackTypes = ["processed"], data = undefined) {
    if (this.state !== "open") {
      return Promise.reject(new Refusal({ reason: "not connected", message: "not connected to the query service; wait until it reconnects" }));
    }
    const id = this.name(fields.command);
    return new Promise((resolve, reject) => {
      const acks = {};
      const handler = (message) => {
        if (message.command !== "ack") return;
        if (message.status !== "success") {
          this.forget(id);
          reject(new Refusal(message));
          return;
        }
        acks[message.ack_type] = message;
        if (ackTypes.every((type) => acks[type])) {
          this.forget(id);
          resolve(acks);
        }
      };
      handler.once = true;
      this.listen(id, handler);
      const text = JSON.stringify({ ...fields, command_id: id, ack_type: ackTypes.join(",") });
      this.#socket.send(data === undefined ? text : `${text.slice(0, -1)},"data":${data}}`);
    });
  }

  #take(text) {
    const received = parse(text);
    for (const message of Array.isArray(received) ? received : [received]) {
      if (message.reason === "logon required") {
        this.#refused(message);
        return;
      }
      if (message.sids) {
        for (const id of message.sids) this.#handlers.get(id)?.(message);
      } else {
        const id = message.query_id ?? message.command_id ?? message.sub_id;
        if (id) this.#handlers.get(id)?.(message);
      }
    }
  }
}
