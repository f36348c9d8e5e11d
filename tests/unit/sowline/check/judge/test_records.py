"""Records: the filters, deltas and keys of a history."""

import pytest

from sowline.check.history import DeltaParts
from sowline.check.judge.records import Body, delta_applied, key_of, matches, merged, without

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
    ],
)
def test_deltas_of_documents(body: Body | None, delta: DeltaParts, after: Body | None, outcome: str) -> None:
    """Fields, sets, and conditions, which no missing document satisfies."""
    assert delta_applied(body, delta) == (after, outcome)


def test_removing() -> None:
    """Fields of objects too; what is not there changes nothing."""
    held = {"a": 1, "b": {"x": 1, "y": 2}, "c": 3}
    assert without(held, ["/a", "/b/x", "/none", "/c/d"]) == {"b": {"y": 2}, "c": 3}


@pytest.mark.parametrize(("body", "key"), [({"id": 7}, "7"), ({"id": "k"}, "k"), ({}, None), (None, None)])
def test_keys(body: Body | None, key: str | None) -> None:
    """As text, so that 7 and "7" are one record."""
    assert key_of(body, "id") == key
