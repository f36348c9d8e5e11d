// The demo's landing page: live views of the query service, and the demo's own numbers and buttons.
import { connect } from "../console/built/sowline.js";
import { Departures } from "./departures.js";
import { drawCarriers, drawHeat } from "./charts.js";
import { LatencyChart } from "./latency.js";
import { ArrivalsMap } from "./map.js";
import { Moments } from "./moments.js";
import { LISTED, Outages, earlier } from "./outage.js";
import { count, lasting, many, seconds, simulated, since, upTo, visits, zone } from "./text.js";

/**
 * A batch of Spark comes as a burst of changes: the page is drawn once it has been still for so long and no chart is
 * behind the board, and not much later. The charts are conflated: without the wait, the board would often be a batch ahead.
 */
const STILL_MS = 120;
const TICK_MS = 100;
const DRAW_MS_MAX = 1000;
/** At the end, everything that was fed is on the page once no view has changed for longer than they are conflated. */
const END_STILL_MS = 1200;
const END_MS_MAX = 3500;
/** A feed that is slower, in simulated seconds a second, is in no fast motion that is worth a word. */
const SPEED_MIN = 60;
const NOT_LIVE = ["reconnecting", "catching up", "failed"];
const get = (id) => document.getElementById(id);
const write = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const client = connect(document.body.dataset.service);
const departures = client.view("flights", { filter: "/status IN ('scheduled', 'late', 'departed late')", orderBy: "/time_hour, /sched_dep_local, /carrier, /flight" });
const carriers = client.view("flights", { filter: "/dep_delay_min IS NOT NULL", options: "conflation=500ms,projection=[/carrier,COUNT(1) AS /flights,AVG(/dep_delay_min) AS /delay_min,MAX(/moment) AS /moment],grouping=[/carrier]" });
const delays = client.view("delays", { options: "conflation=500ms" });
const arrivals = client.view("arrivals", { options: "conflation=500ms" });
const airports = client.view("airports");
const views = { departures, carriers, delays, arrivals };

const names = new Map();
const board = new Departures(get("departures"), (code) => names.get(code));
const chart = new LatencyChart(get("latencies"));
const map = new ArrivalsMap(get("arrivals"), get("sizes"), get("busiest"), get("elsewhere"));
const outages = new Outages();
const moments = new Moments();
/** When any view last changed, in milliseconds. */
let changed = 0;
let state;
let isPressed = false;
/** What the dashed lines of the latencies are, once the demo has ended. */
let wholeRun = "";
/** When the demo ended, in seconds since 1970. */
let ended;
/** Whether the page stands still: after the end, or where the demo no longer answers. */
let isStill = false;

/**
 * After an outage, what was written meanwhile comes in one go, and not in the order of its moments. Until all of it is
 * there, the page stays as it was: a board of one moment, and the clock of that moment. One that is opened meanwhile has
 * nothing yet to keep, and fills.
 */
const HELD = ["down", "catching-up"];
const isHeld = () => HELD.includes(phaseNow()) && Object.keys(views).every((name) => moments.of(name) !== undefined);

/** What is shown of each view: all of one instant, as the clock is. */
let shown = { departures: [], carriers: [], delays: [], arrivals: [] };

function draw() {
  if (!isHeld()) {
    takeMoments(moments);
    shown = { departures: departures.snapshot(), carriers: [...carriers.values()], delays: [...delays.values()], arrivals: [...arrivals.values()] };
  }
  board.draw(shown.departures, moments.of("departures") ?? 0, departures.status === "live", isHeld());
  drawCarriers(get("carriers"), get("departed"), shown.carriers);
  drawHeat(get("heat"), shown.delays);
  map.draw(shown.arrivals, arrivals.status === "live");
  drawInstant();
}

function takeMoments(taker) {
  for (const [name, view] of Object.entries(views)) taker.take(name, view.values());
  // A landing changes no row of the board but takes one away; the carriers have it, from the same topic and never earlier.
  if (departures.status === "live") taker.take("departures", carriers.values());
}

const isBehind = (taken) => Object.keys(views).some((name) => taken.behind(name) > 0) || board.lacksNews(departures.values(), taken.of("departures"));

/** What the newest record of each panel is: at night, no flight lands for hours, and the map of arrivals is no older for that. */
const NEWEST = { departures: "as of", carriers: "newest update", delays: "newest update", arrivals: "newest arrival" };

