"""Which writer schemas and which earlier schemas a reader schema can read."""

import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.protobuf.schemas import ENUM, INNER, proto_schema, record_schema, schema_with


@pytest.mark.parametrize(
    ("writer", "reader", "data", "read"),
    [
        (record_schema("int32 a = 1;"), record_schema("int64 a = 1;"), b"\x08\x05", b'{"a":5}'),
        (record_schema("bool a = 1;"), record_schema("uint32 a = 1;"), b"\x08\x01", b'{"a":1}'),
        (record_schema("int64 a = 1;"), schema_with("E a = 1;", ENUM), b"\x08\x01", b'{"a":"B"}'),
        (record_schema("sint32 a = 1;"), record_schema("sint64 a = 1;"), b"\x08\x01", b'{"a":-1}'),
        (
            record_schema("fixed32 a = 1;"),
            record_schema("sfixed32 a = 1;"),
            b"\x0d\xff\xff\xff\xff",
            b'{"a":-1}',
        ),
        (record_schema("string a = 1;"), record_schema("bytes a = 1;"), b"\x0a\x01x", b'{"a":"eA=="}'),
        (schema_with("I a = 1;", INNER), record_schema("bytes a = 1;"), b"\x0a\x00", b'{"a":""}'),
        (record_schema("bytes a = 1;"), schema_with("I a = 1;", INNER), b"\x0a\x00", b'{"a":{"a":0}}'),
        (
            record_schema("string a = 1;"),
            record_schema("repeated string a = 1;"),
            b"\x0a\x01x",
            b'{"a":["x"]}',
        ),
        (
            record_schema("repeated string a = 1;"),
            record_schema("string a = 1;"),
            b"\x0a\x01x\x0a\x01y",
            b'{"a":"y"}',
        ),
        (record_schema("int32 a = 1;"), record_schema("int32 b = 1;"), b"\x08\x05", b'{"b":5}'),
        (
            record_schema("optional int32 a = 1;"),
            record_schema("oneof o { int32 a = 1; }"),
            b"\x08\x00",
            b'{"a":0}',
        ),
        (
            record_schema("repeated int32 a = 1 [packed = false];"),
            record_schema("repeated int32 a = 1;"),
            b"\x08\x05",
            b'{"a":[5]}',
        ),
        (
            record_schema("map<string, int32> a = 1;"),
            schema_with("repeated X a = 1;", " message X { string key = 1; int32 value = 2; }"),
            b"\x0a\x02\x10\x01",
            b'{"a":[{"key":"","value":1}]}',
        ),
    ],
    ids=str,
)
def test_compatible_writers_are_read(writer: Schema, reader: Schema, data: bytes, read: bytes) -> None:
    """As Protobuf's rules for updating a message type have it."""
    assert codec_of(reader).read(MessagePayload(data), writer) == read


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        (
            record_schema("int32 a = 1;"),
            record_schema("sint32 a = 1;"),
            "a type that reads an integer, got a zigzag integer in /a",
        ),
        (record_schema("int32 a = 1;"), record_schema("fixed32 a = 1;"), "in /a"),
        (record_schema("fixed32 a = 1;"), record_schema("fixed64 a = 1;"), "in /a"),
        (
            record_schema("float a = 1;"),
            record_schema("double a = 1;"),
            "a type that reads float, got double in /a",
        ),
        (
            record_schema("bool a = 1;"),
            schema_with("E a = 1;", ENUM),
            "a type that reads bool, got an enum in /a",
        ),
        (
            record_schema("string a = 1;"),
            schema_with("I a = 1;", INNER),
            "a type that reads string, got a message in /a",
        ),
        (
            record_schema("int32 a = 1;"),
            record_schema("repeated int32 a = 1;"),
            "a field that repeats as before",
        ),
        (
            schema_with("I a = 1;", INNER),
            schema_with("J a = 1;", INNER),
            "a type that reads an integer, got string in /a/a",
        ),
        (
            record_schema("map<string, int32> a = 1;"),
            record_schema("map<string, string> a = 1;"),
            "in /a/value",
        ),
        (
            record_schema("int32 a = 1; optional int32 b = 2;"),
            record_schema("oneof o { int32 a = 1; int32 b = 2; }"),
            "expected a oneof /o without fields that could be set together, got a and b",
        ),
        (
            record_schema("optional group G = 1 { }", "proto2"),
            proto_schema("message R { optional G g = 1; message G {} }", "proto2"),
            "a type that reads a group, got a message in /g",
        ),
    ],
    ids=str,
)
def test_incompatible_writers_are_refused(writer: Schema, reader: Schema, message: str) -> None:
    """By the path of the field; also as an earlier reader schema."""
    codec = codec_of(reader)
    for refused in (lambda: codec.read(MessagePayload(b""), writer), lambda: codec.check_reads(writer)):
        with pytest.raises(SowlineError) as caught:
            refused()
        assert caught.value.reason == "incompatible schema"
        assert message in caught.value.message


