"""MessagePack made at random: what is read is written again, but for what the docs list; no bytes do harm."""

import struct
from math import isnan
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from sowline.codecs.msgpack import MsgpackCodec
from sowline.codecs.schema import MSGPACK, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import read_object
from tests.property.value_objects import NAMES, any_json, check_any_json, check_hostile, merged_by_the_rules

READER = Schema(MSGPACK, "{}")
CODEC = MsgpackCodec(READER)
VALUE_NAMES = [{"$binary"}, {"$ext"}, {"$timestamp"}, {"$float"}]
NANOS = 10**9

TIMES = st.one_of(
    st.integers(0, (1 << 32) - 1).map(lambda seconds: Ext(-1, struct.pack(">I", seconds))),
    st.builds(
        lambda nanos, seconds: Ext(-1, struct.pack(">Q", nanos << 34 | seconds)),
        st.integers(0, (1 << 30) - 1),
        st.integers(0, (1 << 34) - 1),
    ),
    st.builds(
        lambda nanos, seconds: Ext(-1, struct.pack(">Iq", nanos, seconds)),
        st.integers(0, NANOS),
        st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-62_135_596_801, 253_402_300_800),
    ),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
    st.builds(Ext, st.integers(-128, 127), st.binary(max_size=18)),
    TIMES,
)
NAMES_HERE = NAMES | st.sampled_from(["$binary", "$ext", "$timestamp", "$float"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES_HERE, inner, max_size=3),
    max_leaves=12,
)
MAPS = st.dictionaries(NAMES_HERE, VALUES, max_size=5)


def read(data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return CODEC.read(MessagePayload(data), READER)


def kept(value: Any) -> Any:
    """Return a value as a message has it that was read and written: with one NaN, and short timestamps."""
    match value:
        case float():
            return float("nan") if isnan(value) else value
        case list():
            return [kept(part) for part in value]
        case dict():
            return {name: kept(part) for name, part in value.items()}
        case Ext(code=-1):
            return short_time(bytes(value.data))
    return value


def short_time(data: bytes) -> Ext:
    """Return a timestamp in as few bytes as it needs."""
    if len(data) == 12:
        nanos, seconds = struct.unpack(">Iq", data)
        if nanos < NANOS and 0 <= seconds < 1 << 34:
            data = struct.pack(">Q", nanos << 34 | seconds)
    if len(data) == 8 and data < b"\0\0\0\1":
        data = data[4:]
    return Ext(-1, data)


def looks_like_a_value(value: Any) -> bool:
    """Return whether a value, or a part of it, is a map like the JSON of another value."""
    if isinstance(value, list):
        return any(map(looks_like_a_value, value))
    return isinstance(value, dict) and (
        value.keys() in VALUE_NAMES or any(map(looks_like_a_value, value.values()))
    )


def is_readable(document: dict[str, Any]) -> bool:
    """Return whether the docs say that a map can be read."""
    return not any(map(looks_like_a_value, document.values()))


@given(MAPS)
@example({"a": Ext(-1, struct.pack(">Iq", NANOS, 0))})
@example({"a": Ext(-1, b"")})
@example({"$binary": 5, "a": {"$binary": 5, "b": 6}})
@example({"a": {"$binary": "AA=="}})
def test_what_is_read_is_written(document: dict[str, Any]) -> None:
    """Types, the order of keys and all bits come back. Read again, the JSON is the same."""
    message = msgspec.msgpack.encode(document)
    if not is_readable(document):
        with pytest.raises(SowlineError, match="in JSON that is another value"):
            read(message)
        return
    body = read(message)
    read_object(body)
    assert CODEC.write(body) == msgspec.msgpack.encode(kept(document))
    assert read(CODEC.write(body)) == body
    assert CODEC.completed(body) == body
    assert CODEC.upgraded(body) == body
    assert CODEC.read_delta(MessagePayload(CODEC.write_delta(body)[0]), READER, None) == body


@given(MAPS.filter(is_readable), st.data())
def test_widths_are_not_kept(document: dict[str, Any], data: st.DataObject) -> None:
    """Each number, text and length may take more bytes than it needs: that is the same record."""
    assert read(packed(document, data)) == read(msgspec.msgpack.encode(document))


INTEGERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
BYTES = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}
ARRAYS = {0xDC: ">H", 0xDD: ">I"}
OBJECTS = {0xDE: ">H", 0xDF: ">I"}
EXTENSIONS = {0xC7: ">B", 0xC8: ">H", 0xC9: ">I"}


