"""Points in time: offsets from UTC, and dates at them."""

from datetime import datetime

import pytest

from sowline.language.filter.functions.instants import instant, offset_at, offset_of
from sowline.language.filter.numbers import Number


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [
        ("Z", 0),
        ("UTC", 0),
        ("GMT", 0),
        ("+00:00", 0),
        ("+02:00", 7200),
        ("-02:00", -7200),
        ("+0530", 19_800),
        ("-05:30", -19_800),
        ("+23:59", 86_340),
        ("-23:59", -86_340),
        ("+19:09", 68_940),
        ("+24:00", None),
        ("+01:60", None),
        ("+1:00", None),
        ("02:00", None),
        ("+02:00 ", None),
        ("Europe/Berlin", None),
        ("", None),
    ],
)
def test_an_offset(zone: str, seconds: int | None) -> None:
    """To the second, in both directions; a place is no offset."""
    assert offset_of(zone) == seconds


def test_an_offset_within_a_text() -> None:
    """It is found where it is to be, and only there."""
    assert offset_at("at -05:30!", 3) == (-19_800, 9)
    assert offset_at("at Z!", 3) == (0, 4)
    assert offset_at("at -05:30!", 2) is None


@pytest.mark.parametrize(
    ("timestamp", "zone", "moment"),
    [
        (0, "Z", datetime(1970, 1, 1)),
        (0, "+02:30", datetime(1970, 1, 1, 2, 30)),
        (0, "-00:01", datetime(1969, 12, 31, 23, 59)),
        (1.000001, "Z", datetime(1970, 1, 1, 0, 0, 1, 1)),
        (-62_135_596_800, "Z", datetime(1, 1, 1)),
        (253_402_300_799, "Z", datetime(9999, 12, 31, 23, 59, 59)),
        (-62_135_596_801, "Z", None),
        (253_402_300_800, "Z", None),
        (10**12, "Z", None),
        (10**30, "Z", None),
        (float("nan"), "Z", None),
        (float("inf"), "Z", None),
        (0, "here", None),
    ],
)
def test_a_moment(timestamp: Number, zone: str, moment: datetime | None) -> None:
    """In the years 1 to 9999, at an offset."""
    assert instant(timestamp, zone) == moment
