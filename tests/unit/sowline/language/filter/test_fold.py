"""Constant parts of a filter are computed once, when it is compiled."""

import pytest

from sowline.language.filter.fold import FOLDED_TEXT_CHARS_MAX, folded
from sowline.language.filter.parse import parse
from sowline.language.filter.printer import text_of


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("/a > 2 * 3", "/a > 6"),
        ("/a = UPPER(CONCAT('x', 'y'))", "/a = 'XY'"),
        ("1 < 2 OR /a = 1", "TRUE OR /a = 1"),
        ("/a IN (1 + 1, /b)", "/a IN (2, /b)"),
        ("-(1 / 0) IS NULL", "TRUE"),
        ("/a + 1 + 2", "/a + 1 + 2"),
        ("CONDITION('{..}')", "CONDITION('{..}')"),
    ],
)
def test_a_constant_part_becomes_its_value(text: str, simpler: str) -> None:
    """What depends on the record stays."""
    assert text_of(folded(parse(text))) == text_of(parse(simpler))


@pytest.mark.parametrize("text", ["UNIX_TIMESTAMP()", "TOPIC_NAME()", "UPPER(SOW_KEY())"])
def test_what_a_call_knows_of_the_time_or_the_record_stays(text: str) -> None:
    """It has no arguments, but is not constant."""
    assert text_of(folded(parse(text))) == text


def test_long_constants_are_computed_each_time() -> None:
    """A short filter could keep a megabyte otherwise."""
    half = "x" * (FOLDED_TEXT_CHARS_MAX // 2)
    longest, longer = f"CONCAT('{half}', '{half}')", f"CONCAT('{half}', '{half}x')"
    assert text_of(folded(parse(longest))) == f"'{half}{half}'"
    assert text_of(folded(parse(longer))) == longer
