// How many of the records in the browser have each value of a field: of the moment at which they are drawn. The service
// counts where the browser has not all of them.
import { stepsOf } from "./fields.js";

// To count more of them at each drawing would take longer than to draw them.
const RECORDS_MAX = 20_000;

const isScalar = (value) => value === null || typeof value !== "object";

// The records by the values of one field, the most frequent first; undefined if the service groups its values in another way.
function countOf(live, path) {
  const steps = stepsOf(path);
  const counts = new Map();
  for (const key of live.keys()) {
    const found = steps.reduce((value, name) => value?.[name], live.row(key)?.record);
    const value = found === undefined || found === "" ? null : found;
    if (!isScalar(value)) return undefined;
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].map(([value, records]) => ({ value, records })).sort((one, other) => other.records - one.records);
}

// The counts by these paths; undefined if the browser has not all records that match.
export function countsOf(live, paths) {
  if (!live.isWhole || live.size > RECORDS_MAX) return undefined;
  return new Map(paths.map((path) => [path, countOf(live, path)]));
}
