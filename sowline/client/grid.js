// The grid of a view in one output of a notebook. The kernel sends the rows on the screen, and what changes in them.
// Every text is set as text, because other users wrote the records.

const ROW_PIXELS = 22;
const ROWS_SHOWN_MAX = 14;
const REPEAT_MS = 2000;
const SCROLLED_PIXELS_MAX = 8_000_000; // browsers cut elements that are much higher

function element(name, parent, attributes = {}) {
  const made = Object.assign(document.createElement(name), attributes);
  parent.append(made);
  return made;
}

class Grid {
  constructor(model, el) {
    this.model = model;
    this.display = `${Date.now().toString(36)}${Math.random().toString(36).slice(2)}`;
    this.scroller = element("div", el, { className: "sowline-grid", tabIndex: 0 });
    this.scroller.setAttribute("role", "region");
    this.scroller.setAttribute("aria-label", "records");
    this.spacer = element("div", this.scroller);
    this.table = element("table", this.spacer);
    this.head = element("tr", element("thead", this.table));
    this.body = element("tbody", this.table);
    this.status = element("p", el, { textContent: "Waiting for the kernel. If nothing appears, run the cell again." });
    this.status.setAttribute("role", "status");
    this.first = 0;
    this.total = 0;
    this.last = 0; // the number of the last batch
    this.cells = new Map();
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.receive = (message) => this.take(message);
    model.on("msg:custom", this.receive);
    this.ask(true);
  }

  remove() {
    clearTimeout(this.again);
    this.model.off("msg:custom", this.receive);
    this.model.send({ kind: "leave", display: this.display });
  }

  ask(fresh) {
    this.isFresh = fresh;
    clearTimeout(this.again);
    // A message may be lost while a page is loaded.
    if (fresh) this.again = setTimeout(() => this.ask(true), REPEAT_MS);
    this.model.send({ kind: "show", display: this.display, first: this.first, count: ROWS_SHOWN_MAX, fresh });
  }

  scrolled() {
    const pixels = this.scroller.scrollHeight - this.scroller.clientHeight;
    const share = pixels > 0 ? Math.min(this.scroller.scrollTop / pixels, 1) : 0;
    const first = Math.round(share * Math.max(this.total - ROWS_SHOWN_MAX, 0));
    if (first !== this.first) {
      this.first = first;
      this.ask(this.isFresh);
    }
  }

  take(message) {
    for (const batch of message.batches ?? []) {
      if (batch.display !== this.display) continue;
      if (batch.whole) this.cells.clear();
      else if (this.isFresh) continue; // made before the kernel knew that this display holds nothing
      else if (batch.number !== this.last + 1) {
        this.ask(true); // a batch was lost on its way
        continue;
      }
      this.isFresh = false;
      clearTimeout(this.again);
      this.last = batch.number;
      for (const [key, cells] of Object.entries(batch.cells)) this.cells.set(key, cells);
      const shown = new Set(batch.keys);
      for (const key of this.cells.keys()) if (!shown.has(key)) this.cells.delete(key);
      this.draw(batch);
      this.model.send({ kind: "answer", display: this.display, number: batch.number });
    }
  }

  draw({ keys, columns, total, first, ended, cut }) {
    this.total = total;
    const rows = Math.max(total, keys.length) + 1;
    this.spacer.style.height = `${Math.min(rows * ROW_PIXELS, SCROLLED_PIXELS_MAX)}px`;
    this.table.setAttribute("aria-rowcount", rows);
    this.fill(this.head, "th", columns.map(({ name }) => name), columns);
    while (this.body.rows.length > keys.length) this.body.lastChild.remove();
    keys.forEach((key, at) => {
      const row = this.body.rows[at] ?? element("tr", this.body);
      row.setAttribute("aria-rowindex", first + at + 2);
      this.fill(row, "td", columns.map((_, column) => this.cells.get(key)[column] ?? ""), columns);
    });
    const range = keys.length < total ? `${first + 1} to ${first + keys.length} of ` : "";
    const more = cut ? ", without some fields" : "";
    const end = ended ? `; no longer kept up to date: ${ended}` : "";
    this.status.textContent = `${range}${total.toLocaleString("en")} record${total === 1 ? "" : "s"}${more}${end}`;
  }

  fill(row, tag, texts, columns) {
    while (row.cells.length > texts.length) row.lastChild.remove();
    texts.forEach((text, at) => {
      const cell = row.cells[at] ?? element(tag, row);
      if (cell.textContent !== text) cell.textContent = text;
      cell.className = columns[at].numeric ? "numeric" : "";
      if (tag === "th") cell.scope = "col";
    });
  }
}

export default {
  render({ model, el }) {
    const grid = new Grid(model, el);
    return () => grid.remove();
  },
};
