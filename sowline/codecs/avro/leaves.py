"""The values of types without parts: from Avro's base value to canonical JSON, and from JSON to the base value."""

import re
import struct
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable
from datetime import date
from math import isfinite
from typing import Any, Final
from uuid import UUID

import numpy as np
import orjson

from sowline.codecs.avro.misfit import SchemaMisfit, excerpt
from sowline.codecs.avro.types import AvroType

Convert = Callable[[Any], Any]

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1

NON_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""The doubles that JSON can't write as numbers, by their text."""

_DAY_0: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal()
_DAY_SECONDS: Final = 86_400
_FLOAT: Final = struct.Struct("<f")
_DURATION: Final = struct.Struct("<III")
_DURATION_PARTS: Final = ("months", "days", "milliseconds")
# Python's own parsers accept more: `20260228` as a date, braces around a UUID, digits of other scripts.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?")
_DECIMAL = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def formatter(leaf: AvroType) -> Convert | None:
    """Return the function from a base value to canonical JSON; None if the two are the same.

    The base value of an enum is its symbol. The function raises SchemaMisfit if the base value has no such form.
    """
    return _pair(leaf)[0]


def parser(leaf: AvroType) -> Convert:
    """Return the function from JSON to a base value. It raises SchemaMisfit if the JSON is no such value."""
    return _pair(leaf)[1]


def _pair(leaf: AvroType) -> tuple[Convert | None, Convert]:
    match leaf.logical.rpartition("-")[0] or leaf.logical:
        case "decimal":
            return _decimal_pair(leaf)
        case "uuid":
            return (_uuid_of_bytes, _uuid_bytes) if leaf.kind == "fixed" else (_uuid_text, _uuid_text)
        case "duration":
            return _duration_text, _duration_bytes
        case "date":
            return _date_text, _days
        case "time":
            return _time_pair(leaf.digits)
        case "timestamp":
            return _timestamp_pair(leaf.digits, "Z")
        case "local-timestamp":
            return _timestamp_pair(leaf.digits, "")
    return _plain_pair(leaf)


def _plain_pair(leaf: AvroType) -> tuple[Convert | None, Convert]:
    match leaf.kind:
        case "fixed":
            return _base64, _fixed_parser(leaf.size)
        case "enum":
            return None, _symbol_parser(leaf.symbols)
    return _PLAIN[leaf.kind]


# plain types


def _null(value: Any) -> None:
    if value is not None:
        raise SchemaMisfit("null", excerpt(value))


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise SchemaMisfit("a boolean", excerpt(value))


def check_int(value: Any) -> int:
    """Return an integer of 32 bits, or raise SchemaMisfit."""
    # In Python, true is an `int` (test_json_that_does_not_fit_is_refused).
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        return value
    raise SchemaMisfit("an integer of 32 bits", excerpt(value))


def _long(value: Any) -> int:
    if type(value) is int and LONG_MIN <= value <= LONG_MAX:
        return value
    raise SchemaMisfit("an integer of 64 bits", excerpt(value))


def double_json(value: float) -> Any:
    """Return the canonical JSON of a double."""
    return value if isfinite(value) else _non_finite(value)


def float_json(value: float) -> Any:
    """Return the canonical JSON of a 32-bit float: the double whose shortest text is the float's."""
    if not isfinite(value):
        return _non_finite(value)
    return float(orjson.dumps(np.float32(value), option=orjson.OPT_SERIALIZE_NUMPY))


def _non_finite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    # Or one record would have two texts: `1` from a default or a client, and `1.0` from the bytes
    # (test_defaults_are_in_canonical_form).
    if type(value) is int:
        return float(value)
    if type(value) is str and value in NON_FINITE:
        return NON_FINITE[value]
    raise SchemaMisfit("a number, or NaN, Infinity or -Infinity as text", excerpt(value))


def _float(value: Any) -> float:
    return round_to_float(_double(value))


