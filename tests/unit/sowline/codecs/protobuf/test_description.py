"""The JSON Schema of Protobuf messages as JSON."""

from typing import Any

import jsonschema
import orjson

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import Schema
from tests.unit.sowline.codecs.protobuf.schemas import ENUM, INNER, schema_with


def test_the_description_has_definitions_of_recursive_messages() -> None:
    """The record is at the top, all other messages are in `$defs`."""
    schema = schema_with(
        "R r = 1; repeated I many = 2; map<int32, I> map = 3; E e = 4;", INNER[:-1] + " I i = 2; }" + ENUM
    )
    described = codec_of(schema).described()
    assert described["title"] == "R"
    assert described["properties"]["r"] == {"$ref": "#"}
    assert described["properties"]["many"] == {"type": "array", "items": {"$ref": "#/$defs/I"}}
    assert described["properties"]["e"]["anyOf"][0] == {"enum": ["A", "B"]}
    assert described["required"] == ["many", "map", "e"]
    assert set(described["$defs"]) == {"I"}
    validator = jsonschema.Draft202012Validator(described)
    record = {"r": {"many": [], "map": {"5": {"a": 1}}, "e": 9}, "many": [], "map": {}, "e": "B"}
    assert validator.is_valid(record)
    all_wrong: list[dict[str, Any]] = [{"map": {"x": {"a": 1}}}, {"color": 1}, {"e": "C"}, {"many": [{}]}]
    for wrong in all_wrong:
        assert not validator.is_valid({**record, **wrong})
    assert orjson.loads(codec_of(schema).completed(orjson.dumps(record))) == record


def test_the_description_has_the_forms_of_well_known_types() -> None:
    """A closed enum has only its symbols; a type of the first message is not repeated in `$defs`."""
    schema = Schema(
        "protobuf",
        'syntax = "proto2"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";'
        " enum E { A = 0; } message R { optional google.protobuf.Timestamp at = 1; required E e = 2;"
        " optional google.protobuf.UInt32Value limit = 3; map<string, bool> flags = 4; }",
    )
    described = codec_of(schema).described()
    assert described["properties"] == {
        "at": {"type": "string", "format": "date-time"},
        "e": {"enum": ["A"]},
        "limit": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
        "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "@unknown": {
            "type": "object",
            "propertyNames": {"pattern": "^[1-9][0-9]*$"},
            "additionalProperties": {"type": "string", "contentEncoding": "base64"},
        },
    }
    assert described["required"] == ["e", "flags"]
    assert "$defs" not in described