@pytest.mark.parametrize(
    ("earlier", "later", "message"),
    [
        (
            record_schema("int32 a = 1;"),
            record_schema("int32 b = 1;"),
            "expected field 1 to keep its name /a, got b",
        ),
        (
            record_schema("int32 a = 1;"),
            record_schema("int32 a = 2;"),
            "expected /a to keep its number 1, got 2",
        ),
        (
            record_schema("int64 a = 1;"),
            record_schema("int32 a = 1;"),
            "a type for all integers of the old one",
        ),
        (
            record_schema("int32 a = 1;"),
            record_schema("uint64 a = 1;"),
            "a type for all integers of the old one",
        ),
        (
            record_schema("bool a = 1;"),
            record_schema("int32 a = 1;"),
            "a type with the same JSON form as before",
        ),
        (
            record_schema("string a = 1;"),
            record_schema("bytes a = 1;"),
            "a type with the same JSON form as before",
        ),
        (record_schema("bytes a = 1;"), schema_with("I a = 1;", INNER), "a message with the same JSON form"),
        (
            schema_with("E a = 1;", ENUM),
            record_schema("int32 a = 1;"),
            "a type with the same JSON form as before",
        ),
        (
            record_schema("string a = 1;"),
            record_schema("repeated string a = 1;"),
            "a list, a map or one value as before",
        ),
        (
            schema_with("E a = 1;", ENUM),
            schema_with("E a = 1;", " enum E { A = 0; C = 1; }"),
            "with the symbol B = 1",
        ),
        (
            schema_with("E a = 1;", ENUM),
            schema_with("E a = 1;", " enum E { A = 0; B = 2; }"),
            "with the symbol B = 1",
        ),
        (
            record_schema("map<string, int32> a = 1;"),
            schema_with("repeated X a = 1;", " message X { string key = 1; int32 value = 2; }"),
            "a list, a map or one value as before",
        ),
        (
            schema_with("I a = 1;", INNER),
            schema_with("I a = 1;", " message I { int32 b = 1; }"),
            "to keep its name /a/a, got b",
        ),
        (
            record_schema("optional int32 a = 1;", "proto2"),
            record_schema("required int32 a = 1;", "proto2"),
            "expected no new required field, got /a",
        ),
        (record_schema(""), proto_schema("message S {}"), "expected a message S, got R"),
        (
            Schema("protobuf", 'edition = "2023"; message R { E a = 1; } enum E { A = 0; }'),
            Schema(
                "protobuf",
                'edition = "2023"; message R { E a = 1; } enum E { option features.enum_type = CLOSED; A = 0; }',
            ),
            "an open enum, as before",
        ),
    ],
    ids=str,
)
def test_an_earlier_reader_schema_that_json_can_not_follow_is_refused(
    earlier: Schema, later: Schema, message: str
) -> None:
    """JSON has names and exact values instead of numbers and wire types."""
    with pytest.raises(SowlineError) as caught:
        codec_of(later).check_reads(earlier)
    assert caught.value.reason == "incompatible schema"
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("earlier", "later", "before", "after"),
    [
        (
            record_schema("int32 a = 1;"),
            record_schema("int64 a = 1; int32 b = 2;"),
            b'{"a":5}',
            b'{"a":5,"b":0}',
        ),
        (record_schema("uint32 a = 1;"), record_schema("int64 a = 1;"), b'{"a":5}', b'{"a":5}'),
        (
            record_schema("int32 a = 1; int32 b = 2;"),
            record_schema("int32 b = 2;"),
            b'{"a":5,"b":6}',
            b'{"b":6}',
        ),
        (
            record_schema("int32 a = 1;"),
            record_schema("int32 b = 2; int32 a = 1;"),
            b'{"a":5}',
            b'{"b":0,"a":5}',
        ),
        (record_schema("int32 a = 1;"), record_schema("optional int32 a = 1;"), b'{"a":0}', b'{"a":0}'),
        (record_schema(""), record_schema("int32 a = 1;"), b'{"@unknown":{"1":"CAU="}}', b'{"a":5}'),
        (
            record_schema(""),
            record_schema("repeated int32 a = 1;"),
            b'{"@unknown":{"1":"CAUIBg==","100":"oAYB"}}',
            b'{"a":[5,6],"@unknown":{"100":"oAYB"}}',
        ),
        (
            schema_with("E a = 1;", ENUM),
            schema_with("E a = 1;", " enum E { A = 0; B = 1; C = 2; }"),
            b'{"a":2}',
            b'{"a":"C"}',
        ),
        (schema_with("E a = 1;", ENUM), schema_with("E a = 1;", ENUM), b'{"a":7}', b'{"a":7}'),
        (
            schema_with("I a = 1;", " message I { int32 x = 1; int32 y = 2; }"),
            schema_with("I a = 1;", " message I { int32 y = 2; int32 z = 3; }"),
            b'{"a":{"x":1,"y":2,"@unknown":{"3":"GAM="}}}',
            b'{"a":{"y":2,"z":3}}',
        ),
    ],
    ids=str,
)
def test_json_of_an_earlier_schema_is_upgraded(
    earlier: Schema, later: Schema, before: bytes, after: bytes
) -> None:
    """Members without a field go, defaults come, and unknown fields become known."""
    codec = codec_of(later)
    codec.check_reads(earlier)
    assert codec.upgraded(before) == after
    assert codec.upgraded(after) == after == codec.completed(after)
