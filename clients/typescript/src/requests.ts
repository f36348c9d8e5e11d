/** Requests with one answer each: writes, and reads of single things. It is loaded at the first of them. */

import { Ask, type Fresh, type Reading } from "./ask.js";
import { bookmarkText, type Bookmark } from "./bookmark.js";
import { Calls } from "./calls.js";
import type { Connection } from "./connection.js";
import type { AccessPath, Explain, TimelineWrite } from "./frames.js";
import { HttpApi, pathStep } from "./http.js";
import type { JsonObject } from "./json.js";
import type { Command } from "./message.js";
import { Writing } from "./writing.js";

/** Which writes a timeline lists: where they begin and end, how many, and in which order. */
export interface TimelineReading extends Fresh {
  bookmark?: Bookmark;
  upTo?: string | Date;
  limit?: number;
  /** Whether the newest comes first; `true` if not given. */
  reversed?: boolean;
}

/** The writes to one record. From `since` on, it has every write. */
export interface Timeline {
  readonly sowKey: string | undefined;
  readonly bookmark: string;
  readonly since: string | undefined;
  readonly writes: readonly TimelineWrite[];
}

/** The access path of a query, in each topic. */
export interface Explanation {
  readonly bookmark: string;
  readonly accessPaths: readonly AccessPath[];
}

export class Requests extends Writing {
  readonly http: HttpApi;
  readonly #connection: Connection;

  constructor(url: string, connection: Connection) {
    super(new Calls(connection));
    this.#connection = connection;
    this.http = new HttpApi(url, connection);
  }

  async explain(topic: string, reading?: Reading): Promise<Explanation> {
    const { batch_size, up_to, ...request } = new Ask("sow", topic, reading).request("");
    const [answer] = await this.calls.call({ ...request, command: "explain" }, ["completed"]);
    const explained = answer as Explain;
    return { bookmark: explained.bookmark, accessPaths: explained.access_paths };
  }

  async timeline(topic: string, key: string, reading: TimelineReading = {}): Promise<Timeline> {
    const { bookmark = "", upTo = "", limit, reversed, atLeast, maxStaleness } = reading;
    const command: Command = {
      command: "timeline",
      topic,
      key,
      limit,
      reversed,
      bookmark: bookmarkText(bookmark),
      up_to: bookmarkText(upTo),
      at_least: atLeast,
      max_staleness: maxStaleness,
      batch_size: 100,
    };
    const present = (write: TimelineWrite): TimelineWrite =>
      this.#connection.codec.present(write as unknown as JsonObject) as unknown as TimelineWrite;
    let [sowKey, since, at]: (string | undefined)[] = [];
    const writes: TimelineWrite[] = [];
    for (const frame of await this.calls.call(command, ["completed"])) {
      if (frame.command === "timeline") {
        sowKey = frame.sow_key;
        writes.push(...frame.writes.map(present));
      } else if (frame.command === "group_end") {
        [at, since] = [frame.bookmark, frame.since];
      }
    }
    return { sowKey, bookmark: at!, since, writes };
  }

  record(topic: string, key: string, { atLeast, maxStaleness }: Fresh = {}): Promise<unknown> {
    const path = `topics/${pathStep(topic)}/records/${pathStep(key)}`;
    return this.#get(path, { at_least: atLeast, max_staleness: maxStaleness });
  }

  topics(): Promise<JsonObject> {
    return this.#get("topics");
  }

  /** Return the JSON that answers a GET request. */
  async #get(path: string, parameters: Readonly<Record<string, string | undefined>> = {}): Promise<JsonObject> {
    const given = Object.entries(parameters).filter((entry): entry is [string, string] => Boolean(entry[1]));
    const response = await this.http.fetch(`${path}?${new URLSearchParams(given)}`);
    const { codec } = this.#connection;
    return codec.present(codec.parse(await response.text()) as JsonObject);
  }
}
