// The departures: the flights that are late, those that are next and, where rows are left, those that left the board last, as
// parts of one board that has as many rows as fit.
import { Board, canHaveLanded, isWaiting, lacksNews } from "./board.js";
import { many } from "./text.js";

const ROW = 33;
const ROWS_MIN = 8;
/** Of the rows, so many are for flights that are next, as long as there are enough late ones for the others. */
const NEXT = 5;
/** So many flights that have left the board are kept: at night they fill it. */
const LEFT_MAX = 40;
/** So many of them are named where no row is left for them. */
const NAMED_MAX = 3;

/** Divide the rows between late and next flights: each part has what the other one has no use for. */
export function shares(rows, late, next) {
  const forNext = Math.min(next, Math.max(NEXT, rows - late));
  return [Math.min(late, rows - forNext), forNext];
}

export class Departures {
  #root;
  #late;
  #next;
  #gone;
  /** The late flights that left, as what became of them, the newest first. */
  #left = [];
  /** Those of the moment that is shown. */
  #leftThen = [];
  /** The keys of the flights that changed since they were drawn: a row that only comes into sight has not. */
  #changed = new Set();

  /** `root` has the table and, by their classes, its two parts, their counts, and what is said of flights that left; `airports` gives the name of an airport by its code. */
  constructor(root, airports) {
    this.#root = root;
    this.#late = new Board(this.#find(".late"), airports);
    this.#next = new Board(this.#find(".next"), airports);
    this.#gone = new Board(this.#find(".gone"), airports);
  }

  /** Note which flights a step changes, and which late ones it removes. One that was diverted has landed, too. */
  take({ changes }) {
    for (const { type, key, record, before, reason } of changes) {
      if (type === "insert" || (type === "update" && (record.status !== before.status || record.dep_delay_min !== before.dep_delay_min))) this.#changed.add(key);
      if (type !== "remove" || before.status === "scheduled") continue;
      const gone = { key, record: { ...before, status: reason === "deleted" ? "cancelled" : "landed" } };
      this.#left = [gone, ...this.#left.filter((other) => other.key !== key)];
    }
    this.#left.length = Math.min(this.#left.length, LEFT_MAX);
  }

  /** Whether news of a flight is missing as of a simulated moment. */
  lacksNews(records, moment) {
    for (const record of records) if (lacksNews(record, moment)) return true;
    return false;
  }

  /**
   * Draw rows of the view as of a simulated moment: the late flights that were due last, and then those that are due next.
   * While the page is held at a moment, what has left the view since is not said.
   */
  draw(entries, moment, isLive, isHeld = false) {
    if (!isHeld) this.#leftThen = this.#left;
    const late = entries.filter(({ record }) => record.status !== "scheduled");
    const scheduled = entries.filter(({ record }) => record.status === "scheduled");
    // One whose time has passed without a word is not next.
    const next = scheduled.filter(({ record }) => !lacksNews(record, moment));
    const missing = scheduled.length - next.length;
    const shown = new Set(entries.map(({ key }) => key));
    const left = this.#leftThen.filter(({ key, record }) => !shown.has(key) && (record.status !== "landed" || canHaveLanded(record, moment)));
    const isFirst = this.#find("table").hidden;
    const isEmpty = entries.length + left.length === 0;
    this.#find("table").hidden = isEmpty;
    this.#find(".empty").hidden = !isEmpty;
    const rows = this.#fit();
    const [lateRows, nextRows] = shares(rows, late.length, next.length);
    // At first, all are new.
    const changed = isFirst || isHeld ? undefined : this.#changed;
    this.#late.show(late.slice(late.length - lateRows), moment, changed);
    this.#next.show(next.slice(0, nextRows), moment, changed);
    if (!isHeld) this.#changed.clear();
    const hasRoom = this.#fill(left, rows - lateRows - nextRows, moment);
    const waiting = late.filter(({ record }) => isWaiting(record)).length;
    this.#write(".late-count", late.length ? `${many(late.length, "flight")}, ${waiting} of them still at the gate${late.length > lateRows ? `; the ${lateRows} due last:` : ""}` : "none");
    const without = missing ? `; ${missing} more past their time, without news yet` : "";
    this.#write(".next-count", next.length ? `${many(next.length, "flight")}${without}${next.length > nextRows ? `; the first ${nextRows}:` : ""}` : `none${without}`);
    const named = left.slice(0, NAMED_MAX).map(({ record: { carrier, flight, status } }) => `${carrier} ${flight} ${status}`);
    this.#write(".left", hasRoom || !named.length ? "" : `Last to leave the board: ${named.join(", ")}`);
    if (isLive) this.#write(".empty", "No flight is due at this hour.");
  }

  /** Fill rows with flights that left, under a heading of their own. Return whether there is room for one. */
  #fill(left, rows, moment) {
    const heading = this.#find(".rest");
    heading.hidden = left.length === 0;
    const shown = left.slice(0, Math.max(0, Math.floor(rows - heading.offsetHeight / ROW)));
    heading.hidden = shown.length === 0;
    this.#gone.show(shown, moment);
    return shown.length > 0;
  }

  /** Return how many rows have room beside the parts that are always there, and let them fill it. */
  #fit() {
    const headings = [...this.#root.querySelectorAll("thead, .part:not(.rest)")].reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);
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
