"""BSON's codec: canonical JSON of each type, what is refused, and hostile bytes."""

import struct
import tracemalloc
from typing import Any

import bson
import orjson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from sowline.codecs.bson import BsonCodec
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import BSON, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX

READER = Schema(BSON, "{}")
CODEC = BsonCodec(READER)
OID = "0123456789abcdef01234567"


def read(data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return CODEC.read(MessagePayload(data), READER)


def document(*members: bytes) -> bytes:
    """Return a document of members that are bytes already."""
    inside = b"".join(members)
    return struct.pack("<i", len(inside) + 5) + inside + b"\0"


def member(kind: int, data: bytes, name: bytes = b"a") -> bytes:
    """Return a member."""
    return bytes([kind]) + name + b"\0" + data


def text(value: bytes) -> bytes:
    """Return a text with its size."""
    return struct.pack("<i", len(value) + 1) + value + b"\0"


def test_the_codec_of_bson_is_found() -> None:
    """The message type leads to this codec."""
    assert isinstance(codec_of(READER), BsonCodec)


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        ((1 << 31), "2147483648"),
        (-(1 << 63), "-9223372036854775808"),
        (5.0, "5.0"),
        (-0.0, "-0.0"),
        (float("nan"), '{"$numberDouble":"NaN"}'),
        ([float("inf"), None, -1], '[{"$numberDouble":"Infinity"},null,-1]'),
        (float("-inf"), '{"$numberDouble":"-Infinity"}'),
        ("é\0$", '"é\\u0000$"'),
        ({"z": 1, "_id": 2}, '{"z":1,"_id":2}'),
        (ObjectId(OID), f'{{"$oid":"{OID}"}}'),
        (DatetimeMS(1795696496789), '{"$date":"2026-11-26T12:34:56.789Z"}'),
        (DatetimeMS(-1), '{"$date":"1969-12-31T23:59:59.999Z"}'),
        (DatetimeMS(-62135596800000), '{"$date":"0001-01-01T00:00:00.000Z"}'),
        (DatetimeMS(-62135596800001), '{"$date":{"$numberLong":"-62135596800001"}}'),
        (DatetimeMS(253402300799999), '{"$date":"9999-12-31T23:59:59.999Z"}'),
        (DatetimeMS(253402300800000), '{"$date":{"$numberLong":"253402300800000"}}'),
        (Decimal128("1.20"), '{"$numberDecimal":"1.20"}'),
        (Decimal128("-Infinity"), '{"$numberDecimal":"-Infinity"}'),
        (Decimal128("1E+6111"), '{"$numberDecimal":"1E+6111"}'),
        (b"\xff", '{"$binary":{"base64":"/w==","subType":"00"}}'),
        (Binary(b"\xff", 2), '{"$binary":{"base64":"/w==","subType":"02"}}'),
        (Binary(bytes(16), 4), '{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}'),
        (Binary(b"", 255), '{"$binary":{"base64":"","subType":"ff"}}'),
        (Regex("^a", "xi"), '{"$regularExpression":{"pattern":"^a","options":"ix"}}'),
        (Timestamp(1, 2), '{"$timestamp":{"t":1,"i":2}}'),
        (Code("x"), '{"$code":"x"}'),
        (Code("x", {}), '{"$code":"x","$scope":{}}'),
        (Code("x", {"a": ObjectId(OID)}), f'{{"$code":"x","$scope":{{"a":{{"$oid":"{OID}"}}}}}}'),
        (Code("x", {"a": float("nan")}), '{"$code":"x","$scope":{"a":{"$numberDouble":"NaN"}}}'),
        (MinKey(), '{"$minKey":1}'),
        (MaxKey(), '{"$maxKey":1}'),
        (DBRef("c", ObjectId(OID), "d"), f'{{"$ref":"c","$id":{{"$oid":"{OID}"}},"$db":"d"}}'),
        (DBRef("c", [float("nan")], x=1), '{"$ref":"c","$id":[{"$numberDouble":"NaN"}],"x":1}'),
        ({"$ref": 5, "$id": 6}, '{"$ref":5,"$id":6}'),
        ({"$gt": 5}, '{"$gt":5}'),
        ({"$oid": 5, "b": 6}, '{"$oid":5,"b":6}'),
    ],
)
def test_a_value_has_one_canonical_form(value: Any, canonical: str) -> None:
    """It is read as that JSON, and that JSON is written as the same bytes."""
    message = bson.encode({"a": value})
    body = f'{{"a":{canonical}}}'.encode()
    assert read(message) == body
    assert CODEC.write(body) == message


def test_the_order_of_members_is_kept() -> None:
    """Also that of `_id` in a record, which drivers move to the front."""
    message = document(member(10, b"", b"z"), member(10, b"", b"_id"))
    assert read(message) == b'{"z":null,"_id":null}'
    assert CODEC.write(read(message)) == message


