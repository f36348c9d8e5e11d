"""Records: the filters, deltas and keys of a history."""

import pytest

from sowline.check.history import DeltaParts, TotalsOf
from sowline.check.judge.records import (
    Body,
    delta_applied,
    key_of,
    matches,
    merged,
    page_of,
    totals_of,
    without,
)

RECORD: Body = {"id": "k1", "status": "open", "qty": 5, "is": True}


@pytest.mark.parametrize(
    ("filter", "is_match"),
    [
        ("", True),
        ("1=1", True),
        ("/status = 'open'", True),
        ("/status = 'open' AND /qty > 5", False),
        ("/qty >= 5 AND /qty <= 5 AND /qty < 6", True),
        ("/qty = '5'", False),
        ("/status > 1", False),
        ("/is = 1", False),
        ("/none = 'open'", False),
        ("/qty < 5", False),
        ("/qty < 6", True),
        ("/qty <= 4", False),
        ("/qty >= 6", False),
        ("/qty > 4", True),
        ("/qty > -1", True),
        ("/qty = 5", True),
        ("/status = ''", False),
        ("/status > 'a' AND /status < 'z'", True),
    ],
)
def test_filters(filter: str, is_match: bool) -> None:
    """A field of another type, or none, matches nothing."""
    assert matches(filter, RECORD) is is_match


def test_no_record_matches_nothing() -> None:
    """Also the filter that selects every record."""
    assert not matches("", None)


def test_merging() -> None:
    """Objects merge, other values are replaced, null is a value."""
    held = {"a": 1, "b": {"x": 1, "y": [1]}, "c": {"z": 1}}
    delta = {"a": None, "b": {"y": [2], "w": 3}, "c": 4, "d": {"e": 5}}
    assert merged(held, delta) == {"a": None, "b": {"x": 1, "y": [2], "w": 3}, "c": 4, "d": {"e": 5}}
    assert merged(None, delta) == delta


@pytest.mark.parametrize(
    ("body", "delta", "after", "outcome"),
    [
        ({"a": 1, "b": 2}, DeltaParts({"a": 3}, ("b",)), {"a": 3}, "applied"),
        ({"a": 1}, DeltaParts({"a": 1}), {"a": 1}, "noop"),
        ({"a": ["z"]}, DeltaParts({}, (), {"a": ("b", "z")}), {"a": ["b", "z"]}, "applied"),
        ({"a": 1}, DeltaParts({"a": 2}, condition={"b": 1}), {"a": 1}, "condition_false"),
        ({"a": 1}, DeltaParts({"a": 2}, condition={"a": 1}), {"a": 2}, "applied"),
        (None, DeltaParts({"a": 2}, condition={}), None, "condition_false"),
        (None, DeltaParts({"a": 2}), {"a": 2}, "applied"),
        ({}, DeltaParts({"a": 2}, condition={}), {"a": 2}, "applied"),
        ({"a": "z"}, DeltaParts({}, (), {"a": ("b",)}), {"a": ["b"]}, "applied"),
        ({}, DeltaParts({}, (), {"a": ("c", "b", "c")}), {"a": ["b", "c"]}, "applied"),
        (
            {"a": 1, "b": 1},
            DeltaParts({"a": 2}, condition={"a": 1, "b": 2}),
            {"a": 1, "b": 1},
            "condition_false",
        ),
        ({"a": 1}, DeltaParts({"b": 1}, ("b",)), {"a": 1}, "noop"),
    ],
)
def test_deltas_of_documents(body: Body | None, delta: DeltaParts, after: Body | None, outcome: str) -> None:
    """Fields, sets, and conditions, which no missing document satisfies."""
    assert delta_applied(body, delta) == (after, outcome)


def test_removing() -> None:
    """Fields of objects too; what is not there changes nothing."""
    held = {"a": 1, "b": {"x": 1, "y": 2}, "c": 3}
    assert without(held, ["/a", "/b/x", "/none", "/c/d", "/none/x"]) == {"b": {"y": 2}, "c": 3}


@pytest.mark.parametrize(("body", "key"), [({"id": 7}, "7"), ({"id": "k"}, "k"), ({}, None), (None, None)])
def test_keys(body: Body | None, key: str | None) -> None:
    """As text, so that 7 and "7" are one record."""
    assert key_of(body, "id") == key


@pytest.mark.parametrize(
    ("order_by", "skip_n", "top_n", "keys"),
    [
        ("/id", 0, None, ["a", "b", "c"]),
        ("/id DESC", 0, None, ["c", "b", "a"]),
        ("/n, /id", 0, None, ["b", "c", "a"]),
        ("/n DESC, /id", 0, None, ["a", "b", "c"]),
        ("/n, /id DESC", 0, None, ["c", "b", "a"]),
        ("/id", 1, None, ["b", "c"]),
        ("/id", 1, 1, ["b"]),
        ("/id", 0, 0, []),
        ("/id", 9, 1, []),
    ],
)
def test_pages(order_by: str, skip_n: int, top_n: int | None, keys: list[str]) -> None:
    """The most significant field comes first; ranks are counted from zero."""
    records: dict[str, Body] = {id: {"id": id, "n": n} for id, n in (("b", 1), ("a", 2), ("c", 1))}
    assert page_of(order_by, skip_n, top_n, records) == keys


def test_totals() -> None:
    """For each value of the field, the number of records and the sum."""
    totals = TotalsOf("t", "status", "records", "qty", "sum")
    bodies = [{"status": status, "qty": qty} for status, qty in (("a", 1), ("b", 2), ("a", 3))]
    assert totals_of(totals, bodies) == {
        "a": {"status": "a", "records": 2, "sum": 4},
        "b": {"status": "b", "records": 1, "sum": 2},
    }
