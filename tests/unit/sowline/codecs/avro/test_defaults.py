"""Defaults of fields in canonical JSON, and the zero values that fill the bytes of a delta."""

import json
from typing import Any

import orjson
import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import AVRO, MessagePayload, Schema
from sowline.errors import SowlineError
from tests.property.avro_schemas import fixed, logical, record, schema_of


@pytest.mark.parametrize(
    "kind",
    [
        "null",
        "boolean",
        "int",
        "float",
        "bytes",
        "string",
        ["string", "int"],
        {"type": "enum", "name": "E", "symbols": ["A"]},
        fixed(3),
        fixed(16, "uuid"),
        fixed(12, "duration"),
        logical("string", "uuid"),
        logical("bytes", "decimal", precision=4, scale=2),
        logical("int", "date"),
        logical("long", "timestamp-nanos"),
        logical("int", "time-millis"),
        {"type": "map", "values": "int"},
        record(("x", "int"), {"name": "y", "type": "int", "default": 3}, name="In"),
        ["int", "null"],
        ["null", "Order"],
    ],
)
def test_a_missing_field_of_any_type_is_filled(kind: Any) -> None:
    """The bytes are those of a valid record."""
    raw = record(("id", "int"), ("a", kind))
    codec = AvroCodec(schema_of(raw))
    data, paths = codec.write_delta(b'{"id":5}')
    assert paths == ("/id",)
    body = codec.read(MessagePayload(data), schema_of(raw))
    assert codec.completed(body) == body


def test_a_type_without_values_is_refused() -> None:
    """A record that has to contain itself has no zero value, nor any other."""
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(record(("id", "int"), ("a", "Order")))).write_delta(b'{"id":5}')
    assert caught.value.reason == "bad message"


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
