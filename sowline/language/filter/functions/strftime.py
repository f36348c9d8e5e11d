"""STRFTIME: C's formats for dates, in the C locale, and `%f` and `%03f` for fractions of a second."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from sowline.language.filter.functions.instants import EPOCH

RESULT_CHARS_MAX = 128

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

DIRECTIVE = re.compile(r"%(03f|[EO]?.)", re.DOTALL)

_SHORTHANDS = {
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "h": "%b",
    "n": "\n",
    "r": "%I:%M:%S %p",
    "R": "%H:%M",
    "t": "\t",
    "T": "%H:%M:%S",
    "x": "%m/%d/%y",
    "X": "%H:%M:%S",
}

# Not Python's `strftime`: it gives what the C library of the machine gives, in the locale of the process. Two nodes
# would compute different texts of one record.
_DIRECTIVES: dict[str, Callable[[datetime], str]] = {
    "a": lambda moment: DAYS[moment.weekday()][:3],
    "A": lambda moment: DAYS[moment.weekday()],
    "b": lambda moment: MONTHS[moment.month - 1][:3],
    "B": lambda moment: MONTHS[moment.month - 1],
    "C": lambda moment: f"{moment.year // 100:02}",
    "d": lambda moment: f"{moment.day:02}",
    "e": lambda moment: f"{moment.day:2}",
    "f": lambda moment: f"{moment.microsecond:06}",
    "03f": lambda moment: f"{moment.microsecond // 1000:03}",
    "g": lambda moment: f"{moment.isocalendar().year % 100:02}",
    "G": lambda moment: f"{moment.isocalendar().year:04}",
    "H": lambda moment: f"{moment.hour:02}",
    "I": lambda moment: f"{(moment.hour + 11) % 12 + 1:02}",
    "j": lambda moment: f"{_day_of_year(moment) + 1:03}",
    "m": lambda moment: f"{moment.month:02}",
    "M": lambda moment: f"{moment.minute:02}",
    "p": lambda moment: "AM" if moment.hour < 12 else "PM",
    "s": lambda moment: str((moment - EPOCH) // timedelta(seconds=1)),
    "S": lambda moment: f"{moment.second:02}",
    "u": lambda moment: str(moment.isoweekday()),
    "U": lambda moment: f"{(_day_of_year(moment) + 7 - moment.isoweekday() % 7) // 7:02}",
    "V": lambda moment: f"{moment.isocalendar().week:02}",
    "w": lambda moment: str(moment.isoweekday() % 7),
    "W": lambda moment: f"{(_day_of_year(moment) + 7 - moment.weekday()) // 7:02}",
    "y": lambda moment: f"{moment.year % 100:02}",
    "Y": lambda moment: f"{moment.year:04}",
    "z": lambda moment: "+0000",
    "Z": lambda moment: "UTC",
    "%": lambda moment: "%",
}


def strftime(form: str, moment: datetime) -> str | None:
    """Return a point in time in the given format; None if the result is too long. Unknown directives are kept."""
    # A directive is at most four times as long as its result, so a longer format is certain to be too long.
    if len(form) > 4 * RESULT_CHARS_MAX:
        return None

    def written(match: re.Match[str]) -> str:
        directive = _DIRECTIVES.get(letter_of(match))
        return match[0] if directive is None else directive(moment)

    result = DIRECTIVE.sub(written, expanded(form))
    return result if len(result) <= RESULT_CHARS_MAX else None


def letter_of(match: re.Match[str]) -> str:
    """Return the letter of a directive. `%Ex` and `%Ox`, the variants for other locales, count as `%x`."""
    letter = match[1]
    return letter[1:] if len(letter) == 2 else letter


def expanded(form: str) -> str:
    """Return the format with shorthands such as `%F` written out."""
    return DIRECTIVE.sub(lambda match: _SHORTHANDS.get(letter_of(match), match[0]), form)


def _day_of_year(moment: datetime) -> int:
    return moment.timetuple().tm_yday - 1
