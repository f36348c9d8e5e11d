// What the console knows of the fields of a topic: those of the records shown, and those of a sample that the service describes.
import { aboutRecords, askJson, service, topicPath } from "./service.js";
import { Schema, columnsOf } from "./fields.js";

const SAMPLE = 500;
const VALUES_MAX = 60;
const KEEP_MS = 30_000;

const described = new Map();

// What the service says of a topic's fields, from a sample, and of the functions of filters; kept for half a minute.
export function describedFields(topic) {
  const held = described.get(topic.name);
  if (held && performance.now() - held.at < KEEP_MS) return held.found;
  const found = topic.sow ? askJson(topicPath(topic.name, "fields")) : Promise.resolve({ fields: [], functions: [] });
  described.set(topic.name, { at: performance.now(), found });
  found.catch(() => described.delete(topic.name));
  return found;
}

// The columns of the first records that a query finds, as `shownColumns` has them.
export async function sampleOf(topic, { filter, condition, options }) {
  const rows = new Map();
  const schema = new Schema();
  for await (const message of service.client.sow(topic.name, { filter, condition, options: [...aboutRecords(topic), ...options].join(","), batchSize: SAMPLE, topN: SAMPLE })) {
    if (message.command !== "sow") continue;
    const { data: record, timestamp, intrinsics } = message;
    const pairs = columnsOf({ record, timestamp, intrinsics });
    schema.take(pairs);
    rows.set(message.sowKey, pairs);
  }
  return shownColumns({ keys: () => rows.keys(), pairs: (key) => rows.get(key) }, schema.columns);
}

// The columns of the records that are there.
export function columnsIn(live) {
  const schema = new Schema();
  let seen = 0;
  for (const key of live.keys()) {
    schema.take(live.pairs(key));
    seen += 1;
    if (seen === SAMPLE) break;
  }
  return shownColumns(live, schema.columns);
}

// The columns of the records shown, with their kind and how many different values a sample of them has.
export function shownColumns(live, kinds) {
  const values = new Map([...kinds.keys()].map((path) => [path, new Set()]));
  let seen = 0;
  for (const key of live.keys()) {
    for (const [path, value] of live.pairs(key)) {
      const found = values.get(path);
      if (found && value !== null && value !== undefined && found.size <= VALUES_MAX) found.add(value);
    }
    seen += 1;
    if (seen === SAMPLE) break;
  }
  return [...kinds].map(([path, kind]) => ({ path, kind, different: values.get(path).size }));
}

const NUMERIC = new Set(["integer", "float"]);
export const isNumeric = ({ kind }) => NUMERIC.has(kind);

// The fields that divide records into some groups, the best first: those with few different values, texts before others.
export function dividing(columns, keys) {
  const some = columns.filter(({ path, kind, different }) => kind !== "datetime" && different > 1 && different <= VALUES_MAX && !keys.includes(path));
  return some.sort((one, other) => (one.kind === "string" ? 0 : 1) - (other.kind === "string" ? 0 : 1) || one.different - other.different);
}
