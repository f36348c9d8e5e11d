// Changes a second: of what a grid shows, and of each topic in the last minute, wherever in the console the topics were asked for.
import { html } from "./lib.js";

const SHOWN_MS = 60_000;
const MEAN_MS = 10_000;
// What a mean is of, in words.
export const OVER = `over ${MEAN_MS / 1000} s`;
const NEAR_MS_MIN = 500;
// Answers that are further apart leave a gap: what came in between is not of any one second.
const NEAR_MS_MAX = 5000;

// The rates of one counter, the oldest first: each between two looks at it.
export class Rates {
  shown = [];
  #before;

  look(counted, at) {
    const ms = this.#before && at - this.#before.at;
    if (ms < NEAR_MS_MIN) return;
    if (ms <= NEAR_MS_MAX && counted >= this.#before.counted) {
      const recent = this.shown.filter((one) => at - one.at < SHOWN_MS);
      this.shown = [...recent, { from: this.#before.at, at, value: (counted - this.#before.counted) / (ms / 1000) }];
    }
    this.#before = { counted, at };
  }
}

const ofTopics = new Map();

// Notes an answer about the topics, and when it came.
export function note({ body, at }) {
  for (const { name, changes } of body.topics) {
    if (!ofTopics.has(name)) ofTopics.set(name, new Rates());
    ofTopics.get(name).look(changes, at);
  }
}

// The rates of a topic, the oldest first.
export const ratesOf = (name) => ofTopics.get(name)?.shown ?? [];

// The mean of the rates until a time; undefined while they are not those of all that time. Changes come in batches, and a
// view's a moment after its source's: a single second may have none of them, or those of several. `newest` says how many
// seconds ago the newest change was, where that is known: if it is older than what is looked at, there was none.
export function meanOf(shown, now, newest) {
  if (newest * 1000 > MEAN_MS) return 0;
  const recent = shown.filter(({ at }) => now - at < MEAN_MS);
  // Measured since the time began, and without a gap. Answers may come at any pace, so the ends of the measurements alone
  // don't show it: at one every 3.5 seconds, the oldest end within the time is always younger than that.
  if (!recent.length || now - recent[0].from < MEAN_MS || recent.some(({ from }, index) => index && from !== recent[index - 1].at)) return undefined;
  return recent.reduce((found, { value }) => found + value, 0) / recent.length;
}

// How long the time of a line is, in words.
export const SHOWN = `${SHOWN_MS / 1000} s`;
// Changes come in batches: up to this many of the newest rates may be zero although changes go on.
const INCOMPLETE_MAX = 3;

// The rates whose changes have come. The newest ones may be zero because the next batch is on its way. If more of them are
// zero, the changes have stopped.
function complete(shown) {
  const last = shown.findLastIndex(({ value }) => value > 0);
  return last >= 0 && shown.length - 1 - last <= INCOMPLETE_MAX ? shown.slice(0, last + 1) : shown;
}

const explained = (isDotted, hasDot) => `Changes a second in the last ${SHOWN}.${isDotted ? " Dotted: not measured, because this page was not open." : ""}${hasDot ? " The dot is the newest change." : ""}`;

// A line of rates up to a time, with a gap where none was measured: its ground is dotted there. It ends at the last rate that
// is complete. A dot is the newest change, which may be older than the first rate; `newest` says how many seconds ago it was.
export function Spark({ rates, now, newest, label }) {
  const [width, height] = [120, 22];
  const shown = complete(rates);
  const most = Math.max(1, ...shown.map(({ value }) => value));
  const xOf = (at) => width * (1 - (now - at) / SHOWN_MS);
  const since = shown.length ? Math.max(0, xOf(shown[0].at)).toFixed(1) : width;
  const isBefore = newest !== null && newest * 1000 <= SHOWN_MS && xOf(now - newest * 1000) < since;
  // A line at zero shows nothing that the number beside it does not say.
  if (!isBefore && !shown.some(({ value }) => value > 0)) return null;
  const runs = [];
  shown.forEach(({ at, value }, index) => {
    if (!index || at - shown[index - 1].at > NEAR_MS_MAX) runs.push([]);
    runs.at(-1).push(`${xOf(at).toFixed(1)},${(height - (value / most) * (height - 2)).toFixed(1)}`);
  });
  return html`
    <svg class="spark" viewBox="0 0 ${width} 24" role="img" aria-label=${label}>
      <title>${explained(since > 0, isBefore)}</title>
      <path class="ground unmeasured" d=${`M0 ${height}.5 H${since}`} />
      <path class="ground" d=${`M${since} ${height}.5 H${width}`} />
      ${isBefore && html`<circle class="newest" cx=${Math.max(2, xOf(now - newest * 1000)).toFixed(1)} cy=${height - 1} r="2" />`}
      ${runs.map((points) => html`<polyline points=${points.join(" ")} />`)}
    </svg>
  `;
}
