"""Functions of timestamps: seconds since 1970 in UTC, as a double exact to the microsecond.

The default zone is UTC. A zone is an offset. Named zones such as `Europe/Paris` are not supported, because their
rules change.
"""

from sowline.language.filter.functions.instants import instant, offset_of
from sowline.language.filter.functions.registry import Function, number, text
from sowline.language.filter.functions.strftime import strftime
from sowline.language.filter.functions.strptime import strptime
from sowline.language.filter.numbers import Number


def date_of(timestamp: Number, zone: str = "Z") -> str | None:
    """Return the date, as in `2026-11-21`."""
    moment = instant(timestamp, zone)
    return None if moment is None else moment.date().isoformat()


def year(timestamp: Number, zone: str = "Z") -> int | None:
    """Return the year."""
    moment = instant(timestamp, zone)
    return None if moment is None else moment.year


def month(timestamp: Number, zone: str = "Z") -> int | None:
    """Return the month, from 1."""
    moment = instant(timestamp, zone)
    return None if moment is None else moment.month


def day(timestamp: Number, zone: str = "Z") -> int | None:
    """Return the day of the month, from 1."""
    moment = instant(timestamp, zone)
    return None if moment is None else moment.day


def formatted(form: str, timestamp: Number) -> str | None:
    """Return the timestamp in UTC, in the given format."""
    moment = instant(timestamp)
    return None if moment is None else strftime(form, moment)


FUNCTIONS = (
    Function("STRFTIME", (text, number), formatted),
    Function("STRPTIME", (text, text), strptime),
    Function("TIMEZONEOFFSET", (text,), offset_of),
    Function("YEAR", (number, text), year, optional=1),
    Function("MONTH", (number, text), month, optional=1),
    Function("DAY", (number, text), day, optional=1),
    Function("DATE", (number, text), date_of, optional=1),
    Function("DATE_UTC", (number,), date_of),
)