def numbers(number: int, kinds: dict[int, str]) -> list[bytes]:
    """Return an integer or a size in all widths that it fits."""
    forms = []
    for kind, width in kinds.items():
        try:
            forms.append(bytes([kind]) + struct.pack(width, number))
        except struct.error:
            continue
    return forms


def doubles(value: float) -> list[bytes]:
    """Return a float in 64 bits, and in 32 bits if that is the same number."""
    forms = [b"\xcb" + struct.pack(">d", value)]
    try:
        narrow = struct.pack(">f", value)
    except OverflowError:
        return forms
    return [*forms, b"\xca" + narrow] if struct.unpack(">f", narrow)[0] == value else forms


def packed(value: Any, data: st.DataObject) -> bytes:
    """Return a value in any of the forms that the format has for it."""
    forms, rest = [msgspec.msgpack.encode(value)], b""
    match value:
        case float():
            forms += doubles(value)
        case int() if not isinstance(value, bool):
            forms += numbers(value, INTEGERS)
        case str():
            forms += [header + value.encode() for header in numbers(len(value.encode()), TEXTS)]
        case bytes():
            forms += [header + value for header in numbers(len(value), BYTES)]
        case Ext():
            inside = struct.pack(">b", value.code) + bytes(value.data)
            forms += [header + inside for header in numbers(len(inside) - 1, EXTENSIONS)]
        case list():
            forms = numbers(len(value), ARRAYS)
            rest = b"".join(packed(part, data) for part in value)
        case dict():
            forms = numbers(len(value), OBJECTS)
            rest = b"".join(packed(name, data) + packed(part, data) for name, part in value.items())
    return data.draw(st.sampled_from(forms)) + rest


@given(any_json(NAMES_HERE))
@example(b'{"a":{"\\u0024binary":"AA=="}}')
@example(b'{"a":{"$ext":[-1,"AAAAAA=="]}}')
@example(b'{"a":{"$timestamp":"2026-02-30T00:00:00Z"}}')
@example(b'{"a":{"$timestamp":[0,5]}}')
@example(b'{"a":18446744073709551616}')
def test_any_json_is_written_as_it_is_completed(body: bytes) -> None:
    """What clients may publish is refused with a sentence, or read as `completed` says."""
    check_any_json(CODEC, READER, body)


@given(MAPS.map(msgspec.msgpack.encode), st.data())
def test_any_bytes_are_a_record_or_refused(message: bytes, data: st.DataObject) -> None:
    """Random bytes, and messages with some bytes changed."""
    check_hostile(CODEC, READER, message, data)


@given(MAPS.filter(is_readable), MAPS.filter(is_readable))
@example({"a": b"1"}, {"a": Ext(5, b"2")})
@example({"a": {"b": {"c": b"1", "d": 1}}}, {"a": {"b": {"c": {"x": 1}, "e": b"2"}}})
def test_deltas_merge_maps_and_replace_values(record: dict[str, Any], delta: dict[str, Any]) -> None:
    """A value object is replaced as a whole, at any level."""
    before, changes = (read(msgspec.msgpack.encode(one)) for one in (record, delta))
    merged = CODEC.merged(before, changes)
    expected = merged_by_the_rules(orjson.loads(before), orjson.loads(changes), VALUE_NAMES)
    assert orjson.loads(merged) == expected
    assert CODEC.completed(merged) == merged
