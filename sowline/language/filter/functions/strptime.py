"""STRPTIME: parses a date with C's formats, in the C locale, and `%f` and `%03f` for fractions of a second."""

import re
from collections.abc import Callable, Sequence
from datetime import date

from sowline.language.filter.functions.instants import MICROSECONDS, offset_at
from sowline.language.filter.functions.strftime import DAYS, DIRECTIVE, MONTHS, expanded, letter_of

FORMAT_CHARS_MAX = 512

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TOKEN = re.compile(rf"{DIRECTIVE.pattern}|\s+|.", re.DOTALL)
_BLANKS = re.compile(r"\s*")

# For each field: the maximum number of digits, and the minimum and maximum value.
_NUMBERS = {
    "d": (2, 1, 31),
    "e": (2, 1, 31),
    "H": (2, 0, 23),
    "I": (2, 1, 12),
    "j": (3, 1, 366),
    "m": (2, 1, 12),
    "M": (2, 0, 59),
    # A leap second is the second 60. It is read as the first one of the next minute (test_what_is_read).
    "S": (2, 0, 60),
    "u": (1, 1, 7),
    "w": (1, 0, 6),
    "y": (2, 0, 99),
    "Y": (4, 1, 9999),
}
_FRACTIONS = {"f": 9, "03f": 3}
"""The maximum number of digits: `%f` reads nanoseconds, too."""

_SECONDS = re.compile(r"-?[0-9]{1,12}")

Fields = dict[str, int]


class _Mismatch(ValueError):
    """The text does not match the format."""


def strptime(source: str, form: str) -> float | None:
    """Return the timestamp in a text; None unless the whole text matches the format."""
    if len(form) > FORMAT_CHARS_MAX:
        return None
    try:
        return _timestamp(_read(source, expanded(form)))
    except ValueError:
        return None


def _read(source: str, form: str) -> Fields:
    fields: Fields = {}
    position = 0
    for token in _TOKEN.finditer(form):
        if token[1] is not None:
            position = _read_field(letter_of(token), source, position, fields)
        elif token[0].isspace():
            position = _after_blanks(source, position)
        else:
            position = _read_literal(token[0], source, position)
    if position != len(source):
        raise _Mismatch
    return fields


def _read_literal(character: str, source: str, position: int) -> int:
    if source[position : position + 1] != character:
        raise _Mismatch
    return position + 1


def _after_blanks(source: str, position: int) -> int:
    blanks = _BLANKS.match(source, position)
    return blanks.end() if blanks else position


def _read_field(letter: str, source: str, position: int, fields: Fields) -> int:
    """Read one field into `fields`; return the index after it."""
    if letter in _NUMBERS:
        return _read_number(letter, source, position, fields)
    if letter in _FRACTIONS:
        return _read_fraction(_FRACTIONS[letter], source, position, fields)
    other = _OTHERS.get(letter)
    if other is None:
        raise _Mismatch
    return other(source, position, fields)


def _digits(count: int, source: str, position: int) -> str:
    # Only ASCII: `isdigit` also accepts the digits of other scripts.
    end = position
    while end < position + count and "0" <= source[end : end + 1] <= "9":
        end += 1
    if end == position:
        raise _Mismatch
    return source[position:end]


def _read_number(letter: str, source: str, position: int, fields: Fields) -> int:
    count, least, most = _NUMBERS[letter]
    position = _after_blanks(source, position)
    digits = _digits(count, source, position)
    if not least <= int(digits) <= most:
        raise _Mismatch
    fields["d" if letter == "e" else letter] = int(digits)
    return position + len(digits)


def _read_fraction(count: int, source: str, position: int, fields: Fields) -> int:
    digits = _digits(count, source, position)
    fields["f"] = int(digits[:6].ljust(6, "0"))
    return position + len(digits)


def _read_seconds(source: str, position: int, fields: Fields) -> int:
    found = _SECONDS.match(source, position)
    if found is None:
        raise _Mismatch
    fields["s"] = int(found[0])
    return found.end()


def _read_zone(source: str, position: int, fields: Fields) -> int:
    found = offset_at(source, position)
    if found is None:
        raise _Mismatch
    fields["z"], end = found
    return end


def _read_percent(source: str, position: int, fields: Fields) -> int:
    return _read_literal("%", source, position)


def _name_reader(field: str, names: Sequence[str]) -> Callable[[str, int, Fields], int]:
    """Return a reader for one of the names, in full or as its first three letters, in any case."""

    def read(source: str, position: int, fields: Fields) -> int:
        for number, name in enumerate(names, 1):
            for spelling in (name, name[:3]):
                end = position + len(spelling)
                if source[position:end].lower() == spelling.lower():
                    fields[field] = number
                    return end
        raise _Mismatch

    return read


_OTHERS: dict[str, Callable[[str, int, Fields], int]] = {
    "a": _name_reader("a", DAYS),
    "A": _name_reader("a", DAYS),
    "b": _name_reader("m", MONTHS),
    "B": _name_reader("m", MONTHS),
    "p": _name_reader("p", ("AM", "PM")),
    "s": _read_seconds,
    "z": _read_zone,
    "Z": _read_zone,
    "%": _read_percent,
}


def _timestamp(fields: Fields) -> float:
    seconds = fields["s"] if "s" in fields else _seconds_of(fields)
    return (seconds * MICROSECONDS + fields.get("f", 0)) / MICROSECONDS


def _seconds_of(fields: Fields) -> int:
    days = _day_of(fields).toordinal() - _EPOCH_DAY
    clock = _hour_of(fields) * 3600 + fields.get("M", 0) * 60 + fields.get("S", 0)
    return days * 86_400 + clock - fields.get("z", 0)


def _day_of(fields: Fields) -> date:
    """Return the date; missing fields are those of 1970-01-01. Raise ValueError for dates like 30 February."""
    year = fields.get("Y", _in_century(fields["y"]) if "y" in fields else 1970)
    if "j" not in fields:
        return date(year, fields.get("m", 1), fields.get("d", 1))
    day = date.fromordinal(date(year, 1, 1).toordinal() + fields["j"] - 1)
    if day.year != year:
        raise _Mismatch
    return day


def _in_century(year: int) -> int:
    # The border is that of POSIX.
    return year + (1900 if year >= 69 else 2000)


def _hour_of(fields: Fields) -> int:
    if "I" not in fields:
        return fields.get("H", 0)
    return fields["I"] % 12 + (12 if fields.get("p") == 2 else 0)
