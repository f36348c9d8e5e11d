// The demo's landing page: live views of the query service, and the demo's own numbers and buttons.
import { connect } from "../console/built/sowline.js";

const { airport, service } = document.body.dataset;
const ROWS = 14;
const SAMPLES = 120;
const EVERY_MS = 500;
const LEAVE_MS = 900;
const own = new URL("/", import.meta.url);
const late = `/origin = '${airport}' AND /status IN ('late', 'departed late')`;
const NUMBER = new Intl.NumberFormat("en");

const client = connect(service);
const flights = client.view("flights", { filter: late, orderBy: "/time_hour, /sched_dep_time" });
const carriers = client.view("flights", { options: "conflation=1s,projection=[/carrier,COUNT(1) AS /flights,AVG(/dep_delay) AS /delay],grouping=[/carrier]" });
const delays = client.view("delays", { options: "conflation=1s" });
const arrivals = client.view("arrivals", { options: "conflation=1s" });
let changesReceived = 0;

const face = (digits) => (Number.isInteger(digits) ? `${String(Math.floor(digits / 100)).padStart(2, "0")}:${String(digits % 100).padStart(2, "0")}` : "--:--");
const rows = new Map();

function cells({ sched_dep_time: due, carrier, flight, dest, status, dep_delay: delay }) {
  return [face(due), `${carrier} ${flight}`, dest ?? "???", status, delay === undefined ? "" : `+${delay} min`];
}

// A row that enters slides in, one that leaves fades; its cells are those of the newest change.
function draw() {
  const board = document.getElementById("board");
  const shown = new Map(flights.snapshot().slice(0, ROWS).map(({ key, record }) => [key, record]));
  for (const [key, row] of rows) {
    if (shown.has(key) || row.classList.contains("leaves")) continue;
    row.classList.add("leaves");
    setTimeout(() => {
      row.remove();
      rows.delete(key);
    }, LEAVE_MS);
  }
  for (const [key, record] of shown) {
    let row = rows.get(key);
    if (!row || row.classList.contains("leaves")) {
      row?.remove();
      row = document.createElement("tr");
      row.className = "enters";
      for (let number = 0; number < 5; number += 1) row.append(document.createElement("td"));
      rows.set(key, row);
    }
    cells(record).forEach((text, index) => {
      if (row.children[index].textContent !== text) row.children[index].textContent = text;
    });
    row.dataset.status = record.status;
    board.append(row);
  }
  const more = flights.size - shown.size;
  document.getElementById("counts").textContent = flights.size
    ? `${flights.size} late${more > 0 ? `, ${more} not shown` : ""}; ${NUMBER.format(changesReceived)} changes received`
    : "No flight is late.";
}

const SVG = "http://www.w3.org/2000/svg";
function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Divides a rectangle among values, each time along its longer side, into two halves of nearly equal sum.
function divide(items, x, y, width, height, found = []) {
  if (items.length === 1) found.push({ ...items[0], x, y, width, height });
  if (items.length < 2) return found;
  const total = items.reduce((sum, { value }) => sum + value, 0);
  let [index, sum] = [1, items[0].value];
  while (index < items.length - 1 && sum + items[index].value / 2 < total / 2) {
    sum += items[index].value;
    index += 1;
  }
  const share = sum / total;
  if (width >= height) {
    divide(items.slice(0, index), x, y, width * share, height, found);
    return divide(items.slice(index), x + width * share, y, width * (1 - share), height, found);
  }
  divide(items.slice(0, index), x, y, width, height * share, found);
  return divide(items.slice(index), x, y + height * share, width, height * (1 - share), found);
}

const colored = (delay) => `fill: color-mix(in oklab, var(--hot) ${Math.max(0, Math.min(100, (delay + 5) * 3))}%, var(--cool))`;

function drawMap() {
  const items = [...carriers.values()].map(({ carrier, flights: value, delay }) => ({ carrier: String(carrier), value, delay: delay ?? 0 }))
    .filter(({ value }) => value > 0).sort((one, other) => other.value - one.value);
  const boxes = divide(items, 0, 0, 400, 220).flatMap(({ carrier, value, delay, x, y, width, height }) => {
    const box = element("rect", { x: x + 1, y: y + 1, width: Math.max(0, width - 2), height: Math.max(0, height - 2), rx: 3, style: colored(delay) });
    box.append(element("title", {}, `${carrier}: ${NUMBER.format(value)} flights, average delay ${delay.toFixed(0)} min`));
    return width > 34 && height > 18 ? [box, element("text", { x: x + 7, y: y + 17 }, carrier)] : [box];
  });
  document.getElementById("map").replaceChildren(...boxes);
}

