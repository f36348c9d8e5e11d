/** The WebSocket of a client. It reconnects whenever it is lost, and logs on again before its token expires. */

import { codecOf, FAST, type Codec, type Integers } from "./codec.js";
import { Deferred } from "./deferred.js";
import { Emitter } from "./emitter.js";
import { SowlineError } from "./errors.js";
import type { Ack, ServerMessage } from "./frames.js";
import { errorOf, readFrame, type Command } from "./message.js";

const BACK_OFF_MS = [50, 100, 200, 500, 1000, 2000, 5000];
const ATTEMPT_MS_MAX = 10_000;
/** A connection that ends sooner does not reset the pauses between attempts. */
const SETTLED_MS = 1000;
const REPEAT_MS = 200;
const CHECK_MS = 5000;
/** Silence after which the client asks for a sign of life; the connection ends if none comes within two checks. */
const SILENCE_MS_MAX = 20_000;
const CHECKS_MAX = 2;
/** Refusals of a renewed token after which a client that reconnects gives up. */
const REFUSALS_MAX = 6;
const RENEW_AT = 0.75;
const RENEW_MS_MIN = 1000;
const TIMER_MS_MAX = 2 ** 31 - 1;

const LOGON = "logon";
const ALIVE = "alive";

const ORIGIN_REFUSED = "origin refused";
/** Close codes of a refused handshake that another attempt would get, too. */
const REFUSED: Readonly<Record<number, string>> = { 4401: "auth failure", 4403: ORIGIN_REFUSED };
/** Refusals of a logon that pass. */
const PASSING = ["busy", "auth unavailable", "not ready"];

export type ConnectionStatus = "connecting" | "open" | "reconnecting" | "closed";

/** The part of the standard's WebSocket that the client uses. */
export interface Socket {
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(text: string): void;
  close(): void;
}

export interface ConnectOptions {
  /** A token of a service with an access file. */
  token?: string;
  /** Returns a token: called for each connection, and to renew a token before it ends. */
  getToken?: () => string | Promise<string>;
  /** What integers beyond 2^53 become; `number` if not given. */
  integers?: Integers;
  /** Seconds until the first connection is given up; 30 if not given. */
  connectSeconds?: number;
  /** The implementation, where there is no global one, as in Node 20. */
  WebSocket?: new (url: string) => Socket;
}

/** The user of this client, as the service has it. */
export interface Login {
  /** Equal names, equal rights. */
  readonly rights: string | undefined;
  readonly user: string | undefined;
  readonly roles: readonly string[];
  /** The version of the service. */
  readonly version: string | undefined;
}

/** What a connection carries: it takes the messages, and provides the requests for a new connection. */
export interface Carried {
  receive(frame: ServerMessage): void;
  /** All messages that came together were given to `receive`. */
  deliver(): void;
  /** There is a new connection, of which nobody knows yet; if `isVoid`, what subscribers hold is no longer valid. */
  resume(isVoid: boolean): void;
  /** The connection is lost; another one will be made. */
  lost(): void;
  /** There will be no connection any more. */
  fail(error: SowlineError): void;
}

