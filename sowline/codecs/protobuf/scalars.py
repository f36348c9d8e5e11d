"""The JSON form of scalars: from the values of the Protobuf library, and back."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from sowline.codecs.protobuf.fields import enum_of

Conversion = Callable[[Any], Any]

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
UINT32: Final = (0, 2**32 - 1)
UINT64: Final = (0, 2**64 - 1)

INTEGER_RANGES: Final = {
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_SINT32: INT32,
    FieldDescriptor.TYPE_SFIXED32: INT32,
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_SINT64: INT64,
    FieldDescriptor.TYPE_SFIXED64: INT64,
    FieldDescriptor.TYPE_UINT32: UINT32,
    FieldDescriptor.TYPE_FIXED32: UINT32,
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_FIXED64: UINT64,
}

NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")

FLOAT_MAX: Final = 3.4028235677973366e38
"""The least double that rounds to infinity as a 32-bit float: half a step above the largest one."""


class UnfitValueError(Exception):
    """A JSON value doesn't fit its field: what was expected, what came, and the path within the field."""

    def __init__(self, expected: str, got: Any, below: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = got
        self.below = below


def scalar_reader(field: FieldDescriptor) -> Conversion | None:
    """Return the function that makes JSON of a field's value; None if the value is JSON already."""
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return _read_double
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return read_float
    if field.type == FieldDescriptor.TYPE_BYTES:
        return read_bytes
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum_reader(enum_of(field))
    return None


def _read_double(value: float) -> float | str:
    # NaN and the infinities minus themselves are NaN.
    return value if value - value == 0 else _not_finite(value)


def read_float(value: float) -> float | str:
    """Return a 32-bit float as the double with the fewest digits that rounds to it."""
    if value - value != 0:
        return _not_finite(value)
    # All digits of such a number are needed.
    if -16777216 < value < 16777216 and value == int(value):
        return value
    return float(str(np.float32(value)))


def _not_finite(value: float) -> str:
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def read_bytes(value: bytes) -> str:
    """Return bytes as base64 text."""
    return b64encode(value).decode()


def _enum_reader(enum: EnumDescriptor) -> Conversion:
    names = symbols(enum)

    def read(number: int) -> str | int:
        return names.get(number, number)

    return read


def symbols(enum: EnumDescriptor) -> dict[int, str]:
    """Return the first name of each number of an enum."""
    names: dict[int, str] = {}
    for value in enum.values:
        # An alias comes later: with its name, the JSON of records that are stored would change
        # (test_an_enum_is_read_under_its_first_name).
        names.setdefault(value.number, value.name)
    return names


def scalar_writer(field: FieldDescriptor) -> Conversion:
    """Return the function that makes a field's value of JSON, or raises `UnfitValueError`."""
    if field.type in INTEGER_RANGES:
        return _integer_writer(*INTEGER_RANGES[field.type])
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum_writer(enum_of(field))
    return _WRITERS[field.type]


def _integer_writer(least: int, most: int) -> Conversion:
    def write(value: Any) -> int:
        # In Python, true is an `int`.
        if type(value) is int and least <= value <= most:
            return value
        raise UnfitValueError(f"an integer from {least} to {most}", value)

    return write


def _write_double(value: Any) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    if type(value) is str and value in NOT_FINITE:
        return float(value)
    raise UnfitValueError("a number, NaN, Infinity or -Infinity", value)


def _write_float(value: Any) -> float:
    number = _write_double(value)
    if type(value) is not str and not -FLOAT_MAX < number < FLOAT_MAX:
        raise UnfitValueError("a number that fits into 32 bits", value)
    return number


def _write_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise UnfitValueError("true or false", value)


def _write_string(value: Any) -> str:
    if type(value) is str:
        return value
    raise UnfitValueError("a string", value)


def write_bytes(value: Any) -> bytes:
    """Return the bytes of base64 text."""
    try:
        # Without validation, characters that are not base64 are skipped.
        return b64decode(_write_string(value), validate=True)
    except (ValueError, UnfitValueError):
        raise UnfitValueError("base64 text", value) from None


def _enum_writer(enum: EnumDescriptor) -> Conversion:
    numbers = {value.name: value.number for value in enum.values}

    def write(value: Any) -> int:
        if type(value) is str and value in numbers:
            return numbers[value]
        if type(value) is int and not enum.is_closed and INT32[0] <= value <= INT32[1]:
            return value
        raise UnfitValueError(f"a symbol of {enum.full_name}", value)

    return write


_WRITERS: Final[dict[int, Conversion]] = {
    FieldDescriptor.TYPE_DOUBLE: _write_double,
    FieldDescriptor.TYPE_FLOAT: _write_float,
    FieldDescriptor.TYPE_BOOL: _write_bool,
    FieldDescriptor.TYPE_STRING: _write_string,
    FieldDescriptor.TYPE_BYTES: write_bytes,
}


def key_reader(field: FieldDescriptor) -> Callable[[Any], str]:
    """Return the function that makes the name of a JSON member of a map's key."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _bool_text
    return str


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def key_writer(field: FieldDescriptor) -> Callable[[str], Any]:
    """Return the function that makes a map's key of the name of a JSON member, or raises `UnfitValueError`."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return str
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _write_bool_key
    return _integer_key_writer(*INTEGER_RANGES[field.type])


def _write_bool_key(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise UnfitValueError("the key true or false", text)


def _integer_key_writer(least: int, most: int) -> Callable[[str], int]:
    def write(text: str) -> int:
        # Longer texts are not parsed: that takes time in proportion to the square of their length.
        number = (
            int(text) if len(text) <= 20 and text.removeprefix("-").isdecimal() and text.isascii() else None
        )
        # `01` and `1` are two members of JSON, but would be one key.
        if number is None or str(number) != text or not least <= number <= most:
            raise UnfitValueError(f"a key that is an integer from {least} to {most}", text)
        return number

    return write
