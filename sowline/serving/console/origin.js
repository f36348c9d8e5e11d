// What kind of topic this is, and what a view or a conflated topic comes from. Nobody writes to these: a service computes them.
import { html } from "./lib.js";
import { count } from "./text.js";
import { Term } from "./words.js";

export const isComputed = (topic) => Boolean(topic.view);

const originOf = ({ from, joins, interval_ms: interval }) =>
  interval ? `conflated from ${from}, every ${interval % 1000 ? `${count(interval)} ms` : `${count(interval / 1000)} s`}` : `view of ${[from, ...joins.map(({ topic }) => topic)].join(" and ")}`;

// What a topic keeps or is computed from, in words.
export const kindOf = (topic) => (isComputed(topic) ? originOf(topic.view) : topic.documents ? "documents" : topic.sow ? "records" : "messages only");

export function Origin({ topic }) {
  return isComputed(topic) && html`<span class="tag origin"><${Term} word=${topic.view.interval_ms ? "conflated" : "view"}>${originOf(topic.view)}<//></span>`;
}
