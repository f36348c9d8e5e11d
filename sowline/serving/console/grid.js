// The live records of one topic: the filter and options, the viewer, and the state.
import { html, useEffect, useFollowed, useMemo, useRef, useState } from "./lib.js";
import { Arrange, Caption, arrangement, captionOf } from "./arrange.js";
import { Ask } from "./ask.js";
import { askedOf, copied, useLive, useNews, useSample } from "./asked.js";
import { Breadcrumb } from "./breadcrumb.js";
import { placeOf } from "./cells.js";
import { Chart } from "./chart.js";
import { TABS, chosenFields, tabOf } from "./chosen.js";
import { columnsIn } from "./columns.js";
import { Offline, useService } from "./connection.js";
import { CopyAs } from "./copyas.js";
import { at as valueAt, keyPaths } from "./fields.js";
import { Facets, both, countedFields, equals } from "./filter.js";
import { canGroup, groupsOf, keyOf } from "./groups.js";
import { LayoutPanel } from "./layout.js";
import { untilLoaded } from "./loaded.js";
import { Menu } from "./menu.js";
import { Origin, isComputed } from "./origin.js";
import { PlainTable } from "./plain.js";
import { RecordPanel, isEditable, recordName } from "./record.js";
import { go, readRoute } from "./route.js";
import { SavedViews } from "./saved.js";
import { service } from "./service.js";
import { Sheet, addViewer, deleteViewer, loadEngine } from "./sheet.js";
import { Bookmark, Standing } from "./standing.js";
import { plural } from "./text.js";
import { WriteDialog } from "./write.js";

function layoutOf(text) {
  try {
    const { plugin, plugin_config: config, ...layout } = JSON.parse(text || "{}");
    // Links of earlier versions may have one of the viewer's own charts, which are gone: what was grouped is shown as a grid.
    return plugin && plugin !== "Datagrid" ? layout : { ...layout, ...(config && { plugin_config: config }) };
  } catch {
    return undefined;
  }
}

// From this width on there is room for counts beside the grid.
const wide = matchMedia("(min-width: 1280px)");
const COUNTS = "sowline.counts";

// Whether the counts are shown, and what shows or hides them. A wide window has them if there is something to count, or as
// the user last chose it; a narrow one begins without them.
function useCounting(columns, keys) {
  const isWide = useFollowed(wide, "change", () => wide.matches);
  const [wanted, setWanted] = useState(() => localStorage.getItem(COUNTS));
  const hasFields = useRef(false);
  hasFields.current ||= countedFields(columns, keys).length > 0;
  const [isOpen, setOpen] = useState(false);
  const show = (shown) => {
    if (!wide.matches) return setOpen(shown);
    localStorage.setItem(COUNTS, shown ? "on" : "off");
    return setWanted(shown ? "on" : "off");
  };
  return [isWide ? (wanted ? wanted === "on" : hasFields.current) : isOpen, show, () => setOpen(false)];
}

const keysOf = (topic) => (topic.documents ? ["~id"] : keyPaths(topic));

// Preact does not render the viewer: it is added to the page once. Without records, what it shows stays.
function useSheet(live, topic, route, sample, wanted, setVersion) {
  const host = useRef();
  const viewer = useRef();
  const [sheet, setSheet] = useState();
  const [failed, setFailed] = useState();
  const current = useRef(route);
  current.current = route;
  current.sample = sample;
  current.wanted = keyOf(wanted);
  // The engine is loaded while the records come, unless a chart of them is shown. A failure is shown below.
  useEffect(() => {
    if (tabOf(route) !== "chart") loadEngine().catch(() => {});
  }, []);
  useEffect(() => {
    if (!live) return undefined;
    const closing = new AbortController();
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
        const client = await untilLoaded(loadEngine, setFailed, closing.signal);
        if (closing.signal.aborted) return;
        setFailed(undefined);
        viewer.current ??= addViewer(host.current);
        made = new Sheet(client, viewer.current, live, [...keysOf(topic), ...(topic.view?.grouping ?? [])], arrange, layoutOf(current.current.layout), () => setVersion((number) => number + 1));
        setSheet(made);
      } catch (error) {
        console.error(error);
        setFailed(error);
      }
    };
    make();
    return () => {
      closing.abort();
      made?.close();
    };
  }, [live]);
  // After the effect above, whose end begins no turn of the viewer any more.
  useEffect(() => () => viewer.current && deleteViewer(viewer.current), []);
  return { host, viewer, sheet, failed };
}

