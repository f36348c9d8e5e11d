"""JSON Schemas as Spark types."""

from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.spark.json_schema import json_type

NODE = {"type": "object", "properties": {"next": {"$ref": "#"}}}


def object_of(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            object_of(
                a={"type": "integer"}, b={"type": "number"}, c={"type": "boolean"}, d={"type": "string"}
            ),
            "struct<a:bigint,b:double,c:boolean,d:string>",
        ),
        (object_of(a={"type": ["null", "integer"]}), "struct<a:bigint>"),
        (object_of(a={"type": ["integer", "number"]}), "struct<a:double>"),
        (object_of(a={"oneOf": [{"type": "null"}, {"type": "string"}]}), "struct<a:string>"),
        (object_of(a={"anyOf": [object_of(x={"type": "string"})]}), "struct<a:struct<x:string>>"),
        (object_of(a={"enum": ["x", "y", None]}), "struct<a:string>"),
        (object_of(a={"const": 3}), "struct<a:bigint>"),
        (object_of(a={"type": "string", "format": "date-time"}), "struct<a:timestamp>"),
        (object_of(a={"type": "string", "format": "date"}), "struct<a:date>"),
        (object_of(a={"type": "string", "format": "email"}), "struct<a:string>"),
        (object_of(a={"type": "array", "items": {"type": "integer"}}), "struct<a:array<bigint>>"),
        (
            object_of(a={"type": "object", "additionalProperties": {"type": "number"}}),
            "struct<a:map<string,double>>",
        ),
        ({"properties": {"a": {"type": "string"}}}, "struct<a:string>"),
        (
            object_of(a={"$ref": "#/$defs/x~1y"}) | {"$defs": {"x/y": {"type": "boolean"}}},
            "struct<a:boolean>",
        ),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    """Each kind of schema has its type; null beside it changes nothing."""
    assert json_type(schema).simpleString() == expected


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (object_of(a=object_of(b={"type": ["integer", "string"]})), "one type other than null at /a/b"),
        (object_of(a={"oneOf": [{"type": "integer"}, {"type": "string"}]}), "to choose from at /a"),
        (object_of(a={"enum": [1, "x"]}), "at /a"),
        (object_of(a={"type": "object"}), "an object with properties, .* at /a"),
        (object_of(a={"type": "object", "additionalProperties": True}), "at /a"),
        (object_of(a={"type": "array"}), r"at /a\[\], got None"),
        (object_of(a={"type": "array", "items": [{"type": "string"}]}), r"at /a\[\]"),
        (object_of(a={}), "at /a"),
        (object_of(a=True), "at /a, got True"),
        (object_of(a={"$ref": "other.json#/x"}), "into the schema itself at /a"),
        (object_of(a={"$ref": "#/$defs/x"}), "leads somewhere at /a"),
        (NODE, "does not hold itself at /next"),
        ({"$ref": "#"}, "does not hold itself"),
    ],
)
def test_what_has_no_type(schema: Any, message: str) -> None:
    """The error names the path."""
    with pytest.raises(SowlineError, match=message) as error:
        json_type(schema)
    assert error.value.reason == "not supported"
