"""The TypeScript interface that is made from a schema: its text, and that any schema has one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.cli.schema_typescript import typescript_of_schema
from sowline.cli.typescript import LEVELS_MAX
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema

LONG = '/** Integers beyond 2^53 are rounded. With integers: "bigint" they are bigint, with "text" string. */'
LONG_INTEGER = {"type": "integer", "maximum": 2**63 - 1}

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "doc": "An order.",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["OPEN", "DONE"]}},
        {"name": "note", "type": ["null", "string"], "doc": "Free text"},
        {"name": "legs", "type": {"type": "array", "items": {"type": "record", "name": "Leg", "fields": []}}},
        {"name": "parent", "type": ["null", "Order"]},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
    ],
}

LINES = """
syntax = "proto3";
package shop;
message Order {
  string id = 1;
  repeated Line lines = 2;
  message Line { optional int32 qty = 1; Order of = 2; }
}
"""


def shown(schema: dict[str, Any]) -> list[str]:
    """Return the lines of the declarations."""
    return typescript_of_schema("orders", "Order", schema).splitlines()[3:]


def type_of(field: Any) -> str:
    """Return the type of the one field of records."""
    (line,) = [line for line in shown(_record(v=field)) if line.startswith("  v: ")]
    return line.removeprefix("  v: ").removesuffix(";")


def _record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def test_the_whole_text() -> None:
    """The record is first, whatever its schema calls it; the types that it mentions follow."""
    described = codec_of(Schema(AVRO, json.dumps(ORDER))).described()
    assert typescript_of_schema("orders", "Order", described) == (
        "// Made by `sowline types` from the reader schema of the topic orders.\n"
        "// Every record of the topic has this type.\n"
        "\n"
        "/** An order. */\n"
        "export interface Order {\n"
        f"  {LONG}\n"
        "  id: number;\n"
        "  status: Status;\n"
        "  /** Free text. */\n"
        "  note: string | null;\n"
        "  legs: Leg[];\n"
        "  parent: Order | null;\n"
        "  prices: {\n"
        '    [name: string]: number | "NaN" | "Infinity" | "-Infinity";\n'
        "  };\n"
        "}\n"
        "\n"
        'export type Status = "OPEN" | "DONE";\n'
        "\n"
        "export interface Leg {\n"
        "  [name: string]: never;\n"
        "}\n"
    )


def test_a_protobuf_message() -> None:
    """Fields without presence are always there; a reference to the message itself is its name."""
    described = codec_of(Schema(PROTOBUF, LINES)).described()
    for message in (described, *described["$defs"].values()):
        message.get("properties", {}).pop("@unknown", None)
    assert shown(described) == [
        "export interface Order {",
        "  id: string;",
        "  lines: Line[];",
        "}",
        "",
        "export interface Line {",
        "  qty?: number;",
        "  of?: Order;",
        "}",
    ]


@pytest.mark.parametrize(
    ("field", "type"),
    [
        ({"type": "integer"}, "number"),
        ({"type": ["null", "string", "integer", "number"]}, "string | number | null"),
        ({"const": None}, "null"),
        ({"enum": ["a", 1, None, {"b": [True]}]}, '"a" | 1 | {"b": [true]} | null'),
        ({"enum": ["\u2028", "größe"]}, '"\\u2028" | "größe"'),
        (True, "unknown"),
        (False, "never"),
        ({}, "unknown"),
        ({"not": {}}, "unknown"),
        ({"type": "array"}, "unknown[]"),
        ({"items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"items": {"enum": ["a"]}}, '"a"[]'),
        ({"type": "array", "items": False}, "never[]"),
        (
            {"prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 1},
            "[string, number?, ...unknown[]]",
        ),
        ({"prefixItems": [{"type": ["string", "null"]}], "items": False}, "[(string | null)?]"),
        ({"items": [{"type": "string"}], "minItems": 1, "additionalItems": False}, "[string]"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "string"}]}, "string | null"),
        ({"oneOf": [{"type": "string"}, {}]}, "unknown"),
        ({"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}, "string"),
        ({"type": "string", "enum": ["a"]}, '"a"'),
        (
            {"allOf": [{"type": ["string", "null"]}, {"enum": ["a", "b"]}]},
            '((string | null) & ("a" | "b"))',
        ),
        ({"$ref": "https://elsewhere/a.json"}, "unknown"),
        ({"$ref": "#/$defs/none"}, "unknown"),
    ],
)
def test_the_type_of_a_field(field: Any, type: str) -> None:
    """It has every value that the schema allows."""
    assert type_of(field) == type


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        ({}, ["[name: string]: unknown;"]),
        ({"additionalProperties": False}, ["[name: string]: never;"]),
        ({"additionalProperties": {"type": "string"}}, ["[name: string]: string;"]),
        (
            {
                "patternProperties": {"^a": {"type": "string"}, "^b": {"type": "null"}},
                "additionalProperties": False,
            },
            ["[name: string]: string | null;"],
        ),
        (
            {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}},
            ["a?: string;", "[name: string]: unknown;"],
        ),
        (
            {"properties": {"a-b": {}}, "required": ["c"]},
            ['"a-b"?: unknown;', "c: unknown;", "[name: string]: unknown;"],
        ),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, ["a?: unknown;"]),
    ],
)
def test_the_fields_of_an_object(schema: dict[str, Any], lines: list[str]) -> None:
    """Those that the schema names come first, then all others that it allows."""
    assert [line.strip() for line in shown({"type": "object", **schema})[1:-1]] == lines


def test_references() -> None:
    """By pointer, by anchor, and by the id of a schema within; a field may be called as a keyword is."""
    schema = _record(
        default={"$ref": "#/$defs/default"},
        anchored={"$ref": "#list"},
        address={"$ref": "https://shop.example/address.json"},
        other={"$ref": "#/$defs/shop.v2.default"},
    )
    schema["$defs"] = {
        "default": {"type": "string", "description": "Ends */ here"},
        "list": {"$anchor": "list", "items": {"$ref": "#"}},
        "https://shop.example/address.json": {
            "$id": "https://shop.example/address.json",
            "type": "object",
            "properties": {"zip": {"$ref": "#/$defs/Zip"}},
            "additionalProperties": False,
            "$defs": {"Zip": {"type": "string"}},
        },
        "shop.v2.default": {"type": "boolean"},
    }
    assert shown(schema) == [
        "export interface Order {",
        "  default: Default;",
        "  anchored: List;",
        "  address: Address;",
        "  other: ShopV2Default;",
        "}",
        "",
        "/** Ends *\\/ here. */",
        "export type Default = string;",
        "",
        "export type List = Order[];",
        "",
        "export interface Address {",
        "  zip?: Zip;",
        "}",
        "",
        "export type ShopV2Default = boolean;",
        "",
        "export type Zip = string;",
    ]


def test_references_to_other_schemas() -> None:
    """A JSON Schema is bundled with those to which it refers, by names that are relative."""
    texts = {
        "line.json": {"type": "object", "properties": {"sku": {"$ref": "shop/sku.json"}}},
        "shop/sku.json": {"type": "string"},
    }
    for own in ({}, {"$id": "https://shop.example/order.json"}):
        document = {"type": "object", "properties": {"lines": {"items": {"$ref": "line.json"}}}, **own}
        references = tuple((name, json.dumps(text)) for name, text in texts.items())
        schema = Schema(JSON_SCHEMA, json.dumps(document), references)
        lines = shown(codec_of(schema).described())
        assert "  lines?: Line[];" in lines
        assert "  sku?: Sku;" in lines
        assert "export type Sku = string;" in lines


@pytest.mark.parametrize(
    "field",
    [
        LONG_INTEGER,
        {"type": ["integer", "null"], "minimum": -(2**60)},
        {"items": LONG_INTEGER},
        {"additionalProperties": LONG_INTEGER},
        {"anyOf": [LONG_INTEGER, {"type": "null"}]},
    ],
)
def test_long_integers_are_named(field: dict[str, Any]) -> None:
    """In a comment before the field, as in types that are inferred."""
    assert shown(_record(v=field))[1] == f"  {LONG}"


def test_what_is_nested_deeper_than_any_type() -> None:
    """It is unknown."""
    field: dict[str, Any] = {"type": "string"}
    for _ in range(3 * LEVELS_MAX):
        field = {"type": "array", "items": field}
    assert type_of(field) == f"unknown{'[]' * (LEVELS_MAX - 1)}"


_TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])
_SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({}, optional={"type": _TYPES, "$ref": st.sampled_from(["#", "#/$defs/a", "b"])}),
    lambda schema: st.fixed_dictionaries(
        {},
        optional={
            "type": _TYPES | st.lists(_TYPES, min_size=1, unique=True),
            "properties": st.dictionaries(st.text(max_size=3), schema, max_size=3),
            "required": st.lists(st.text(max_size=3), max_size=2, unique=True),
            "additionalProperties": schema,
            "items": schema,
            "prefixItems": st.lists(schema, min_size=1, max_size=2),
            "anyOf": st.lists(schema, min_size=1, max_size=3),
            "allOf": st.lists(schema, min_size=1, max_size=3),
            "description": st.text(max_size=5),
            "$defs": st.dictionaries(st.sampled_from(["a", "1", "x.a"]), schema, max_size=3),
        },
    ),
    max_leaves=12,
)


@given(_SCHEMAS.filter(lambda one: isinstance(one, dict)))
def test_every_schema_has_an_interface(schema: dict[str, Any]) -> None:
    """It is the same each time, with each type declared once and each brace closed."""
    text = typescript_of_schema("orders", "Order", schema)
    assert text == typescript_of_schema("orders", "Order", schema)
    declared = [line.split()[2] for line in text.splitlines() if line.startswith("export ")]
    assert declared[0] == "Order"
    assert len(set(declared)) == len(declared)
