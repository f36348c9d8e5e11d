// The figures of a chart: what is measured, of which groups, in which order. They are made of the groups that the service
// has computed, or of the records in the browser; how they are drawn is another matter.
import { COUNT, NONE, WIDTHS } from "./chosen.js";
import { UPDATED, columnsOf, flatten, isField, keyText, nameOf, stepsOf, timeOf } from "./fields.js";
import { figure, instant, plural } from "./text.js";

// A chart with more of them can't be read; what is left out is said under it.
export const SERIES_MAX = 9;
const ROWS_MAX = { bars: 100, treemap: 60, heatmap: 60 };
const COLUMNS_MAX = 40;
const BUCKETS_MAX = 1000;
// As many times as this, and no more, are a course; a line needs some pixels for each.
const COURSE = 120;
const TIME_PX = 3;
const NO_VALUE = "(no value)";
const ZONE = "UTC";

const numberOf = (value) => (typeof value === "bigint" ? Number(value) : typeof value === "number" ? value : undefined);
const isHeld = (value) => value !== null && value !== undefined;
const labelOf = (value) => (isHeld(value) ? String(value) || "(empty)" : NO_VALUE);
const labelsOf = (path) => (path === UPDATED ? (ms) => (isHeld(ms) ? instant(ms) : NO_VALUE) : labelOf);

// Different values of several groups can't be put together, and neither can what is not a part of a whole be stacked.
const isAdditive = ({ path, aggregate }) => path === COUNT || aggregate === "sum" || aggregate === "count";
export const measureName = ({ path, aggregate }) => (path === COUNT ? "records" : `${aggregate} of ${nameOf(path)}`);

// One measure of some records.
const tally = () => ({ records: 0, held: 0, sum: 0, min: Infinity, max: -Infinity, different: undefined });

function addTo(one, other) {
  one.records += other.records;
  one.held += other.held;
  one.sum += other.sum;
  one.min = Math.min(one.min, other.min);
  one.max = Math.max(one.max, other.max);
  if (other.different instanceof Set) {
    one.different ??= new Set();
    for (const value of other.different) one.different.add(value);
  } else if (other.different !== undefined) {
    one.different = one.different === undefined ? other.different : NaN;
  }
  return one;
}

// Its value: null if no record has one, which is not zero.
function resultOf(one, { path, aggregate }) {
  if (!one) return null;
  if (path === COUNT) return one.records;
  if (aggregate === "count") return one.held;
  if (aggregate === "distinct count") return one.different instanceof Set ? one.different.size : Number.isNaN(one.different) ? null : (one.different ?? 0);
  if (!one.held) return null;
  return aggregate === "avg" ? one.sum / one.held : one[aggregate];
}

// A measure of a group of the service.
function ofGroup({ path, aggregate }, group, index) {
  const one = { ...tally(), records: numberOf(group.records) ?? 0 };
  if (path === COUNT) return one;
  const value = numberOf(group[`value${index}`]);
  if (value === undefined) return one;
  const held = aggregate === "avg" ? (numberOf(group[`weight${index}`]) ?? 0) : aggregate === "count" ? value : 1;
  return { ...one, held, sum: aggregate === "avg" ? value * held : value, min: value, max: value, different: aggregate === "distinct count" ? value : undefined };
}

// A measure of one record.
function ofRecord({ path, aggregate }, value) {
  const one = { ...tally(), records: 1 };
  if (path === COUNT || !isHeld(value)) return one;
  if (aggregate === "count") return { ...one, held: 1 };
  if (aggregate === "distinct count") return { ...one, held: 1, different: new Set([value]) };
  const number = numberOf(value);
  return number === undefined ? one : { ...one, held: 1, sum: number, min: number, max: number };
}

// Reads a field of a row, as its column has it.
function readerOf(path) {
  if (path === UPDATED) return ({ timestamp }) => (timestamp === undefined ? null : Date.parse(timestamp));
  if (!isField(path)) return (row) => new Map(columnsOf(row)).get(path);
  const steps = stepsOf(path);
  return ({ record }) => {
    const value = steps.reduce((found, name) => found?.[name], record);
    return value !== null && typeof value === "object" ? flatten(value)[0]?.[1] : value;
  };
}

