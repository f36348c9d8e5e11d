// Where a page is: the topics, the topic, and the open record.
import { html } from "./lib.js";
import { writeRoute } from "./route.js";

export function Breadcrumb({ route, page, recordName }) {
  const { topic } = route;
  return html`<nav class="breadcrumb" aria-label="breadcrumb"><ol>
    <li><a href="#/topics">Topics</a></li>
    <li>${page === "topic" ? html`<span aria-current="page">${topic}</span>` : html`<a href=${writeRoute({ view: "topic", topic })}>${topic}</a>`}</li>
    ${page !== "topic" && html`<li>${recordName ? html`<a href=${writeRoute({ ...route, record: "" })}>Records</a>` : html`<span aria-current="page">Records</span>`}</li>`}
    ${recordName && html`<li><span aria-current="page">${recordName}</span></li>`}
  </ol></nav>`;
}