/** The clock is the moment of the newest record that is shown; each panel says the moment of its own newest one. */
function drawMoments() {
  const { newest } = moments;
  write(get("clock"), newest === undefined ? " " : simulated(newest));
  if (newest !== undefined) write(get("until"), ` ${upTo(newest)}`);
  for (const node of document.querySelectorAll("[data-of]")) {
    const moment = moments.of(node.dataset.of);
    const isLacking = CATCHING_UP.includes(phaseNow()) && moments.lacks(node.dataset.of, state.speed) > 0;
    const what = moments.isEnd ? "as of" : isLacking ? "catching up:" : NEWEST[node.dataset.of];
    node.classList.toggle("lacking", isLacking);
    write(node, moment === undefined ? "" : `${what} ${since(moment, newest)}${isLacking ? ` of ${since(newest, moment)}` : ""} flight time`);
  }
}

const PHASES = { starting: "Starting", ending: "Ending: comparing every record", ended: "Ended", lost: "The demo no longer answers" };
const FIGURES = {
  "catching-up": "median of the newest 200 changes; the feed waits, and what was fed before is arriving",
  checking: "median of the newest 200 changes; the feed waits until everything is compared",
  ending: "median of the newest 200 changes; the feed has stopped, and everything is compared",
  live: "from the write to Kafka to a subscriber: median of the newest 200 changes",
  quiet: "last measured, median of the newest 200 changes; what was fed since is on its way",
  settled: "last measured, median of the newest 200 changes; all that was fed has come",
  ended: "last measured, from the write to Kafka to a subscriber",
  lost: "last measured, from the write to Kafka to a subscriber",
};

/** The phases in which a panel that lacks something says so. In the others, the whole page says why it stands still. */
const CATCHING_UP = ["live", "quiet", "checking", "ending"];

/** The phases in which the feed runs. */
const RUNNING = ["live", "quiet"];

function phaseNow() {
  if (ended !== undefined) return "ended";
  if (isStill) return "lost";
  if (state === undefined) return "starting";
  return RUNNING.includes(outages.phase) && state.is_ending ? "ending" : outages.phase;
}

/** How the clock goes where it doesn't go at the speed of the feed. */
function pace(late) {
  const phase = phaseNow();
  if (isHeld()) return "stands still until all that was fed is here";
  if (phase === "checking" || phase === "ending") return "stands still while every record is compared";
  return late ? `${lasting(late)} behind the feed` : "";
}

/** What the number above the chart is, and what is in the chart. */
function figure(phase, late) {
  if (phase === "down") return `${outages.sinceWhat}. The line is the latency, and what is red an outage.`;
  const what = FIGURES[phase === "quiet" && state.is_settled ? "settled" : phase] ?? FIGURES.live;
  return `${what}${late ? "; this page shows them later" : ""}${chart.hasGaps ? "; in a gap of the line, no change came" : ""}${wholeRun}`;
}

/** What the page says of the instant. */
function drawInstant() {
  const now = ended ?? Date.now() / 1000;
  const phase = phaseNow();
  document.body.dataset.phase = phase;
  const late = RUNNING.includes(phase) ? moments.late(state) : 0;
  write(get("chip"), PHASES[phase] ?? (phase === "live" && late ? `Live, ${seconds(late / state.speed)} behind` : outages.chip));
  write(get("pulse-title"), phase === "down" ? "Outage" : "Latency");
  // Where nothing was measured in the time of the chart, the page shows what the demo has measured before.
  const latency = chart.last ?? state?.latency_ms ?? null;
  // One age on the whole page: that of the outage, as the chart and the outcome have it.
  write(get("latency"), phase === "down" ? seconds(Math.max(0, now - outages.since)) : latency === null ? "–" : `${count(Math.round(latency))} ms`);
  write(get("latency-of"), figure(phase, late));
  for (const button of document.querySelectorAll("[data-part]")) button.disabled = !RUNNING.includes(phase) || isPressed;
  chart.draw(now, outages.spans, ended === undefined ? "now" : "end");
  drawMoments();
  const slower = pace(late);
  write(get("pace"), slower);
  write(get("speed"), phase === "live" && state.speed >= SPEED_MIN && !slower ? `: each second is ${lasting(state.speed)}` : "");
}

