// The live records of one topic: the filter and options, the viewer, and the state.
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import { MESSAGES_MAX, liveOf } from "./live.js";
import { KEY_COLUMN, COLUMNS_MAX, at as valueAt, keyPaths } from "./fields.js";
import { Arrange, TABS, arrangement, tabOf } from "./arrange.js";
import { Breadcrumb } from "./breadcrumb.js";
import { open as markRow, placeOf } from "./cells.js";
import { Facets, FilterInput, Warnings, both, equals, remember } from "./filter.js";
import { CopyAs } from "./copyas.js";
import { SavedViews } from "./saved.js";
import { Copy, RecordPanel } from "./record.js";
import { Mistake, count, plural, rate } from "./text.js";
import { Sheet, addViewer, deleteViewer, loadEngine } from "./sheet.js";
import { service } from "./service.js";
import { WriteDialog } from "./write.js";
import { go, readRoute } from "./route.js";
import { lateness, usePolled } from "./topics.js";

const LIMIT = 100_000;
const CONFLATIONS = ["none", "auto", "100ms", "250ms", "1s", "5s"];
const CONFLATION = "250ms";
const TABLE_ROWS = 100;
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

const askedOf = ({ filter = "", condition = "", options = "", conflation = CONFLATION, order = "", limit }) => ({
  filter,
  condition,
  order,
  options: [...(conflation === "none" ? [] : [`conflation=${conflation}`]), ...(options ? [options] : [])],
  limit: Number(limit) || LIMIT,
});

// The query of a view, as a program would ask it.
const copied = ({ filter, condition, options, order, limit }, topic) => ({
  filter,
  condition,
  options: [...(topic.sow ? ["oof"] : []), ...(options ? [options] : [])].join(","),
  order_by: order,
  top_n: topic.sow && limit ? Number(limit) : undefined,
});

function layoutOf(text) {
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

// The records for the filter and options in the address. If these are refused, what is shown stays. Returns also whether
// the records are still to come.
function useLive(topic, route) {
  const [live, setLive] = useState();
  const [refused, setRefused] = useState();
  const [isLoading, setLoading] = useState(true);
  const held = useRef();
  const { filter, condition, options, conflation, order, limit } = route;
  useEffect(() => {
    const asked = askedOf(route);
    const next = liveOf(topic, asked);
    const take = () => {
      if (held.current === next) return;
      held.current?.close();
      held.current = next;
      setLive(next);
      setRefused(undefined);
      setLoading(false);
    };
    const look = () => {
      if (next.state !== "failed") return;
      const { reason, message } = next.error;
      setRefused({ reason, message, asked });
      setLoading(false);
    };
    next.addEventListener("accepted", take);
    next.addEventListener("state", look);
    setLoading(true);
    look();
    return () => {
      next.removeEventListener("accepted", take);
      next.removeEventListener("state", look);
      if (held.current !== next) next.close();
    };
  }, [service.logons, topic.name, filter, condition, options, conflation, order, limit]);
  useEffect(() => () => held.current?.close(), []);
  return [live, refused, isLoading];
}

// Draws again after events of the records, a limited number of times per second.
function useNews(live) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (!live) return undefined;
    let timer;
    const due = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        draw((number) => number + 1);
      }, 150);
    };
    for (const name of ["state", "put", "gone"]) live.addEventListener(name, due);
    due();
    return () => {
      clearTimeout(timer);
      for (const name of ["state", "put", "gone"]) live.removeEventListener(name, due);
    };
  }, [live]);
}

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