// Calls `take` with the values of the fields, and with the measures, of each group or record.
function each(live, fields, measures, take) {
  const { groups } = live;
  const readers = groups ? [] : fields.map(readerOf);
  const values = groups ? [] : measures.map(({ path }) => (path === COUNT ? () => null : readerOf(path)));
  const places = groups ? fields.map((path) => `by${groups.by.indexOf(path)}`) : [];
  const indexes = groups ? measures.map(({ path, aggregate }) => groups.measures.findIndex((one) => one.path === path && one.aggregate === aggregate)) : [];
  for (const key of live.keys()) {
    const row = live.row(key);
    if (!row) continue;
    if (groups) take(places.map((place) => row.record[place]), measures.map((one, at) => ofGroup(one, row.record, indexes[at])));
    else take(readers.map((read) => read(row)), measures.map((one, at) => ofRecord(one, values[at](row))));
  }
}

// The measures by the labels of row and series, and the number of records that have no row.
function tabulated(live, fields, measures, labels) {
  const cells = new Map();
  let skipped = 0;
  each(live, fields, measures, (values, found) => {
    const [row, column = ""] = values.map((value, at) => labels[at](value));
    if (row === undefined) {
      skipped += found[0].records;
      return;
    }
    const columns = cells.get(row) ?? cells.set(row, new Map()).get(row);
    const before = columns.get(column) ?? columns.set(column, measures.map(tally)).get(column);
    found.forEach((one, at) => addTo(before[at], one));
  });
  return { cells, skipped };
}

const merged = (columns, measures) => [...columns].reduce((whole, found) => whole.map((one, at) => addTo(one, found[at])), measures.map(tally));

const byName = new Intl.Collator("en", { numeric: true }).compare;

const othersName = (others) => `${others.length} others`;

// The series of a chart: the largest ones, in their order, and the others as one, if they can be put together. `found` are
// the measures of a series in a row, by its number.
function seriesOf(cells, measures, most, canJoin = true) {
  const sizes = new Map();
  for (const columns of cells.values()) for (const [name, found] of columns) sizes.set(name, addTo(sizes.get(name) ?? tally(), found[0]));
  const [first] = measures;
  const size = (name) => Math.abs(resultOf(sizes.get(name), isAdditive(first) ? first : { path: COUNT }) ?? 0);
  const names = [...sizes.keys()].sort((one, other) => size(other) - size(one) || byName(one, other));
  // The order must not change while the figures do: a color belongs to a name.
  const drawn = new Set(names.slice(0, most));
  const own = [...drawn].sort(byName);
  const others = names.filter((name) => !drawn.has(name));
  const hasOthers = canJoin && others.length > 0 && first.aggregate !== "distinct count";
  return {
    series: hasOthers ? [...own, othersName(others)] : own,
    hasOthers,
    all: names.length,
    found: (columns, at) => (at < own.length ? columns?.get(own[at]) : columns && merged(others.map((name) => columns.get(name)).filter(Boolean), measures)),
  };
}

// How many records are in what is drawn.
const recordsOf = (rows, series, found) => rows.reduce((sum, columns) => series.reduce((part, _, at) => part + (found(columns, at)?.[0].records ?? 0), sum), 0);

const leftOut = (most, all, what) => (all > most ? [`the ${most} largest of ${plural(all, `value`)} of ${what}; a filter shows others`] : []);

