// The treemap of carriers and the heat map of carriers and hours.
import { area, delayFill, keep, onShade } from "./svg.js";
import { CARRIERS, count, many, minutes, withCode } from "./text.js";

const CHARACTER = 7;
const LINE = 16;

/** Divide a rectangle among values, each time along its longer side, into two halves of nearly equal sum. */
function divide(items, x, y, width, height, found = []) {
  if (items.length === 1) found.push({ ...items[0], x, y, width, height });
  if (items.length < 2) return found;
  const total = items.reduce((sum, { value }) => sum + value, 0);
  let [index, sum] = [1, items[0].value];
  while (index < items.length - 1 && sum + items[index].value / 2 < total / 2) {
    sum += items[index].value;
    index += 1;
  }
  const share = sum / total;
  if (width >= height) {
    divide(items.slice(0, index), x, y, width * share, height, found);
    return divide(items.slice(index), x + width * share, y, width * (1 - share), height, found);
  }
  divide(items.slice(0, index), x, y, width, height * share, found);
  return divide(items.slice(index), x, y + height * share, width, height * (1 - share), found);
}

/**
 * The lines of a tile, the longest that have room: its name and its number of flights, or its code and the number alone, in two
 * lines or in one. Neither stands alone.
 */
function labelOf(name, code, value, width, height) {
  const labels = [[name, many(value, "flight")], [`${name}: ${count(value)}`], [code, count(value)], [`${code}: ${count(value)}`]];
  const hasRoom = (lines) => lines.length * (LINE + 4) < height && lines.every((text) => text.length * CHARACTER <= width - 14);
  return labels.find(hasRoom) ?? [];
}

/** A carrier with a smaller share of the flights has no room for its name. */
const SHARE_MIN = 0.025;

/** Merge the smallest carriers until each tile has room for its name. */
export function merged(items) {
  const total = items.reduce((sum, { value }) => sum + value, 0);
  const others = [];
  let value = 0;
  let delay = 0;
  while (items.length > others.length && (items.at(-1 - others.length).value < SHARE_MIN * total || (others.length > 0 && value < SHARE_MIN * total))) {
    const next = items.at(-1 - others.length);
    delay = (delay * value + next.delay * next.value) / (value + next.value);
    value += next.value;
    others.push(next);
  }
  if (others.length < 2) return items;
  const names = others.map(({ name }) => name).reverse().join(", ");
  return [...items.slice(0, items.length - others.length), { carrier: "others", name: `${others.length} others`, code: `+${others.length}`, names, value, delay }];
}

/** `all` says how many flights the tiles are: those that have left; nothing while there are none, because they may still be loading. */
export function drawCarriers(svg, all, records) {
  const items = records.map(({ carrier, flights: value, delay_min: delay }) => ({ carrier: String(carrier), name: CARRIERS[carrier] ?? String(carrier), value, delay: delay ?? 0 }))
    .filter(({ value }) => value > 0).sort((one, other) => other.value - one.value);
  const departed = items.length ? `area and number: departed flights, ${count(items.reduce((sum, { value }) => sum + value, 0))} in all; where a name has no room, the carrier’s code` : "";
  if (all.textContent !== departed) all.textContent = departed;
  keep(svg, divide(merged(items), 0, 0, ...area(svg)).flatMap(({ carrier, name, code = carrier, names, value, delay, x, y, width, height }) => {
    const title = `${names ?? name}: ${many(value, "flight")}, on average ${minutes(delay)}`;
    const box = { x: x + 1, y: y + 1, width: Math.max(0, width - 2), height: Math.max(0, height - 2) };
    return [
      { key: carrier, name: "rect", rx: 3, class: "shade", title, style: `fill: ${delayFill(delay)}`, ...box },
      ...labelOf(name, code, value, width, height).map((text, line) => ({ key: `${carrier} line ${line}`, name: "text", class: onShade(delay), text, x: x + 8, y: y + 18 + line * LINE })),
    ];
  }));
}

const [HOUR_FIRST, HOURS, TOP] = [5, 19, 22];

export function drawHeat(svg, records) {
  const cells = records.filter(({ hour_local: hour, delay_min: delay }) => hour >= HOUR_FIRST && hour < HOUR_FIRST + HOURS && Number.isFinite(delay));
  const carriers = [...new Set(cells.map(({ carrier }) => String(carrier)))].sort();
  const [across, down] = area(svg);
  const isWide = across > 460;
  const left = isWide ? 156 : 118;
  const [width, height] = [(across - left) / HOURS, Math.min(26, (down - TOP) / Math.max(1, carriers.length))];
  const hours = Array.from({ length: HOURS }, (_, index) => HOUR_FIRST + index).filter((hour) => hour % (width < 22 ? 3 : 1) === 0);
  keep(svg, [
    { key: "hours", name: "text", class: "axis", text: "due at hour", x: 0, y: 12 },
    ...hours.map((hour) => ({ key: `hour ${hour}`, name: "text", class: "axis", "text-anchor": "middle", text: String(hour), x: left + (hour - HOUR_FIRST + 0.5) * width, y: 12 })),
    ...carriers.map((carrier, index) => ({ key: carrier, name: "text", class: "axis", text: withCode(carrier, !isWide), x: 0, y: TOP + (index + 0.5) * height + 4 })),
    ...cells.map(({ carrier, hour_local: hour, flights, delay_min: delay, worst_min: worst }) => ({
      key: `${carrier} ${hour}`,
      name: "rect",
      class: "shade",
      rx: 2,
      x: left + (hour - HOUR_FIRST) * width,
      y: TOP + carriers.indexOf(String(carrier)) * height,
      width: width - 2,
      height: height - 2,
      style: `fill: ${delayFill(delay)}`,
      title: `${CARRIERS[carrier] ?? carrier}, ${hour}:00: ${many(flights, "flight")}, on average ${minutes(delay)}, at most ${count(worst)} min`,
    })),
  ]);
}
