"""Entries: what a document must have besides the equality that leads to a filter."""

from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.model.path import parse_path
from sowline.subscriptions.engine.matching.entry import Entry, make_entry
from sowline.subscriptions.engine.matching.terms import terms_of


def entry(text: str, key: int | None = None) -> Entry[int]:
    """Return the entry of a filter that is found by the equality with this number."""
    filter = compile_filter(text)
    terms = terms_of(filter)
    return make_entry(filter, terms, None if key is None else terms.equalities[key])


@pytest.mark.parametrize(
    ("text", "key", "ranges", "texts", "whole"),
    [
        ("/a = 'x'", 0, {}, {}, True),
        ("/a = 'x' AND /b = 'y'", 0, {}, {"/b": "y"}, True),
        ("/a = 'x' AND /b = 'y'", None, {}, {"/a": "x", "/b": "y"}, True),
        ("/a = 'x' AND /b = 5", 0, {"/b": (5, 5)}, {}, True),
        ("/a = 'x' AND /b = 5 AND /b < 9", 0, {"/b": (5, 5)}, {}, True),
        ("/a = 'x' AND /b = 'y' AND /b = 'z'", 0, {}, {"/b": "y"}, False),
        ("/a = 'x' AND /b IN ('y', 'z')", 0, {}, {}, False),
        ("/a = 'x' AND /b LIKE 'y'", 0, {}, {}, False),
        ("/a = 'x' AND /b = 9007199254740993", 0, {}, {}, False),
    ],
)
def test_what_is_left_to_check(
    text: str, key: int | None, ranges: dict[str, Any], texts: dict[str, str], whole: bool
) -> None:
    """Texts and numbers that columns can compare; what they can't is for the filter itself."""
    made = entry(text, key)
    assert made.ranges == {parse_path(path): ends for path, ends in ranges.items()}
    assert made.texts == {parse_path(path): text for path, text in texts.items()}
    assert made.whole is whole


def test_a_filter_with_nothing_left_is_decided() -> None:
    """Each document that leads to it matches."""
    assert entry("/a = 'x'", 0).is_decided
    assert not entry("/a = 'x' AND /b > 5", 0).is_decided
    assert not entry("/a = 'x' AND /b LIKE 'y'", 0).is_decided