// The figures of bars, a treemap or a heatmap.
function ofGroups(live, chosen) {
  const { chart, by, across, color } = chosen;
  const measures = measuresOf(chosen);
  const [measure] = measures;
  const fields = across === NONE ? [by] : [by, across];
  const { cells } = tabulated(live, fields, measures, fields.map(labelsOf));
  const totals = new Map([...cells].map(([row, columns]) => [row, resultOf(merged(columns.values(), measures)[0], measure)]));
  const all = [...cells.keys()].sort((one, other) => (totals.get(other) ?? -Infinity) - (totals.get(one) ?? -Infinity) || byName(one, other));
  const rows = all.slice(0, ROWS_MAX[chart]);
  if (chart === "heatmap") rows.sort(byName);
  const isMap = chart === "heatmap";
  const { series, hasOthers, all: names, found } = seriesOf(cells, measures, isMap ? COLUMNS_MAX : SERIES_MAX, !isMap);
  const values = (index) => rows.map((row) => series.map((_, at) => resultOf(found(cells.get(row), at)?.[index], measures[index])));
  // The records of no group at all are none: those of the others must be there to have a value.
  const table = values(0).map((row) => row.map((value, at) => (hasOthers && at === series.length - 1 && value === 0 ? null : value)));
  return {
    kind: chart,
    title: `${measureName(measure)} by ${fields.map(nameOf).join(" and ")}`,
    measure: { name: measureName(measure), isAdditive: isAdditive(measure) },
    names: fields.map(nameOf),
    rows,
    series,
    hasOthers,
    values: table,
    drawn: recordsOf(rows.map((row) => cells.get(row)), series, found),
    totals: rows.map((row) => totals.get(row)),
    color: color && chart === "treemap" ? { name: measureName(measures[1]), values: values(1) } : undefined,
    notes: [
      ...(chart === "treemap" && table.flat().some((value) => value < 0) ? ["values below zero have no tile; bars show them"] : []),
      ...(chart === "heatmap" && table.flat().includes(null) ? ["blank: no value"] : []),
      ...leftOut(rows.length, all.length, nameOf(by)),
      ...(hasOthers ? [] : leftOut(series.length, names, nameOf(across))),
    ],
    head: [nameOf(by), ...(across === NONE ? [measureName(measure)] : series)],
    lines: rows.map((row, at) => [row, ...table[at].map(figure)]),
  };
}

const measuresOf = ({ chart, value, aggregate, color }) => [
  { path: value, aggregate: value === COUNT ? "count" : aggregate },
  ...(chart === "treemap" && color ? [{ path: color, aggregate: "avg" }] : []),
];

// How long each of the times is: as chosen, or longer where so many have no room.
function fitting(span, chosen, room) {
  const names = Object.keys(WIDTHS);
  const most = Math.min(Math.floor(room / TIME_PX), chosen === undefined ? COURSE : BUCKETS_MAX);
  return names.slice(Math.max(0, names.indexOf(chosen))).find((name) => span / WIDTHS[name][1] <= most) ?? "D";
}

// The figures of a course over time: one value for each bucket, from the first to the last one.
function ofTime(live, chosen, { room }) {
  const { time, across } = chosen;
  if (!time) return { kind: "none", title: "no course", notes: ["no field of these records is a time"], head: [], lines: [] };
  const measures = measuresOf(chosen);
  const [measure] = measures;
  const fields = across === NONE ? [time] : [time, across];
  const ms = (value) => (typeof value === "number" ? value : typeof value === "string" ? timeOf(value) : NaN);
  let [least, most] = [Infinity, -Infinity];
  each(live, [time], [], ([value]) => {
    const at = ms(value);
    if (Number.isNaN(at)) return;
    least = Math.min(least, at);
    most = Math.max(most, at);
  });
  const width = fitting(most - least, chosen.width, room);
  const [per, step] = WIDTHS[width];
  const bucket = (value) => {
    const at = ms(value);
    return Number.isNaN(at) ? undefined : Math.floor(at / step) * step;
  };
  const { cells, skipped } = tabulated(live, fields, measures, [bucket, labelsOf(across)]);
  const { series, hasOthers, all: names, found } = seriesOf(cells, measures, SERIES_MAX);
  const last = Math.floor(most / step) * step;
  const all = cells.size ? Math.round((last - Math.floor(least / step) * step) / step) + 1 : 0;
  const rows = Array.from({ length: Math.min(all, BUCKETS_MAX) }, (_, at) => last - (Math.min(all, BUCKETS_MAX) - 1 - at) * step);
  // A time without records has none, which is their number; what else there is to measure of them is not known.
  const empty = measure.path === COUNT || measure.aggregate.endsWith("count") ? 0 : null;
  const values = rows.map((row) => series.map((_, at) => resultOf(found(cells.get(row), at)?.[0], measure) ?? empty));
  const split = across === NONE ? "" : ` and ${nameOf(across)}`;
  return {
    kind: "time",
    title: `${measureName(measure)} by ${nameOf(time)}${split}, per ${per}`,
    measure: { name: `${measureName(measure)} per ${per}`, isAdditive: isAdditive(measure) },
    names: fields.map(nameOf),
    axis: `${nameOf(time)} (${ZONE})`,
    step,
    rows,
    series,
    hasOthers,
    values,
    drawn: recordsOf(rows.map((row) => cells.get(row)), series, found),
    notes: [
      ...(chosen.width !== undefined && width !== chosen.width ? [`per ${per}: for each ${WIDTHS[chosen.width][0]} there is no room`] : []),
      ...(rows.length ? [`dashed: the newest ${per}, which may not be complete`] : []),
      ...(all > rows.length ? [`the newest ${figure(rows.length)} of ${figure(all)} times; a longer one shows all`] : []),
      ...(skipped ? [`${plural(skipped, "record")} without a time`] : []),
      ...(hasOthers ? [] : leftOut(series.length, names, nameOf(across))),
    ],
    head: [`${nameOf(time)} (${ZONE})`, ...(across === NONE ? [measureName(measure)] : series)],
    lines: rows.map((row, at) => [instant(row), ...values[at].map(figure)]),
  };
}

