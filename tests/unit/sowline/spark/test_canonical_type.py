"""The Spark types of the canonical JSON of message types with schemas."""

import json
from typing import Any

import pytest

from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema
from sowline.config.schema_fields import PinnedSchema
from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from sowline.spark.json_schema import canonical_type
from sowline.spark.schema import schema_of


def avro_of(*fields: Any) -> Schema:
    """Return a record with fields a, b, …"""
    named = [{"name": chr(ord("a") + number), "type": field} for number, field in enumerate(fields)]
    return Schema(AVRO, json.dumps({"type": "record", "name": "R", "fields": named}))


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a logical type."""
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["boolean", "int", "long", "string"], "a:boolean,b:int,c:bigint,d:string"),
        (["float", "double", ["null", "double"]], "a:double,b:double,c:double"),
        (["bytes", {"type": "fixed", "name": "F", "size": 2}], "a:binary,b:binary"),
        ([logical("int", "date"), logical("long", "timestamp-micros")], "a:date,b:timestamp"),
        ([logical("long", "timestamp-nanos"), logical("int", "time-millis")], "a:timestamp,b:string"),
        ([logical("long", "local-timestamp-millis"), logical("string", "uuid")], "a:string,b:string"),
        (
            [logical("bytes", "decimal", precision=9, scale=2), logical("bytes", "decimal", precision=9)],
            "a:decimal(38,2),b:decimal(38,0)",
        ),
        ([logical("bytes", "decimal", precision=90, scale=40)], "a:string"),
        ([{"type": "enum", "name": "E", "symbols": ["X"]}], "a:string"),
        ([{"type": "array", "items": ["null", "int"]}], "a:array<int>"),
        ([{"type": "map", "values": "long"}], "a:map<string,bigint>"),
        ([["int", "string"], "int"], "a:string,b:int"),
        ([["null", "R"], "int"], "a:string,b:int"),
        ([{"type": "record", "name": "Empty", "fields": []}], "a:string"),
    ],
)
def test_avro(fields: list[Any], expected: str) -> None:
    """Each type has one in Spark; what has none, such as a union or a record in itself, is JSON text."""
    assert schema_of(avro_of(*fields)).simpleString() == f"struct<{expected}>"


PROTO = """
syntax = "proto3";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
message Order {
  enum Side { BUY = 0; SELL = 1; }
  int32 a = 1; uint32 b = 2; sint64 c = 3; uint64 d = 4;
  float e = 5; bytes f = 6; Side g = 7;
  map<string, Line> h = 8;
  google.protobuf.Struct i = 9;
  google.protobuf.Int32Value j = 10;
  Order k = 11;
  repeated Line l = 12;
}
message Line { string sku = 1; Line next = 2; }
"""


def test_protobuf() -> None:
    """Unsigned numbers of 64 bits are decimals; fields that the schema does not have are left out."""
    line = "struct<sku:string,next:string>"
    assert schema_of(Schema(PROTOBUF, PROTO)).simpleString() == (
        "struct<a:int,b:bigint,c:bigint,d:decimal(20,0),e:double,f:binary,g:string,"
        f"h:map<string,{line}>,i:string,j:int,k:string,l:array<{line}>>"
    )


def test_json_schema() -> None:
    """A pattern of digits is no decimal there, and anything goes in a part without a type."""
    parts = {
        "a": {"type": "string", "pattern": "^-?[0-9]+$"},
        "b": {"type": "string", "contentEncoding": "base64"},
        "c": {"anyOf": [True, {"enum": [{}, 1]}]},
        "d": {"type": "integer", "minimum": 0, "maximum": 10},
        "e": {},
    }
    schema = {"type": "object", "properties": parts}
    found = canonical_type(schema, Schema(JSON_SCHEMA, json.dumps(schema)))
    assert found.simpleString() == "struct<a:string,b:binary,c:string,d:bigint,e:string>"
    assert canonical_type({}, Schema(JSON_SCHEMA, "{}")).simpleString() == "string"


def test_topic() -> None:
    """A topic has the types of its reader schema; a JSON topic has none."""
    text = avro_of("int").text
    topic = define_topic(
        name="orders",
        key=("/a",),
        message_type="avro",
        reader_schema=PinnedSchema(text=text),
        framing="none",
    )
    assert schema_of(topic).simpleString() == "struct<a:int>"
    with pytest.raises(SowlineError, match="got json") as unfit:
        schema_of(define_topic(name="orders", key=("/a",)))
    assert unfit.value.reason == "not supported"
    with pytest.raises(
        SowlineError, match="expected a message type that has schemas, got xml: give a schema"
    ):
        schema_of(define_topic(name="orders", key=("/a/@id",), message_type="xml"))
    with pytest.raises(SowlineError, match="names the fields of records, got none"):
        schema_of(Schema(AVRO, '{"type": "record", "name": "R", "fields": []}'))
