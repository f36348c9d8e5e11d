// Draws figures with ECharts. Their title, legend and notes are not drawn: they are texts of the page.
import { once } from "./loaded.js";
import { inkOn, scaleOf, seriesColors } from "./palette.js";
import { briefAlike, figure, instant } from "./text.js";

const SIZE = 12;
const ROW = 26;
const ROW_MAX = 56;
const LINE = 16;
const SHORT = 34;
// The height of a tile's header.
const UPPER = 22;
// Cells without numbers are read by their colors: even narrow ones.
const CELL = { width: 12, height: 26 };
const DAY = 86_400_000;

// Loads the library once: it is large, and only charts need it.
export const loadCharts = once(() => import(new URL("vendor/echarts-6.1.0/dist/echarts.esm.min.mjs", document.baseURI)));

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The colors of figures: of their series, and the scale of a measure, if colors stand for one.
export function colorsOf(figures, theme, places) {
  const { kind, series = [], hasOthers } = figures;
  if (kind === "heatmap") return { series: [], scale: scaleOf(theme, figures.values.flat(), true), name: figures.measure.name };
  if (figures.color) return { series: [], scale: scaleOf(theme, figures.color.values.flat(), false), name: figures.color.name };
  return { series: seriesColors(theme, series, hasOthers, places) };
}

// How large figures are drawn in a place of this size: what is too small to be read is scrolled.
export function sizeOf({ kind, rows, series, measure }, { width, height }) {
  if (kind === "bars") return { width, height: 70 + rows.length * Math.max(rowOf(series, measure), Math.min(ROW_MAX, (height - 70) / rows.length)) };
  if (kind === "heatmap") return { width: Math.max(width, besideCells(rows, width) + series.length * (isAslope(series, CELL.width) ? LINE : CELL.width)), height: Math.max(height, 90 + rows.length * CELL.height) };
  return { width, height };
}

// The room that the names of rows take, and that of their axis.
const besideCells = (rows, width) => widthOfNames(rows, width) + 60;

// Short names may be left out here and there; long ones stand aslope, all of them.
const isAslope = (series, cell) => widest(series) > Math.max(cell, SHORT) - 6;

const rowOf = (series, measure) => (measure.isAdditive ? ROW : Math.max(ROW, 8 + series.length * 9));

const pen = document.createElement("canvas").getContext("2d");

