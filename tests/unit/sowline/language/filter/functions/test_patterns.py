"""REGEXP_MATCH and REGEXP_REPLACE, called with texts."""

import pytest

from sowline.language.filter.functions.patterns import first_match, with_replaced
from sowline.language.filter.functions.registry import TEXT_CHARS_MAX
from sowline.language.filter.regex import PATTERN_BYTES_MAX


def test_the_first_match_is_the_leftmost() -> None:
    """There is NULL without a match."""
    assert first_match("a1b22", "[0-9]+") == "1"
    assert first_match("abc", "[0-9]+") is None


@pytest.mark.parametrize("pattern", ["(a", "a" * (PATTERN_BYTES_MAX + 1)])
def test_a_pattern_that_is_refused_matches_nothing(pattern: str) -> None:
    """It may come from a record, so it is no error."""
    assert first_match("a", pattern) is None
    assert with_replaced("a", pattern, "b") is None


def test_every_match_is_replaced_from_the_left() -> None:
    """A replacement is a plain text; NULL removes the matches."""
    assert with_replaced("a1b22c", "[0-9]+", r"<\0>") == r"a<\0>b<\0>c"
    assert with_replaced("a1b22c", "[0-9]+", None) == "abc"
    assert (with_replaced(None, "a", "b"), with_replaced("a", None, "b")) == (None, None)


def test_empty_matches_are_between_characters() -> None:
    """A character of several bytes is not taken apart."""
    assert with_replaced("aé€", "x*", "-") == "-a-é-€-"


def test_a_replacement_that_is_too_long_is_null() -> None:
    """It ends before the memory is used."""
    assert with_replaced("a" * 1000, "a", "b" * TEXT_CHARS_MAX) is None


def test_a_match_of_bytes_has_no_half_characters() -> None:
    """They become the replacement character."""
    assert first_match("é", r"^\C") == "\ufffd"
