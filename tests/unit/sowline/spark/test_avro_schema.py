"""Avro schemas as Spark types."""

from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.spark.avro_schema import avro_type


def record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """Return a record with these fields."""
    return {"type": "record", "name": "R", **more, "fields": [{"name": n, "type": t} for n, t in fields]}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    """Return a decimal."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


COLOR = {"type": "enum", "name": "Color", "symbols": ["RED"]}
INNER = {"type": "record", "name": "shop.Inner", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (["null", "string"], "string"),
        (["double", "null"], "double"),
        (["int", "long", "null"], "bigint"),
        (["float", "double"], "double"),
        ({"type": "array", "items": ["null", "boolean"]}, "array<boolean>"),
        ({"type": "map", "values": {"type": "array", "items": "float"}}, "map<string,array<float>>"),
        (COLOR, "string"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        ({"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9}, "decimal(9,0)"),
        (decimal(38, 10), "decimal(38,10)"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "bigint"),
        ({"type": "int", "logicalType": "date"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "bytes"}, "binary"),
        ({"type": {"type": "string", "avro.java.string": "String"}}, "string"),
        (record(("a", "int"), ("b", ["null", INNER])), "struct<a:int,b:struct<x:int>>"),
        (
            record(
                ("a", {**COLOR, "namespace": "n"}),
                ("b", "n.Color"),
                ("c", {"type": "array", "items": "n.Color"}),
            ),
            "struct<a:string,b:string,c:array<string>>",
        ),
        (record(("a", COLOR), ("b", "Color"), namespace="shop"), "struct<a:string,b:string>"),
        (record(("a", INNER), ("b", "Inner"), namespace="shop"), "struct<a:struct<x:int>,b:struct<x:int>>"),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    """Each kind of schema has its type; names are looked up in their namespace."""
    assert avro_type(schema).simpleString() == expected


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            record(("a", record(("b", ["int", "string"]), name="I"))),
            "null and one other type in a union at /a/b",
        ),
        (record(("a", {"type": "array", "items": "Other"})), r"at /a\[\], got Other"),
        (record(("next", ["null", "R"])), "does not hold itself at /next"),
        (record(("a", {"type": "map", "values": decimal(40, 2)})), r"38 digits at /a\{\}"),
        (record(("a", None)), "an Avro type at /a, got None"),
        ({"fields": []}, "at the schema"),
        (["null"], "at the schema"),
    ],
)
def test_what_has_no_type(schema: Any, message: str) -> None:
    """The error names the path."""
    with pytest.raises(SowlineError, match=message) as error:
        avro_type(schema)
    assert error.value.reason == "not supported"
