// The line above a grid: its state, how many rows it has, and how fast they change; and where in the log they are.
import { html, useEffect, useState } from "./lib.js";
import { asOf, timeOfDay } from "./connection.js";
import { COLUMNS_MAX } from "./fields.js";
import { MESSAGES_MAX, PAGE_MAX } from "./live.js";
import { Copy } from "./record.js";
import { count, rate } from "./text.js";
import { Term } from "./words.js";
import { usePolled } from "./polled.js";
import { OVER, Rates, meanOf } from "./rates.js";
import { lateness, sourceLateness } from "./topics.js";

const RATE_MS = 1000;
const LAG_MS = 1000;

const STATES = {
  loading: ["muted", "loading"],
  drawing: ["muted", "drawing"],
  live: ["ok", "live"],
  "catching up": ["warn", "catching up"],
  reconnecting: ["warn", "waiting for the service"],
  failed: ["bad", "refused"],
  closed: ["muted", "closed"],
};

// Charts and pivots are of all records, unless they are made in the browser.
const OF_FIRST = { chart: "the chart is of the records in the browser: ", pivot: "the pivot is of the records in the browser: " };

// The changes a second that come while the records are live; undefined until they have been for long enough.
function useRate(live) {
  const [now, setNow] = useState();
  useEffect(() => {
    setNow(undefined);
    let rates = new Rates();
    const look = () => {
      if (live?.state === "live") rates.look(live.messages, performance.now());
      else rates = new Rates();
      setNow(meanOf(rates.shown, performance.now()));
    };
    look();
    const timer = setInterval(look, RATE_MS);
    return () => clearInterval(timer);
  }, [live]);
  return now;
}

const namesOf = (live, topic) => (live?.isGrouped ? "updates" : topic.sow ? "changes" : "messages");

// What is shown while something else is refused, in words.
function shownInstead({ asked, stoppedAt }, refused) {
  const terms = [asked.filter, asked.condition].filter(Boolean);
  const what = asked.filter === refused.asked.filter && asked.condition === refused.asked.condition ? "the options before" : terms.length ? terms.join(" and ") : "no filter";
  return `showing: ${what}${stoppedAt ? `, as of ${timeOfDay(stoppedAt)}` : ""}`;
}

// What the chip shows: the state of the records and, where that is live, how far the service is behind the log.
function stateOf(live, isLoading, sheet, served, topics) {
  const state = isLoading ? "loading" : (live?.state ?? "failed");
  if (state === "live" && live.size && !sheet?.isDrawn) return STATES.drawing;
  if (state !== "live" || !served) return STATES[state];
  const late = served.lag === null ? "lag unknown" : lateness(served);
  if (late) return ["warn", late];
  const source = sourceLateness(served, topics);
  return source ? ["warn", source] : STATES.live;
}

// What is counted: a pivot has a row, and a chart a mark, for many records.
function unitOf(topic, tab, isOne) {
  const unit = !topic.sow ? "message" : tab in OF_FIRST ? "record" : "row";
  return isOne ? unit : `${unit}s`;
}

// How many records match, if the browser does not hold all of them; and how to come to the others.
function cutOf(live, limit) {
  const most = live.isPage ? Math.min(limit, PAGE_MAX) : limit;
  if (live.isGrouped || live.groups || !(live.cut > 0 || live.matches > most)) return {};
  const remedy = most < limit ? "a filter shows the others; a page holds no more" : "a filter, or more rows in the options, shows the others";
  return live.matches > most ? { all: live.matches, hint: remedy } : { hint: `more match: ${remedy}` };
}

// How many records the browser will hold once those that are still to come are there.
const dueOf = (live, rows, limit) => (live?.state === "loading" && live.matches > rows ? Math.min(live.matches, limit) : undefined);

// How many records there are of which the browser holds so many: undefined if it holds all.
export const allOf = (live, rows, limit, { all } = cutOf(live, limit)) => all ?? dueOf(live, rows, limit);

// Whether there may be more records, of which nobody knows yet how many.
export const isCounting = (live) => live?.state === "loading" && live.matches === undefined;

// Where in the log is what is shown: for who continues from there with a program.
export function Bookmark({ live, sheet }) {
  const { bookmark } = sheet?.shown ?? live ?? {};
  return bookmark && html`<p class="bookmark"><span class="muted"><${Term} word="Bookmark" /></span> <code title=${bookmark}>${bookmark}</code> <${Copy} text=${bookmark} what="the bookmark" /></p>`;
}

export function Standing({ live, refused, isLoading, sheet, limit, topic, tab }) {
  const now = useRate(live);
  const [answer] = usePolled("topics", LAG_MS);
  const served = answer?.body.topics.find(({ name }) => name === topic.name);
  const [tone, word] = live && refused ? ["warn", shownInstead(live, refused)] : stateOf(live, isLoading, sheet, served, answer?.body.topics);
  // What is drawn is of one moment: its number of rows is not that of records which came since.
  const { rows = 0 } = sheet?.shown ?? live ?? {};
  const cut = live && topic.sow ? cutOf(live, limit) : {};
  const { hint } = cut;
  const all = allOf(live, rows, limit, cut);
  return html`
    <div class="standing">
      ${asOf() ? html`<strong class="lost-since">${asOf()}</strong>` : html`<span class="chip ${tone}" role="status">${word}</span>`}
      <span data-count="rows" class=${tab === "chart" && !all ? "unseen" : undefined}><strong>${count(rows)}</strong> ${all && `of ${count(all)} `}${unitOf(topic, tab, rows === 1 && !all)}${isCounting(live) && " so far"}</span>
      ${all && live.matchesAt && html`<span class="muted">counted at ${timeOfDay(live.matchesAt)}</span>`}
      ${!asOf() && !live?.stoppedAt && now !== undefined && html`<span class="muted rate"><${Term} word=${namesOf(live, topic)}>${rate(now)} ${namesOf(live, topic)}/s ${OVER}<//></span>`}
      ${hint && html`<strong class="cut" role="alert">${OF_FIRST[tab] ?? ""}${hint}</strong>`}
      ${!topic.sow && live?.cut > 0 && html`<strong class="cut">the newest ${count(MESSAGES_MAX)}</strong>`}
      ${sheet?.columnsCut > 0 && html`<strong class="cut">the first ${COLUMNS_MAX} columns; ${count(sheet.columnsCut)} are not shown</strong>`}
    </div>
  `;
}
