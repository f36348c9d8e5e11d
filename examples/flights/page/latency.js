// The latency over the last two minutes, on a logarithmic scale, with each outage in it; and what is said of the whole run.
import { area, keep } from "./svg.js";
import { seconds } from "./text.js";

const SHOWN_S = 120;
const TICKS = [[1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1000, "1 s"], [10_000, "10 s"], [100_000, "100 s"]];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 8, 30, 22];
/** The lengths of outages: the width of a digit, the gap between two, and where the stroke from one to its box begins. */
const [DIGIT, LABEL_GAP, STROKE] = [7, 6, 15];
/** A line has one point, the slowest sample, for each so many pixels: more of them would be one dense band. */
const STEP = 3;
/** A line that is shorter than so many pixels is a dot. */
const DOT = 3;
/** The room that the text of a mark takes above or below its line, and the width of one of its letters, on average. */
const [MARK, LETTER] = [16, 6.4];
/** What the text of a mark leaves out where it would cover something: what it is of stands above the chart. */
const LEFT_OUT = [/^$/, /^whole run: /];
/** The text of a mark may begin at every so many pixels. */
const SHIFT = 6;
/** By how many texts further from its line the text of a mark may stand, with a stroke to it, where no place is beside the line. */
const [BESIDE, FURTHER] = [[0], [1, 2, 3]];

/**
 * The place of a mark's text: above or below its line, at the left, at the right, in the middle or elsewhere, where it
 * covers none of the boxes, each a left, right, top and bottom; so many texts away from the line. Undefined where there is
 * none: the text stands above the chart, too.
 */
function placeOf(text, line, [width, height], boxes, distances) {
  return distances.flatMap((further) => LEFT_OUT.map((part) => text.replace(part, "")).flatMap((one) => {
    const room = one.length * LETTER;
    const [least, most] = [LEFT + 4, width - RIGHT - 4 - room];
    const between = Array.from({ length: Math.max(0, Math.floor((most - least) / SHIFT)) }, (_, index) => least + (index + 1) * SHIFT);
    const lefts = [least, most, (least + most) / 2, ...between].filter((left) => left >= least);
    const tops = [line - MARK * (1 + further), line + MARK * further].filter((top) => top >= TOP && top + MARK <= height - BOTTOM / 2);
    return tops.flatMap((top) => lefts.map((left) => (
      { text: one, x: left, y: top + MARK - 4, box: [left, left + room, top, top + MARK], ...(further && { from: top < line ? top + MARK : top }) })));
  })).find(({ box }) => !boxes.some((other) => box[0] < other[1] && other[0] < box[1] && box[2] < other[3] && other[2] < box[3]));
}

/**
 * The lengths of the outages, each with the middle of its text and that of its box: all in one row, each as near to its box
 * as the others let it. The oldest are left out once the row is full.
 */
function lengthsOf(outages, width) {
  const labels = outages.map(({ since, until, from, to }) => {
    const text = seconds(until - since);
    return { since, text, half: (text.length * DIGIT) / 2, own: (from + to) / 2 };
  });
  while (labels.reduce((sum, { half }) => sum + 2 * half + LABEL_GAP, -LABEL_GAP) > width - LEFT - RIGHT) labels.shift();
  let [least, most] = [LEFT, width - RIGHT];
  for (const label of labels) {
    label.least = least + label.half;
    least += 2 * label.half + LABEL_GAP;
  }
  for (const label of labels.toReversed()) {
    label.middle = Math.min(most - label.half, Math.max(label.least, label.own));
    most = label.middle - label.half - LABEL_GAP;
  }
  return labels;
}

/** A line with one point, the slowest, for the samples that lie within a few pixels. Its last point is the newest sample. */
function thinned(line, x) {
  const points = new Map();
  for (const sample of line) {
    const column = Math.floor(x(sample[0]) / STEP);
    if (!(points.get(column)?.[1] >= sample[1])) points.set(column, sample);
  }
  const found = [...points.values()];
  return found.at(-1) === line.at(-1) ? found : [...found, line.at(-1)];
}

export class LatencyChart {
  #svg;
  #samples = [];
  /** The newest latency that was measured, in milliseconds: the line ends at it. Undefined before the first one. */
  last;
  #marks = [];

  constructor(svg) {
    this.#svg = svg;
  }

