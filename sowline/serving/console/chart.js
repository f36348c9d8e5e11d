// The tab Chart: the figures of the records or of their groups, with a title, a legend and notes; and as a table.
import { html, useEffect, useFollowed, useLayoutEffect, useRef, useState } from "./lib.js";
import { useMoment } from "./connection.js";
import { figuresOf } from "./figures.js";
import { untilLoaded } from "./loaded.js";
import { Plot, colorsOf, loadCharts, sizeOf } from "./plot.js";
import { allOf, isCounting } from "./standing.js";
import { count, figure, plural } from "./text.js";

const EVERY_MS = 400;
// The share of the time that figures may take.
const SHARE = 10;
const SMALL_MAX = 8;

// The figures, which follow the records: a few times a second, or less often if they take long. `onDrawn` gets what is said
// beside them, of their moment. Returns also the time of that moment, which goes on while nothing changes. `place` is where
// they are drawn.
function useFigures(live, chosen, topic, limit, place, onDrawn) {
  const [figures, setFigures] = useState();
  const timer = useRef();
  const [time, takeTime] = useMoment(live, () => timer.current !== undefined);
  useEffect(() => {
    if (!live || !chosen) return undefined;
    let wait = EVERY_MS;
    const make = () => {
      timer.current = undefined;
      const began = performance.now();
      const isLoading = live.state === "loading";
      setFigures({ ...figuresOf(live, chosen, topic, place.current?.clientWidth ?? innerWidth), all: allOf(live, live.rows, limit) ?? live.rows, isLoading, isCounting: isCounting(live) });
      takeTime();
      wait = Math.max(EVERY_MS, SHARE * (performance.now() - began));
      onDrawn({ live, rows: live.rows, bookmark: live.bookmark });
      live.goOn();
    };
    const due = () => { timer.current ??= setTimeout(make, wait); };
    const news = ["state", "came", "put", "gone"];
    for (const name of news) live.addEventListener(name, due);
    addEventListener("resize", due);
    make();
    return () => {
      clearTimeout(timer.current);
      timer.current = undefined;
      for (const name of news) live.removeEventListener(name, due);
      removeEventListener("resize", due);
    };
  }, [live, JSON.stringify(chosen)]);
  return [figures, time];
}

// A few of the names: the note has two lines whether it says something or not. If it took them from the drawing, other
// tiles would have no room for their names, and the two could change for ever.
const listed = (names) => names.slice(0, SMALL_MAX).concat(names.length > SMALL_MAX ? [`${names.length - SMALL_MAX} more`] : []).join(", ");

// What is drawn, in a place that may be smaller.
function Drawing({ library, figures, colors, label, onDrawn }) {
  const place = useRef();
  const element = useRef();
  const plot = useRef();
  const [room, setRoom] = useState();
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([{ contentRect: { width, height } }]) => setRoom({ width: Math.floor(width), height: Math.floor(height) }));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!room?.width || !room.height) return;
    plot.current ??= new Plot(library, element.current, figures.kind);
    onDrawn(listed(plot.current.draw(figures, colors, sizeOf(figures, room))));
  }, [figures, colors, room]);
  useEffect(() => () => plot.current?.close(), []);
  return html`<div class="drawing" ref=${place} tabindex="0" role="img" aria-label=${label}><div ref=${element}></div></div>`;
}

// Of how many of the records the figures are, and when that was: no sum of them is more than that.
function Of({ figures: { all, drawn = all, isLoading, isCounting: isOpen }, time, noun }) {
  const of = drawn === all ? plural(all, noun) : `${count(drawn)} of ${plural(all, noun)}`;
  return html`<span class="muted of">${drawn === all && !isLoading ? of : html`<strong class="cut">${of}${isOpen && " so far"}</strong>`} as of ${time}${isLoading && "; the others are loading"}</span>`;
}

const Swatch = ({ color }) => html`<i style=${{ background: color }}></i>`;