const POINTS_IN_TABLE = 100;

// The figures of points: one for each record in the browser that has both numbers.
function ofPoints(live, chosen, { topic }) {
  const { x, y, by } = chosen;
  if (!x || !y) return { kind: "none", title: "no points", notes: ["these records have no two fields that are numbers"], head: [], lines: [] };
  const isSplit = by !== undefined && by !== NONE;
  const [readX, readY, readName] = [readerOf(x), readerOf(y), isSplit ? readerOf(by) : () => ""];
  const points = new Map();
  let without = 0;
  for (const key of live.keys()) {
    const row = live.row(key);
    if (!row) continue;
    const [across, up] = [numberOf(readX(row)), numberOf(readY(row))];
    if (across === undefined || up === undefined) {
      without += 1;
      continue;
    }
    const name = isSplit ? labelsOf(by)(readName(row)) : "";
    (points.get(name) ?? points.set(name, []).get(name)).push([across, up, key]);
  }
  const names = [...points.keys()].sort((one, other) => points.get(other).length - points.get(one).length || byName(one, other));
  const [drawn, others] = [names.slice(0, SERIES_MAX).sort(byName), names.slice(SERIES_MAX)];
  const series = others.length ? [...drawn, othersName(others)] : drawn;
  const found = series.map((name, at) => (at < drawn.length ? points.get(name) : others.flatMap((one) => points.get(one))));
  const about = (key) => {
    const row = live.row(key);
    return row && topic.sow ? keyText(topic, row.record, key, row.intrinsics) : key;
  };
  const listed = series.flatMap((name, at) => found[at].slice(0, POINTS_IN_TABLE).map((point) => [point, name])).slice(0, POINTS_IN_TABLE);
  const all = found.reduce((sum, { length }) => sum + length, 0);
  return {
    kind: "scatter",
    title: `${nameOf(y)} against ${nameOf(x)}, of each record${isSplit ? `, by ${nameOf(by)}` : ""}`,
    names: [nameOf(x), nameOf(y), ...(isSplit ? [nameOf(by)] : [])],
    series,
    hasOthers: others.length > 0,
    points: found,
    drawn: all,
    about,
    notes: without ? [`${plural(without, "record")} without both numbers`] : [],
    head: ["record", nameOf(x), nameOf(y), ...(isSplit ? [nameOf(by)] : [])],
    lines: listed.map(([[across, up, key], name]) => [about(key), figure(across), figure(up), ...(isSplit ? [name] : [])]),
    cut: all > listed.length ? `the first ${figure(listed.length)} of ${plural(all, "point")}` : undefined,
  };
}

const MAKERS = { time: ofTime, scatter: ofPoints };

// The figures of the chosen chart: its title, the names of its axes, and its values by row and series. `notes` say what
// is left out, and what could be taken for something else; `head` and `lines` are the same figures as texts of a table.
// `room` is the width of the chart, in pixels.
export function figuresOf(live, chosen, topic, room) {
  return (MAKERS[chosen.chart] ?? ofGroups)(live, chosen, { topic, room });
}
