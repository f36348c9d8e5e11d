"""The functions of texts, called with characters, positions and counts."""

import pytest

from sowline.language.filter.functions.registry import TEXT_CHARS_MAX
from sowline.language.filter.functions.strings import (
    caseless,
    character,
    concat,
    equal_caseless,
    left,
    position,
    position_caseless,
    replace,
    reversed_text,
    right,
    substr,
    trim,
)


def test_texts_are_joined_without_nulls() -> None:
    """A result that is too long is NULL."""
    assert concat("a", None, "b") == "ab"
    assert concat() == ""
    assert concat("x" * TEXT_CHARS_MAX, "y") is None


def test_every_occurrence_is_replaced() -> None:
    """A NULL replacement removes them, and the size is known before the text is made."""
    assert replace("abab", "b", "cc") == "accacc"
    assert replace("abab", "b", None) == "aa"
    assert (replace(None, "b", "c"), replace("a", None, "c")) == (None, None)
    assert replace("aaa", "a", "x" * TEXT_CHARS_MAX) is None


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(2, 2, "bc"), (2, None, "bcde"), (-2, None, "de"), (-9, 2, "ab"), (0, 2, "ab"), (2, -1, ""), (9, 1, "")],
)
def test_a_part_of_a_text(start: int, length: int | None, expected: str) -> None:
    """Positions count from 1, or from the end if they are negative."""
    assert substr("abcde", start, length) == expected


def test_the_ends_of_a_text() -> None:
    """A negative count is none, one beyond the text is all."""
    assert [left("abc", count) for count in (-1, 0, 2, 9)] == ["", "", "ab", "abc"]
    assert [right("abc", count) for count in (-1, 0, 2, 9)] == ["", "", "bc", "abc"]


def test_characters_are_trimmed_at_the_ends() -> None:
    """At both, or at one only."""
    assert trim("  a b ") == "a b"
    assert trim("xyaxy", "yx") == "a"
    assert trim("xax", "x", at_end=False) == "ax"
    assert trim("xax", "x", at_start=False) == "xa"
    assert trim("xx", "x") == ""


def test_positions_ignore_case_without_moving() -> None:
    """A character whose folded form is longer stays one character."""
    assert (position("abcb", "b"), position("abc", "x")) == (2, 0)
    assert position_caseless("Straße 7", "E 7") == 6
    assert caseless("ABßİ") == "abßİ"
    assert caseless("ÉA") == "éa"
    assert equal_caseless("straßE", "STRAße")
    assert not equal_caseless("a", "b")


def test_characters_and_their_order() -> None:
    """No code point is NULL: negative ones, halves of pairs and those beyond Unicode."""
    assert reversed_text("aé€") == "€éa"
    assert [character(code) for code in (65, 0x1F600)] == ["A", "\U0001f600"]
    assert [character(code) for code in (-1, 0xD800, 0xDFFF, 0x110000)] == [None] * 4
