"""Avro's codec: canonical JSON of each type, defaults, unions, deltas, and what is refused."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import orjson
import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.avro.encoding import Encoder
from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.avro.types import load_types
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import AVRO, MessagePayload, Schema
from sowline.errors import SowlineError
from tests.property.avro_schemas import fixed, logical, record, schema_of

Json = dict[str, Any]

UUID = "5b0c7d5e-7f0a-4c50-9f2f-0c8d6c9a4f11"
CIRCLE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def written(raw: Json, value: Json) -> bytes:
    """Return the bytes that fastavro writes."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, raw, value)
    return stream.getvalue()


def read(raw: Json, data: bytes, reader: Any = None) -> Any:
    """Return the parsed canonical JSON of bytes, under their own schema or a reader schema."""
    codec = AvroCodec(schema_of(reader or raw))
    return orjson.loads(codec.read(MessagePayload(data), schema_of(raw)))


def test_the_codec_of_avro_is_found() -> None:
    """The message type leads to this codec."""
    assert isinstance(codec_of(schema_of(record())), AvroCodec)


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
    for wrong in ('{"months":1}', "5", '{"months":1,"days":2,"milliseconds":-1}'):
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


def test_bytes_after_the_record_are_refused() -> None:
    """A message is one record and nothing else."""
    with pytest.raises(
        SowlineError, match="expected an Avro record in 2 bytes, got 1 bytes after the record"
    ):
        read(record(("a", "int")), b"\2\0")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"lines":[{"qty":1},{"qty":"x"}]}', "/lines[1]/qty"),
        ('{"lines":[],"by":{"a/b":{"x":{"qty":1.5}}}}', "/by[/a/b]/x/qty"),
        ('{"lines":[],"by":{},"odd":5}', "/odd"),
    ],
)
def test_a_message_names_the_path(body: str, path: str) -> None:
    """The path leads through arrays, maps, and records that are mentioned by name."""
    line = record(("qty", "int"), name="Line")
    by = {"type": "map", "values": {"type": "map", "values": "Line"}}
    raw = record(
        ("lines", {"type": "array", "items": line}),
        {"name": "by", "type": by, "default": {}},
    )
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(raw)).write(body.encode())
    assert caught.value.message.startswith(f"{path}: expected ")


# defaults


@pytest.mark.parametrize(
    ("kind", "default", "canonical"),
    [
        ("bytes", "\u00ff\u0000", "/wA="),
        (fixed(1), "A", "QQ=="),
        ("double", 1, 1.0),
        ({"type": "double", "unit": "m"}, 1, 1.0),
        (["null", "int"], None, None),
        (["int", "null"], 5, 5),
        (["null", "int"], 5, 5),
        (logical("int", "date"), 1, "1970-01-02"),
        (logical("bytes", "decimal", precision=4, scale=2), "\u0001", "0.01"),
        ({"type": "array", "items": "bytes"}, ["A"], ["QQ=="]),
        ({"type": "map", "values": "int"}, {"b": 1, "a": 2}, {"a": 2, "b": 1}),
        (
            record({"name": "x", "type": "int", "default": 3}, ("y", "int"), name="In"),
            {"y": 1},
            {"x": 3, "y": 1},
        ),
    ],
)
def test_defaults_are_in_canonical_form(kind: Any, default: Any, canonical: Any) -> None:
    """A field that the writer or the JSON lacks has its default: bytes from text, records with their own defaults."""
    reader = record({"name": "a", "type": kind, "default": default})
    codec = AvroCodec(schema_of(reader))
    body = orjson.dumps({"a": canonical})
    assert codec.read(MessagePayload(b""), schema_of(record())) == body
    assert codec.completed(b"{}") == body
    assert codec.upgraded(b"{}") == body
    assert codec.read(MessagePayload(codec.write(b"{}")), schema_of(reader)) == body


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "x"),
        ("int", 1 << 40),
        (fixed(2), "A"),
        ("bytes", "\u0100"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        (record(("x", "int"), name="In"), {}),
        (["null", "int"], "x"),
    ],
)
def test_a_wrong_default_is_a_bad_schema(kind: Any, default: Any) -> None:
    """A default that is no value of its field is found when the schema is compiled."""
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(record({"name": "a", "type": kind, "default": default})))
    assert caught.value.reason == "bad schema"


def test_a_default_that_never_ends_is_a_bad_schema() -> None:
    """A record whose default has the record again can't be written down."""
    raw = record({"name": "a", "type": "Order", "default": {}})
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(raw))
    assert caught.value.reason == "bad schema"


def test_a_default_that_doubles_at_each_level_is_a_bad_schema() -> None:
    """Thirty records that mention the next one twice would make a default of a billion values."""
    kind: Any = "int"
    for level in range(30):
        name = f"R{level}"
        again = name.replace(str(level), str(level - 1)) if level else "int"
        kind = record(
            {"name": "a", "type": kind, "default": {} if level else 0},
            {"name": "b", "type": again, "default": {} if level else 0},
            name=name,
        )
    with pytest.raises(SowlineError) as caught:
        AvroCodec(Schema(AVRO, json.dumps(record({"name": "a", "type": kind, "default": {}}))))
    assert caught.value.reason == "bad schema"


