// Views of a topic that the user has saved by name in this browser.
import { html, useState } from "./lib.js";
import { go, writeRoute } from "./route.js";

const name = (topic) => `sowline.views.${topic}`;
const read = (topic) => JSON.parse(localStorage.getItem(name(topic)) ?? "{}");

export function SavedViews({ route }) {
  const [views, setViews] = useState(() => read(route.topic));
  const here = writeRoute({ ...route, record: "" });
  const current = Object.keys(views).find((one) => writeRoute(views[one]) === here) ?? "";
  const keep = (changed) => {
    localStorage.setItem(name(route.topic), JSON.stringify(changed));
    setViews(changed);
  };
  const choose = (event) => {
    const chosen = event.target.value;
    if (chosen === "+") {
      const title = prompt("Save this view as")?.trim();
      if (title) keep({ ...views, [title]: { ...route, record: "" } });
      event.target.value = current;
    } else if (chosen === "-") {
      const { [current]: removed, ...others } = views;
      keep(others);
    } else if (chosen) {
      go(views[chosen]);
    }
  };
  return html`<label class="saved"><span class="unseen">Saved views</span><select value=${current} onChange=${choose}>
    <option value="">Saved views</option>
    ${Object.keys(views).map((one) => html`<option value=${one}>${one}</option>`)}
    <option value="+">Save this view…</option>
    ${current && html`<option value="-">Remove “${current}”</option>`}
  </select></label>`;
}