def round_to_float(number: float) -> float:
    """Return the nearest 32-bit float, or raise SchemaMisfit if there is none."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(number))[0])
    except OverflowError:
        raise SchemaMisfit("a number in the range of a 32-bit float", excerpt(number)) from None


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    raise SchemaMisfit("text", excerpt(value))


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _bytes(value: Any) -> bytes:
    try:
        # Without the strict mode, characters that are not base64 are skipped, and a typo would become other bytes.
        return a2b_base64(_text(value), strict_mode=True)
    except (Base64Error, ValueError, SchemaMisfit):
        raise SchemaMisfit("bytes as base64 text", excerpt(value)) from None


def _fixed_parser(size_bytes: int) -> Convert:
    def parse(value: Any) -> bytes:
        data = _bytes(value)
        if len(data) != size_bytes:
            raise SchemaMisfit(f"{size_bytes} bytes as base64 text", f"{len(data)} bytes")
        return data

    return parse


def _symbol_parser(symbols: tuple[str, ...]) -> Convert:
    known = frozenset(symbols)

    def parse(value: Any) -> str:
        if type(value) is str and value in known:
            return value
        raise SchemaMisfit(f"one of {', '.join(symbols[:20])}", excerpt(value))

    return parse


_PLAIN: Final[dict[str, tuple[Convert | None, Convert]]] = {
    "null": (None, _null),
    "boolean": (None, _boolean),
    "int": (check_int, check_int),
    "long": (None, _long),
    "float": (float_json, _float),
    "double": (double_json, _double),
    "string": (None, _text),
    "bytes": (_base64, _bytes),
}


# logical types


def _decimal_pair(leaf: AvroType) -> tuple[Convert, Convert]:
    scale, size, limit = leaf.scale, leaf.size if leaf.kind == "fixed" else None, 10**leaf.precision
    expected = f"a decimal of at most {leaf.precision} digits, {scale} of them after the point, as text"

    def text(data: bytes) -> str:
        unscaled = int.from_bytes(data, "big", signed=True)
        if not -limit < unscaled < limit:
            raise SchemaMisfit(expected, f"{len(data)} bytes")
        # Without the zero before the point, -0.05 would be `-.05`, which `parse` refuses
        # (test_a_value_has_one_canonical_form).
        digits = str(abs(unscaled)).zfill(scale + 1)
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits

    def parse(value: Any) -> bytes:
        # Besides its digits, a text has at most a sign, a point and a zero before the point. Python refuses to read
        # thousands of digits, with an error that is not about the message (test_json_that_does_not_fit_is_refused).
        match = _DECIMAL.fullmatch(value) if type(value) is str and len(value) <= leaf.precision + 3 else None
        if match is None or len(match[3] or "") > scale:
            raise SchemaMisfit(expected, excerpt(value))
        unscaled = int(match[2] + (match[3] or "").ljust(scale, "0"))
        if unscaled >= limit:
            raise SchemaMisfit(expected, excerpt(value))
        if match[1]:
            unscaled = -unscaled
        try:
            return unscaled.to_bytes(_width(unscaled) if size is None else size, "big", signed=True)
        except OverflowError:
            raise SchemaMisfit(f"a decimal in {size} bytes", excerpt(value)) from None

    return text, parse


def _width(number: int) -> int:
    """Return the number of bytes that hold an integer in two's complement."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _uuid_text(value: Any) -> str:
    # Publishers write a UUID in either case: as a key, it would be two records (test_a_value_has_one_canonical_form).
    text = value.lower() if type(value) is str else ""
    if _UUID.fullmatch(text):
        return str(text)
    raise SchemaMisfit("a UUID as text", excerpt(value))


def _uuid_of_bytes(data: bytes) -> str:
    return str(UUID(bytes=data))


def _uuid_bytes(value: Any) -> bytes:
    return UUID(_uuid_text(value)).bytes


def _duration_text(data: bytes) -> dict[str, int]:
    return dict(zip(_DURATION_PARTS, _DURATION.unpack(data), strict=True))


def _duration_bytes(value: Any) -> bytes:
    try:
        # In Python, true is an `int`, and would be written as 1 (test_a_duration).
        if set(value) == set(_DURATION_PARTS) and all(type(part) is int for part in value.values()):
            return _DURATION.pack(*(value[part] for part in _DURATION_PARTS))
    except (TypeError, AttributeError, struct.error):
        pass
    raise SchemaMisfit(
        "an object with months, days and milliseconds, integers of 32 bits from 0 on", excerpt(value)
    ) from None


def _date_text(days: int) -> str:
    if 1 <= days + _DAY_0 <= _LAST_DAY:
        return date.fromordinal(days + _DAY_0).isoformat()
    raise SchemaMisfit("a date in the years 1 to 9999", f"{days} days since 1970")


def _days(value: Any) -> int:
    if type(value) is str and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value).toordinal() - _DAY_0
        except ValueError:
            pass
    raise SchemaMisfit("a date like 2026-11-26", excerpt(value))


def _clock_text(units: int, digits: int) -> str:
    """Return the time of a day from units of a second since midnight."""
    seconds, fraction = divmod(units, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:0{digits}}"


def _clock_units(text: str, digits: int) -> int | None:
    """Return the units of a second since midnight; None if the text is not a time with at most these digits."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    fraction: str = match[4] or ""
    if hour > 23 or minute > 59 or second > 59 or len(fraction) > digits:
        return None
    units: int = (hour * 3600 + minute * 60 + second) * 10**digits
    return units + int(fraction.ljust(digits, "0"))


def _time_pair(digits: int) -> tuple[Convert, Convert]:
    day = _DAY_SECONDS * 10**digits
    expected = f"a time like 12:34:56.{'789' * (digits // 3)}"

    def text(units: int) -> str:
        if 0 <= units < day:
            return _clock_text(units, digits)
        raise SchemaMisfit("a time of one day", f"{units} units since midnight")

    def parse(value: Any) -> int:
        units = _clock_units(value, digits) if type(value) is str else None
        if units is None:
            raise SchemaMisfit(expected, excerpt(value))
        return units

    return text, parse


def _timestamp_pair(digits: int, zone: str) -> tuple[Convert, Convert]:
    day = _DAY_SECONDS * 10**digits
    expected = f"a timestamp like 2026-11-26T12:34:56.{'789' * (digits // 3)}{zone}"

    def text(units: int) -> str:
        days, rest = divmod(units, day)
        if 1 <= days + _DAY_0 <= _LAST_DAY:
            return f"{date.fromordinal(days + _DAY_0).isoformat()}T{_clock_text(rest, digits)}{zone}"
        raise SchemaMisfit("a timestamp in the years 1 to 9999", f"{units} units since 1970")

    def parse(value: Any) -> int:
        if type(value) is str and value.endswith(zone):
            day_text, _, clock = value.removesuffix(zone).partition("T")
            units = _clock_units(clock, digits)
            if units is not None:
                since: int = _days(day_text) * day + units
                # In nanoseconds, 64 bits end in the year 2262. A later time would be written as a number that no
                # reader takes for a long (test_json_that_does_not_fit_is_refused).
                if LONG_MIN <= since <= LONG_MAX:
                    return since
        raise SchemaMisfit(expected, excerpt(value))

    return text, parse