# unions


@pytest.mark.parametrize(
    ("branches", "value", "number"),
    [
        (["null", "double", "long"], "5", 2),
        (["null", "double", "long"], "5.5", 1),
        (["null", "double"], "5", 1),
        (["int", "long"], "5", 0),
        (["int", "long"], "2147483648", 1),
        (["float", "double"], "0.1", 0),
        (["float", "double"], "0.12345678901", 1),
        (["bytes", "string"], '"QQ=="', 0),
        (["bytes", "string"], '"text!"', 1),
        ([logical("bytes", "decimal", precision=5, scale=2), "string"], '"12.30"', 0),
        ([logical("bytes", "decimal", precision=5, scale=2), "string"], '"12.3"', 1),
        ([logical("long", "timestamp-millis"), "string"], '"2026-11-26T12:34:56.789Z"', 0),
        ([logical("long", "timestamp-millis"), "string"], '"yesterday"', 1),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"], '"A"', 0),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"], '"B"', 1),
        ([record(("x", "int"), name="A"), record(("x", "int"), ("y", "int"), name="B")], '{"x":1}', 0),
        ([record(("x", "int"), name="A"), record(("x", "int"), ("y", "int"), name="B")], '{"x":1,"y":2}', 1),
        ([record(("x", "int"), name="A"), record(("x", "string"), name="B")], '{"x":"t"}', 1),
        ([record(("x", "double"), name="A"), {"type": "map", "values": "long"}], '{"x":5}', 1),
        ([record(("x", "double"), name="A"), {"type": "map", "values": "long"}], '{"x":5.5}', 0),
        (["int", {"type": "array", "items": "int"}], "[1]", 1),
    ],
)
def test_json_is_of_the_branch_that_it_fits_best(branches: list[Any], value: str, number: int) -> None:
    """Canonical forms come first, then the order of the branches."""
    data = AvroCodec(schema_of(record(("a", branches)))).write(f'{{"a":{value}}}'.encode())
    assert data[0] == 2 * number


def _nested(kind: Any, depth: int, prefix: str) -> Json:
    for level in range(depth):
        kind = record(("x", kind), name=f"{prefix}{level}")
    return kind  # type: ignore[no-any-return]


def test_records_that_differ_far_below_are_one_for_a_union() -> None:
    """The first record is taken, and a value of the second is refused: values count down to three levels."""
    raw = record(("a", [_nested("int", 5, "A"), _nested(record(("y", "int"), name="Y"), 5, "B")]))
    codec = AvroCodec(schema_of(raw))
    for value, fits in (("1", True), ('{"y":1}', False)):
        body = ('{"a":' + '{"x":' * 5 + value + "}" * 6).encode()
        if fits:
            assert codec.read(MessagePayload(codec.write(body)), schema_of(raw)) == body
        else:
            with pytest.raises(SowlineError, match="/a/x/x/x/x/x: expected an integer of 32 bits"):
                codec.write(body)


@pytest.mark.parametrize("value", [{"x": 1}, {"x": 1, "y": 2, "z": 3}, [], {"x": 1, "z": 2}])
def test_the_encoder_checks_the_branch(value: Any) -> None:
    """A wrong branch is noticed: no field may be left out of the bytes."""
    raw = record(("a", record(("x", "int"), ("y", "int"), name="Inner")))
    encoder = Encoder(load_types(schema_of(raw)).root, lambda union, value: 0)
    with pytest.raises(SchemaMisfit):
        encoder.bytes_of({"a": value})


# records


def test_completed_refuses_a_missing_field() -> None:
    """Without a default there is nothing to add: `incomplete record` on the log, `bad message` from a writer."""
    inner = record(("x", "int"), name="Inner")
    codec = AvroCodec(schema_of(record(("a", inner), {"name": "b", "type": "int", "default": 7})))
    assert codec.completed(b'{"b":1,"a":{"x":2}}') == b'{"a":{"x":2},"b":1}'
    assert codec.completed(b'{"a":{"x":2}}') == b'{"a":{"x":2},"b":7}'
    for call, reason in ((codec.completed, "incomplete record"), (codec.write, "bad message")):
        with pytest.raises(SowlineError, match="/a/x: expected int: a field without a default") as caught:
            call(b'{"a":{}}')
        assert caught.value.reason == reason


