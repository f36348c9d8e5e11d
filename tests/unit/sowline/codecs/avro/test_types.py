"""The types of a schema: references, names, and what is no valid schema."""

import json
from typing import Any

import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.avro.types import load_types
from sowline.codecs.schema import AVRO, MessagePayload, Schema
from sowline.errors import SowlineError
from tests.property.avro_schemas import fixed, logical, record, schema_of
from tests.unit.sowline.codecs.avro.messages import read


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


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "int"),
        (["null", "string"], "null or string"),
        (record(("x", "int"), name="In", namespace="ns"), "record ns.In"),
        (fixed(3), "fixed Sized"),
        (fixed(12, "duration"), "duration"),
        (fixed(16, "uuid"), "uuid"),
        (fixed(15, "uuid"), "fixed Sized"),
        (logical("int", "date"), "date"),
        (logical("string", "date"), "string"),
        (logical("bytes", "decimal", precision=5, scale=2), "a decimal of scale 2"),
        (["null", "Order"], "null or record Order"),
    ],
)
def test_a_type_has_a_short_text(kind: Any, text: str) -> None:
    """Messages have it. A logical type that does not fit its type is ignored."""
    (field,) = load_types(schema_of(record(("a", kind)))).root.fields
    assert str(field.type) == text


def test_a_mention_leads_to_its_record() -> None:
    """Only such mentions can form a circle; any other type is itself."""
    root = load_types(
        schema_of(record(("next", ["null", "Order"]), ("times", logical("long", "time-micros"))))
    ).root
    union, time = (field.type for field in root.fields)
    assert union.branches[1].kind == "reference"
    assert union.branches[1].itself is root
    assert time.itself is time
    assert time.digits == 6


@pytest.mark.parametrize(
    ("branches", "null", "is_optional"),
    [
        (["null", "int"], 0, True),
        (["int", "null"], 1, True),
        (["null", "int", "string"], 0, False),
        (["int", "string"], -1, False),
        (["null"], 0, False),
    ],
)
def test_a_union_of_null_and_one_type_is_optional(branches: list[str], null: int, is_optional: bool) -> None:
    """Its null may be either branch."""
    union = load_types(schema_of(record(("a", branches)))).root.fields[0].type
    assert (union.null_index, union.is_optional) == (null, is_optional)


def test_a_field_has_what_the_schema_says() -> None:
    """A default of null is one; no default is none."""
    raw = record(
        {"name": "a", "type": ["null", "int"], "default": None, "aliases": ["b"], "doc": "The number."},
        ("c", "int"),
    )
    with_default, without = load_types(schema_of(raw)).root.fields
    assert (with_default.has_default, with_default.default) == (True, None)
    assert (with_default.aliases, with_default.doc) == (("b",), "The number.")
    assert (without.has_default, without.aliases, without.doc) == (False, (), "")