function Legend({ figures, colors }) {
  const { scale, name } = colors;
  if (scale) {
    return html`<div class="legend"><span>${name}</span><span class="scale">
      ${figure(scale.ends[0])}${scale.isCut[0] && " or less"}<i class="ramp" style=${{ background: `linear-gradient(90deg, ${scale.colors.join(", ")})` }}></i>${figure(scale.ends.at(-1))}${scale.isCut[1] && " or more"}</span>
      ${scale.ends.length > 2 && html`<span class="muted">0 in the middle</span>`}</div>`;
  }
  const by = figures.names?.[figures.kind === "scatter" ? 2 : 1];
  if (by === undefined) return null;
  return html`<div class="legend"><span id="legend">${by}</span><ul aria-labelledby="legend">
    ${figures.series.map((one, at) => html`<li><${Swatch} color=${colors.series[at]} />${one}</li>`)}</ul></div>`;
}

function Figures({ figures }) {
  return html`<div class="card scroll plain" tabindex="0" role="region" aria-label="the figures of the chart">
    <table class="list dense"><caption>${figures.title}${figures.cut && html`: ${figures.cut}`}</caption>
      <thead><tr>${figures.head.map((name, at) => html`<th scope="col" class=${at ? "number" : ""}>${name}</th>`)}</tr></thead>
      <tbody>${figures.lines.map(([first, ...others]) => html`<tr><th scope="row">${first}</th>${others.map((text) => html`<td class="number">${text}</td>`)}</tr>`)}</tbody>
    </table></div>`;
}

// The colors of figures. This browser keeps those of the values of each field: one value has one color, whatever the chart,
// the width and the other values are.
function keptColors(topic, figures, scheme) {
  const { kind, names } = figures;
  if (kind === "none") return { series: [] };
  const name = `sowline.colors.${topic.name}.${names[kind === "scatter" ? 2 : 1] ?? ""}`;
  const before = localStorage.getItem(name) ?? "[]";
  const places = new Map(JSON.parse(before));
  const colors = colorsOf(figures, scheme, places);
  const now = JSON.stringify([...places]);
  if (now !== before) localStorage.setItem(name, now);
  return colors;
}

// `chosen` are the fields to draw; undefined while the records for them have not come: what is drawn stays until then.
export function Chart({ live, chosen, topic, limit, onDrawn }) {
  const suited = useRef();
  if (chosen) suited.current = chosen;
  const place = useRef();
  const [figures, time] = useFigures(chosen ? live : undefined, suited.current, topic, limit, place, onDrawn);
  const [library, setLibrary] = useState();
  const [failed, setFailed] = useState();
  const [isTable, setTable] = useState(false);
  const [small, setSmall] = useState("");
  const scheme = useFollowed(window, "theme", theme.shown);
  useEffect(() => {
    const closing = new AbortController();
    untilLoaded(loadCharts, setFailed, closing.signal).then((loaded) => setLibrary(() => loaded));
    return () => closing.abort();
  }, []);
  if (failed && !library) return html`<p class="notice bad" role="alert">The charts could not be loaded: ${failed.message}. Trying again. The tab Pivot shows the same groups.</p>`;
  if (!figures || !library) return html`<p class="empty" role="status">Loading…</p>`;
  const colors = keptColors(topic, figures, scheme);
  return html`
    <figure class="chart" ref=${place}>
      <figcaption>
        <h2>${figures.title}</h2>
        <${Of} figures=${figures} time=${time} noun=${topic.sow ? "record" : "message"} />
        <button type="button" class="small" aria-pressed=${isTable} onClick=${() => setTable(!isTable)} title="the figures of this chart as a table">Figures</button>
      </figcaption>
      ${!isTable && html`<${Legend} figures=${figures} colors=${colors} />`}
      ${isTable
        ? html`<${Figures} figures=${figures} />`
        : figures.kind !== "none" && html`<${Drawing} key=${figures.kind} library=${library} figures=${figures} colors=${colors} onDrawn=${setSmall} label=${`${figures.title}, of ${topic.name}; the button Figures shows them as a table`} />`}
      ${figures.kind === "treemap" && !isTable && html`<p class="muted notes tiles" title=${small}>${small && `not labeled in full: ${small}`}</p>`}
      ${figures.notes.length > 0 && html`<p class="muted notes">${figures.notes.join("; ")}</p>`}
    </figure>
  `;
}
