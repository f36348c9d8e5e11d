// What a view or a conflated topic comes from. Nobody writes to it: its service computes it.
import { html } from "./lib.js";
import { count } from "./text.js";

export const isComputed = (topic) => Boolean(topic.view);

export function Origin({ topic }) {
  if (!isComputed(topic)) return null;
  const { from, joins, interval_ms: interval } = topic.view;
  const others = joins.map(({ topic: joined }) => ` and ${joined}`).join("");
  return html`<span class="tag origin">${interval ? `conflated from ${from}, every ${count(interval)} ms` : `view of ${from}${others}`}</span>`;
}
