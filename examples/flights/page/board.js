// The departures board: a table row for each record, kept by its SOW key.
import { delayFill } from "./svg.js";
import { CARRIERS, day, face } from "./text.js";

const LEAVE_MS = 500;
/** So many rows fade at most: where a burst of changes takes more away, those that stay are to be seen. */
const LEAVING_MAX = 2;

/** Where a flight is: one that is late is at the gate, one that departed late is in the air until it has landed. */
const STATUS = { scheduled: "scheduled", late: "at gate", "departed late": "in flight" };
/** A flight is late from so many minutes on. */
const LATE_MIN = 15;

/** How many minutes a flight at the gate has waited so far; its delay is known when it departs. */
function waited({ time_hour: hour, sched_dep_time: due }, moment) {
  const minutes = Math.floor((moment - Date.parse(hour) / 1000) / 60) - (due % 100);
  return Number.isFinite(minutes) ? Math.max(LATE_MIN, minutes) : LATE_MIN;
}

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

  /** Show these keys and records in this order, as of a simulated moment (seconds since 1970); a row that has its place is not moved. */
  show(entries, moment) {
    const wanted = new Map(entries.map(({ key, record }) => [key, record]));
    for (const [key, kept] of this.#rows) if (!wanted.has(key)) this.#leave(key, kept);
    let place = this.#body.firstElementChild;
    for (const [key, record] of wanted) {
      const kept = this.#rows.get(key) ?? this.#enter(key);
      this.#stay(kept);
      this.#fill(kept.row, record, moment);
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
    const remove = () => {
      kept.row.remove();
      this.#rows.delete(key);
    };
    if (this.#body.querySelectorAll(".leaves").length >= LEAVING_MAX) {
      remove();
      return;
    }
    kept.row.classList.add("leaves");
    kept.timer = setTimeout(remove, LEAVE_MS);
  }

  /** A record that comes back while its row leaves keeps the row. */
  #stay(kept) {
    if (kept.timer === undefined) return;
    clearTimeout(kept.timer);
    kept.timer = undefined;
    kept.row.classList.remove("leaves");
  }

  #fill(row, record, moment) {
    const [due, flight, route, status, delay] = row.children;
    const { carrier, origin, dest, time_hour: hour, dep_delay: late } = record;
    const date = hour ? day(new Date(hour)) : "";
    write(due, face(record.sched_dep_time), date === day(moment * 1000) ? "" : date);
    write(flight, `${carrier} ${record.flight}`, CARRIERS[carrier] ?? "");
    write(route, `${origin ?? "???"} → ${dest ?? "???"}`, this.#airports(dest) ?? "");
    write(status, STATUS[record.status] ?? record.status);
    const isScheduled = record.status === "scheduled";
    write(delay, isScheduled ? "" : late === undefined ? `${waited(record, moment)}+` : `+${late}`);
    delay.style.setProperty("--delay", isScheduled ? "transparent" : delayFill(late ?? waited(record, moment)));
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
