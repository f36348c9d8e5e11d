// The first rows of a grid as a plain table, which a screen reader can read.
import { html, useEffect, useRef, useState } from "./lib.js";
import { isNumeric } from "./columns.js";
import { KEY_COLUMN, moment, nameOf } from "./fields.js";
import { count, figure, isLong, rounded } from "./text.js";

const TABLE_ROWS = 100;
const EVERY_MS = 200;

function Cell({ value, kind, name, isMeasure }) {
  if (value === null) return html`<td><span class="muted">–</span></td>`;
  if (kind === "datetime") return html`<td><time title=${new Date(value).toISOString()}>${moment(name, value)}</time></td>`;
  if (isMeasure && typeof value === "number") return html`<td class="number" title=${String(value)}>${figure(value)}</td>`;
  if (isLong(value)) return html`<td class="number" title=${String(value)}>${rounded(value)}</td>`;
  return html`<td class=${typeof value === "number" ? "number" : ""}>${String(value)}</td>`;
}

// The values of the fields by which a row is grouped, which only a grid with groups has.
const GROUP = "__ROW_PATH__";

function First({ row, onOpen }) {
  const { [GROUP]: group, [KEY_COLUMN]: key } = row;
  if (group) return html`<th scope="row">${group.length ? group.map((value) => value ?? "no value").join(", ") : "all"}</th>`;
  return html`<td>${key && html`<button type="button" class="small" onClick=${() => onOpen(key)} aria-label=${`open record ${key}`}>open</button>`}</td>`;
}

export function PlainTable({ sheet, version, onOpen, topic }) {
  const [{ rows, size, kinds }, setFound] = useState({});
  const newest = useRef();
  newest.current = version;
  // Not at each version: while records come all the time, a reading that each of them puts off would never be made.
  useEffect(() => {
    let closed = false;
    let timer;
    let seen;
    const look = async () => {
      const at = newest.current;
      try {
        const found = at === seen ? undefined : await sheet.read(TABLE_ROWS);
        if (found && !closed) {
          seen = at;
          setFound(found);
        }
      } catch {
        // the viewer is making a new view
      }
      if (!closed) timer = setTimeout(look, EVERY_MS);
    };
    timer = setTimeout(look, EVERY_MS);
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, [sheet]);
  if (!rows) return html`<p class="empty" role="status">Drawing…</p>`;
  const isGrouped = Boolean(rows[0]?.[GROUP]);
  const columns = rows.length ? Object.keys(rows[0]).filter((name) => name !== KEY_COLUMN && name !== GROUP) : [];
  const kind = isGrouped ? "groups" : "rows";
  return html`
    <div class="card scroll plain" tabindex="0" role="region" aria-label="the records as a table">
      <table class="list dense">
        <caption>${size > rows.length ? `The first ${count(rows.length)} ${kind}` : `All ${kind}`} of ${topic.name}, in the order of the grid</caption>
        <thead><tr><th scope="col">${isGrouped ? "Group" : "Record"}</th>${columns.map((name) => html`<th scope="col" class=${isNumeric({ kind: kinds[name] }) ? "number" : ""} title=${name}>${nameOf(name)}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row[KEY_COLUMN] ?? row[GROUP]?.join()}>
          <${First} row=${row} onOpen=${onOpen} />
          ${columns.map((name) => html`<${Cell} value=${row[name]} kind=${kinds[name]} name=${name} isMeasure=${isGrouped} />`)}
        </tr>`)}</tbody>
      </table>
    </div>
  `;
}
