/**
 * Bookmarks: a position for each partition of each log, as text such as `orders:0@1187,1@1203.2;trades:0@5`.
 *
 * Positions stay texts, because offsets may exceed the integers of a number. They are replaced and compared, never
 * computed with.
 */

import { SowlineError } from "./errors.js";

/** The position for each partition, which is named `log:partition`. */
export type Positions = Map<string, string>;

/** Where a subscription begins, as a caller gives it. */
export type Bookmark = string | Date | readonly (string | Date)[];

const TIME = String.raw`\d{8}T\d{6}(?:\.\d{1,6})?Z?`;
const NO_RETURN = new RegExp(String.raw`^(?:now|0\|1\||${TIME})?$`, "i");
const EPOCH = /^\s*(?:epoch|0)\s*$/i;
// A bookmark ends with a digit. Names of logs, which come before an @, may contain the dots of a range.
const POINT = String.raw`\s*(epoch|now|0(?:\|1\|)?|${TIME}|[^@]+@.*?\d)\s*`;
const RANGE = new RegExp(String.raw`^[[(]${POINT}\.\.${POINT}([\])])$`, "is");
const POSITION = /^(?:\d{1,10}\/)?(?:-1|\d{1,19})(?:\.\d{1,10})?$/;
const PARTITION = /^\d{1,6}$/;

/** Return a time as a bookmark. */
export const formatTime = (time: Date): string => time.toISOString().replaceAll(/[-:]/g, "");

/** Return a start in its wire format: times as text, a list as a JSON array. */
export function bookmarkText(given: Bookmark): string {
  if (typeof given === "string") return given;
  if (given instanceof Date) return formatTime(given);
  return JSON.stringify(given.map(bookmarkText));
}

/**
 * Add the positions of a bookmark to `positions`; those of a partition that it names are replaced. Return whether it is
 * nothing but a new position of one partition.
 */
export function layOver(positions: Positions, bookmark: string): boolean {
  // Each change has a bookmark: nearly always a single position of a known partition.
  const at = bookmark.indexOf("@");
  const name = bookmark.slice(0, at);
  const position = bookmark.slice(at + 1);
  const isMove = positions.has(name) && POSITION.test(position);
  if (isMove) positions.set(name, position);
  else layOverAll(positions, bookmark);
  return isMove;
}

function layOverAll(positions: Positions, bookmark: string): void {
  if (EPOCH.test(bookmark)) return;
  for (const section of bookmark.split(";")) {
    const colon = section.lastIndexOf(":");
    if (colon < 0) throw invalid(bookmark);
    for (const part of section.slice(colon + 1).split(",")) {
      const at = part.indexOf("@");
      const [partition, position] = [part.slice(0, at), part.slice(at + 1)];
      if (at < 0 || !PARTITION.test(partition) || !POSITION.test(position)) throw invalid(bookmark);
      positions.set(`${section.slice(0, colon)}:${Number(partition)}`, position);
    }
  }
}

/** Return the bookmark for positions, partitions in order; `epoch` if there are none. */
export function formatBookmark(positions: Positions): string {
  const logs = new Map<string, string[]>();
  for (const [name, position] of positions) {
    const after = name.lastIndexOf(":") + 1;
    const log = name.slice(0, after);
    const parts = logs.get(log) ?? [];
    logs.set(log, parts);
    parts.push(`${name.slice(after)}@${position}`);
  }
  const sorted = (parts: string[]): string[] => parts.sort((one, other) => parseInt(one) - parseInt(other));
  return [...logs].map(([log, parts]) => log + sorted(parts).join()).join(";") || "epoch";
}

/** The parts of a range such as `[a..b)`. */
export interface Range {
  readonly start: string;
  readonly end: string;
  readonly takesEnd: boolean;
}

/** Return the parts of a range; undefined if the text is not a range. */
export function splitRange(text: string): Range | undefined {
  const found = RANGE.exec(text.trim());
  return found === null ? undefined : { end: found[2]!, start: found[1]!, takesEnd: found[3] === "]" };
}

/** Return a range that continues after the bookmark `start` and ends where the range `given` ends. */
export const rangeText = (start: string, given: Range): string =>
  `(${start}..${given.end}${given.takesEnd ? "]" : ")"}`;

/** Whether a start is a bookmark or `epoch`, so that the caller holds the records there and gets no group. */
export function isReturn(bookmark: string): boolean {
  const text = bookmark.trim();
  const starts = /^\[.*"/s.test(text) ? (JSON.parse(text) as string[]) : [splitRange(text)?.start ?? text];
  return starts.length > 1 || !NO_RETURN.test(starts[0]!.trim());
}

const invalid = (text: string): SowlineError =>
  new SowlineError("invalid bookmark", `expected a bookmark like orders:0@1187,1@1203, got ${text.slice(0, 200)}`);