const eventsShown = [];
function drawEvents() {
  const lines = outages.lines;
  const list = get("events");
  // With events, the log says what follows; what the parts are is needed all the more.
  get("follows").hidden = lines.length > 0;
  write(get("earlier"), earlier(lines));
  lines.slice(0, LISTED).forEach(({ kind, when, what, result }, index) => {
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
  const wasHeld = isHeld();
  state = taken;
  const now = Date.now() / 1000;
  outages.take(state, !Object.values(views).some(({ status }) => NOT_LIVE.includes(status)), now);
  chart.add(state.samples);
  for (const name of ["carriers", "delays"]) moments.feed(name, state.reached.departed);
  moments.feed("arrivals", state.reached.landed);
  write(get("visitors"), visits(state));
  drawEvents();
  if (wasHeld && !isHeld()) soon();
  drawInstant();
}

const ENDS = {
  true: ["ok", "The demo has ended: nothing was lost"],
  false: ["bad", "The demo has ended: something was lost, or did not work"],
  null: ["", "The demo was interrupted before its last comparison"],
};

/** The numbers of the end that a visitor looks for; the others are folded up, in the order of the terminal. */
const MAIN = ["flights that Sowline holds", "changes that Sowline sent", "from Kafka to a subscriber, median"];

const sentenceOf = (verdict) => {
  const text = verdict.replace(/^nothing was lost: /, "");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
};

function takeEnd({ verdict, is_lossless: lossless, summary, moment, latencies }) {
  ended = Date.now() / 1000;
  const outcome = get("outcome");
  const [title, sentence] = outcome.children;
  const [main, others] = outcome.querySelectorAll("dl");
  [outcome.className, title.textContent] = ENDS[lossless];
  sentence.textContent = lossless === null ? outages.checks : sentenceOf(verdict);
  for (const list of [main, others]) list.replaceChildren();
  for (const [name, value] of summary) {
    const [pair, term, number] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    [term.textContent, number.textContent] = [name.trim(), value];
    pair.append(term, number);
    (MAIN.includes(name.trim()) ? main : others).append(pair);
  }
  outcome.hidden = false;
  chart.mark(latencies);
  const texts = latencies.map(([text]) => text.replace(/^whole run: /, ""));
  wholeRun = texts.length ? `; dashed lines, of the whole run: ${texts.join(", ")}` : "";
  drawInstant();
  standStill(moment);
}

/** Show what still comes, then nothing more: everything that was fed is there, and the page stands at its moment. */
async function standStill(moment) {
  const began = Date.now();
  while (Date.now() - Math.max(began, changed) < END_STILL_MS && Date.now() - began < END_MS_MAX) await new Promise((resolve) => { setTimeout(resolve, TICK_MS); });
  if (moment !== null) moments.end(moment);
  draw();
  isStill = true;
  states.close();
  client.close();
}

for (const button of document.querySelectorAll("[data-part]")) {
  button.addEventListener("click", async () => {
    isPressed = true;
    drawInstant();
    await fetch(new URL(`/do/${button.dataset.part}`, import.meta.url), { method: "POST" }).catch(() => {});
    isPressed = false;
    drawInstant();
    button.focus();
  });
}

const states = new EventSource(new URL("/states", import.meta.url));
states.addEventListener("state", ({ data }) => {
  isStill = false;
  takeState(JSON.parse(data));
});
states.addEventListener("end", ({ data }) => takeEnd(JSON.parse(data)));
states.addEventListener("error", () => {
  if (ended !== undefined) return;
  isStill = true;
  drawInstant();
});

let due;
let latest = 0;
function soon() {
  changed = Date.now();
  if (isStill) return;
  if (due === undefined) latest = changed + DRAW_MS_MAX;
  clearTimeout(due);
  due = setTimeout(drawDue, Math.max(0, Math.min(STILL_MS, latest - changed)));
}

function drawDue() {
  due = undefined;
  if (isStill || isHeld()) return;
  // What is drawn keeps its moments until all is drawn again.
  const coming = new Moments();
  takeMoments(coming);
  const left = latest - Date.now();
  if (left > 0 && isBehind(coming)) due = setTimeout(drawDue, Math.min(STILL_MS, left));
  else draw();
}
departures.onChange((patch) => board.take(patch));
for (const view of Object.values(views)) {
  view.onChange(soon);
  view.onStatus(soon);
}
airports.ready.then(() => {
  for (const { faa, name } of airports.values()) names.set(faa, name);
}, () => {});
setInterval(() => {
  if (phaseNow() === "down" && states.readyState === EventSource.OPEN) drawInstant();
}, TICK_MS);
// A line that a heading needs more takes room from its chart, and not from the page.
const resized = new ResizeObserver(draw);
for (const node of document.querySelectorAll("main, main svg[id]")) resized.observe(node);
write(get("zone"), `real time, ${zone()}`);
