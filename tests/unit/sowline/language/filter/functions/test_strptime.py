"""STRPTIME: each field, its limits, and what is not as the format says."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.language.filter.functions.strptime import FORMAT_CHARS_MAX, strptime


def at(year: int, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    """Return the timestamp of a moment in UTC."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("source", "form", "timestamp"),
    [
        ("2026", "%Y", at(2026)),
        ("26", "%y", at(2026)),
        ("68", "%y", at(2068)),
        ("69", "%y", at(1969)),
        ("70", "%y", at(1970)),
        ("0", "%y", at(2000)),
        ("99", "%y", at(1999)),
        ("11", "%m", at(1970, 11)),
        ("9", "%m", at(1970, 9)),
        ("31", "%d", at(1970, 1, 31)),
        (" 7", "%e", at(1970, 1, 7)),
        ("366 2000", "%j %Y", at(2000, 12, 31)),
        ("1", "%j", at(1970)),
        ("23", "%H", at(1970, 1, 1, 23)),
        ("0", "%H", at(1970)),
        ("12 AM", "%I %p", at(1970)),
        ("1 AM", "%I %p", at(1970, 1, 1, 1)),
        ("12 PM", "%I %p", at(1970, 1, 1, 12)),
        ("11 pm", "%I %p", at(1970, 1, 1, 23)),
        ("11", "%I", at(1970, 1, 1, 11)),
        ("59", "%M", at(1970, 1, 1, 0, 59)),
        ("0", "%M", at(1970)),
        ("59", "%S", at(1970, 1, 1, 0, 0, 59)),
        ("60", "%S", at(1970, 1, 1, 0, 1)),
        ("1 7", "%u %d", at(1970, 1, 7)),
        ("7 7", "%u %d", at(1970, 1, 7)),
        ("0 7", "%w %d", at(1970, 1, 7)),
        ("6 7", "%w %d", at(1970, 1, 7)),
        ("5.6.2026", "%d.%m.%Y", at(2026, 6, 5)),
        ("20260605", "%Y%m%d", at(2026, 6, 5)),
        ("monday 5 JUNE 2026", "%a %d %b %Y", at(2026, 6, 5)),
        ("Mon 5 Jun 2026", "%A %d %B %Y", at(2026, 6, 5)),
        ("December", "%B", at(1970, 12)),
        ("2026-06-05 04:03:02", "%F %T", at(2026, 6, 5, 4, 3, 2)),
        ("0.25", "%S.%f", 0.25),
        ("0.000001", "%S.%f", 0.000001),
        ("0.123456", "%S.%f", 0.123456),
        ("0.1234567", "%S.%f", 0.123456),
        ("0.123456999", "%S.%f", 0.123456),
        ("2026-11-26T12:34:56.789000000Z", "%Y-%m-%dT%H:%M:%S.%fZ", 1795696496.789),
        ("0.250", "%S.%03f", 0.25),
        ("1790000000", "%s", 1790000000),
        ("-1", "%s", -1),
        ("5.5", "%s.%f", 5.5),
        ("999999999999", "%s", 999999999999),
        ("04:00 +02:30", "%R %z", at(1970, 1, 1, 1, 30)),
        ("04:00 -0130", "%R %Z", at(1970, 1, 1, 5, 30)),
        ("04:00 Z", "%R %Z", at(1970, 1, 1, 4)),
        ("1970%", "%Y%%", 0),
        ("1970   -  02", "%Y - %m", at(1970, 2)),
        ("1970-02", "%Y - %m", at(1970, 2)),
        ("5x", "%Odx", at(1970, 1, 5)),
        ("", "", 0),
    ],
)
def test_what_is_read(source: str, form: str, timestamp: float) -> None:
    """Each field in its whole range; what is not there is that of 1970-01-01."""
    assert strptime(source, form) == timestamp


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("", "%d"),
        ("x", "%d"),
        ("0", "%d"),
        ("32", "%d"),
        ("0", "%e"),
        ("32", "%e"),
        ("24", "%H"),
        ("0", "%I"),
        ("13", "%I"),
        ("0", "%j"),
        ("367", "%j"),
        ("366 1999", "%j %Y"),
        ("0", "%m"),
        ("13", "%m"),
        ("60", "%M"),
        ("61", "%S"),
        ("0", "%u"),
        ("8", "%u"),
        ("7", "%w"),
        ("0", "%Y"),
        ("100", "%y"),
        ("100", "%d"),
        ("20260", "%Y"),
        ("12", "%u"),
        ("1000", "%j"),
        ("30 2", "%d %m"),
        ("0.1234567890", "%S.%f"),
        ("0.1234", "%S.%03f"),
        ("0.", "%S.%f"),
        ("1.5", "%s"),
        ("x", "%s"),
        ("1000000000000", "%s"),
        ("04:00", "%R%z"),
        ("04:00 +24:00", "%R %z"),
        ("x", "%p"),
        ("Mo", "%a"),
        ("1970", "%Y%%"),
        ("1970-", "%Y"),
        ("1970", "%Y-"),
        ("1970", "%Q"),
        ("²", "%d"),
        ("٣", "%d"),
    ],
)
def test_what_is_not_as_the_format_says(source: str, form: str) -> None:
    """One more digit or one more day than there can be, too."""
    assert strptime(source, form) is None


def test_a_format_has_a_longest() -> None:
    """One of as many characters is read; a longer one is not."""
    assert strptime("x" * FORMAT_CHARS_MAX, "x" * FORMAT_CHARS_MAX) == 0
    assert strptime("x" * (FORMAT_CHARS_MAX + 1), "x" * (FORMAT_CHARS_MAX + 1)) is None


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_what_is_written_is_read(moment: datetime) -> None:
    """By date, and by the day of the year."""
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    assert strptime(text, "%F %T") == moment.replace(microsecond=0).timestamp()
    assert strptime(moment.strftime("%Y %j"), "%Y %j") == at(moment.year, moment.month, moment.day)