const [HOUR_FIRST, HOURS, LEFT, TOP] = [5, 19, 24, 12];
function drawHeat() {
  const cells = [...delays.values()].filter(({ hour, delay }) => hour >= HOUR_FIRST && hour < HOUR_FIRST + HOURS && Number.isFinite(delay));
  const names = [...new Set(cells.map(({ carrier }) => String(carrier)))].sort();
  const [width, height] = [(400 - LEFT) / HOURS, Math.min(24, (220 - TOP) / Math.max(1, names.length))];
  const drawn = Array.from({ length: HOURS }, (_, index) => element("text", { x: LEFT + (index + 0.5) * width, y: 8, "text-anchor": "middle" }, HOUR_FIRST + index));
  names.forEach((name, index) => drawn.push(element("text", { x: 0, y: TOP + (index + 0.5) * height + 3 }, name)));
  for (const { carrier, hour, flights: count, delay, worst } of cells) {
    const corner = { x: LEFT + (hour - HOUR_FIRST) * width, y: TOP + names.indexOf(String(carrier)) * height };
    const cell = element("rect", { ...corner, width: width - 1, height: height - 1, rx: 2, style: colored(delay) });
    cell.append(element("title", {}, `${carrier}, ${hour}:00: ${NUMBER.format(count)} flights, average delay ${delay.toFixed(0)} min, at most ${NUMBER.format(worst)} min`));
    drawn.push(cell);
  }
  document.getElementById("heat").replaceChildren(...drawn);
}

// The part of the Earth that has the destinations: from Honolulu to the Virgin Islands, and up to Anchorage.
const [WEST, EAST, SOUTH, NORTH] = [-162, -62, 15, 64];
function drawArrivals() {
  const groups = [...arrivals.values()].filter(({ flights: count }) => count > 0).sort((one, other) => other.flights - one.flights);
  const most = groups[0]?.flights ?? 1;
  const dots = groups.filter(({ lat, lon }) => Number.isFinite(lat) && Number.isFinite(lon)).map(({ dest, airport, flights: count, delay, lat, lon }) => {
    const at = { cx: ((lon - WEST) / (EAST - WEST)) * 400, cy: ((NORTH - lat) / (NORTH - SOUTH)) * 220 };
    const dot = element("circle", { ...at, r: 2 + 8 * Math.sqrt(count / most), style: colored(delay ?? 0) });
    dot.append(element("title", {}, `${dest}, ${airport.name}: ${NUMBER.format(count)} flights, average delay ${(delay ?? 0).toFixed(0)} min`));
    return dot;
  });
  document.getElementById("arrivals").replaceChildren(...dots);
  document.getElementById("busiest").textContent = groups.slice(0, 3).map(({ dest, airport, flights: count }) => `${airport?.name ?? dest} ${NUMBER.format(count)}`).join(" · ");
}

const samples = [];
function drawDelays() {
  const minutes = [...flights.values()].map(({ dep_delay: delay }) => delay).filter(Number.isFinite);
  samples.push(minutes.length ? minutes.reduce((sum, delay) => sum + delay, 0) / minutes.length : 0);
  if (samples.length > SAMPLES) samples.shift();
  const most = Math.max(60, ...samples);
  const points = samples.map((value, index) => `${400 - (samples.length - 1 - index) * (400 / (SAMPLES - 1))},${104 - (value / most) * 94}`);
  document.getElementById("delays").replaceChildren(
    element("polyline", { points: points.join(" ") }),
    element("text", { x: 4, y: 14 }, `${Math.round(samples.at(-1))} min`),
  );
}

function describe({ what, back_s: back, verdict, is_lossless: lossless }) {
  const item = document.createElement("li");
  item.className = lossless === null ? "" : lossless ? "ok" : "bad";
  item.textContent = back === null ? `${what} …` : `${what}: changes came through again after ${back.toFixed(1)} s${verdict ? `; ${verdict}` : "; comparing …"}`;
  return item;
}

async function look() {
  try {
    const state = await (await fetch(new URL("state", own))).json();
    document.getElementById("clock").textContent = state.clock;
    document.getElementById("latency").textContent = state.latency_ms === null ? "–" : Math.round(state.latency_ms);
    document.getElementById("facts").textContent = NUMBER.format(state.facts);
    document.getElementById("events").replaceChildren(...state.events.slice(-5).map(describe));
    document.getElementById("visitors").textContent = state.by_visitors ? `${NUMBER.format(state.by_visitors)} commands of visitors wrote ${NUMBER.format(state.visited)} records: they are shown, and left out of the comparison.` : "";
  } catch {
    document.getElementById("clock").textContent = "the demo has ended";
  }
  setTimeout(look, EVERY_MS);
}

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", async () => {
    const buttons = document.querySelectorAll("[data-do]");
    for (const one of buttons) one.disabled = true;
    await fetch(new URL(`do/${button.dataset.do}`, own), { method: "POST" }).catch(() => {});
    for (const one of buttons) one.disabled = false;
    button.focus();
  });
}

let due;
const later = () => {
  due ??= setTimeout(() => {
    due = undefined;
    draw();
  }, 100);
};
flights.onStatus(later);
flights.onChange(({ changes }) => {
  if (flights.status !== "loading") changesReceived += changes.length;
  later();
});
setInterval(drawMap, 1000);
delays.onChange(drawHeat);
arrivals.onChange(drawArrivals);
setInterval(drawDelays, EVERY_MS);
look();