def test_the_top_level_is_never_a_value() -> None:
    """A record whose one field is called like a value is a record."""
    assert read(bson.encode({"$oid": "x"})) == b'{"$oid":"x"}'
    assert CODEC.write(b'{"$oid":"x"}') == bson.encode({"$oid": "x"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (member(18, struct.pack("<q", 5)), member(16, struct.pack("<i", 5))),
        (member(1, struct.pack("<Q", 0xFFF8000000000001)), member(1, struct.pack("<Q", 0x7FF8000000000000))),
        (member(11, b"^a\0xqi\0"), member(11, b"^a\0ix\0")),
        (member(14, text(b"x")), member(2, text(b"x"))),
        (member(6, b""), member(10, b"")),
        (
            member(12, text(b"c") + bytes(12)),
            member(3, document(member(2, text(b"c"), b"$ref"), member(7, bytes(12), b"$id"))),
        ),
        (member(4, document(member(10, b"", b"7"))), member(4, document(member(10, b"", b"0")))),
        (
            member(3, document(member(10, b"", b"$id"), member(2, text(b"c"), b"$ref"))),
            member(3, document(member(2, text(b"c"), b"$ref"), member(10, b"", b"$id"))),
        ),
        (member(10, b"") + member(8, b"\1"), member(8, b"\1")),
    ],
    ids=["int64", "NaN", "options", "symbol", "undefined", "DBPointer", "array", "DBRef", "repeated name"],
)
def test_what_is_not_kept(before: bytes, after: bytes) -> None:
    """Small integers of 64 bits, deprecated types, orders that mean nothing, all but the last of a repeated name."""
    assert CODEC.write(read(document(before))) == document(after)


def test_clients_may_write_all_of_extended_json() -> None:
    """The canonical forms of numbers, of UUIDs and of dates, too; an integer keeps its type on the log."""
    body = orjson.dumps(
        {
            "a": {"$numberInt": "5"},
            "b": {"$numberLong": "5"},
            "c": {"$numberDouble": "5.0"},
            "d": {"$date": {"$numberLong": "0"}},
            "e": {"$uuid": "00000000-0000-0000-0000-000000000000"},
            "f": {"$date": "2026-11-26T12:34:56Z"},
        }
    )
    expected = {
        "a": 5,
        "b": Int64(5),
        "c": 5.0,
        "d": DatetimeMS(0),
        "e": Binary(bytes(16), 4),
        "f": DatetimeMS(1795696496000),
    }
    assert CODEC.write(body) == bson.encode(expected)
    assert orjson.loads(CODEC.completed(body)) == {
        "a": 5,
        "b": 5,
        "c": 5.0,
        "d": {"$date": "1970-01-01T00:00:00.000Z"},
        "e": {"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAAAA==", "subType": "04"}},
        "f": {"$date": "2026-11-26T12:34:56.000Z"},
    }


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"$oid": "x"}, "an ObjectId of 24 hexadecimal digits"),
        ({"$date": 5}, "a time like 2026-11-26T12:34:56.789Z"),
        ({"$date": "2026-11-26T12:34:56.7891Z"}, "a time like 2026-11-26T12:34:56.789Z"),
        ({"$numberInt": "2147483648"}, "an integer of 32 bits as text"),
        ({"$numberLong": "9223372036854775808"}, "an integer of 64 bits as text"),
        ({"$numberLong": 5}, "an integer of 64 bits as text"),
        ({"$numberDouble": "x"}, "a double as text"),
        ({"$numberDecimal": "1" * 35}, "a decimal of at most 34 digits as text"),
        ({"$numberDecimal": "x"}, "a decimal of at most 34 digits as text"),
        ({"$numberDecimal": 5}, "a decimal of at most 34 digits as text"),
        ({"$binary": "AA=="}, "an object like"),
        ({"$binary": {"base64": "AA==", "subType": "100"}}, "an object like"),
        ({"$binary": {"base64": "A", "subType": "00"}}, "bytes as base64 text"),
        ({"$uuid": 5}, "a UUID as text"),
        ({"$uuid": "x"}, "a UUID as text"),
        ({"$regularExpression": {"pattern": "a\0", "options": ""}}, "an object like"),
        ({"$regularExpression": {"pattern": "a", "options": "q"}}, "an object like"),
        ({"$timestamp": {"t": 1, "i": -1}}, "an object like"),
        ({"$timestamp": 5}, "an object like"),
        ({"$code": 5}, "code as text"),
        ({"$code": "x", "$scope": 5}, "code as text, and an object as its scope"),
        ({"$minKey": True}, "the number 1"),
        ({"$maxKey": 2}, "the number 1"),
        ({"$symbol": "x"}, "no symbol, undefined or DBPointer"),
        ({"$undefined": True}, "no symbol, undefined or DBPointer"),
        ({"$dbPointer": {}}, "no symbol, undefined or DBPointer"),
    ],
)
def test_what_looks_like_a_value_and_is_none_is_refused(value: Any, complaint: str) -> None:
    """Neither JSON with it is written, nor a document with it read."""
    with pytest.raises(SowlineError) as caught:
        CODEC.write(orjson.dumps({"b": [value]}))
    assert caught.value.reason == "bad message"
    assert caught.value.message.startswith(f"expected {complaint}")
    with pytest.raises(SowlineError, match="expected no map whose only names are \\$") as caught:
        read(bson.encode({"b": [value]}))
    assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"a":9223372036854775808}', "expected integers of 64 bits, got a larger one"),
        (b'{"a\\u0000b":1}', "expected what BSON can express, got .*NULL"),
        (b"[]", "expected a JSON object, got an array"),
        (b"{", "expected a JSON object"),
    ],
)
def test_json_that_bson_lacks_is_refused(body: bytes, complaint: str) -> None:
    """The sentence says what is wrong."""
    for write in (CODEC.write, CODEC.write_delta, CODEC.completed):
        with pytest.raises(SowlineError, match=complaint) as caught:
            write(body)
        assert caught.value.reason == "bad message"