// How wide a text is drawn.
function widthOf(text, weight = 400) {
  pen.font = `${weight} ${SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

const widest = (texts) => Math.ceil(texts.reduce((most, text) => Math.max(most, widthOf(text)), 0));

const widthOfNames = (names, width) => Math.min(widest(names) + 2, 240, Math.round(width * 0.34));

// The labels of an axis of names: all of them, in lines if they are long.
const named = (names, width) => ({ interval: 0, hideOverlap: false, width: widthOfNames(names, width), overflow: "break", lineHeight: 13 });

function styles() {
  const [ink, muted, line, surface, raised] = ["--text", "--muted", "--line", "--surface", "--raised"].map(styleOf);
  const axis = {
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: muted, fontSize: SIZE },
    nameTextStyle: { color: ink, fontSize: SIZE },
    nameLocation: "middle",
    nameGap: 28,
    splitLine: { lineStyle: { color: line } },
  };
  return { ink, muted, line, surface, raised, axis };
}

// A tooltip as elements: what records have in them is text, whatever it looks like.
function tip(title, lines) {
  const element = document.createElement("div");
  const put = (parent, name, text) => Object.assign(parent.appendChild(document.createElement(name)), { textContent: text });
  put(element, "strong", title);
  const list = element.appendChild(document.createElement("dl"));
  for (const [name, value, color] of lines) {
    const line = list.appendChild(document.createElement("div"));
    const term = put(line, "dt", name);
    if (color) {
      const swatch = document.createElement("i");
      swatch.style.background = color;
      term.prepend(swatch);
    }
    put(line, "dd", value);
  }
  return element;
}

// What all drawings have, with their own tooltip, and the margins of their grid that are others.
const common = ({ surface, line, ink }, tooltip, margins) => ({
  animation: false,
  useUTC: true,
  textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, fontSize: SIZE, color: ink },
  grid: { left: 4, right: 20, top: 4, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "all", ...margins },
  tooltip: { confine: true, transitionDuration: 0, backgroundColor: surface, borderColor: line, padding: [8, 10], className: "tip", textStyle: { color: ink, fontSize: 13 }, ...tooltip },
});

const measureAxis = (figures, { axis }, length) => ({
  ...axis,
  type: "value",
  name: figures.measure.name,
  splitNumber: Math.max(3, Math.floor(length / 120)),
  minInterval: figures.measure.name.startsWith("records") ? 1 : undefined,
  axisLabel: { ...axis.axisLabel, hideOverlap: true, formatter: figure },
});

const linesOf = ({ series, values, measure, isSplit }, row, colors) =>
  series.map((name, at) => [isSplit ? name : measure.name, figure(values[row][at]), colors[at]]).filter((_, at) => !isSplit || values[row][at] !== null);

// The figures beside bars of several series: a series of their own without a width, at the end of each bar.
const sumsBeside = ({ rows, totals }, { ink }) => ({
  id: "sums",
  type: "bar",
  stack: "all",
  stackStrategy: "samesign",
  silent: true,
  label: { show: true, position: "right", color: ink, fontSize: SIZE, formatter: ({ dataIndex }) => figure(totals[dataIndex]) },
  data: rows.map(() => 0),
});

function bars(figures, colors, style, size) {
  const { rows, series, values, measure, names } = figures;
  const isStacked = measure.isAdditive && series.length > 1;
  const hasSums = isStacked && !figures.totals.some((total) => total < 0);
  return {
    ...common(style, {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      formatter: ([{ dataIndex }]) => tip(rows[dataIndex], [
        ...linesOf({ ...figures, isSplit: series.length > 1 }, dataIndex, colors.series),
        ...(isStacked ? [["all", figure(figures.totals[dataIndex])]] : []),
      ]),
    }, { right: series.length > 1 && !hasSums ? 20 : 60 }),
    xAxis: { ...measureAxis(figures, style, size.width), position: "top" },
    yAxis: { ...style.axis, type: "category", inverse: true, data: rows, name: names[0], axisLabel: { ...style.axis.axisLabel, ...named(rows, size.width) } },
    series: [...series.map((name, at) => ({
      id: String(at),
      type: "bar",
      name,
      stack: isStacked ? "all" : undefined,
      stackStrategy: "samesign",
      barMaxWidth: 26,
      barCategoryGap: "24%",
      barMinHeight: 2,
      color: colors.series[at],
      itemStyle: { borderColor: style.surface, borderWidth: isStacked ? 0.5 : 0 },
      emphasis: { disabled: true },
      label: series.length > 1 ? undefined : { show: true, position: "right", color: style.ink, fontSize: SIZE, formatter: ({ value }) => figure(value) },
      data: values.map((row) => row[at]),
    })), ...(hasSums ? [sumsBeside(figures, style)] : [])],
  };
}

// The name and the value of a tile, in two lines or in one; none where there is no room for both.
function fitted(lines, { width, height }) {
  const room = Math.floor((height - 6) / LINE);
  return [lines, [lines.join("  ")]].find((some) => some.length <= room && some.every((text) => widthOf(text) <= width - 10)) ?? [];
}

// The same in the header of a tile, or its name alone.
const headed = (title, { width }) => [title.join("  "), title[0]].find((text) => text && widthOf(text, 600) <= width - 8) ?? "";

// `bare` are the names of rows whose tiles have no room for a header: an empty one would look like a tile of no color.
function treemap(figures, colors, style, size, tileOf, bare) {
  const { rows, series, values, totals, names, measure, color } = figures;
  const isSplit = names.length > 1;
  const paint = (row, at) => (color ? (colors.scale && color.values[row][at] !== null ? colors.scale.of(color.values[row][at]) : style.line) : colors.series[at]);
  const leaf = (row, at, name) => {
    const value = values[row][at];
    const ground = paint(row, at);
    const more = color ? [[color.name, figure(color.values[row][at]), ground]] : [];
    return { name, value, texts: [name, figure(value)], about: [isSplit ? `${rows[row]}, ${name}` : name, [[measure.name, figure(value), color ? undefined : ground], ...more]], itemStyle: { color: ground }, label: { color: inkOn(ground) } };
  };
  const isDrawn = (row, at) => values[row][at] > 0;
  const data = rows.map((row, index) => {
    if (!isSplit) return isDrawn(index, 0) ? leaf(index, 0, row) : undefined;
    const children = series.map((name, at) => (isDrawn(index, at) ? leaf(index, at, name) : undefined)).filter(Boolean);
    const total = measure.isAdditive ? [figure(totals[index])] : [];
    // A tile that is too small for its header is drawn without its parts, in no color of theirs.
    const title = [row, ...total];
    return children.length ? { name: row, title, texts: title, about: [row, total.map((text) => [measure.name, text])], children, itemStyle: { borderColor: style.raised, color: style.raised }, ...(bare.has(row) && { upperLabel: { show: false } }) } : undefined;
  }).filter(Boolean);
  return {
    ...common(style, { formatter: ({ data: one }) => (one?.about ? tip(...one.about) : "") }),
    series: [{
      id: "tiles",
      type: "treemap",
      // Its own default is to move, whatever the chart's is.
      animation: false,
      data,
      left: 0, right: 0, top: 0, bottom: 0,
      roam: false,
      nodeClick: false,
      breadcrumb: { show: false },
      label: { show: true, position: "insideTopLeft", color: style.ink, fontSize: SIZE, lineHeight: LINE, padding: 0, distance: 4, formatter: ({ data: { texts = [] }, dataIndex }) => fitted(texts, tileOf(dataIndex)).join("\n") },
      upperLabel: { show: isSplit, height: UPPER, color: style.ink, fontSize: SIZE, fontWeight: 600, formatter: ({ data: { title = [] }, dataIndex }) => headed(title, tileOf(dataIndex)) },
      itemStyle: { borderColor: style.surface, borderWidth: 0, gapWidth: 1 },
      emphasis: { disabled: true },
      levels: [{ itemStyle: { borderWidth: 0, gapWidth: 3, borderColor: style.surface }, upperLabel: { show: false } }, { itemStyle: { borderWidth: isSplit ? 1 : 0, gapWidth: 1 } }],
    }],
  };
}

function heatmap(figures, colors, style, size) {
  const { rows, series, values, names, measure } = figures;
  const cell = (size.width - besideCells(rows, size.width)) / series.length;
  const isSloping = isAslope(series, cell);
  const every = isSloping ? 1 : Math.max(1, Math.ceil((widest(series) + 6) / cell));
  // Numbers in some cells alone would look like the only values.
  const written = briefAlike(values.flat());
  const hasRoom = widest(values.flat().filter((value) => value !== null).map(written)) < cell - 6;
  const data = rows.flatMap((_, row) => series.map((_, at) => [at, row, values[row][at]])).filter(([, , value]) => value !== null);
  const { ends, colors: stops } = colors.scale ?? { ends: [0, 1], colors: [style.line, style.line] };
  return {
    ...common(style, {
      formatter: ({ data: { value } }) => tip([rows[value[1]], ...(names.length > 1 ? [series[value[0]]] : [])].join(", "), [[measure.name, figure(value[2]), colors.scale.of(value[2])]]),
    }),
    xAxis: { ...style.axis, type: "category", position: "top", data: names.length > 1 ? series : [measure.name], name: names[1] ?? "", axisLabel: { ...style.axis.axisLabel, interval: every - 1, hideOverlap: false, rotate: isSloping ? 60 : 0 }, splitArea: { show: false } },
    yAxis: { ...style.axis, type: "category", inverse: true, data: rows, name: names[0], axisLabel: { ...style.axis.axisLabel, ...named(rows, size.width) } },
    visualMap: { show: false, min: ends[0], max: ends.at(-1), inRange: { color: stops } },
    series: [{
      id: "cells",
      type: "heatmap",
      data: data.map((value) => ({ value, label: { show: hasRoom, color: inkOn(colors.scale.of(value[2])) } })),
      label: { fontSize: SIZE, formatter: ({ data: { value } }) => written(value[2]) },
      itemStyle: { borderColor: style.surface, borderWidth: 1 },
      emphasis: { disabled: true },
    }],
  };
}

// A tick of a time axis: the day where it begins, and else the time of the day.
const tick = (ms, step) => (ms % DAY === 0 ? instant(ms).slice(0, 10) : instant(ms).slice(11, step % 60_000 === 0 ? 16 : 19));

function time(figures, colors, style, size) {
  const { rows, series, values, measure, axis, step, names } = figures;
  const [first, last] = [rows[0], rows.at(-1)];
  const days = rows.length ? [...new Set([first, last].map((ms) => instant(ms).slice(0, 10)))].join(" to ") : "";
  const line = (at, data, more) => ({
    type: "line",
    name: series[at],
    color: colors.series[at],
    showSymbol: true,
    symbol: "circle",
    // A value between two that are missing is on no line.
    symbolSize: (_, { dataIndex }) => (rows.length <= 40 || [data[dataIndex - 1], data[dataIndex + 1]].every((beside) => (beside?.[1] ?? null) === null) ? 5 : 0),
    lineStyle: { width: 2, color: colors.series[at], ...more.lineStyle },
    emphasis: { disabled: true },
    data,
    ...more.series,
  });
  const pairs = series.map((_, at) => rows.map((ms, row) => [ms, values[row][at]]));
  const beside = rows.length === 1 ? step : 0;
  return {
    ...common(style, {
      trigger: "axis",
      formatter: (shown) => {
        const row = rows.indexOf(shown[0].value[0]);
        return row < 0 ? "" : tip(`${instant(rows[row])}${row === rows.length - 1 ? ", may not be complete" : ""}`, linesOf({ ...figures, isSplit: names.length > 1 }, row, colors.series));
      },
    }, { top: 10 }),
    xAxis: { ...style.axis, type: "time", name: step === DAY ? axis : `${axis}, ${days}`, splitNumber: Math.max(2, Math.floor(size.width / 130)), min: first - beside, max: last + beside, minInterval: step, splitLine: { show: false }, axisLine: { show: true, onZero: false, lineStyle: { color: style.line } }, axisLabel: { ...style.axis.axisLabel, hideOverlap: true, formatter: (ms) => tick(ms, step) } },
    yAxis: measureAxis(figures, style, size.height * 2),
    series: pairs.flatMap((pair, at) => [
      line(at, pair.slice(0, -1), { series: { id: `${at}` } }),
      line(at, pair.slice(-2), { series: { id: `${at} newest` }, lineStyle: { type: [4, 4] } }),
    ]),
  };
}

function scatter(figures, colors, style, size) {
  const { points, series, names, about } = figures;
  const side = (name, length) => ({ ...style.axis, type: "value", scale: true, name, splitNumber: Math.max(2, Math.floor(length / 110)), axisLabel: { ...style.axis.axisLabel, hideOverlap: true, formatter: figure } });
  return {
    ...common(style, {
      formatter: ({ value, seriesIndex, color }) => tip(about(value[2]), [[names[0], figure(value[0])], [names[1], figure(value[1])], ...(names[2] ? [[names[2], series[seriesIndex], color]] : [])]),
    }),
    xAxis: side(names[0], size.width),
    yAxis: side(names[1], size.height),
    series: points.map((data, at) => ({ id: String(at), type: "scatter", name: series[at], color: colors.series[at], data, symbolSize: 6, large: data.length > 5000, largeThreshold: 5000, itemStyle: { opacity: 0.7 }, emphasis: { disabled: true } })),
  };
}

const KINDS = { bars, treemap, heatmap, time, scatter };

// A drawing in an element. Points may be very many, which only a canvas takes.
export class Plot {
  #chart;
  #kind;

  constructor({ init }, element, kind) {
    this.#chart = init(element, null, { renderer: kind === "scatter" ? "canvas" : "svg" });
    this.#kind = kind;
  }

  draw(figures, colors, size) {
    this.#chart.resize(size);
    // The library lays tiles out before it asks for their labels, and tells nobody else how large they are.
    const tileOf = (index) => this.#chart.getModel().getSeriesByIndex(0).getData().getItemLayout(index);
    const paint = (bare) => this.#chart.setOption(KINDS[this.#kind](figures, colors, styles(), size, tileOf, bare), { replaceMerge: ["series"] });
    paint(new Set());
    if (this.#kind !== "treemap") return [];
    const small = this.#unlabeled(figures, tileOf);
    // Where a row's tile is does not depend on the headers, so what has no room for one has none without it either.
    const bare = new Set(small.filter(({ isNamed }) => !isNamed).map(({ name }) => name));
    if (bare.size && figures.names.length > 1) paint(bare);
    return small.map(({ text }) => text);
  }

  // The tiles that have no room for their name and value: what is no part of another one.
  #unlabeled({ names }, tileOf) {
    const data = this.#chart.getModel().getSeriesByIndex(0).getData();
    const found = [];
    data.each((index) => {
      const { name, title, texts, about } = data.getRawDataItem(index) ?? {};
      if (!about || (names.length > 1 && !title)) return;
      const tile = tileOf(index);
      const hasRoom = tile && !tile.invisible;
      const label = hasRoom && (title ? tile.height > UPPER && headed(title, tile) : fitted(texts, tile).join("  "));
      const isWhole = label === (title ?? texts).join("  ");
      if (!isWhole) found.push({ name, text: (title ?? texts).join(" "), isNamed: Boolean(label) });
    });
    return found;
  }

  close() {
    this.#chart.dispose();
  }
}
