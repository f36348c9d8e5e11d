"""The codec of message type `msgpack`: a message is one map with text keys.

ormsgpack reads: msgspec would cut timestamps to microseconds. msgspec writes: ormsgpack writes no negative types of
extensions. msgspec also finds the end of the map: ormsgpack reads past what follows it.
"""

import re
import struct
from math import isfinite
from typing import Any, Final

import msgspec
import ormsgpack

from sowline.codecs.errors import bad_message
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import SchemalessCodec, checked_json, json_bytes, too_deep
from sowline.codecs.value_objects import (
    NON_FINITE,
    SECONDS_MAX,
    SECONDS_MIN,
    ValueObject,
    base64_text,
    bytes_of,
    check_no_look_alike,
    containers,
    instant_of,
    instant_text,
    may_have_names,
    members,
    merged_values,
    non_finite_text,
    replace_value_objects,
    reserved_names,
)

_RESERVED: Final = reserved_names(["$binary", "$ext", "$timestamp", "$float"])
_TIMESTAMP: Final = -1
_NANOS: Final = 1_000_000_000
_DIGITS: Final = 9
_SECONDS_32: Final = struct.Struct(">I")
_NANOS_SECONDS_64: Final = struct.Struct(">Q")
_NANOS_SECONDS_96: Final = struct.Struct(">Iq")

_NON_FINITE: Final = re.compile(rb"[\xca\xcb][\x7f\xff][\x80-\xff]")
"""The first bytes of a float that is not finite; other messages may have them, too."""

_check_end = msgspec.msgpack.Decoder(msgspec.Raw).decode
_encoded = msgspec.msgpack.Encoder().encode


class MsgpackCodec(SchemalessCodec):
    """Converts between MessagePack and canonical JSON. It implements `Codec`."""

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a map."""
        data = payload.data
        document = _decoded(data)
        # Only a name with this character can look like a value. Few messages have one, so most need no walk through
        # all their maps.
        if b"$" in data:
            _mark_specials(document)
        body = json_bytes(document, _binary_json)
        # orjson writes null for a float that is not finite.
        if b"null" in body and _NON_FINITE.search(data):
            _mark_specials(document)
            body = json_bytes(document, _binary_json)
        return body

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a map; numbers and texts take as few bytes as they can."""
        document = checked_json(body)
        if may_have_names(body):
            replace_value_objects(document, _RESERVED, _value_of)
        try:
            return _encoded(document)
        except RecursionError:
            raise too_deep() from None

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a delta: maps merge key by key, and all other values are replaced."""
        return merged_values(body, delta, _RESERVED)


# from bytes to JSON


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        document = ormsgpack.unpackb(data, ext_hook=_extension_json)
        _check_end(data)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        if isinstance(error, RecursionError) or "Recursion limit" in str(error):
            raise too_deep() from None
        raise bad_message(
            f"expected one map of MessagePack with text keys in {len(data)} bytes, got {str(error)[:100]}"
        ) from None
    if type(document) is not dict:
        raise bad_message(f"expected a map of MessagePack with text keys, got {_kind(document)}")
    return document


def _kind(value: Any) -> str:
    return "an array" if isinstance(value, list) else f"a value of another type: {str(value)[:60]}"


def _mark_specials(document: dict[str, Any]) -> None:
    """Replace floats that are not finite, and refuse maps that look like values."""
    for container in containers(document):
        for key, part in members(container):
            if type(part) is float and not isfinite(part):
                container[key] = ValueObject({"$float": non_finite_text(part)})
            else:
                check_no_look_alike(part, _RESERVED)


def _binary_json(data: bytes) -> dict[str, str]:
    return {"$binary": base64_text(data)}


def _extension_json(kind: int, data: bytes) -> ValueObject:
    time = _time(data) if kind == _TIMESTAMP else None
    if time is None:
        # An extension with the type of timestamps but invalid bytes stays as it is: all bits come back.
        return ValueObject({"$ext": [kind, base64_text(data)]})
    seconds, nanos = time
    if SECONDS_MIN <= seconds <= SECONDS_MAX:
        return ValueObject({"$timestamp": instant_text(seconds, nanos, _DIGITS)})
    # A year that text can't express.
    return ValueObject({"$timestamp": [seconds, nanos]})


def _time(data: bytes) -> tuple[int, int] | None:
    """Return the seconds since 1970 and the nanoseconds of a timestamp; None if the bytes are not one."""
    seconds, nanos = 0, _NANOS
    match len(data):
        case 4:
            seconds, nanos = _SECONDS_32.unpack(data)[0], 0
        case 8:
            both = _NANOS_SECONDS_64.unpack(data)[0]
            seconds, nanos = both & (1 << 34) - 1, both >> 34
        case 12:
            nanos, seconds = _NANOS_SECONDS_96.unpack(data)
    # A timestamp with more nanoseconds is kept as its bytes: carried into the seconds, it would come back as others
    # (test_a_value_has_one_canonical_form).
    return (seconds, nanos) if nanos < _NANOS else None


# from JSON to values that msgspec writes


def _value_of(part: dict[str, Any]) -> Any:
    ((name, value),) = part.items()
    match name:
        case "$binary":
            return bytes_of(value)
        case "$float":
            if type(value) is str and value in NON_FINITE:
                return NON_FINITE[value]
            raise ValueError("NaN, Infinity or -Infinity as text")
        case "$ext":
            return _extension(value)
    seconds, nanos = _seconds_nanos(value)
    return msgspec.msgpack.Ext(_TIMESTAMP, _time_bytes(seconds, nanos))


def _extension(value: Any) -> msgspec.msgpack.Ext:
    if type(value) is list and len(value) == 2 and type(value[0]) is int and -128 <= value[0] <= 127:
        return msgspec.msgpack.Ext(value[0], bytes_of(value[1]))
    raise ValueError("an array of the extension's type from -128 to 127 and its bytes as base64 text")


def _seconds_nanos(value: Any) -> tuple[int, int]:
    if type(value) is not list:
        return instant_of(value, _DIGITS)
    if [type(number) for number in value] == [int, int]:
        seconds, nanos = value
        if -(1 << 63) <= seconds < 1 << 63 and 0 <= nanos < _NANOS:
            return seconds, nanos
    raise ValueError("an array of the seconds since 1970 and the nanoseconds from 0 to 999999999")


def _time_bytes(seconds: int, nanos: int) -> bytes:
    # Times before 1970 take this form, too: a negative number has no bits left to be 0.
    if seconds >> 34:
        return _NANOS_SECONDS_96.pack(nanos, seconds)
    if nanos or seconds >> 32:
        return _NANOS_SECONDS_64.pack(nanos << 34 | seconds)
    return _SECONDS_32.pack(seconds)