// How many columns are not on the screen, and the order of the rows if it is that of one of them.
function Beyond({ left, right, order }) {
  if (!left && !right) return null;
  return html`<p class="beyond muted" title="Scroll sideways to see them. Columns and order, in the menu, chooses others.">
    <span>${order && `order: ${order}`}</span> <span>${left > 0 && `← ${plural(left, "column")}`} ${right > 0 && html`<strong>+ ${plural(right, "column")} →</strong>`}</span></p>`;
}

export function Grid({ topic, route }) {
  const isGrouping = canGroup(topic, route);
  const sample = useSample(topic, route, isGrouping);
  const groups = isGrouping ? (sample ? groupsOf(route, sample, keysOf(topic)) : null) : undefined;
  const [live, refused, isLoading, wanted] = useLive(topic, route, groups);
  const [version, setVersion] = useState(0);
  const tab = tabOf(route);
  const isPlain = tab === "table";
  const isChart = tab === "chart";
  // What was asked for by another tab is no answer to this one.
  const isSuited = keyOf(live?.groups) === keyOf(wanted);
  const { host, viewer, sheet, failed } = useSheet(isChart || !isSuited ? undefined : live, topic, route, sample, wanted, setVersion);
  const [writing, setWriting] = useState();
  const opener = useRef();
  const [isArranging, setArranging] = useState(false);
  const [isSeen, setSeen] = useState(false);
  const [beyond, setBeyond] = useState();
  // On a phone, the controls would take the room of the rows; a filter that was refused has to be seen.
  const [isControlled, setControls] = useState(false);
  const hasControls = isControlled || Boolean(refused);
  useNews(live);
  useService();
  const shown = useMemo(() => sheet?.columns ?? [], [sheet, version]);
  // New fields come with new records: those of a chart are looked for each time that there are twice as many.
  const charted = useMemo(() => (isChart && live && !live.groups ? columnsIn(live) : []), [isChart, live, Math.ceil(Math.log2(1 + (live?.size ?? 0)))]);
  const columns = live?.groups ? (sample ?? []) : isChart ? charted : shown;
  const chosen = isChart && live && isSuited && columns.length ? chosenFields(route, columns, keysOf(topic)) : undefined;
  const [charting, setCharting] = useState();
  const drawing = isChart ? { isDrawn: charting?.live === live, isBegun: Boolean(live), shown: charting?.live === live ? charting : undefined } : sheet;
  // The sheet of the tab before shows other rows until this one has its own.
  const isTable = isPlain && isSuited && sheet?.isOf(live) && sheet.isBegun;
  const isEmpty = live?.state === "live" && live.size === 0;
  const [isCounting, showCounts, leaveCounts] = useCounting(columns, keysOf(topic));
  const [cell, setCell] = useState();
  const limit = askedOf(route).limit;
  const caption = isSuited && !route.layout ? captionOf(route, columns, keysOf(topic)) : undefined;
  const canCount = topic.sow && live && !isChart && (live.groups || !live.isGrouped);
  // The button is pressed while its panel is there.
  const isCounted = canCount && isCounting && sheet?.isDrawn;
  const selected = route.record;
  // A record that was deleted, or no longer matches, keeps its name while it is open.
  const named = useRef({});
  if (selected && (named.current.key !== selected || live?.row(selected))) named.current = { key: selected, name: recordName(topic, live, selected) };
  const current = useRef(route);
  current.current = route;
  // The arrangement that the viewer has, as the address writes it.
  const applied = useRef(route.layout ?? "");

  const arrange = () => {
    go({ ...current.current, record: "" }, { quietly: true });
    setArranging(true);
  };
  const leaveArranging = () => {
    setArranging(false);
    document.querySelector(".grid .menu > summary").focus();
  };
  const leaveAll = () => {
    leaveCounts();
    if (document.querySelector(".panel.layout")) leaveArranging();
  };
  const open = (key) => {
    opener.current = document.activeElement;
    setArranging(false);
    go({ ...current.current, record: key }, { quietly: Boolean(current.current.record) });
  };
  const close = () => go({ ...current.current, record: "" }, { quietly: true });
  // After the drawing: on a phone what is below an open record can't have the focus.
  useEffect(() => {
    if (!selected) opener.current?.focus?.();
  }, [selected]);

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
        applied.current = text;
        go({ ...there, layout: text }, { quietly: true });
      }, 300);
    };
    const themed = ({ detail }) => sheet.paint(detail);
    const seen = ({ detail }) => setSeen(detail);
    const passed = ({ detail }) => setBeyond(detail);
    element.addEventListener("mousedown", press, true);
    element.addEventListener("click", clicked);
    element.addEventListener("dblclick", edit);
    element.addEventListener("perspective-config-update", changed);
    element.addEventListener("row-seen", seen);
    element.addEventListener("columns-seen", passed);
    addEventListener("theme", themed);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("mousedown", press, true);
      element.removeEventListener("click", clicked);
      element.removeEventListener("dblclick", edit);
      element.removeEventListener("perspective-config-update", changed);
      element.removeEventListener("row-seen", seen);
      element.removeEventListener("columns-seen", passed);
      removeEventListener("theme", themed);
    };
  }, [sheet]);

  const filterBy = (term) => {
    leaveCounts();
    go({ ...current.current, filter: both(current.current.filter ?? "", term) });
  };
  const choose = (more) => go({ ...current.current, ...more, layout: "" }, { quietly: true });

  // Each tab has its own settings; those that the user has changed belong to the tab in which they were changed. A saved
  // view, or a step back, has others.
  const { show, chart, by, across, value, aggregate, time, width, layout = "" } = route;
  const drawn = useRef();
  useEffect(() => {
    const arranged = JSON.stringify([show === "table" ? "" : show, chart, by, across, value, aggregate, time, width]);
    const isOther = sheet && drawn.current?.sheet === sheet && (drawn.current.arranged !== arranged || applied.current !== layout);
    if (isOther && keyOf(live.groups) === keyOf(wanted)) sheet.rearrange(layoutOf(layout));
    applied.current = layout;
    drawn.current = { sheet, arranged };
  }, [sheet, show, chart, by, across, value, aggregate, time, width, layout]);

  useEffect(() => {
    if (sheet?.isDrawn) sheet.mark(selected);
  }, [sheet, sheet?.isDrawn, selected]);

  useEffect(() => {
    const keys = { w: () => !isComputed(topic) && !service.isLost && setWriting({}), t: () => choose({ show: tabOf(current.current) === "table" ? "" : "table" }), Escape: () => (current.current.record ? close() : leaveAll()) };
    const press = ({ detail }) => keys[detail]?.();
    addEventListener("shortcut", press);
    return () => removeEventListener("shortcut", press);
  }, []);

  return html`
    <section class="grid" aria-labelledby="grid-title">
      <div class="title"><h1 id="grid-title" class="unseen">${topic.name}</h1>
        <${Breadcrumb} route=${route} page="records" recordName=${selected && named.current.name} /><${Origin} topic=${topic} />
        <${Standing} live=${live} refused=${refused} isLoading=${isLoading} sheet=${drawing} limit=${limit} topic=${topic} tab=${tab} />
        <div class="actions">
          <div class="switch tabs" role="group" aria-label="how to show the records">
            ${Object.entries(TABS).map(([name, title]) => html`<button type="button" aria-pressed=${tab === name} onClick=${() => choose({ show: name === "grid" ? "" : name })}>${title}</button>`)}
          </div>
          <button type="button" class="controls-open ${(refused ? live?.asked.filter : route.filter) ? "set" : ""}" aria-expanded=${hasControls} onClick=${() => setControls(!hasControls)}>${tab === "grid" || isPlain ? "Filter" : "Set up"}</button>
          <${Menu} title="More">
            <${SavedViews} route=${route} />
            ${(tab === "grid" || isPlain) && html`<button type="button" disabled=${!sheet?.isBegun} onClick=${arrange}>Columns and order…</button>`}
            <${Bookmark} live=${live} sheet=${drawing} />
            <${CopyAs} topic=${topic} request=${copied(route, topic)} kafka=${topic.kafka} />
            ${!isComputed(topic) && html`<button type="button" disabled=${service.isLost} onClick=${() => setWriting({})}>Write…</button>`}
            ${topic.sow && !isComputed(topic) && html`<button type="button" class="danger-quiet" disabled=${service.isLost} onClick=${() => setWriting({ way: "sow_delete" })}>Delete…</button>`}
            ${!isComputed(topic) && html`<${Offline} />`}
          <//>
        </div></div>
      ${route.filter && !hasControls && html`<code class="applied">${route.filter}</code>`}
      <div class="controls ${hasControls ? "open" : ""}">
      <${Ask} topic=${topic} route=${route} refused=${refused} isLoading=${isLoading} live=${live} columns=${columns}>
        ${canCount && html`<button type="button" class="counts" aria-pressed=${Boolean(isCounted)} disabled=${!sheet?.isDrawn} onClick=${() => showCounts(!isCounting)} title="how many records have each value of a field">Counts</button>`}
      <//>
      <${Arrange} route=${route} columns=${columns} keys=${keysOf(topic)} onChange=${choose} />
      </div>
      ${failed && !isChart && html`<p class="notice bad" role="alert">The grid could not be loaded: ${failed.message}. Trying again. Grid and table need WebAssembly and web workers.</p>`}
      <div class="body ${live && refused ? "other" : ""}">
        ${isCounted && html`<${Facets} topic=${topic} asked=${live.asked} sheet=${sheet} columns=${columns} keys=${keysOf(topic)} by=${route.count ?? ""} onFilter=${filterBy} onBy=${(path) => go({ ...current.current, count: path }, { quietly: true })} onClose=${() => showCounts(false)} />`}
        <div class="sheet">
          ${caption && html`<${Caption} text=${caption} live=${live} />`}
          <div class="viewer ${isPlain || isChart ? "behind" : ""}" ref=${host} role="group" inert=${isPlain || isChart} aria-label="grid of ${topic.name}; press t for a plain table"></div>
          ${!isPlain && !isChart && sheet && beyond && html`<${Beyond} ...${beyond} />`}
          ${isTable && html`<${PlainTable} key=${sheet} sheet=${sheet} version=${version} onOpen=${open} topic=${topic} />`}
          ${isChart && live && !isEmpty && html`<${Chart} live=${live} chosen=${chosen} topic=${topic} limit=${limit} onDrawn=${setCharting} />`}
          ${!live && refused && html`<p class="empty">Nothing is shown, because the query service refused the request.</p>`}
          ${isEmpty && html`<p class="empty">${route.filter || route.condition ? "No record matches now. Records appear here as soon as they match." : topic.sow ? "The topic has no records yet. Published records appear here." : "No message has come since this page was opened."}</p>`}
          ${(isPlain ? !isTable : !drawing?.isBegun) && !failed && !refused && html`<p class="empty" role="status">${live?.rows ? "Drawing…" : "Loading…"}</p>`}
        </div>
        ${isArranging && sheet && html`<${LayoutPanel} key=${sheet} viewer=${viewer.current} sheet=${sheet} columns=${columns} onClose=${leaveArranging} />`}
        ${selected && live && !live.groups && html`<${RecordPanel} key=${selected} cell=${cell?.key === selected ? cell : undefined} onFilter=${filterBy} topic=${topic} live=${live} name=${named.current.name} isHidden=${tab === "grid" && !isSeen} sowKey=${selected} version=${live.row(selected)} onClose=${close} onWrite=${setWriting} />`}
      </div>
      ${writing && html`<${WriteDialog} topic=${topic} begin=${writing} columns=${columns} onClose=${() => setWriting(undefined)} />`}
    </section>
  `;
}
