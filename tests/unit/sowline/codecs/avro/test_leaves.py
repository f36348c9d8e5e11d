"""The values of types without parts: their canonical JSON, and the JSON and bytes that are refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.property.avro_schemas import fixed, logical, record, schema_of
from tests.unit.sowline.codecs.avro.messages import Json, read

UUID = "5b0c7d5e-7f0a-4c50-9f2f-0c8d6c9a4f11"


def written(raw: Json, value: Json) -> bytes:
    """Return the bytes that fastavro writes."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, raw, value)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "value", "canonical"),
    [
        ("null", None, "null"),
        ("boolean", True, "true"),
        ("int", -5, "-5"),
        ("long", -(1 << 63), "-9223372036854775808"),
        ("long", (1 << 63) - 1, "9223372036854775807"),
        ("float", 0.1, "0.1"),
        ("float", 1e-45, "1e-45"),
        ("float", float("nan"), '"NaN"'),
        ("float", 16777216.0, "16777216.0"),
        ("double", 0.1, "0.1"),
        ("double", 5, "5.0"),
        ("double", float("inf"), '"Infinity"'),
        ("double", float("-inf"), '"-Infinity"'),
        ("string", "é\u0000", '"é\\u0000"'),
        ("bytes", b"\xff\x00", '"/wA="'),
        (fixed(2), b"\xff\x00", '"/wA="'),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", '"B"'),
        ({"type": "array", "items": "int"}, [2, 1], "[2,1]"),
        ({"type": "map", "values": "int"}, {"b": 1, "a": 2}, '{"a":2,"b":1}'),
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("12.30"), '"12.30"'),
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("-0.05"), '"-0.05"'),
        (logical("bytes", "decimal", precision=3), Decimal(-128), '"-128"'),
        (fixed(3, "decimal", precision=5, scale=5), Decimal("0.00001"), '"0.00001"'),
        (logical("string", "uuid"), UUID.upper(), f'"{UUID}"'),
        (logical("int", "date"), date(2026, 11, 26), '"2026-11-26"'),
        (logical("int", "date"), date.min, '"0001-01-01"'),
        (logical("int", "date"), date.max, '"9999-12-31"'),
        (logical("int", "time-millis"), 45296789, '"12:34:56.789"'),
        (logical("long", "time-micros"), 45296000001, '"12:34:56.000001"'),
        (logical("long", "timestamp-millis"), -1, '"1969-12-31T23:59:59.999Z"'),
        (
            logical("long", "timestamp-micros"),
            datetime(2026, 11, 26, 12, 34, 56, 789, UTC),
            '"2026-11-26T12:34:56.000789Z"',
        ),
        (logical("long", "timestamp-nanos"), 1, '"1970-01-01T00:00:00.000000001Z"'),
        (logical("long", "local-timestamp-millis"), 0, '"1970-01-01T00:00:00.000"'),
        (logical("long", "local-timestamp-micros"), 0, '"1970-01-01T00:00:00.000000"'),
        (logical("long", "local-timestamp-nanos"), 0, '"1970-01-01T00:00:00.000000000"'),
        (logical("long", "of-a-later-version"), 7, "7"),
        (logical("string", "date"), "x", '"x"'),
        (logical("int", "timestamp-millis"), 5, "5"),
        (["null", "string"], None, "null"),
        (["null", "string"], "x", '"x"'),
        (["int", logical("long", "timestamp-millis")], 5, "5"),
    ],
)
def test_a_value_has_one_canonical_form(kind: Any, value: Any, canonical: str) -> None:
    """What fastavro writes reads as that JSON, and that JSON is written as the same bytes."""
    raw = record(("a", kind))
    data = written(raw, {"a": value})
    codec = AvroCodec(schema_of(raw))
    body = f'{{"a":{canonical}}}'.encode()
    assert codec.read(MessagePayload(data), schema_of(raw)) == body
    assert codec.read(MessagePayload(codec.write(body)), schema_of(raw)) == body


def test_the_branch_on_the_wire_decides() -> None:
    """The same number means a date in one branch of a union, and an integer in the other."""
    raw = record(("a", [logical("int", "date"), "long"]))
    assert read(raw, b"\0\2") == {"a": "1970-01-02"}
    assert read(raw, b"\2\2") == {"a": 1}


