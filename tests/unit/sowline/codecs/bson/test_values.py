"""The values of BSON that JSON lacks: their canonical JSON, what clients may write, and what is none."""

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

from sowline.errors import SowlineError
from tests.unit.sowline.codecs.bson.messages import CODEC, read

OID = "0123456789abcdef01234567"


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
