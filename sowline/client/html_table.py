"""Records as a small HTML table, for notebooks. Every text is escaped, because other users wrote the records."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from sowline.model.cell import cell_text, printed

ROWS_MAX = 20
COLUMNS_MAX = 12


def html_table(title: str, rows: Sequence[tuple[str, Mapping[str, Any]]], total: int, ended: str = "") -> str:
    """Return some of `total` records as a table with a column for each field, in the order in which fields appear.

    Rows and columns beyond a screen are left out, and the caption says so.
    """
    names = list(dict.fromkeys(name for _, record in rows for name in record))
    shown, left = names[:COLUMNS_MAX], len(names) - COLUMNS_MAX
    first = f", of which the first {len(rows)} are shown" if len(rows) < total else ""
    more = f", without {left} more fields" if left > 0 else ""
    caption = f"{title}: {total:,} records{first}{more}{ended}"
    head = _row("th", ["SOW key", *map(printed, shown)])
    body = "".join(
        _row("td", [cell_text(key), *(cell_text(record[name]) if name in record else "" for name in shown)])
        for key, record in rows
    )
    return (
        f"<table><caption>{escape(printed(caption))}</caption>"
        f"<thead>{head}</thead><tbody>{body}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
