"""Converts a timestamp to a date and a time of day at an offset from UTC."""

import re
from datetime import datetime, timedelta
from math import isfinite

from sowline.language.filter.numbers import Number

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - instants of filters have no zone: all are UTC
MICROSECONDS = 1_000_000

_SECONDS_MAX = 10**12
"""Beyond all years of four digits."""

_ZONE = re.compile(r"(?:Z|UTC|GMT)|([+-])([01][0-9]|2[0-3]):?([0-5][0-9])")


def instant(timestamp: Number, zone: str = "Z") -> datetime | None:
    """Return date and time at an offset; None outside the years 1 to 9999, or if `zone` is not an offset."""
    offset = offset_of(zone)
    # Before the product: a double of 1e300 would become an integer of a thousand bits first.
    if offset is None or not isfinite(timestamp) or abs(timestamp) > _SECONDS_MAX:
        return None
    try:
        # Rounded, because 1.001 s are 1000999.9999999999 µs as a double: cut off, a time would be a microsecond
        # early.
        return EPOCH + timedelta(seconds=offset, microseconds=round(timestamp * MICROSECONDS))
    except OverflowError:
        return None


def offset_of(zone: str) -> int | None:
    """Return the seconds east of UTC of an offset like `+02:00`, `-0530` or `Z`; None for any other text."""
    found = _ZONE.fullmatch(zone)
    return None if found is None else _seconds(found)


def offset_at(source: str, position: int) -> tuple[int, int] | None:
    """Return the offset at an index of a text, in seconds, and the index after it; None if there is none."""
    found = _ZONE.match(source, position)
    return None if found is None else (_seconds(found), found.end())


def _seconds(found: re.Match[str]) -> int:
    sign, hours, minutes = found.groups()
    if sign is None:
        return 0
    seconds = int(hours) * 3600 + int(minutes) * 60
    return -seconds if sign == "-" else seconds
