// The departures: the flights that are late and those that are next, as two parts of one board that has as many rows as fit.
import { Board, isWaiting } from "./board.js";
import { many } from "./text.js";

const ROW = 33;
const ROWS_MIN = 8;
/** Of the rows, so many are for flights that are next, as long as there are enough late ones for the others. */
const NEXT = 5;
/** So many flights that have left the board are named. */
const LEFT_MAX = 3;

/** Divide the rows between late and next flights: each part has what the other one has no use for. */
export function shares(rows, late, next) {
  const forNext = Math.min(next, Math.max(NEXT, rows - late));
  return [Math.min(late, rows - forNext), forNext];
}

export class Departures {
  #root;
  #late;
  #next;
  /** What became of the late flights that left, the newest first. */
  #left = [];
  /** The keys of the flights that changed since they were drawn: a row that only comes into sight has not. */
  #changed = new Set();

  /** `root` has the table and, by their classes, its two parts, their counts, and what is said of flights that left; `airports` gives the name of an airport by its code. */
  constructor(root, airports) {
    this.#root = root;
    this.#late = new Board(this.#find(".late"), airports);
    this.#next = new Board(this.#find(".next"), airports);
  }

  /** Note which flights a step changes, and which late ones it removes. One that was diverted has landed, too. */
  take({ changes }) {
    for (const { type, key, record, before, reason } of changes) {
      if (type === "insert" || (type === "update" && (record.status !== before.status || record.dep_delay !== before.dep_delay))) this.#changed.add(key);
      if (type !== "remove" || before.status === "scheduled") continue;
      this.#left.unshift(`${before.carrier} ${before.flight} ${reason === "deleted" ? "cancelled" : "landed"}`);
    }
    this.#left.length = Math.min(this.#left.length, LEFT_MAX);
  }

  /** Draw rows of the view as of a simulated moment: the late flights that were due last, and then those that are due next. */
  draw(entries, moment, isLive) {
    const late = entries.filter(({ record }) => record.status !== "scheduled");
    const next = entries.filter(({ record }) => record.status === "scheduled");
    const isFirst = this.#find("table").hidden;
    this.#find("table").hidden = entries.length === 0;
    this.#find(".empty").hidden = entries.length > 0;
    const [lateRows, nextRows] = shares(this.#fit(), late.length, next.length);
    // At first, all are new.
    const changed = isFirst ? undefined : this.#changed;
    this.#late.show(late.slice(late.length - lateRows), moment, changed);
    this.#next.show(next.slice(0, nextRows), moment, changed);
    this.#changed.clear();
    const waiting = late.filter(({ record }) => isWaiting(record)).length;
    this.#write(".late-count", late.length ? `${many(late.length, "flight")}, ${waiting} of them still at the gate${late.length > lateRows ? `; the ${lateRows} due last:` : ""}` : "none");
    this.#write(".next-count", next.length ? `${many(next.length, "flight")}${next.length > nextRows ? `; the first ${nextRows}:` : ""}` : "none");
    this.#write(".left", this.#left.length ? `Last to leave the board: ${this.#left.join(", ")}` : "");
    if (isLive) this.#write(".empty", "No flight is due at this hour.");
  }

  /** Return how many rows have room, and let them fill it. */
  #fit() {
    const headings = [...this.#root.querySelectorAll("thead, .part")].reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);
    const height = this.#find(".rows").clientHeight - headings;
    const rows = Math.max(ROWS_MIN, Math.floor(height / ROW));
    this.#root.style.setProperty("--row", `${Math.max(ROW, height / rows).toFixed(2)}px`);
    return rows;
  }

  #find(selector) {
    return this.#root.querySelector(selector);
  }

  #write(selector, text) {
    const node = this.#find(selector);
    if (node.textContent !== text) node.textContent = text;
  }
}