function Ask({ topic, route, refused, live, columns }) {
  const [filter, setFilter] = useState(route.filter ?? "");
  const [condition, setCondition] = useState(route.condition ?? "");
  const [options, setOptions] = useState(route.options ?? "");
  const [order, setOrder] = useState(route.order ?? "");
  useEffect(() => {
    setFilter(route.filter ?? "");
    setCondition(route.condition ?? "");
    setOptions(route.options ?? "");
    setOrder(route.order ?? "");
  }, [route.filter, route.condition, route.options, route.order]);
  const change = (more) => go({ ...route, ...more });
  const submit = (event) => {
    event.preventDefault();
    remember(topic.name, filter);
    change({ filter: filter.trim() === "" ? "" : filter, condition: condition.trim() === "" ? "" : condition, options: options.trim(), order: order.trim() });
  };
  const isOfCondition = refused?.reason === "bad condition";
  const key = keyPaths(topic)[0] ?? "/field";
  return html`
    <form class="ask" onSubmit=${submit} role="search" aria-label="which records">
      <div class="row">
        <div class="field grow"><label for="filter">Filter</label>
          <${FilterInput} topic=${topic} value=${filter} onInput=${setFilter} placeholder=${`every record; for example ${key} IS NOT NULL AND …`}
            invalid=${refused && !isOfCondition ? "true" : "false"} describedBy="filter-mistake" /></div>
        ${topic.documents && html`<label class="field grow">Condition
          <input id="condition" class="mono" value=${condition} placeholder='{..,"status":"OPEN"}' spellcheck="false" autocomplete="off"
            aria-invalid=${isOfCondition ? "true" : "false"} aria-describedby="filter-mistake" onInput=${(event) => setCondition(event.target.value)} /></label>`}
        <button type="submit" class="primary">Show</button>
      </div>
      <div id="filter-mistake"><${Mistake} text=${refused && (isOfCondition ? refused.asked.condition : refused.asked.filter)} error=${refused} /></div>
      ${live && html`<${Warnings} warnings=${live.warnings} filter=${route.filter ?? ""} onFilter=${(text) => change({ filter: text })} />`}
      <details class="more" open=${Boolean(route.options || route.limit || route.conflation || route.order)}>
        <summary>Options and counts</summary>
        <div class="row">
          <label class="field">At most rows <input type="number" min="1" max="1000000" value=${route.limit ?? LIMIT} onChange=${(event) => change({ limit: Number(event.target.value) === LIMIT ? "" : event.target.value })} /></label>
          <label class="field">Conflation <select value=${route.conflation ?? CONFLATION} onChange=${(event) => change({ conflation: event.target.value === CONFLATION ? "" : event.target.value })}>
            ${CONFLATIONS.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
          ${topic.sow && html`<label class="field">Order by <input class="mono" value=${order} placeholder="newest first" title="The service sorts all matching records, and keeps the first ones as a live page" spellcheck="false" autocomplete="off" onInput=${(event) => setOrder(event.target.value)} /></label>`}
          <label class="field grow">Further options <input class="mono" value=${options} placeholder="select=[-/,+/id]" spellcheck="false" autocomplete="off" onInput=${(event) => setOptions(event.target.value)} /></label>
        </div>
        ${topic.sow && live && !live.isGrouped && html`<${Facets} topic=${topic} filter=${route.filter ?? ""} columns=${columns} changes=${live.messages} onFilter=${(text) => change({ filter: text })} />`}
      </details>
    </form>
  `;
}

// What the chip shows: the state of the records and, where that is live, how far the service is behind the log.
function stateOf(live, isLoading, sheet, served) {
  const state = isLoading ? "loading" : (live?.state ?? "failed");
  if (state === "live" && live.size && !sheet?.isDrawn) return STATES.drawing;
  if (state !== "live" || !served) return STATES[state];
  const late = served.lag === null ? "lag unknown" : lateness(served);
  return late ? ["warn", late] : STATES.live;
}

function Standing({ live, isLoading, sheet, limit, topic }) {
  const now = useRate(live);
  const [answer] = usePolled("topics", LAG_MS);
  const [tone, word] = stateOf(live, isLoading, sheet, answer?.body.topics.find(({ name }) => name === topic.name));
  const rows = live?.size ?? 0;
  const missing = live && topic.sow ? Math.max(0, live.matches - limit) : 0;
  const bookmark = live?.bookmark;
  return html`
    <div class="standing">
      <span class="chip ${tone}" role="status">${word}</span>
      <span data-count="rows"><strong>${count(rows)}</strong> ${topic.sow ? (rows === 1 ? "row" : "rows") : "messages"}</span>
      <span class="muted">${rate(now)} messages/s</span>
      ${bookmark && html`<span class="bookmark"><span class="muted">at</span> <code title=${bookmark}>${bookmark}</code> <${Copy} text=${bookmark} what="the bookmark" /></span>`}
      ${(missing > 0 || live?.cut > 0) && topic.sow && html`<strong class="cut" role="alert">cut at ${count(limit)} rows${live.matches > limit ? ` of ${count(live.matches)}` : ""}: a filter, or more rows in the options, shows the others</strong>`}
      ${!topic.sow && live?.cut > 0 && html`<strong class="cut">the newest ${count(MESSAGES_MAX)}</strong>`}
      ${sheet?.columnsCut > 0 && html`<strong class="cut">the first ${COLUMNS_MAX} columns; ${count(sheet.columnsCut)} are not shown</strong>`}
    </div>
  `;
}

