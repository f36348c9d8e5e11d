"""JSON Schemas, for the tests of the modules that read them."""

from typing import Any

import orjson

from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.codecs.schema import JSON_SCHEMA, MessagePayload, Schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"

LINE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["sku"],
    "properties": {"sku": {"type": "string"}, "a/b~": {"type": "integer"}},
}

FLAGS = {"properties": {"y": {}}, "additionalProperties": {"type": "boolean"}}

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "minLength": 2},
        "qty": {"type": "integer"},
        "day": {"type": "string", "format": "date"},
        "state": {"enum": ["open", "closed"]},
        "line": {"$ref": "#/$defs/line"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "both": {"allOf": [{"type": "integer"}, {"minimum": 3}]},
        "tags": {"patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False},
        "flags": FLAGS,
    },
    "$defs": {"line": LINE},
}


def schema(document: Any, **references: Any) -> Schema:
    """Return a schema; references are files `<name>.json`."""
    texts = tuple((f"{name}.json", orjson.dumps(text).decode()) for name, text in references.items())
    return Schema(JSON_SCHEMA, orjson.dumps(document).decode(), texts)


def read(codec: JsonSchemaCodec, body: bytes) -> bytes:
    """Read a payload whose writer schema does not matter."""
    return codec.read(MessagePayload(body), schema({}))


ORDERS = JsonSchemaCodec(schema(ORDER))
