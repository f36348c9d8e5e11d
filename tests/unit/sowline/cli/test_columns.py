"""Tables of objects on a terminal."""

from sowline.cli.columns import table_of


def test_each_field_is_a_column() -> None:
    """Numbers are right-aligned, nested values are JSON, and what is missing is a dash."""
    rows: list[dict[str, object]] = [
        {"id": 1, "state": "open", "legs": {"a": 1}},
        {"id": 22, "state": None, "ok": True},
    ]
    assert table_of(rows, 80) == [
        "ID  STATE  LEGS     OK",
        ' 1  open   {"a":1}  -',
        "22  -      -        true",
    ]


def test_columns_without_room_are_named() -> None:
    """A terminal never wraps a line; control characters can't reach it."""
    rows = [{"id": 1, "text": "x" * 100, "last": "\x1b[31m", "more": 5}]
    lines = table_of(rows, 50)
    assert max(map(len, lines)) <= 50
    assert lines[-1] == "… and last, more"
    assert lines[1].endswith("…")
    assert table_of([{"la\x1bst": "\x1b[31m"}], 80) == ["LA·ST", "·[31m"]
    assert table_of([{"id": "x" * 80, "la\nst": 1}], 20)[-1] == "… and la·st"
