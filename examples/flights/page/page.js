// The demo's landing page: live views of the query service, and the demo's own numbers and buttons.
import { connect } from "../console/built/sowline.js";
import { Board } from "./board.js";
import { drawCarriers, drawHeat } from "./charts.js";
import { LatencyChart } from "./latency.js";
import { ArrivalsMap } from "./map.js";
import { Outages } from "./outage.js";
import { count, seconds, simulated, wall } from "./text.js";

const ROWS = 14;
const TICK_MS = 100;
const NOT_LIVE = ["reconnecting", "catching up", "failed"];
const get = (id) => document.getElementById(id);
const write = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const client = connect(document.body.dataset.service);
const departures = client.view("flights", { filter: "/status IN ('scheduled', 'late', 'departed late')", orderBy: "/time_hour, /sched_dep_time, /carrier, /flight" });
const carriers = client.view("flights", { options: "conflation=1s,projection=[/carrier,COUNT(1) AS /flights,AVG(/dep_delay) AS /delay],grouping=[/carrier]" });
const delays = client.view("delays", { options: "conflation=1s" });
const arrivals = client.view("arrivals", { options: "conflation=1s" });
const airports = client.view("airports");
const views = [departures, carriers, delays, arrivals];

const names = new Map();
const board = new Board(get("board"), (code) => names.get(code));
const latencies = new LatencyChart(get("latencies"));
const map = new ArrivalsMap(get("arrivals"), get("sizes"), get("busiest"));
const outages = new Outages();
let state;
let isPressed = false;
/** When the demo ended, in seconds since 1970. */
let ended;

function drawBoard() {
  if (state === undefined) return;
  const rows = departures.snapshot();
  board.show(rows.slice(0, ROWS), state.moment);
  const late = rows.filter(({ record }) => record.status !== "scheduled").length;
  write(get("counts"), `${late} late, ${rows.length - late} scheduled`);
  get("empty").hidden = rows.length > 0;
  if (departures.status === "live") write(get("empty"), "No flight is due at this hour.");
}

const PHASES = { starting: "Starting", ended: "Ended", lost: "The demo no longer answers" };
const FIGURES = {
  down: "since the last change",
  checking: "the feed waits until everything is compared",
  live: "from Kafka’s log to a subscriber, median of the newest changes",
  ended: "last measured, from Kafka’s log to a subscriber",
  lost: "last measured, from Kafka’s log to a subscriber",
};

/** What the page says of the moment; `own` is a phase that is the page's, not an outage's. */
function drawMoment(own) {
  const now = ended ?? Date.now() / 1000;
  const phase = own ?? outages.phase;
  document.body.dataset.phase = phase;
  write(get("chip"), PHASES[phase] ?? outages.chip);
  const isDown = phase === "down";
  const latency = state?.latency_ms ?? null;
  write(get("latency"), isDown && outages.asOf !== null ? seconds(Math.max(0, now - outages.asOf)) : latency === null ? "–" : `${count(Math.round(latency))} ms`);
  write(get("latency-of"), FIGURES[phase] ?? FIGURES.live);
  const asOf = phase === "live" || outages.asOf === null ? "" : `as of ${wall(outages.asOf)}`;
  for (const node of document.querySelectorAll(".as-of")) write(node, asOf);
  for (const button of document.querySelectorAll("[data-part]")) button.disabled = phase !== "live" || isPressed;
  latencies.draw(now, outages.spans);
}

const eventsShown = [];
function drawEvents() {
  const lines = outages.lines;
  const list = get("events");
  get("hint").hidden = lines.length > 0;
  lines.slice(0, 3).forEach(({ kind, when, what, result }, index) => {
    const text = `${kind}\n${when}\n${what}\n${result}`;
    if (eventsShown[index] === text) return;
    eventsShown[index] = text;
    const item = document.createElement("li");
    item.className = kind;
    const [time, name, came] = ["time", "strong", "span"].map((tag) => document.createElement(tag));
    [time.textContent, name.textContent, came.textContent] = [when, what, result];
    item.append(time, name, came);
    if (list.children[index]) list.children[index].replaceWith(item);
    else list.append(item);
  });
}

function takeState(taken) {
  state = taken;
  const now = Date.now() / 1000;
  outages.take(state, !views.some(({ status }) => NOT_LIVE.includes(status)), now);
  latencies.add(now, outages.phase === "down" ? null : state.latency_ms);
  write(get("clock"), simulated(state.moment));
  write(get("facts"), count(state.facts));
  write(get("changes"), count(state.changes));
  write(get("visitors"), state.by_visitors ? `${count(state.by_visitors)} commands of visitors wrote ${count(state.visited)} records: they are shown, and left out of the comparison.` : "");
  drawEvents();
  drawMoment();
}

const ENDS = { true: ["ok", "The demo has ended: nothing was lost"], false: ["bad", "The demo has ended: something was lost, or did not work"], null: ["", "The demo was stopped"] };

function takeEnd({ verdict, is_lossless: lossless, summary }) {
  ended = Date.now() / 1000;
  const outcome = get("outcome");
  const [title, sentence, numbers] = outcome.children;
  [outcome.className, title.textContent] = ENDS[lossless];
  sentence.textContent = `${verdict[0].toUpperCase()}${verdict.slice(1)}.`;
  numbers.replaceChildren(...summary.map(([name, value]) => {
    const [pair, term, number] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    [term.textContent, number.textContent] = [name.trim(), value];
    pair.append(term, number);
    return pair;
  }));
  outcome.hidden = false;
  drawMoment("ended");
}

for (const button of document.querySelectorAll("[data-part]")) {
  button.addEventListener("click", async () => {
    isPressed = true;
    drawMoment();
    await fetch(new URL(`/do/${button.dataset.part}`, import.meta.url), { method: "POST" }).catch(() => {});
    isPressed = false;
    drawMoment(ended && "ended");
    button.focus();
  });
}

const states = new EventSource(new URL("/states", import.meta.url));
states.addEventListener("state", ({ data }) => takeState(JSON.parse(data)));
states.addEventListener("end", ({ data }) => {
  states.close();
  takeEnd(JSON.parse(data));
});
states.addEventListener("error", () => drawMoment("lost"));

/** Call a function soon after each change, and once for all changes until then. */
function soon(view, draw, after = TICK_MS) {
  let due;
  const later = () => {
    due ??= setTimeout(() => {
      due = undefined;
      draw();
    }, after);
  };
  view.onChange(later);
  view.onStatus(later);
  new ResizeObserver(later).observe(document.body);
}
soon(departures, drawBoard);
soon(carriers, () => drawCarriers(get("carriers"), [...carriers.values()]));
soon(delays, () => drawHeat(get("heat"), [...delays.values()]));
soon(arrivals, () => map.draw([...arrivals.values()]));
airports.ready.then(() => {
  for (const { faa, name } of airports.values()) names.set(faa, name);
}, () => {});
setInterval(() => {
  if (outages.phase === "down" && states.readyState === EventSource.OPEN) drawMoment();
}, TICK_MS);
new ResizeObserver(() => latencies.draw(ended ?? Date.now() / 1000, outages.spans)).observe(get("latencies"));