export class Connection {
  status: ConnectionStatus = "connecting";
  /** Why there will be no connection any more. */
  error: SowlineError | undefined;
  readonly opened = new Deferred();
  codec: Codec = FAST;
  /** When the next attempt to connect begins; undefined while none is due. */
  retryAt: Date | undefined;
  /** What the service said when it closed the last connection; undefined if that was simply lost, or while one is open. */
  closeReason: string | undefined;
  login: Login = { rights: undefined, user: undefined, roles: [], version: undefined };
  readonly #statuses = new Emitter<ConnectionStatus>();
  readonly #url: string;
  readonly #options: ConnectOptions;
  readonly #carried: Carried;
  readonly #deadline: number;
  #socket: Socket | undefined;
  #attempts = 0;
  #refusals = 0;
  #token: string | undefined;
  #openedAt: number | undefined;
  /** When the last message came, in ms since 1970; 0 if none has. */
  heardAt = 0;
  #checks = 0;
  #timers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(url: string, options: ConnectOptions, carried: Carried) {
    this.#url = webSocketUrl(url);
    this.#options = options;
    this.#carried = carried;
    this.#deadline = Date.now() + (options.connectSeconds ?? 30) * 1000;
    void this.#connect();
  }

  // what the client calls

  get isOpen(): boolean {
    return this.status === "open";
  }

  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    return this.#statuses.add(listener);
  }

  /**
   * Send a command, if the connection is open. If it is lost, the next one begins with the requests of all streams.
   */
  send(command: Command | undefined): void {
    if (this.isOpen && command !== undefined) this.#send(command);
  }

  /** Call something after the pause before a request is sent again. */
  later(call: () => void): void {
    setTimeout(call, REPEAT_MS);
  }

  /** Whether there may be another token when this one expires. */
  get renews(): boolean {
    return this.#options.getToken !== undefined;
  }

  /** Return the token, a new one if it must be fresh; undefined if the client has none. */
  async token(isFresh: boolean): Promise<string | undefined> {
    const { token, getToken } = this.#options;
    if (isFresh || this.#token === undefined) {
      let given = token;
      try {
        if (getToken !== undefined) given = await getToken();
      } catch (cause) {
        throw new SowlineError("auth unavailable", "getToken has failed", { cause });
      }
      // One that can't be used does not replace a token that is still valid.
      this.#token = given === undefined ? given : checkedToken(given);
    }
    return this.#token;
  }

  /** End the connection, and everything that it carries. */
  fail(error: SowlineError): void {
    if (this.error !== undefined) return;
    this.error = error;
    this.retryAt = undefined;
    this.#drop();
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.opened.reject(error);
    this.#carried.fail(error);
    this.#setStatus("closed");
    this.#statuses.clear();
  }

  // connecting

  async #connect(): Promise<void> {
    let token: string | undefined;
    let socket: Socket;
    try {
      this.codec = await codecOf(this.#options.integers ?? "number");
      token = await this.token(true);
      if (this.error !== undefined) return;
      socket = this.#newSocket();
    } catch (error) {
      const known = this.#notConnected(error);
      // A token that can't be had now may come later, but not to a caller that waits for the first connection.
      const mayPass = this.renews && this.#openedAt !== undefined;
      this.#retry(known, known.reason !== "not connected" && !mayPass);
      return;
    }
    this.#socket = socket;
    socket.onopen = () =>
      this.#send({ command: "logon", command_id: LOGON, ...(token === undefined ? {} : { token }) });
    socket.onmessage = ({ data }: { data: unknown }) => this.#receive(data);
    socket.onclose = ({ code, reason }: { code: number; reason: string }) => this.#lost(code, reason);
    socket.onerror = () => {}; // a close follows
    this.#after("attempt", ATTEMPT_MS_MAX, () => this.#lost());
  }

  #newSocket(): Socket {
    const Given = this.#options.WebSocket ?? (globalThis.WebSocket as (new (url: string) => Socket) | undefined);
    if (Given !== undefined) return new Given(this.#url);
    throw new SowlineError("not supported", "expected a global WebSocket, or the option WebSocket; got none");
  }

  #notConnected(cause: unknown): SowlineError {
    if (cause instanceof SowlineError) return cause;
    return new SowlineError("not connected", `expected a query service at ${this.#url}: ${String(cause)}`, { cause });
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket === undefined) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #lost(code = 0, text = ""): void {
    this.#drop();
    for (const name of ["attempt", "check", "renewal"]) this.#clear(name);
    if (this.isOpen) {
      if (Date.now() - this.#openedAt! >= SETTLED_MS) this.#attempts = 0;
      this.closeReason = text || undefined;
      this.#carried.lost();
      this.#setStatus("reconnecting");
    }
    const reason = REFUSED[code];
    if (reason === undefined) {
      this.#retry(this.#notConnected(text || `the connection was closed with code ${code}`));
    } else {
      this.#refused(new SowlineError(reason, text.slice(text.indexOf(":") + 1).trim()));
    }
  }

  /** A newer token may be accepted, so a client that gets its tokens from a function tries a few times more. */
  #refused(refusal: SowlineError): void {
    this.#refusals++;
    const isLast = this.#openedAt === undefined || !this.renews || refusal.reason === ORIGIN_REFUSED;
    this.#retry(refusal, isLast || this.#refusals >= REFUSALS_MAX);
  }

  /** Connect again after a pause, or give up. The pauses differ, so that not all clients come at once. */
  #retry(error: SowlineError, isLast = false): void {
    if (this.error !== undefined) return; // closed while it waited for a token
    if (isLast || (this.#openedAt === undefined && Date.now() >= this.#deadline)) {
      this.fail(error);
      return;
    }
    const pause = BACK_OFF_MS[Math.min(this.#attempts++, BACK_OFF_MS.length - 1)]! * (0.5 + Math.random());
    this.retryAt = new Date(Date.now() + pause);
    this.#after("retry", pause, () => {
      this.retryAt = undefined;
      void this.#connect();
    });
  }

  #loggedOn(ack: Ack): void {
    if (ack.status === "failure") {
      const error = errorOf(ack)!;
      if (this.isOpen || PASSING.includes(error.reason)) {
        this.#lost();
      } else {
        this.#drop();
        this.#clear("attempt");
        this.#refused(error);
      }
      return;
    }
    if (ack.ack_type !== "processed") return;
    const before = this.login.rights;
    this.login = { rights: ack.rights, user: ack.user, roles: ack.roles ?? [], version: ack.version };
    if (ack.expires_in !== undefined && this.renews) {
      const left = ack.expires_in * 1000;
      this.#after("renewal", Math.max(left * RENEW_AT, Math.min(left, RENEW_MS_MIN)), () => void this.#renew());
    }
    if (!this.isOpen) this.#open(before !== undefined && before !== ack.rights);
  }

  #open(isVoid: boolean): void {
    this.#clear("attempt");
    this.#openedAt = Date.now();
    this.#refusals = 0;
    this.status = "open";
    this.closeReason = undefined;
    this.#carried.resume(isVoid);
    this.#check();
    this.opened.resolve();
    this.#setStatus("open");
  }

  /** Log on again over the same connection with a fresh token; a new connection does so by itself. */
  async #renew(): Promise<void> {
    const socket = this.#socket;
    try {
      const token = await this.token(true);
      if (socket === this.#socket) this.send({ command: "logon", command_id: LOGON, token });
    } catch {
      // The connection ends with the old token, and the next one asks for a token again.
    }
  }

  // reading and sending

  #send(command: Command): void {
    this.#socket?.send(this.codec.stringify(command));
  }

  #receive(data: unknown): void {
    this.heardAt = Date.now();
    this.#checks = 0;
    let frames: ServerMessage[];
    try {
      frames = readFrame(this.codec.parse(String(data)));
    } catch (error) {
      const isOurs = error instanceof SowlineError;
      this.fail(
        isOurs ? error : new SowlineError("bad message", `expected JSON: ${String(error)}`, { cause: error }),
      );
      return;
    }
    const socket = this.#socket;
    for (const frame of frames) {
      if (frame.command === "ack" && frame.command_id === LOGON) this.#loggedOn(frame);
      else if (socket === this.#socket) this.#carried.receive(frame);
    }
    this.#carried.deliver();
  }

  /** Look for a connection that is silent: a browser does not report that its other end is gone. */
  #check(): void {
    this.#after("check", CHECK_MS, () => {
      // The clock may jump, also back.
      if (Math.abs(Date.now() - this.heardAt) < SILENCE_MS_MAX) {
        this.#check();
      } else if (this.#checks < CHECKS_MAX) {
        this.#checks++;
        this.send({ command: "heartbeat", command_id: ALIVE });
        this.#check();
      } else {
        this.#lost();
      }
    });
  }

  #setStatus(status: ConnectionStatus): void {
    this.status = status;
    this.#statuses.emit(status);
  }

  #after(name: string, ms: number, call: () => void): void {
    this.#clear(name);
    this.#timers.set(name, setTimeout(call, Math.min(ms, TIMER_MS_MAX)));
  }

  #clear(name: string): void {
    clearTimeout(this.#timers.get(name));
  }
}

/** Return the token, stripped; throws `bad request` (without the token) if a header can't contain it. */
function checkedToken(token: string): string {
  const stripped = token.trim();
  if (/^[\x20-\x7e]+$/.test(stripped)) return stripped;
  throw new SowlineError("bad request", "expected a token of printable ASCII characters");
}

function webSocketUrl(url: string): string {
  const found = /^(http|ws)(s?):\/\/([^?#]+?)\/*$/.exec(url);
  if (found !== null) return `ws${found[2]}://${found[3]}/v1`;
  throw new SowlineError("bad request", `expected a URL such as http://127.0.0.1:8080, got ${url}`);
}