WHOLE = bson.encode(
    {"a": [1, 1 << 40, 5.5], "b": {"c": b"12", "d": "x" * 9}, "e": Code("x", {}), "f": Regex("a")}
)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_every_truncated_message_is_refused(size: int) -> None:
    """At whatever byte it ends, also if the size of the document is that of what is there."""
    for data in (WHOLE[:size], struct.pack("<i", size) + WHOLE[4:size]):
        with pytest.raises(SowlineError, match="expected one BSON document in") as caught:
            read(data)
        assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    "data",
    [
        WHOLE + b"\0",
        document(member(2, b"\xff\xff\xff\x7fx\0")),
        document(member(2, b"\xff\xff\xff\xffx\0")),
        document(member(5, b"\xff\xff\xff\x7f\0x")),
        document(member(5, b"\3\0\0\0\2abc")),
        document(member(3, b"\xff\xff\xff\x7f\0")),
        document(member(4, b"\xff\xff\xff\x7f\0")),
        document(member(15, b"\xff\xff\xff\x7f" + text(b"x") + document())),
        document(member(2, text(b"\xff"))),
        document(member(10, b"", b"\xff")),
        document(member(8, b"\2")),
        document(member(32, b"")),
        b"\xff\xff\xff\x7f\0",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    """Sizes of 2 GB cost no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(SowlineError) as caught:
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "bad message"


@pytest.mark.parametrize(("kind", "levels"), [(3, NESTING_MAX), (4, NESTING_MAX), (15, 254)])
def test_the_depth_is_limited(kind: int, levels: int) -> None:
    """Records have as many levels as those of JSON, and fewer in the scopes of code; more are `too deep`."""
    for depth in (levels // 2 - 1, 1000, 20_000):
        data = document()
        for _ in range(depth):
            inside = struct.pack("<i", 4 + len(text(b"x") + data)) + text(b"x") + data if kind == 15 else data
            data = document(member(kind, inside, b"0"))
        if depth < NESTING_MAX:
            assert CODEC.write(read(data)) == data
            continue
        with pytest.raises(SowlineError) as caught:
            read(data)
        assert caught.value.reason == "too deep"


def test_the_depth_of_json_is_limited() -> None:
    """The limit is exact, and the same for reading and for writing."""
    deepest = b'{"a":' * (NESTING_MAX - 1) + b"{}" + b"}" * (NESTING_MAX - 1)
    assert CODEC.completed(deepest) == deepest
    for body in (b'{"a":' + deepest + b"}", b'{"a":' * 900 + b"5" + b"}" * 900):
        for write in (CODEC.write, CODEC.completed):
            with pytest.raises(SowlineError) as caught:
                write(body)
            assert caught.value.reason == "too deep"
    scopes = b'{"a":' + b'{"$code":"x","$scope":{"a":' * 120 + b"1" + b"}}" * 120 + b"}"
    assert CODEC.completed(scopes) == scopes


def test_deltas_replace_values_and_have_no_paths() -> None:
    """A date is no object to be merged."""
    before = b'{"a":{"b":{"$date":"2026-11-26T12:34:56.789Z"},"c":1}}'
    assert CODEC.merged(before, b'{"a":{"b":{"$minKey":1}}}') == b'{"a":{"b":{"$minKey":1},"c":1}}'
    assert CODEC.merged(before, b'{"a":{"b":{"d":1}}}') == b'{"a":{"b":{"d":1},"c":1}}'
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
        CODEC.read_delta(MessagePayload(WHOLE), READER, ["/a"])
    assert caught.value.reason == "bad header"
