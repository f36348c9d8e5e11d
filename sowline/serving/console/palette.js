// The colors of charts, in both themes. None of them is one of those that stand for a state.

const SCHEMES = {
  light: {
    series: ["#0b5cad", "#b38352", "#35a199", "#a670d3", "#a83578", "#7d4a2d", "#3a93cf", "#0c6b70", "#5f3f9e"],
    others: "#7c8a99",
    // From zero up, and from below zero over zero to above it.
    scale: ["#dcebf8", "#0b4a8f"],
    diverging: ["#0b5cad", "#f1f2f4", "#b0561c"],
  },
  dark: {
    series: ["#6bb2ff", "#d9a87c", "#2f9088", "#8a63c9", "#ee8fc2", "#a8734a", "#3f86c9", "#6fd3cb", "#b79bf0"],
    others: "#8492a2",
    scale: ["#1f3a54", "#9fd0ff"],
    diverging: ["#6bb2ff", "#333c47", "#f0a36b"],
  },
};

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const luminance = (hex) => {
  const [r, g, b] = channels(hex).map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const [DARK, LIGHT] = ["#10161d", "#ffffff"];
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

// The ink that is read best on a color.
export const inkOn = (color) => (contrast(color, DARK) > contrast(color, LIGHT) ? DARK : LIGHT);

const mixed = (one, other, share) => {
  const [from, to] = [channels(one), channels(other)];
  return `#${from.map((value, at) => Math.round(value + (to[at] - value) * share).toString(16).padStart(2, "0")).join("")}`;
};

// The colors of series, of which the last may be all others. `places` has the color of each name that was drawn before: it
// keeps it while others come and leave.
export function seriesColors(theme, names, hasOthers, places) {
  const { series, others } = SCHEMES[theme];
  const own = hasOthers ? names.slice(0, -1) : names;
  const taken = new Set(own.map((name) => places.get(name)));
  for (const name of own) {
    if (places.has(name)) continue;
    // Only where each color has a name, one that is not drawn now gives its own away.
    const kept = new Set(places.values());
    const free = [kept, taken].map((used) => series.findIndex((_, at) => !used.has(at))).find((at) => at >= 0);
    taken.add(free);
    for (const [gone, at] of places) if (at === free) places.delete(gone);
    places.set(name, free);
  }
  return names.map((name, at) => (hasOthers && at === names.length - 1 ? others : series[places.get(name)]));
}

// Where a few values are so far from all others that these would have one color, the scale ends at the others.
const COMMON_SHARE = 0.95;
const FAR = 2;
const COMMON_MIN = 20;

function mostOf(known) {
  const sizes = known.map(Math.abs).sort((one, other) => one - other);
  const common = sizes[Math.floor(COMMON_SHARE * (sizes.length - 1))];
  return sizes.length >= COMMON_MIN && common > 0 && sizes.at(-1) > FAR * common ? Number(common.toPrecision(2)) : sizes.at(-1);
}

// A scale for these values: its ends, whether some are beyond them, its colors, and the color of a value. Zero is in the
// middle if both signs occur.
export function scaleOf(theme, values, isFromZero) {
  const { scale, diverging } = SCHEMES[theme];
  const known = values.filter((value) => value !== null);
  if (!known.length) return undefined;
  let [min, max] = [Infinity, -Infinity];
  for (const value of known) [min, max] = [Math.min(min, value), Math.max(max, value)];
  const end = isFromZero ? mostOf(known) : Infinity;
  const isCut = [min < -end, max > end];
  [min, max] = [Math.max(min, -end), Math.min(max, end)];
  if (min < 0 && max > 0) {
    const most = Math.max(-min, max);
    const share = (value) => Math.min(1, Math.abs(value) / most);
    const of = (value) => mixed(diverging[1], diverging[value < 0 ? 0 : 2], share(value));
    return { isCut, ends: [-most, 0, most], colors: diverging, of };
  }
  const isBelow = max <= 0 && min < 0;
  const [low, high] = isFromZero ? (isBelow ? [min, 0] : [0, max]) : [min, max];
  const colors = isBelow ? [diverging[0], diverging[1]] : scale;
  const share = (value) => (high === low ? 1 : Math.max(0, Math.min(1, (value - low) / (high - low))));
  return { isCut, ends: [low, high], colors, of: (value) => mixed(colors[0], colors[1], share(value)) };
}
