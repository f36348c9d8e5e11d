"""Schemas of one record in each message type, and the parts of a cell of docs/message-types.md."""

import re
from typing import Any

import orjson

from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema, SchemaType

PAGE = "docs/message-types.md"
TYPES: tuple[SchemaType, ...] = (AVRO, PROTOBUF, JSON_SCHEMA)
NOTHING = "–"

Json = Any
Fields = dict[str, Any]


def avro(*fields: Fields, **more: Any) -> Schema:
    """Return the schema of a record `Order` with an id."""
    record = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *fields], **more}
    return Schema(AVRO, orjson.dumps(record).decode())


def field(type: Json, name: str = "x", **more: Any) -> Fields:
    """Return a field of an Avro record."""
    return {"name": name, "type": type, **more}


def logical(kind: str, base: str, **more: Any) -> Fields:
    """Return a logical type of Avro."""
    return {"type": base, "logicalType": kind, **more}


def proto(fields: str, above: str = "", syntax: str = "proto3", name: str = "Order") -> Schema:
    """Return the schema of a message `Order` with an id; `above` are types that it uses."""
    an_id = "optional int64 id = 1;" if syntax == "proto2" else "int64 id = 1;"
    text = f'syntax = "{syntax}"; {above} message {name} {{ {an_id} {fields} }}'
    return Schema(PROTOBUF, text, message=name)


def js(x: Json = None, required: tuple[str, ...] = (), **more: Any) -> Schema:
    """Return the JSON Schema of an object with an id, and a property `x` if it is given."""
    properties = {"id": {"type": "integer"}} | ({} if x is None else {"x": x})
    document = {"type": "object", "properties": properties, "required": ["id", *required], **more}
    return Schema(JSON_SCHEMA, orjson.dumps(document).decode())


def phrases_of(cell: str) -> list[str]:
    """Return what a cell says, part by part."""
    return [] if cell == NOTHING else cell.split("; ")


def main_words(phrase: str) -> str:
    """Return what happens, without the condition under which it does."""
    return re.split(r" (?:if|without|with|by|between|from) ", phrase)[0].strip("`")


def bare(phrase: str) -> str:
    """Return a phrase as `rows_of` has it if it is all of a cell."""
    return re.sub(r"^`([^`]*)`$", r"\1", phrase)


PROTO_TYPES = "enum Side { BUY = 0; SELL = 1; } message Leg { int32 z = 1; int32 a = 2; }"
IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("any", "duration", "field_mask", "struct", "timestamp", "wrappers")
)
A_UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

OPEN = {"id": 1, "x": "open"}
ONE = {"id": 1, "x": 1}
BARE = {"id": 1}
STRING = field("string")
DEFAULT = field("string", default="open")
X = "string x = 2;"
ABC = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
AB = ABC | {"symbols": ["A", "B"]}
NAMED = {"type": "string"}
Y_NAMED = {"type": "object", "properties": {"id": {}, "y": {"type": "string"}}}
CLOSED_2 = ("optional E x = 2;", "enum E { A = 1; B = 2; }", "proto2")
CLOSED_3 = ("optional E x = 2;", "enum E { A = 1; B = 2; C = 3; }", "proto2")
OPEN_2 = ("E x = 2;", "enum E { A = 0; B = 1; }")
OPEN_3 = ("E x = 2;", "enum E { A = 0; B = 1; C = 2; }")
