// The line above a grid: its state, how many rows it has, and where in the log it is.
import { html, useEffect, useState } from "./lib.js";
import { COLUMNS_MAX } from "./fields.js";
import { MESSAGES_MAX } from "./live.js";
import { Copy } from "./record.js";
import { count, rate } from "./text.js";
import { lateness, usePolled } from "./topics.js";

const RATE_MS = 1000;
const LAG_MS = 1000;

const STATES = {
  loading: ["muted", "loading"],
  drawing: ["muted", "drawing"],
  live: ["ok", "live"],
  "catching up": ["warn", "catching up"],
  reconnecting: ["warn", "reconnecting"],
  failed: ["bad", "refused"],
  closed: ["muted", "closed"],
};

// Charts and pivots are of all records, unless they are made in the browser.
const OF_FIRST = { chart: "the chart is of the records in the browser, ", pivot: "the pivot is of the records in the browser, " };

function useRate(live) {
  const [now, setNow] = useState(0);
  useEffect(() => {
    let before = live?.messages ?? 0;
    let at = performance.now();
    const timer = setInterval(() => {
      const messages = live?.messages ?? 0;
      setNow((messages - before) / ((performance.now() - at) / 1000));
      before = messages;
      at = performance.now();
    }, RATE_MS);
    return () => clearInterval(timer);
  }, [live]);
  return now;
}

// What the chip shows: the state of the records and, where that is live, how far the service is behind the log.
function stateOf(live, isLoading, sheet, served) {
  const state = isLoading ? "loading" : (live?.state ?? "failed");
  if (state === "live" && live.size && !sheet?.isDrawn) return STATES.drawing;
  if (state !== "live" || !served) return STATES[state];
  const late = served.lag === null ? "lag unknown" : lateness(served);
  return late ? ["warn", late] : STATES.live;
}

export function Standing({ live, isLoading, sheet, limit, topic, tab }) {
  const now = useRate(live);
  const [answer] = usePolled("topics", LAG_MS);
  const [tone, word] = stateOf(live, isLoading, sheet, answer?.body.topics.find(({ name }) => name === topic.name));
  const rows = live?.rows ?? 0;
  const due = live?.state === "loading" && live.matches > rows ? ` of ${count(Math.min(live.matches, limit))}` : "";
  const missing = live && topic.sow && !live.groups ? Math.max(0, live.matches - limit) : 0;
  const bookmark = live?.bookmark;
  return html`
    <div class="standing">
      <span class="chip ${tone}" role="status">${word}</span>
      <span data-count="rows"><strong>${count(rows)}</strong>${due} ${topic.sow ? (rows === 1 ? "row" : "rows") : "messages"}</span>
      <span class="muted">${rate(now)} messages/s</span>
      ${bookmark && html`<span class="bookmark"><span class="muted">at</span> <code title=${bookmark}>${bookmark}</code> <${Copy} text=${bookmark} what="the bookmark" /></span>`}
      ${(missing > 0 || live?.cut > 0) && topic.sow && html`<strong class="cut" role="alert">${OF_FIRST[tab] ?? ""}cut at ${count(limit)} rows${live.matches > limit ? ` of ${count(live.matches)}` : ""}: a filter, or more rows in the options, shows the others</strong>`}
      ${!topic.sow && live?.cut > 0 && html`<strong class="cut">the newest ${count(MESSAGES_MAX)}</strong>`}
      ${sheet?.columnsCut > 0 && html`<strong class="cut">the first ${COLUMNS_MAX} columns; ${count(sheet.columnsCut)} are not shown</strong>`}
    </div>
  `;
}
