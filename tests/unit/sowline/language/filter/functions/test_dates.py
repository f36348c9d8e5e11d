"""The functions of timestamps."""

from math import nan

import pytest

from sowline.language.filter.functions.dates import date_of, day, formatted, month, year

LAST_SECOND = 1_767_225_599.5
"""Half a second before 2026, in UTC."""


def test_a_timestamp_has_a_date_in_a_zone() -> None:
    """Without a zone it is that of UTC."""
    assert (year(LAST_SECOND), month(LAST_SECOND), day(LAST_SECOND)) == (2025, 12, 31)
    assert date_of(LAST_SECOND) == "2025-12-31"
    assert (year(LAST_SECOND, "+01:00"), month(LAST_SECOND, "+01:00"), day(LAST_SECOND, "+01:00")) == (
        2026,
        1,
        1,
    )
    assert date_of(LAST_SECOND, "+01:00") == "2026-01-01"


@pytest.mark.parametrize(("timestamp", "zone"), [(nan, "Z"), (1e20, "Z"), (0, "Europe/Paris"), (0, "+25:00")])
def test_what_is_no_time_or_zone_is_null(timestamp: float, zone: str) -> None:
    """The date and all of its parts are NULL then."""
    assert [function(timestamp, zone) for function in (date_of, year, month, day)] == [None] * 4


def test_a_timestamp_is_formatted_in_utc() -> None:
    """Fractions of a second are kept; what is no time is NULL."""
    assert formatted("%Y/%m/%d %H:%M:%S.%03f", LAST_SECOND) == "2025/12/31 23:59:59.500"
    assert formatted("%Y", nan) is None