def test_a_uuid_of_16_bytes() -> None:
    """A fixed UUID is the same text as one in a string."""
    raw = record(("a", fixed(16, "uuid")))
    assert read(raw, bytes.fromhex(UUID.replace("-", ""))) == {"a": UUID}


def test_a_duration() -> None:
    """A duration is three little-endian numbers."""
    raw = record(("a", fixed(12, "duration")))
    body = b'{"a":{"months":1,"days":2,"milliseconds":4294967295}}'
    data = b"\1\0\0\0\2\0\0\0\xff\xff\xff\xff"
    codec = AvroCodec(schema_of(raw))
    assert codec.read(MessagePayload(data), schema_of(raw)) == body
    assert codec.write(body) == data
    parts = '{{"months":{0},"days":2,"milliseconds":{1}}}'.format
    for wrong in ('{"months":1}', "5", parts(1, -1), parts("true", 3)):
        with pytest.raises(SowlineError, match="/a: expected an object with months, days and milliseconds"):
            codec.write(f'{{"a":{wrong}}}'.encode())


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("null", "0", "null"),
        ("boolean", "1", "a boolean"),
        ("int", "2147483648", "an integer of 32 bits"),
        ("int", "1.0", "an integer of 32 bits"),
        ("int", "true", "an integer of 32 bits"),
        ("long", "9223372036854775808", "an integer of 64 bits"),
        ("float", "1e39", "a number in the range of a 32-bit float"),
        ("double", '"1"', "a number"),
        ("string", "1", "text"),
        ("bytes", '"é"', "bytes as base64 text"),
        ("bytes", '"QQ"', "bytes as base64 text"),
        (fixed(2), '"QQ=="', "2 bytes as base64 text"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"C"', "one of A, B"),
        ({"type": "array", "items": "int"}, "{}", "an array"),
        ({"type": "map", "values": "int"}, "[]", "an object"),
        (record(("b", "int"), name="Inner"), "[]", "an object"),
        (["null", "int"], '"x"', "an integer of 32 bits"),
        (["null", "int", "string"], "1.5", "null or int or string"),
        (logical("bytes", "decimal", precision=3, scale=2), '"12.345"', "a decimal of at most 3 digits"),
        (logical("bytes", "decimal", precision=3, scale=2), '"12.34"', "a decimal of at most 3 digits"),
        (logical("bytes", "decimal", precision=3, scale=2), "1", "a decimal of at most 3 digits"),
        (logical("bytes", "decimal", precision=3), f'"{"0" * 5000}"', "a decimal of at most 3 digits"),
        (logical("string", "uuid"), '"x"', "a UUID"),
        (logical("int", "date"), '"2026-02-30"', "a date like"),
        (logical("int", "date"), '"20260228"', "a date like"),
        (logical("int", "time-millis"), '"24:00:00"', "a time like"),
        (logical("int", "time-millis"), '"12:00:00.0001"', "a time like"),
        (logical("long", "timestamp-millis"), '"2026-11-26T12:34:56.789"', "a timestamp like"),
        (logical("long", "timestamp-nanos"), '"2500-01-01T00:00:00Z"', "a timestamp like"),
        (logical("long", "local-timestamp-millis"), '"2026-11-26T12:34:56.789Z"', "a timestamp like"),
    ],
)
def test_json_that_does_not_fit_is_refused(kind: Any, value: str, expected: str) -> None:
    """The message names the path and what was expected."""
    codec = AvroCodec(schema_of(record(("a", kind))))
    with pytest.raises(SowlineError, match=f"/a: expected {expected}") as caught:
        codec.write(f'{{"a":{value}}}'.encode())
    assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x80\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04"),
        (["null", "int", "string"], b"\x06"),
        ("string", b"\2\xff"),
        ("float", b"\1"),
        (logical("string", "uuid"), b"\2x"),
        (logical("bytes", "decimal", precision=1), b"\2\x7f"),
        (logical("int", "date"), b"\xff\xff\xff\xff\x0f"),
        (logical("int", "time-millis"), b"\1"),
        (logical("long", "timestamp-millis"), b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ],
)
def test_bytes_that_are_no_value_are_refused(kind: Any, data: bytes) -> None:
    """An integer out of range, a number of no symbol, text that is not UTF-8, and what logical types exclude."""
    with pytest.raises(SowlineError) as caught:
        read(record(("a", kind)), data)
    assert caught.value.reason == "bad message"
