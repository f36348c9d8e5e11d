// The changes a second of each topic in the last minute, wherever in the console the topics were asked for.
import { html } from "./lib.js";

const SHOWN_MS = 60_000;
const MEAN_MS = 10_000;
const NEAR_MS_MIN = 500;
// Answers that are further apart leave a gap: what came in between is not of any one second.
const NEAR_MS_MAX = 5000;

const rates = new Map();
let before;

// Notes an answer about the topics, and when it came.
export function note({ body, at }) {
  const ms = before && at - before.at;
  if (ms < NEAR_MS_MIN) return;
  if (ms <= NEAR_MS_MAX) {
    for (const { name, changes } of body.topics) {
      const counted = before.counts.get(name);
      if (!(changes >= counted)) continue;
      const noted = (rates.get(name) ?? []).filter((one) => at - one.at < SHOWN_MS);
      rates.set(name, [...noted, { at, value: (changes - counted) / (ms / 1000) }]);
    }
  }
  before = { at, counts: new Map(body.topics.map(({ name, changes }) => [name, changes])) };
}

// The rates of a topic, the oldest first.
export const ratesOf = (name) => rates.get(name) ?? [];

// The mean of the rates until a time; undefined while it can't be known that there was none. Changes come in batches, and a view's a moment after its source's: in a single
// second, one of them may have none.
export function meanOf(shown, now) {
  const recent = shown.filter(({ at }) => now - at < MEAN_MS);
  const sum = recent.reduce((found, { value }) => found + value, 0);
  const isMeasured = recent.length > 0 && now - recent[0].at > MEAN_MS - NEAR_MS_MAX / 2;
  return sum > 0 || isMeasured ? sum / recent.length : undefined;
}

// A line of rates up to a time, with a gap where none was measured: its ground is dotted there. A dot is the newest change,
// which may be older than the first rate; `newest` says how many seconds ago it was.
export function Spark({ rates: shown, now, newest, label }) {
  const [width, height] = [120, 22];
  const most = Math.max(1, ...shown.map(({ value }) => value));
  const xOf = (at) => width * (1 - (now - at) / SHOWN_MS);
  const since = shown.length ? Math.max(0, xOf(shown[0].at)).toFixed(1) : width;
  const isBefore = newest !== null && newest * 1000 <= SHOWN_MS && xOf(now - newest * 1000) < since;
  const runs = [];
  shown.forEach(({ at, value }, index) => {
    if (!index || at - shown[index - 1].at > NEAR_MS_MAX) runs.push([]);
    runs.at(-1).push(`${xOf(at).toFixed(1)},${(height - (value / most) * (height - 2)).toFixed(1)}`);
  });
  return html`
    <svg class="spark" viewBox="0 0 ${width} 24" role="img" aria-label=${label}>
      <path class="ground unmeasured" d=${`M0 ${height}.5 H${since}`} />
      <path class="ground" d=${`M${since} ${height}.5 H${width}`} />
      ${isBefore && html`<circle class="newest" cx=${Math.max(2, xOf(now - newest * 1000)).toFixed(1)} cy=${height - 1} r="2" />`}
      ${runs.map((points) => html`<polyline points=${points.join(" ")} />`)}
    </svg>
  `;
}
