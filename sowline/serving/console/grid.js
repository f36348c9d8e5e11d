// The live records of one topic: the filter and options, the viewer, and the state.
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import { Arrange, arrangement } from "./arrange.js";
import { Ask } from "./ask.js";
import { askedOf, copied, useLive, useNews, useSample } from "./asked.js";
import { Breadcrumb } from "./breadcrumb.js";
import { open as markRow, placeOf } from "./cells.js";
import { TABS, tabOf } from "./chosen.js";
import { CopyAs } from "./copyas.js";
import { at as valueAt, keyPaths } from "./fields.js";
import { both, equals } from "./filter.js";
import { canGroup, groupsOf, keyOf } from "./groups.js";
import { Menu } from "./menu.js";
import { Origin, isComputed } from "./origin.js";
import { PlainTable } from "./plain.js";
import { RecordPanel, isEditable } from "./record.js";
import { go, readRoute } from "./route.js";
import { SavedViews } from "./saved.js";
import { Sheet, addViewer, deleteViewer, loadEngine } from "./sheet.js";
import { Standing } from "./standing.js";
import { WriteDialog } from "./write.js";

function layoutOf(text) {
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

const keysOf = (topic) => (topic.documents ? ["~id"] : keyPaths(topic));

// Preact does not render the viewer: it is added to the page once.
function useSheet(live, topic, route, sample, wanted, setVersion) {
  const host = useRef();
  const viewer = useRef();
  const [sheet, setSheet] = useState();
  const [failed, setFailed] = useState();
  const current = useRef(route);
  current.current = route;
  current.sample = sample;
  current.wanted = keyOf(wanted);
  // The engine is loaded while the records come. A failure is shown below.
  useEffect(() => void loadEngine().catch(() => {}), []);
  useEffect(() => {
    if (!live) return undefined;
    let closed = false;
    let made;
    // What is shown stays as it is until the groups for another address have come.
    let suited = current.current;
    const arrange = (columns) => {
      if (keyOf(live.groups) === current.wanted) suited = current.current;
      // Groups are chosen among the fields of the records.
      return arrangement(suited, live.groups ? current.sample : columns, keysOf(topic), live.groups);
    };
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
  const isGrouping = canGroup(topic, route);
  const sample = useSample(topic, route, isGrouping);
  const groups = isGrouping ? (sample ? groupsOf(route, sample, keysOf(topic)) : null) : undefined;
  const [live, refused, isLoading, wanted] = useLive(topic, route, groups);
  const [version, setVersion] = useState(0);
  const { host, viewer, sheet, failed } = useSheet(live, topic, route, sample, wanted, setVersion);
  const [writing, setWriting] = useState();
  const opener = useRef();
  useNews(live);
  const tab = tabOf(route);
  const isPlain = tab === "table";
  const shown = useMemo(() => sheet?.columns ?? [], [sheet, version]);
  const columns = live?.groups ? (sample ?? []) : shown;
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
    // The cell that the first click of a double click hit: its record opens beside the grid, which may move the cells.
    let clickedOnce;
    const edit = () => clickedOnce && !live.isGrouped && isEditable(topic, clickedOnce.path) && setWriting({ way: "edit", sowKey: clickedOnce.key, path: clickedOnce.path });
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
      if (event.detail === 1) clickedOnce = clickedCell;
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
    element.addEventListener("dblclick", edit);
    element.addEventListener("perspective-config-update", changed);
    addEventListener("theme", themed);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("mousedown", press, true);
      element.removeEventListener("click", clicked);
      element.removeEventListener("dblclick", edit);
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
    if (sheet && drawn.current !== undefined && drawn.current !== arranged && keyOf(live.groups) === keyOf(wanted)) sheet.rearrange();
    drawn.current = arranged;
  }, [sheet, show, chart, by, across, value, aggregate, time, width]);

  useEffect(() => {
    if (sheet?.isDrawn) markRow(viewer.current, selected);
  }, [sheet, sheet?.isDrawn, selected]);

  useEffect(() => {
    const keys = { w: () => !isComputed(topic) && setWriting({}), t: () => choose({ show: tabOf(current.current) === "table" ? "" : "table" }), Escape: () => current.current.record && close() };
    const press = ({ detail }) => keys[detail]?.();
    addEventListener("shortcut", press);
    return () => removeEventListener("shortcut", press);
  }, []);

  return html`
    <section class="grid" aria-labelledby="grid-title">
      <div class="title"><h1 id="grid-title" class="unseen">${topic.name}</h1>
        <${Breadcrumb} route=${route} page="records" recordName=${selected} /><${Origin} topic=${topic} />
        <div class="actions">
          <div class="switch tabs" role="group" aria-label="how to show the records">
            ${Object.entries(TABS).map(([name, title]) => html`<button type="button" aria-pressed=${tab === name} onClick=${() => choose({ show: name === "grid" ? "" : name })}>${title}</button>`)}
          </div>
          <${Menu} title="More">
            <${SavedViews} route=${route} />
            <button type="button" disabled=${!sheet || isPlain} onClick=${() => viewer.current.toggleConfig()} title="all settings of the viewer: columns, groups, expressions">Arrange</button>
            <${CopyAs} topic=${topic} request=${copied(route, topic)} kafka=${topic.kafka} />
            ${!isComputed(topic) && html`<button type="button" onClick=${() => setWriting({})}>Write…</button>`}
            ${topic.sow && !isComputed(topic) && html`<button type="button" class="danger-quiet" onClick=${() => setWriting({ way: "sow_delete" })}>Delete…</button>`}
          <//>
        </div></div>
      <${Ask} topic=${topic} route=${route} refused=${refused} isLoading=${isLoading} live=${live} columns=${columns} />
      <${Arrange} route=${route} columns=${columns} keys=${keysOf(topic)} onChange=${choose} />
      <${Standing} live=${live} isLoading=${isLoading} sheet=${sheet} limit=${limit} topic=${topic} tab=${tab} />
      ${failed && html`<p class="notice bad" role="alert">The grid could not be loaded: ${failed.message}. It needs WebAssembly and web workers; the table does not come without them either.</p>`}
      <div class="body">
        <div class="sheet">
          <div class="viewer ${isPlain ? "behind" : ""}" ref=${host} role="group" inert=${isPlain} aria-label="grid of ${topic.name}; press t for a plain table"></div>
          ${isPlain && sheet && html`<${PlainTable} viewer=${viewer.current} version=${version} onOpen=${open} topic=${topic} />`}
          ${!live && refused && html`<p class="empty">Nothing is shown, because the query service refused the request.</p>`}
          ${live?.state === "live" && live.size === 0 && html`<p class="empty">${route.filter || route.condition ? "No record matches now. Records appear here as soon as they match." : topic.sow ? "The topic has no records yet. Published records appear here." : "No message has come since this page was opened."}</p>`}
          ${!sheet?.isBegun && !failed && !refused && html`<p class="empty" role="status">${live?.rows ? "Drawing…" : "Loading…"}</p>`}
        </div>
        ${selected && live && !live.groups && html`<${RecordPanel} key=${selected} cell=${cell?.key === selected ? cell : undefined} onFilter=${filterBy} topic=${topic} live=${live} sowKey=${selected} version=${live.row(selected)} onClose=${close} onWrite=${setWriting} />`}
      </div>
      ${writing && html`<${WriteDialog} topic=${topic} begin=${writing} onClose=${() => setWriting(undefined)} />`}
    </section>
  `;
}
