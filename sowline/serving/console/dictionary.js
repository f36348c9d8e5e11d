// What a FIX data dictionary says of a record: the tags of its fields, and what their values mean.
import { useEffect, useState } from "./lib.js";
import { describedFields } from "./columns.js";

// SELL_SHORT as a person writes it.
const written = (name) => (/[a-z]/.test(name) ? name : name[0] + name.slice(1).toLowerCase()).replaceAll("_", " ");

// Returns what stands beside the field of a record, and beside its value, each undefined if the dictionary has nothing;
// undefined for topics that are no FIX.
export function useDictionary(topic) {
  const [values, setValues] = useState({});
  const tags = new Map(Object.entries(topic.message_format?.names ?? {}).map(([tag, name]) => [name, tag]));
  useEffect(() => {
    let closed = false;
    if (topic.message_type === "fix") describedFields(topic).then((found) => !closed && setValues(found.value_names), () => {}); // the values stand there without their names
    return () => { closed = true; };
  }, [topic.name]);
  if (topic.message_type !== "fix") return undefined;
  return {
    tagOf: (field) => tags.get(field),
    // A field may have several values, with a space between them.
    meaningOf: (field, value) => {
      const names = Object.hasOwn(values, field) ? values[field] : {};
      const found = Object.hasOwn(names, value) ? [names[value]] : value.split(" ").map((one) => (Object.hasOwn(names, one) ? names[one] : undefined));
      return found.includes(undefined) ? undefined : found.map(written).join(", ");
    },
  };
}