  /**
   * Note what the demo measured, each a moment (seconds since 1970) and a latency in milliseconds; null where nothing came.
   * A stream that is opened again repeats them.
   */
  add(samples) {
    const last = this.#samples.at(-1)?.[0] ?? -Infinity;
    this.#samples.push(...samples.filter(([moment]) => moment > last));
    this.last = this.#samples.findLast(([, latency]) => latency !== null)?.[1] ?? this.last;
    while (this.#samples.length && this.#samples[0][0] < this.#samples.at(-1)[0] - SHOWN_S) this.#samples.shift();
  }

  /** Whether nothing came for a time that is shown. */
  get hasGaps() {
    return this.#lines().length > 1;
  }

  /** Mark what is said of the whole run, each a text and its latency in milliseconds: the axis holds them from now on. */
  mark(marks) {
    this.#marks = marks;
  }

  /** Draw it until a moment, whose name is `last`; an outage has a beginning and, once it is over, an end, in seconds since 1970. */
  draw(now, outages, last) {
    const [width, height] = area(this.#svg);
    const most = Math.max(1000, ...this.#samples.map(([, latency]) => latency ?? 0), ...this.#marks.map(([, latency]) => latency));
    const ticks = TICKS.slice(0, TICKS.findIndex(([value]) => value >= most) + 1 || TICKS.length);
    const top = Math.log10(ticks.at(-1)[0]);
    const x = (moment) => LEFT + (width - LEFT - RIGHT) * Math.max(0, 1 - (now - moment) / SHOWN_S);
    const y = (latency) => height - BOTTOM - (height - TOP - BOTTOM) * Math.min(1, Math.max(0, Math.log10(latency) / top));
    const lines = this.#lines().map((line) => thinned(line, x));
    const shown = outages.filter(({ until }) => (until ?? now) > now - SHOWN_S).map(({ since, until = now }) => ({ since, until, from: x(since), to: x(until) }));
    const drawn = lines.flatMap((line) => line.map(([moment, latency], index) => {
      const [from, to] = [line[Math.max(0, index - 1)], [moment, latency]];
      return [x(from[0]) - DOT, x(to[0]) + DOT, Math.min(y(from[1]), y(to[1])) - DOT, Math.max(y(from[1]), y(to[1])) + DOT];
    }));
    const texts = this.#texts(y, [width, height], [...drawn, ...shown.map(({ from, to }) => [from, to, 0, height])]);
    const before = last === "now" ? "ago" : "before";
    keep(this.#svg, [
      ...ticks.flatMap(([value, text]) => [
        { key: `line ${text}`, name: "line", class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) },
        { key: text, name: "text", class: "axis", "text-anchor": "end", text, x: LEFT - 8, y: y(value) + 4 },
      ]),
      ...[[0, last, "end"], [60, `1 min ${before}`, "middle"], [120, `2 min ${before}`, "start"]].map(([ago, text, anchor]) => ({ key: `at ${ago}`, name: "text", class: "axis", "text-anchor": anchor, text, x: x(now - ago), y: height - 4 })),
      ...shown.map(({ since, from, to }) => ({ key: `outage ${since}`, name: "rect", class: "outage", x: from, width: Math.max(2, to - from), y: TOP, height: height - TOP - BOTTOM })),
      ...lengthsOf(shown, width).flatMap(({ since, text, middle, own }) => [
        { key: `label ${since}`, name: "text", class: "outage-label", text, "text-anchor": "middle", x: middle, y: STROKE - 4 },
        { key: `stroke ${since}`, name: "line", class: "stroke", x1: middle, y1: STROKE, x2: own, y2: TOP },
      ]),
      ...lines.filter((line) => x(line.at(-1)[0]) - x(line[0][0]) < DOT).map(([[moment, latency]]) => ({ key: `dot ${moment}`, name: "circle", class: "dot", r: DOT / 2, cx: x(moment).toFixed(1), cy: y(latency).toFixed(1) })),
      ...lines.map((line) => ({ key: `from ${line[0][0]}`, name: "polyline", points: line.map(([moment, latency]) => `${x(moment).toFixed(1)},${y(latency).toFixed(1)}`).join(" ") })),
      ...this.#marks.flatMap(([text, latency], index) => [
        { key: `mark ${text}`, name: "line", class: "mark", x1: LEFT, x2: width - RIGHT, y1: y(latency), y2: y(latency) },
        ...(texts[index] ? [{ key: `text ${text}`, name: "text", class: "mark-label", text: texts[index].text, x: texts[index].x, y: texts[index].y }] : []),
        ...(texts[index]?.from ? [{ key: `to ${text}`, name: "path", class: "lead", d: `M${texts[index].x + LETTER},${texts[index].from}V${y(latency)}` }] : []),
      ]),
    ]);
  }

  /** The places of the marks' texts: none over another one, or over the line of another mark. */
  #texts(y, size, boxes) {
    const ownLines = this.#marks.map(([, latency]) => [LEFT, size[0], y(latency) - 1, y(latency) + 1]);
    const placed = this.#marks.map(() => undefined);
    for (const distances of [BESIDE, FURTHER]) {
      for (const [index, [text, latency]] of this.#marks.entries()) {
        const others = ownLines.filter((_, other) => other !== index);
        placed[index] ??= placeOf(text, y(latency), size, [...boxes, ...others, ...placed.flatMap((one) => (one ? [one.box] : []))], distances);
      }
    }
    return placed;
  }

  /** The samples as lines; an outage ends one. */
  #lines() {
    const lines = [];
    let line = [];
    for (const sample of this.#samples) {
      if (sample[1] === null) line = [];
      else if (line.push(sample) === 1) lines.push(line);
    }
    return lines;
  }
}
