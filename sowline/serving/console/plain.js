// The first rows of a grid as a plain table, which a screen reader can read.
import { html, useEffect, useState } from "./lib.js";
import { isNumeric } from "./columns.js";
import { KEY_COLUMN, nameOf } from "./fields.js";
import { count, instant, isLong, rounded } from "./text.js";

const TABLE_ROWS = 100;

function Cell({ value, kind }) {
  if (value === null) return html`<td><span class="muted">–</span></td>`;
  if (kind === "datetime") return html`<td><time title=${new Date(value).toISOString()}>${instant(value)}</time></td>`;
  if (isLong(value)) return html`<td class="number" title=${String(value)}>${rounded(value)}</td>`;
  return html`<td class=${typeof value === "number" ? "number" : ""}>${String(value)}</td>`;
}

export function PlainTable({ viewer, version, onOpen, topic }) {
  const [rows, setRows] = useState([]);
  const [isPart, setIsPart] = useState(false);
  const [kinds, setKinds] = useState({});
  useEffect(() => {
    let closed = false;
    const look = async () => {
      try {
        const view = await viewer.getView();
        if (closed) return;
        const [found, size, schema] = await Promise.all([view.to_json({ start_row: 0, end_row: TABLE_ROWS }), view.num_rows(), view.schema()]);
        if (!closed) {
          setKinds(schema);
          setRows(found);
          setIsPart(size > found.length);
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
        <caption>${isPart ? `The first ${count(rows.length)} rows` : "All rows"} of ${topic.name}, in the order of the grid</caption>
        <thead><tr><th scope="col">Record</th>${columns.map((name) => html`<th scope="col" class=${isNumeric({ kind: kinds[name] }) ? "number" : ""} title=${name}>${nameOf(name)}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row[KEY_COLUMN]}>
          <td>${row[KEY_COLUMN] && html`<button type="button" class="small" onClick=${() => onOpen(row[KEY_COLUMN])} aria-label=${`open record ${row[KEY_COLUMN]}`}>open</button>`}</td>
          ${columns.map((name) => html`<${Cell} value=${row[name]} kind=${kinds[name]} />`)}
        </tr>`)}</tbody>
      </table>
    </div>
  `;
}
