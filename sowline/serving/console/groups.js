// The groups of a chart or pivot: the service computes them from all records that match, however many the browser holds.
import { COUNT, NONE, chosenFields, tabOf } from "./chosen.js";
import { isField } from "./fields.js";

export const RECORDS = "records";

// Of each aggregate: the function of the service, and how the viewer puts groups together, where it shows several as one.
const FUNCTIONS = {
  sum: ["SUM", "sum"],
  avg: ["AVG", "weighted mean"],
  min: ["MIN", "min"],
  max: ["MAX", "max"],
  count: ["COUNT", "sum"],
  "distinct count": ["COUNT_DISTINCT", "any"],
};

const hasOwn = (options) => /(^|,)\s*(select|grouping|projection)=/.test(options ?? "");
const weightOf = (measure) => `count of ${measure.name}`;

// Whether what a tab shows can be groups of the service.
export function canGroup(topic, route) {
  const tab = tabOf(route);
  const isChart = tab === "chart" && route.chart !== "scatter";
  return topic.sow && (isChart || tab === "pivot") && !hasOwn(route.options);
}

// The groups that a tab shows: the paths by which, and what is measured of each; undefined if the service has none.
// `columns` are those of the records.
export function groupsOf(route, columns, keys) {
  if (!columns.length) return undefined;
  const chosen = chosenFields(route, columns, keys);
  const isChart = tabOf(route) === "chart";
  const isTime = isChart && chosen.chart === "time";
  // The browser makes the buckets of time: different values of different times can't be put together.
  if (isTime && chosen.aggregate === "distinct count" && chosen.value !== COUNT) return undefined;
  const by = [...new Set([isTime ? chosen.time : chosen.by, chosen.across])].filter((path) => path !== undefined && path !== NONE);
  const values = chosen.value === COUNT ? [] : [[chosen.value, chosen.aggregate]];
  if (isChart && chosen.chart === "treemap" && chosen.color) values.push([chosen.color, "avg"]);
  if (!by.length || ![...by, ...values.map(([path]) => path)].every(isField)) return undefined;
  const measures = values.map(([path, aggregate]) => ({ path, aggregate, name: by.includes(path) ? `${aggregate} of ${path}` : path }));
  return { by, measures };
}

// Names the groups, or that there are none: equal names, equal groups.
export const keyOf = (groups) => (groups ? groupedOptions(groups) : String(groups));

// The options of a subscription to them.
export function groupedOptions({ by, measures }) {
  const fields = [
    ...by.map((path, at) => `${path} AS /by${at}`),
    "COUNT(1) AS /records",
    ...measures.flatMap(({ path, aggregate }, at) => [`${FUNCTIONS[aggregate][0]}(${path}) AS /value${at}`, ...(aggregate === "avg" ? [`COUNT(${path}) AS /weight${at}`] : [])]),
  ];
  return `grouping=[${by.join(",")}],projection=[${fields.join(",")}]`;
}

// A group as columns: the fields by their paths, then the number of records, then the values.
export function valuesOf({ by, measures }, group) {
  if (!group) return [];
  return [
    ...by.map((path, at) => [path, group[`by${at}`]]),
    [RECORDS, group.records],
    ...measures.flatMap((measure, at) => [[measure.name, group[`value${at}`]], ...(measure.aggregate === "avg" ? [[weightOf(measure), group[`weight${at}`]]] : [])]),
  ];
}

// The number of records in all groups.
export function recordsIn(groups) {
  let sum = 0;
  for (const { records } of groups) sum += records;
  return sum;
}

// How the viewer puts the measure of several groups together.
export const together = (measure) => {
  const name = FUNCTIONS[measure.aggregate][1];
  return measure.aggregate === "avg" ? [name, [weightOf(measure)]] : name;
};
