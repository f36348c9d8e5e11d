// The simulated moments at which the panels of the page stand: each that of the newest record that its view has shown.

/** A page that is behind the feed by more real seconds, and by more simulated ones, says so. */
const [LATE_S, LATE_MIN_S] = [5, 60];
/** A panel that is behind the board by more simulated seconds lags, or nothing newer happened in it, as at night. */
const BEHIND_S = 5 * 60;
/** A panel that lacks more real seconds of what was fed for it, and more than that, says so. A busy machine takes one. */
const LACKS_S = 2;
/** A feed without a speed is as fast as it can: a panel is measured as at the usual speed then. */
const USUAL_SPEED = 3600;
/** So many moments of what was fed are kept for each panel. */
const FED_MAX = 400;

export class Moments {
  /** By the name of a view, in seconds since 1970. */
  #newest = new Map();
  /** By the name of a view, the moments of facts that were fed for it, the oldest first. */
  #fed = new Map();
  #end;

  /** Note the records that a view has; what a visitor has written may have no moment. */
  take(name, records) {
    let newest = this.#newest.get(name) ?? -Infinity;
    for (const { moment } of records) newest = Math.max(newest, (typeof moment === "string" && Date.parse(moment) / 1000) || -Infinity);
    if (newest > -Infinity) this.#newest.set(name, newest);
  }

  /** Note the moment of the newest fact that was fed for a view, if there is one. */
  feed(name, moment) {
    const fed = this.#fed.get(name) ?? [];
    if (moment === undefined || moment === fed.at(-1)) return;
    this.#fed.set(name, [...fed, moment].slice(-FED_MAX));
  }

  /**
   * How many simulated seconds of facts a view lacks that the page should show at the moment of its clock; 0 if they are
   * too few to be reported. At night, a view is old and lacks nothing.
   */
  lacks(name, speed) {
    const due = this.#fed.get(name)?.findLast((moment) => moment <= this.newest);
    const lag = due - this.of(name);
    return lag > Math.max(BEHIND_S, LACKS_S * (speed ?? USUAL_SPEED)) ? lag : 0;
  }

  /** Note that all that was fed until a moment has come: everything stands at it. */
  end(moment) {
    this.#end = moment;
  }

  /** The moment of a view; undefined before its first record. */
  of(name) {
    return this.#end ?? this.#newest.get(name);
  }

  /** How many simulated seconds a view is behind the departures, where that is worth a wait; 0 otherwise. */
  behind(name) {
    const lag = this.of("departures") - this.of(name);
    return lag > BEHIND_S ? lag : 0;
  }

  /** By how many simulated seconds the page is behind the feed, where its clock doesn't go at the speed of the feed; 0 otherwise. */
  late({ fed_until: fed, is_settled: isSettled, speed }) {
    // At the end of a day, the newest fact may be one that no record shows.
    const lag = isSettled || speed === null ? 0 : fed - this.newest;
    return lag > Math.max(LATE_MIN_S, LATE_S * speed) ? lag : 0;
  }

  /** Whether everything stands at the end. */
  get isEnd() {
    return this.#end !== undefined;
  }

  /** The newest of them. */
  get newest() {
    return this.#end ?? (this.#newest.size ? Math.max(...this.#newest.values()) : undefined);
  }
}
