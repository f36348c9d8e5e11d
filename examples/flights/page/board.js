// The departures board: a table row for each record, kept by its SOW key.
import { delayFill } from "./svg.js";
import { CARRIERS, day, face } from "./text.js";

export const LEAVE_MS = 700;

/** Where a flight is: one that is late is at the gate, one that departed late is in the air until it has landed. */
const STATUS = { scheduled: "scheduled", late: "at gate", "departed late": "in flight" };
/** A flight is late from so many minutes on; its delay is known when it departs. */
const LATE_MIN = 15;

export class Board {
  #body;
  #airports;
  /** By SOW key: the row and, while it leaves, the timer that removes it. */
  #rows = new Map();

  /** `airports` gives the name of an airport by its code, as far as it is known. */
  constructor(body, airports = () => undefined) {
    this.#body = body;
    this.#airports = airports;
  }

  /** Show these records, of keys and records, in this order; a row that has its place is not touched. */
  show(entries, today) {
    const wanted = new Map(entries.map(({ key, record }) => [key, record]));
    for (const [key, kept] of this.#rows) if (!wanted.has(key)) this.#leave(key, kept);
    let place = this.#body.firstElementChild;
    for (const [key, record] of wanted) {
      const kept = this.#rows.get(key) ?? this.#enter(key);
      this.#stay(kept);
      this.#fill(kept.row, record, today);
      while (place !== null && place !== kept.row && place.classList.contains("leaves")) place = place.nextElementSibling;
      if (place === kept.row) place = place.nextElementSibling;
      else this.#body.insertBefore(kept.row, place);
    }
  }

  #enter(key) {
    const row = document.createElement("tr");
    row.className = "enters";
    // A row that is moved later must not slide in again.
    row.addEventListener("animationend", () => row.classList.remove("enters"));
    for (let number = 0; number < 5; number += 1) row.append(document.createElement("td"));
    const kept = { row, timer: undefined };
    this.#rows.set(key, kept);
    return kept;
  }

  #leave(key, kept) {
    if (kept.timer !== undefined) return;
    kept.row.classList.add("leaves");
    kept.timer = setTimeout(() => {
      kept.row.remove();
      this.#rows.delete(key);
    }, LEAVE_MS);
  }

  /** A record that comes back while its row leaves keeps the row. */
  #stay(kept) {
    if (kept.timer === undefined) return;
    clearTimeout(kept.timer);
    kept.timer = undefined;
    kept.row.classList.remove("leaves");
  }

  #fill(row, record, today) {
    const [due, flight, route, status, delay] = row.children;
    const { carrier, origin, dest, time_hour: hour, dep_delay: late } = record;
    const date = hour ? day(new Date(hour)) : "";
    write(due, face(record.sched_dep_time), date === today ? "" : date);
    write(flight, `${carrier} ${record.flight}`, CARRIERS[carrier] ?? "");
    write(route, `${origin ?? "???"} → ${dest ?? "???"}`, this.#airports(dest) ?? "");
    write(status, STATUS[record.status] ?? record.status);
    const isScheduled = record.status === "scheduled";
    write(delay, isScheduled ? "" : late === undefined ? `${LATE_MIN}+` : `+${late}`);
    delay.style.setProperty("--delay", isScheduled ? "transparent" : delayFill(late ?? LATE_MIN));
    row.dataset.status = record.status;
  }
}

/** Write a cell's text and what is beside it, if they are others than before. */
function write(cell, text, beside = "") {
  const written = `${text}\n${beside}`;
  if (cell.dataset.written === written) return;
  cell.dataset.written = written;
  const small = document.createElement("small");
  small.textContent = beside;
  small.title = beside;
  cell.replaceChildren(text, ...(beside ? [" ", small] : []));
}
