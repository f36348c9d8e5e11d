"""Views as tables of a notebook."""

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from sowline.client.html_table import COLUMNS_MAX, ROWS_MAX, html_table
from sowline.client.record_view import Callbacks, RecordView
from sowline.client.records import RecordSet
from sowline.language.expressions.order import parse_order
from sowline.model.cell import CELL_MAX

AS_HTML = "_repr_html_"
"""The method that a notebook looks for."""


class Table(HTMLParser):
    """Reads a table: its caption, its rows, and every tag that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.caption = ""
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag; none may have attributes."""
        assert attrs == []
        self.tags.add(tag)
        self._open = tag
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._open == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def shown(order_by: str = "", **records: Any) -> Table:
    """Return the table that a notebook shows of a view of records."""
    bodies = {key: json.dumps(record).encode() for key, record in records.items()}
    view = RecordView("orders", RecordSet(bodies), parse_order(order_by), Callbacks())
    return Table(getattr(view, AS_HTML)())


def test_a_view_is_a_table_in_its_order() -> None:
    """With a column for each field, and nothing where a record has none."""
    table = shown(
        "/n", a={"n": 2, "t": "x"}, b={"n": 1, "o": {"p": [1.5]}}, c={"n": 123456789012345678903, "t": None}
    )
    assert table.caption == "RecordView of orders: 3 records"
    assert table.rows == [
        ["SOW key", "n", "o", "t"],
        ["b", "1", '{"p":[1.5]}', ""],
        ["a", "2", "", "x"],
        ["c", "123456789012345678903", "", "-"],
    ]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "</td></table>", '"><img src=x onerror=1>', "&lt;", "'"]
)
def test_what_users_write_is_text(text: str) -> None:
    """Wherever it stands: a notebook would run the scripts of each publisher."""
    table = Table(html_table(f"LocalView of {text}", [(text, {text: text, "in": [text]})], 1, f"; {text}"))
    assert table.tags == TAGS
    assert table.caption == f"LocalView of {text}: 1 records; {text}"
    assert table.rows == [["SOW key", text, "in"], [text, text, json.dumps([text], separators=(",", ":"))]]


@pytest.mark.parametrize("order_by", ["", "/n"])
def test_a_large_view_is_a_small_table(order_by: str) -> None:
    """So many rows and columns as fit on a screen, cells that are cut, and a caption that says what is left out."""
    wide = {f"f{number}": "x" * 100 for number in range(COLUMNS_MAX + 2)}
    table = shown(order_by, **{f"k{number}": {"n": number, **wide} for number in range(1500)})
    assert len(table.rows) == 1 + ROWS_MAX
    assert {len(row) for row in table.rows} == {1 + COLUMNS_MAX}
    assert max(len(cell) for row in table.rows for cell in row) == CELL_MAX
    assert [row[1] for row in table.rows[1:]] == [str(number) for number in range(ROWS_MAX)]
    assert (
        table.caption
        == "RecordView of orders: 1,500 records, of which the first 20 are shown, without 3 more fields"
    )


def test_an_empty_view_is_an_empty_table() -> None:
    """Not an error, and not nothing."""
    assert (shown().caption, shown().rows) == ("RecordView of orders: 0 records", [["SOW key"]])
