"""The JSON form of unknown fields: an object with the bytes of each, by field number."""

from typing import Any, Final

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from sowline.codecs.protobuf.fields import clear_field, copy_from, list_fields, merge_from_bytes, serialized
from sowline.codecs.protobuf.scalars import UnfitValueError, read_bytes, write_bytes

UNKNOWN: Final = "@unknown"
"""The member that holds a message's unknown fields. No field can have its name."""

FIELD_NUMBER_MAX: Final = 2**29 - 1

_NUMBER_DIGITS_MAX: Final = len(str(FIELD_NUMBER_MAX))

_VARINT: Final = 0
_LENGTH_PREFIXED: Final = 2
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_FIXED_SIZES: Final = {1: 8, 5: 4}


def read_unknown(message: Any) -> dict[str, str]:
    """Return the unknown fields of a message, without those of nested messages: base64 text by field number.

    The numbers are in order. The bytes have all occurrences of the field, with their tags, in the order of the
    message. Raise `UnfitValueError` for a number 0.
    """
    if not len(UnknownFieldSet(message)):
        return {}
    fields = _by_number(_unknown_bytes(message))
    if 0 in fields:
        # The library refuses it, except in a message type without fields.
        raise UnfitValueError("field numbers from 1", 0, f"/{UNKNOWN}")
    return {str(number): read_bytes(fields[number]) for number in sorted(fields)}


def write_unknown(message: Any, value: Any) -> None:
    """Add unknown fields to a message in the order of their numbers; raise `UnfitValueError`. Null adds none."""
    if value is None:
        return
    if type(value) is not dict:
        raise UnfitValueError("an object with unknown fields by number", value, f"/{UNKNOWN}")
    wrong = next((text for text in value if not is_field_number(text)), None)
    if wrong is not None:
        raise UnfitValueError("field numbers", wrong, f"/{UNKNOWN}")
    for number in sorted(value, key=int):
        if value[number] is not None:
            _write_field(message, int(number), value[number])


def is_field_number(text: str) -> bool:
    """Return whether a text is a field number as `read_unknown` writes it."""
    is_number = len(text) <= _NUMBER_DIGITS_MAX and text.isascii() and text.isdecimal() and text[0] != "0"
    return is_number and int(text) <= FIELD_NUMBER_MAX


def _write_field(message: Any, number: int, value: Any) -> None:
    try:
        data = write_bytes(value)
        # Parsed first: `_by_number` reads only bytes that the library accepts.
        merge_from_bytes(message, data)
        if set(_by_number(data)) != {number}:
            raise UnfitValueError("one field", value)
    except (UnfitValueError, DecodeError):
        raise UnfitValueError(f"base64 text of field {number}", value, f"/{UNKNOWN}/{number}") from None


def _unknown_bytes(message: Any) -> bytes:
    # The library gives the values of unknown fields, but not their bytes. A copy without the known fields has no
    # others.
    rest = type(message)()
    copy_from(rest, message)
    for field, _ in list_fields(message):
        clear_field(rest, field.name)
    return serialized(rest)


def _by_number(data: bytes) -> dict[int, bytes]:
    """Return the bytes of each field of a message that the library has parsed."""
    fields: dict[int, bytearray] = {}
    start = 0
    while start < len(data):
        tag, at = _varint(data, start)
        end = _end_of_group(data, at) if tag & 7 == _GROUP_START else _end_of_value(data, tag, at)
        fields.setdefault(tag >> 3, bytearray()).extend(data[start:end])
        start = end
    return {number: bytes(content) for number, content in fields.items()}


def _end_of_group(data: bytes, at: int) -> int:
    # Not recursive: the end of a group is where as many groups have ended as have started.
    open_groups = 1
    while open_groups:
        tag, at = _varint(data, at)
        if tag & 7 == _GROUP_START:
            open_groups += 1
        elif tag & 7 == _GROUP_END:
            open_groups -= 1
        else:
            at = _end_of_value(data, tag, at)
    return at


def _end_of_value(data: bytes, tag: int, at: int) -> int:
    kind = tag & 7
    if kind == _LENGTH_PREFIXED:
        length, at = _varint(data, at)
        return at + length
    if kind == _VARINT:
        return _varint(data, at)[1]
    return at + _FIXED_SIZES[kind]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = shift = 0
    while (byte := data[at]) >= 128:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1