function PlainTable({ viewer, version, onOpen, topic }) {
  const [rows, setRows] = useState([]);
  const [total, setTotal] = useState(0);
  useEffect(() => {
    let closed = false;
    const look = async () => {
      try {
        const view = await viewer.getView();
        if (closed) return;
        const [found, size] = await Promise.all([view.to_json({ start_row: 0, end_row: TABLE_ROWS }), view.num_rows()]);
        if (!closed) {
          setRows(found);
          setTotal(size);
        }
      } catch {
        if (!closed) timer = setTimeout(look, 300); // the viewer is making a new view
      }
    };
    let timer = setTimeout(look, 100);
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, [viewer, version]);
  const columns = rows.length ? Object.keys(rows[0]).filter((name) => name !== KEY_COLUMN) : [];
  return html`
    <div class="card scroll plain" tabindex="0" role="region" aria-label="the records as a table">
      <table class="list dense">
        <caption>${total > rows.length ? `The first ${count(rows.length)} of ${plural(total, "row")}` : plural(total, "row")} of ${topic.name}, in the order of the grid</caption>
        <thead><tr><th scope="col">Record</th>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row[KEY_COLUMN]}>
          <td>${row[KEY_COLUMN] && html`<button type="button" class="small" onClick=${() => onOpen(row[KEY_COLUMN])} aria-label=${`open record ${row[KEY_COLUMN]}`}>open</button>`}</td>
          ${columns.map((name) => html`<td class=${typeof row[name] === "number" ? "number" : ""}>${row[name] === null ? html`<span class="muted">–</span>` : String(row[name])}</td>`)}
        </tr>`)}</tbody>
      </table>
    </div>
  `;
}

const keysOf = (topic) => (topic.documents ? ["~id"] : keyPaths(topic));

// Preact does not render the viewer: it is added to the page once.
function useSheet(live, topic, route, setVersion) {
  const arrange = (columns) => arrangement(current.current, columns, keysOf(topic));
  const host = useRef();
  const viewer = useRef();
  const [sheet, setSheet] = useState();
  const [failed, setFailed] = useState();
  const current = useRef(route);
  current.current = route;
  // The engine is loaded while the records come. A failure is shown below.
  useEffect(() => void loadEngine().catch(() => {}), []);
  useEffect(() => {
    if (!live) return undefined;
    let closed = false;
    let made;
    const make = async () => {
      try {
        const client = await loadEngine();
        if (closed) return;
        viewer.current ??= addViewer(host.current);
        made = new Sheet(client, viewer.current, live, keysOf(topic), arrange, layoutOf(current.current.layout), () => setVersion((number) => number + 1));
        setSheet(made);
      } catch (error) {
        console.error(error);
        setFailed(error);
      }
    };
    make();
    return () => {
      closed = true;
      made?.close();
    };
  }, [live]);
  // After the effect above, whose end begins no turn of the viewer any more.
  useEffect(() => () => viewer.current && deleteViewer(viewer.current), []);
  return { host, viewer, sheet, failed };
}

export function Grid({ topic, route }) {
  const [live, refused, isLoading] = useLive(topic, route);
  const [version, setVersion] = useState(0);
  const { host, viewer, sheet, failed } = useSheet(live, topic, route, setVersion);
  const [writing, setWriting] = useState();
  const opener = useRef();
  useNews(live);
  const tab = tabOf(route);
  const isPlain = tab === "table";
  const columns = useMemo(() => sheet?.columns ?? [], [sheet, version]);
  const [cell, setCell] = useState();
  const limit = askedOf(route).limit;
  const selected = route.record;
  const current = useRef(route);
  current.current = route;

  const open = (key) => {
    opener.current = document.activeElement;
    go({ ...current.current, record: key }, { quietly: Boolean(current.current.record) });
  };
  const close = () => {
    go({ ...current.current, record: "" }, { quietly: true });
    opener.current?.focus?.();
  };

  useEffect(() => {
    const element = viewer.current;
    if (!element || !sheet) return undefined;
    let pressed;
    const placeIn = (event) => event.composedPath().map(placeOf).find(Boolean);
    // A row may move between the press and the release of the button.
    const press = (event) => { pressed = placeIn(event); };
    const clicked = (event) => {
      const { key, path } = (placeIn(event) && pressed) ?? {};
      const row = key === undefined ? undefined : live.row(key);
      if (!row) return;
      const isField = typeof path === "string" && /^[/[]/.test(path);
      const value = isField ? valueAt(row.record, path) : undefined;
      const isScalar = isField && (value === null || value === undefined || typeof value !== "object");
      const clickedCell = isScalar ? { key, path, value: value ?? null } : undefined;
      if (event.altKey && clickedCell) filterBy(equals(path, clickedCell.value));
      else {
        setCell(clickedCell);
        open(key);
      }
    };
    let timer;
    const changed = () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const layout = await sheet.layout();
        const there = readRoute();
        if (there.view !== "grid" || there.topic !== topic.name) return;
        // The grid sorts the rows that it holds. If the service has more, only the service can sort all of them.
        if (layout?.sort?.length && live.matches > live.size && !live.isPage && !live.isGrouped && layout.sort.every(([path]) => /^[/[]/.test(path))) {
          const order = layout.sort.map(([path, direction]) => `${path} ${direction.startsWith("desc") ? "DESC" : "ASC"}`).join(", ");
          go({ ...there, order, layout: "" });
          return;
        }
        const text = layout && Object.keys(layout).length ? JSON.stringify(layout) : "";
        go({ ...there, layout: text }, { quietly: true });
      }, 300);
    };
    const themed = ({ detail }) => sheet.paint(detail);
    element.addEventListener("mousedown", press, true);
    element.addEventListener("click", clicked);
    element.addEventListener("perspective-config-update", changed);
    addEventListener("theme", themed);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("mousedown", press, true);
      element.removeEventListener("click", clicked);
      element.removeEventListener("perspective-config-update", changed);
      removeEventListener("theme", themed);
    };
  }, [sheet]);

  const filterBy = (term) => go({ ...current.current, filter: both(current.current.filter ?? "", term) });
  const choose = (more) => go({ ...current.current, ...more, layout: "" }, { quietly: true });

  // Each tab has its own settings; those that the user has changed belong to the tab in which they were changed.
  const { show, chart, by, across, value, aggregate, time, width } = route;
  const drawn = useRef();
  useEffect(() => {
    const arranged = JSON.stringify([show === "table" ? "" : show, chart, by, across, value, aggregate, time, width]);
    if (sheet && drawn.current !== undefined && drawn.current !== arranged) sheet.rearrange();
    drawn.current = arranged;
  }, [sheet, show, chart, by, across, value, aggregate, time, width]);

  useEffect(() => {
    if (sheet?.isDrawn) markRow(viewer.current, selected);
  }, [sheet, sheet?.isDrawn, selected]);

  useEffect(() => {
    const keys = { w: () => setWriting({}), t: () => choose({ show: tabOf(current.current) === "table" ? "" : "table" }), Escape: () => current.current.record && close() };
    const press = ({ detail }) => keys[detail]?.();
    addEventListener("shortcut", press);
    return () => removeEventListener("shortcut", press);
  }, []);

  return html`
    <section class="grid" aria-labelledby="grid-title">
      <${Breadcrumb} route=${route} page="records" recordName=${selected} />
      <div class="title"><h1 id="grid-title">${topic.name}</h1>
        <div class="actions">
          <div class="switch tabs" role="group" aria-label="how to show the records">
            ${Object.entries(TABS).map(([name, title]) => html`<button type="button" aria-pressed=${tab === name} onClick=${() => choose({ show: name === "grid" ? "" : name })}>${title}</button>`)}
          </div>
          <button type="button" disabled=${!sheet || isPlain} onClick=${() => viewer.current.toggleConfig()} title="all settings of the viewer: columns, groups, expressions">Arrange</button>
          <${SavedViews} route=${route} />
          <${CopyAs} topic=${topic} request=${copied(route, topic)} kafka=${topic.kafka} />
          <button type="button" onClick=${() => setWriting({})}>Write…</button>
          ${topic.sow && html`<button type="button" class="danger-quiet" onClick=${() => setWriting({ way: "sow_delete" })}>Delete…</button>`}
        </div></div>
      <${Ask} topic=${topic} route=${route} refused=${refused} live=${live} columns=${columns} />
      <${Arrange} route=${route} columns=${columns} keys=${keysOf(topic)} onChange=${choose} />
      <${Standing} live=${live} isLoading=${isLoading} sheet=${sheet} limit=${limit} topic=${topic} />
      ${failed && html`<p class="notice bad" role="alert">The grid could not be loaded: ${failed.message}. It needs WebAssembly and web workers; the table does not come without them either.</p>`}
      <div class="body">
        <div class="sheet">
          <div class="viewer ${isPlain ? "behind" : ""}" ref=${host} role="group" inert=${isPlain} aria-label="grid of ${topic.name}; press t for a plain table"></div>
          ${isPlain && sheet && html`<${PlainTable} viewer=${viewer.current} version=${version} onOpen=${open} topic=${topic} />`}
          ${!live && refused && html`<p class="empty">Nothing is shown, because the query service refused what was asked for.</p>`}
          ${live?.state === "live" && live.size === 0 && html`<p class="empty">${route.filter || route.condition ? "No record matches now. What comes to match appears here." : topic.sow ? "The topic has no records yet. What is published appears here." : "No message has come yet."}</p>`}
          ${(!live || live.state === "loading" || (!sheet && !failed)) && !refused && html`<p class="empty" role="status">${live?.size ? `Drawing ${plural(live.size, "record")}…` : "Loading…"}</p>`}
        </div>
        ${selected && live && html`<${RecordPanel} key=${selected} cell=${cell?.key === selected ? cell : undefined} onFilter=${filterBy} topic=${topic} live=${live} sowKey=${selected} version=${live.row(selected)} onClose=${close} onWrite=${setWriting} />`}
      </div>
      ${writing && html`<${WriteDialog} topic=${topic} begin=${writing} onClose=${() => setWriting(undefined)} />`}
    </section>
  `;
}
