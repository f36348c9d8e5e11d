// A part of the departures board: a table row for each record, kept by its SOW key.
import { delayFill } from "./svg.js";
import { CARRIERS, day, face } from "./text.js";

/** Where a flight is: one that is late is at the gate, one that departed late is in the air until it has landed. */
const STATUS = { scheduled: "scheduled", late: "at the gate", "departed late": "in flight" };
/** A flight is late from so many minutes on. */
const LATE_MIN = 15;
/** No flight of the data is faster. */
const MILES_A_MIN_MAX = 12;

/** Whether a flight is late and still at the gate. */
export const isWaiting = ({ status }) => status === "late";

/** How many minutes ago a flight was due, as far as that is known. */
const overdue = ({ time_hour: hour, sched_dep_local: due }, moment) => Math.floor((moment - Date.parse(hour) / 1000) / 60) - Number(String(due).slice(3));

/** Whether a flight should have departed or be late by now: until all that was fed is here, its news may still be on the way. */
export const lacksNews = (record, moment) => record.status === "scheduled" && overdue(record, moment) > LATE_MIN;

/** Whether a late flight can have landed by a moment: its landing may come before other news, from which the clock is. */
export const canHaveLanded = (record, moment) => !(overdue(record, moment) < (record.dep_delay_min ?? LATE_MIN) + (record.distance_miles ?? 0) / MILES_A_MIN_MAX);

/** How many minutes a flight at the gate has waited so far; its delay is known when it departs. */
const waited = (record, moment) => Math.max(LATE_MIN, overdue(record, moment) || 0);

export class Board {
  #body;
  #airports;
  #rows = new Map();

  /** `airports` gives the name of an airport by its code, as far as it is known. */
  constructor(body, airports = () => undefined) {
    this.#body = body;
    this.#airports = airports;
  }

  /** Show these keys and records in this order, as of a simulated moment (seconds since 1970), those of some keys as changed; a row that has its place is not moved. */
  show(entries, moment, changed = new Set()) {
    const wanted = new Set(entries.map(({ key }) => key));
    for (const [key, row] of this.#rows) {
      if (wanted.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
    let place = this.#body.firstElementChild;
    for (const { key, record } of entries) {
      const row = this.#rows.get(key) ?? this.#enter(key);
      this.#fill(row, record, moment);
      if (changed.has(key)) row.classList.add("changed");
      if (place === row) place = place.nextElementSibling;
      else this.#body.insertBefore(row, place);
    }
  }

  #enter(key) {
    const row = document.createElement("tr");
    // A row that is moved later must not be tinted again.
    row.addEventListener("animationend", () => row.classList.remove("changed"));
    for (let number = 0; number < 5; number += 1) row.append(document.createElement("td"));
    this.#rows.set(key, row);
    return row;
  }

  #fill(row, record, moment) {
    const [due, flight, route, status, delay] = row.children;
    const { carrier, origin, dest, time_hour: hour, dep_delay_min: late } = record;
    const date = Number.isFinite(Date.parse(hour)) ? day(Date.parse(hour)) : "";
    write(due, face(record.sched_dep_local), date === day(moment * 1000) ? "" : date);
    write(flight, `${carrier} ${record.flight}`, CARRIERS[carrier] ?? "");
    write(route, `${origin ?? "???"} → ${dest ?? "???"}`, this.#airports(dest) ?? "");
    const isScheduled = record.status === "scheduled";
    const isDue = isScheduled && overdue(record, moment) >= 0;
    // How long one waited that never left is no delay.
    const minutes = record.status === "cancelled" || (isScheduled && !isDue) ? undefined : late ?? (isDue ? overdue : waited)(record, moment);
    const shown = isDue ? "late" : record.status;
    write(status, STATUS[shown] ?? shown);
    write(delay, minutes ? `+${minutes}` : "");
    delay.style.setProperty("--delay", minutes ? delayFill(minutes) : "transparent");
    row.dataset.status = shown;
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
