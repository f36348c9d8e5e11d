"""STRFTIME: each directive, in the C locale."""

from datetime import datetime

import pytest

from sowline.language.filter.functions.strftime import RESULT_CHARS_MAX, expanded, strftime

MOMENT = datetime(2027, 1, 3, 16, 5, 9, 42_007)
"""A Sunday in UTC, which belongs to the last ISO week of 2026."""


@pytest.mark.parametrize("letter", "aAbBCdeDFgGhHIjmMnpRSrtTuUVwWxXyYc%")
def test_a_directive_is_that_of_the_c_library(letter: str) -> None:
    """The same text as Python's own function gives for it."""
    assert strftime(f"<%{letter}>", MOMENT) == f"<{MOMENT:%{letter}}>"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("%f", "042007"),
        ("%03f", "042"),
        ("%s", "1798992309"),
        ("%z %Z", "+0000 UTC"),
        ("%EY-%Om", "2027-01"),
        ("%Q %", "%Q %"),
    ],
)
def test_directives_of_its_own(form: str, expected: str) -> None:
    """Fractions, seconds since 1970 and the zone; unknown directives are kept."""
    assert strftime(form, MOMENT) == expected


def test_a_result_has_a_limit() -> None:
    """A longer one is NULL, and a very long format is not even read."""
    assert strftime("x" * RESULT_CHARS_MAX, MOMENT) == "x" * RESULT_CHARS_MAX
    assert strftime("%A" * RESULT_CHARS_MAX, MOMENT) is None
    assert strftime("x" * (4 * RESULT_CHARS_MAX + 1), MOMENT) is None


def test_shorthands_are_written_out() -> None:
    """STRPTIME reads the same formats, without shorthands."""
    assert expanded("%F at %T, %Er") == "%Y-%m-%d at %H:%M:%S, %I:%M:%S %p"