def test_a_writer_names_only_fields_of_the_schema() -> None:
    """A misspelled field is refused, not dropped."""
    codec = AvroCodec(schema_of(record({"name": "a", "type": "int", "default": 0})))
    with pytest.raises(SowlineError, match="/b: expected a field of the schema, got 'b'"):
        codec.write(b'{"b":1}')


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{", b'{"a":"\xff"}'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    """All calls that take JSON raise `bad message` for text that is not an object."""
    codec = AvroCodec(schema_of(record()))
    for call in (codec.write, codec.write_delta, codec.completed, codec.upgraded):
        with pytest.raises(SowlineError) as caught:
            call(body)
        assert caught.value.reason == "bad message"


# schemas


@pytest.mark.parametrize(
    "text",
    [
        "",
        "string",
        '"string"',
        '"Missing"',
        "{}",
        "[]",
        '{"type":"array","items":"int"}',
        '{"type":"record","name":"R"}'.replace("}", ',"fields":5}'),
        '{"type":{"type":"record"}}',
        json.dumps(record(("a", "int"), ("a", "int"))),
        json.dumps(record(("a", ["int", "int"]))),
        json.dumps(record(("a", ["int", ["null", "long"]]))),
        json.dumps(record(("a", []))),
        json.dumps(record(("a", fixed(-1)))),
        json.dumps(record(("a", fixed(1 << 40)))),
        json.dumps(record(("a", logical("bytes", "decimal", precision=100_000, scale=2)))),
        json.dumps(record(("a", "Unknown"))),
        "[" * 200 + "]" * 200,
        json.dumps(record(("a", record(("a", "int"), name="Order")))),
    ],
)
def test_a_schema_that_is_not_valid_is_refused(text: str) -> None:
    """Whatever is wrong, the reason is `bad schema`."""
    with pytest.raises(SowlineError) as caught:
        AvroCodec(Schema(AVRO, text))
    assert caught.value.reason == "bad schema"


def test_a_schema_of_many_levels_is_refused() -> None:
    """Converters recurse through the types of a text, so its levels are limited."""
    kind: Any = "int"
    for _ in range(100):
        kind = {"type": "array", "items": kind}
    with pytest.raises(SowlineError, match="expected at most 100 levels"):
        AvroCodec(schema_of(record(("a", kind))))


def test_references_are_read_first() -> None:
    """A record mentions types of other texts; the text may be only the name of one of them."""
    side = ("Side", json.dumps({"type": "enum", "name": "ns.Side", "symbols": ["BUY", "SELL"]}))
    leg = (
        "Leg",
        json.dumps(record(("side", "ns.Side"), ("next", ["null", "ns.Leg"]), name="Leg", namespace="ns")),
    )
    order = schema_of(record(("legs", {"type": "array", "items": "ns.Leg"})), side, leg)
    body = b'{"legs":[{"side":"SELL","next":{"side":"BUY","next":null}}]}'
    codec = AvroCodec(order)
    assert codec.read(MessagePayload(codec.write(body)), order) == body
    alone = schema_of("ns.Leg", side, leg)
    assert AvroCodec(alone).read(MessagePayload(b"\2\0"), alone) == b'{"side":"SELL","next":null}'


def test_a_chain_of_records_takes_no_stack() -> None:
    """Hundreds of records, each mentioning the one before it, are compiled and read like a few."""
    first = ("R0", json.dumps(record(("a", "int"), name="R0")))
    chain = [first] + [
        (f"R{n}", json.dumps(record(("a", f"R{n - 1}"), name=f"R{n}"))) for n in range(1, 1200)
    ]
    top = schema_of("R400", *chain[:401])
    body = AvroCodec(top).read(MessagePayload(b"\2"), top)
    assert body == b'{"a":' * 400 + b'{"a":1}' + b"}" * 400
    assert AvroCodec(top).write(body) == b"\2"
    long_chain = schema_of("R1199", *chain)
    with pytest.raises(SowlineError) as caught:
        AvroCodec(long_chain).read(MessagePayload(b"\2"), long_chain)
    assert caught.value.reason == "bad message"


def test_a_record_of_the_kind_error_is_a_record() -> None:
    """Avro's protocols call some records errors."""
    raw = record(("a", "int")) | {"type": "error"}
    assert read(raw, b"\2") == {"a": 1}


# what is described


def test_the_description_is_a_json_schema() -> None:
    """It has the types, the required fields, and a definition of each named type."""
    side = {"type": "enum", "name": "ns.Side", "symbols": ["BUY"], "doc": "Which side."}
    raw = record(
        {"name": "id", "type": "long", "doc": "The number."},
        ("side", side),
        {"name": "note", "type": ["null", "string"], "default": None},
        ("px", logical("bytes", "decimal", precision=5, scale=2)),
        ("parent", ["null", "Order"]),
        ("tags", {"type": "map", "values": "double"}),
    )
    made = AvroCodec(schema_of(raw)).described()
    assert made["$ref"] == "#/$defs/Order"
    assert made["$defs"]["ns.Side"] == {"description": "Which side.", "type": "string", "enum": ["BUY"]}
    order = made["$defs"]["Order"]
    assert order["required"] == ["id", "side", "note", "px", "parent", "tags"]
    assert order["properties"]["id"]["description"] == "The number."
    assert order["properties"]["note"] == {"anyOf": [{"type": "null"}, {"type": "string"}], "default": None}
    assert order["properties"]["px"] == {"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{2}$"}
    assert order["properties"]["parent"] == {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Order"}]}
