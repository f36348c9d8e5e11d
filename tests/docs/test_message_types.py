"""The tables of docs/message-types.md are true: each cell is run against the codecs, and no cell lacks its cases.

Where a table says what happens, the words before a condition (`if …`, `without …`) are looked up in `MEANS` or
`VERDICTS`. A page that says something else than the cases below fails, and so does a word that has no check.
"""

import re
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import orjson
import pytest
import yaml
from google.protobuf import text_format

from sowline.codecs.codec import codec_of
from sowline.codecs.compatibility import why_unreadable
from sowline.codecs.framing import Framing, frame
from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.descriptors import message_class
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, MessagePayload, Schema, SchemaType
from sowline.codecs.typed_bodies import TypedBodies
from sowline.errors import SowlineError
from tests.docs.pages import blocks_of, rows_of
from tests.docs.reader import Reader, Running, system_of_pages

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


# canonical JSON


class Value(NamedTuple):
    """A value of a type as another library writes it, and what the codec makes of it."""

    type: Json
    value: Any
    json: Json


def avro_values(type: Json, *pairs: tuple[Any, Json]) -> list[Value]:
    """Return values of one Avro type; the values are fastavro's."""
    return [Value(type, value, json) for value, json in pairs]


def proto_values(type: str, *pairs: tuple[str, Json]) -> list[Value]:
    """Return values of one Protobuf field `x`, declared as `type x = 2;`, in Protobuf's text format."""
    return [Value(f"{type} x = 2;", value, json) for value, json in pairs]


def known(type: str, *pairs: tuple[str, Json]) -> list[Value]:
    """Return values of a well-known type."""
    return proto_values(f"google.protobuf.{type}", *pairs)


def logical(kind: str, base: str, **more: Any) -> Fields:
    """Return a logical type of Avro."""
    return {"type": base, "logicalType": kind, **more}


def instants(name: str, zone: str) -> dict[str, list[Value]]:
    """Return the same instant as a logical type, in its three units."""
    found = {}
    for unit, digits in (("millis", "789"), ("micros", "789012"), ("nanos", "789012345")):
        since = int(f"1795696496{digits}")
        text = f"2026-11-26T12:34:56.{digits}{zone}"
        found[f"{name}-{unit}"] = avro_values(logical(f"{name}-{unit}", "long"), (since, text))
    return found


NOT_FINITE = ((float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"))
NOT_FINITE_TEXT = (("x: nan", "NaN"), ("x: inf", "Infinity"), ("x: -inf", "-Infinity"))
SIDE = {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}
LEG = {"type": "record", "name": "Leg", "fields": [field("int", "z"), field("int", "a")]}
PROTO_TYPES = "enum Side { BUY = 0; SELL = 1; } message Leg { int32 z = 1; int32 a = 2; }"
IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("any", "duration", "field_mask", "struct", "timestamp", "wrappers")
)
A_UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
BITS_32 = ("int32", "sint32", "sfixed32"), ("uint32", "fixed32")
BITS_64 = ("int64", "sint64", "sfixed64"), ("uint64", "fixed64")


def integers() -> dict[str, list[Value]]:
    """Return the extremes of every integer of Protobuf."""
    found = {}
    for bits, (signed, unsigned) in ((32, BITS_32), (64, BITS_64)):
        for names, least, most in (
            (signed, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            (unsigned, 0, 2**bits - 1),
        ):
            for name in names:
                found[name] = proto_values(name, (f"x: {least}", least), (f"x: {most}", most))
    return found


CANONICAL: dict[str, tuple[dict[str, list[Value]], dict[str, list[Value]]]] = {
    "an exact integer, up to 64 bits": (
        {
            "int": avro_values("int", (-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1)),
            "long": avro_values("long", (-(2**63), -(2**63)), (2**63 - 1, 2**63 - 1)),
        },
        integers(),
    ),
    'a number; `"NaN"`, `"Infinity"`, `"-Infinity"`': (
        {"double": avro_values("double", (0.1, 0.1), (1.0, 1.0), *NOT_FINITE)},
        {"double": proto_values("double", ("x: 0.1", 0.1), ("x: 1", 1.0), *NOT_FINITE_TEXT)},
    ),
    'a number with the fewest digits that identify the 32-bit value: `0.1`; `"NaN"`, `"Infinity"`, `"-Infinity"`': (
        {"float": avro_values("float", (0.1, 0.1), *NOT_FINITE)},
        {"float": proto_values("float", ("x: 0.1", 0.1), *NOT_FINITE_TEXT)},
    ),
    "the same": (
        {"boolean": avro_values("boolean", (True, True)), "string": avro_values("string", ("é", "é"))},
        {"bool": proto_values("bool", ("x: true", True)), "string": proto_values("string", ('x: "é"', "é"))},
    ),
    "base64 text": (
        {
            "bytes": avro_values("bytes", (b"\1\2", "AQI=")),
            "fixed": avro_values({"type": "fixed", "name": "Two", "size": 2}, (b"\1\2", "AQI=")),
        },
        {"bytes": proto_values("bytes", (r'x: "\001\002"', "AQI="))},
    ),
    "the symbol; in Protobuf, the number if it has no symbol": (
        {"enum": avro_values(SIDE, ("SELL", "SELL"))},
        {"enum": proto_values("Side", ("x: SELL", "SELL"), ("x: 7", 7))},
    ),
    "an object; fields in the order of the schema": (
        {"record": avro_values(LEG, ({"a": 1, "z": 2}, {"z": 2, "a": 1}))},
        {"a message": proto_values("Leg", ("x { a: 1 z: 2 }", {"z": 2, "a": 1}))},
    ),
    "an array": (
        {"array": avro_values({"type": "array", "items": "int"}, ([2, 1], [2, 1]))},
        {"repeated": proto_values("repeated int32", ("x: 2 x: 1", [2, 1]))},
    ),
    "an object with sorted text keys": (
        {"map": avro_values({"type": "map", "values": "int"}, ({"b": 1, "a": 2}, {"a": 2, "b": 1}))},
        {
            "map": proto_values(
                "map<int32, int32>",
                ("x { key: 9 value: 1 } x { key: 10 value: 2 }", {"10": 2, "9": 1}),
            )
        },
    ),
    "the value itself; for a `oneof`, the member that is set": (
        {"a union": avro_values(["null", "int", "string"], (None, None), (1, 1), ("a", "a"))},
        {"oneof": [Value("oneof one { int32 y = 3; string x = 2; }", 'x: "a"', "a")]},
    ),
    '`null` in Avro; `"NULL_VALUE"` in Protobuf': (
        {"null": avro_values("null", (None, None))},
        {"NullValue": known("NullValue", ("x: NULL_VALUE", "NULL_VALUE"))},
    ),
    'text with all digits of its scale: `"12.30"`': (
        {
            "decimal": avro_values(
                logical("decimal", "bytes", precision=9, scale=2),
                (Decimal("12.30"), "12.30"),
                (Decimal("-0.05"), "-0.05"),
            )
        },
        {},
    ),
    "lower-case text": (
        {
            "uuid": [
                *avro_values(logical("uuid", "string"), (UUID(A_UUID), A_UUID)),
                *avro_values(
                    {"type": "string", "written": logical("uuid", "string")}, (A_UUID.upper(), A_UUID)
                ),
            ]
        },
        {},
    ),
    '"2026-11-26"': ({"date": avro_values(logical("date", "int"), (date(2026, 11, 26), "2026-11-26"))}, {}),
    '`"12:34:56.789"`, with 3 or 6 digits': (
        {
            "time-millis": avro_values(
                logical("time-millis", "int"), (time(12, 34, 56, 789000), "12:34:56.789")
            ),
            "time-micros": avro_values(logical("time-micros", "long"), (time(12, 34, 56), "12:34:56.000000")),
        },
        {},
    ),
    '`"2026-11-26T12:34:56.789Z"`, with 3, 6 or 9 digits': (instants("timestamp", "Z"), {}),
    '`"2026-11-26T12:34:56Z"`, with 0, 3, 6 or 9 digits, as few as possible': (
        {},
        {
            "Timestamp": known(
                "Timestamp",
                ("x { seconds: 1795696496 }", "2026-11-26T12:34:56Z"),
                ("x { seconds: 1795696496 nanos: 700000000 }", "2026-11-26T12:34:56.700Z"),
                ("x { seconds: 1795696496 nanos: 1000 }", "2026-11-26T12:34:56.000001Z"),
                ("x { seconds: 1795696496 nanos: 1 }", "2026-11-26T12:34:56.000000001Z"),
            )
        },
    ),
    '`"2026-11-26T12:34:56.789"`, with 3, 6 or 9 digits': (instants("local-timestamp", ""), {}),
    "an object with `months`, `days` and `milliseconds`": (
        {
            "duration": avro_values(
                logical("duration", "fixed", name="Span", size=12),
                (
                    b"\1\0\0\0\2\0\0\0\3\0\0\0",
                    {"months": 1, "days": 2, "milliseconds": 3},
                ),
            )
        },
        {},
    ),
    'text such as `"1.500s"`': (
        {},
        {"Duration": known("Duration", ("x { seconds: 1 nanos: 500000000 }", "1.500s"))},
    ),
    "the plain value": (
        {},
        {
            "wrappers": [
                *known("Int64Value", ("x { value: 0 }", 0)),
                *known("StringValue", ('x { value: "a" }', "a")),
                *known("BytesValue", (r'x { value: "\001\002" }', "AQI=")),
            ],
            "Struct": known("Struct", ('x { fields { key: "a" value { number_value: 1 } } }', {"a": 1.0})),
            "Value": known("Value", ("x { null_value: NULL_VALUE }", None), ("x { bool_value: true }", True)),
            "ListValue": known("ListValue", ('x { values { string_value: "a" } }', ["a"])),
        },
    ),
    "text: the paths, separated by commas": (
        {},
        {"FieldMask": known("FieldMask", ('x { paths: "a" paths: "b_c.d" }', "a,b_c.d"))},
    ),
    '`{"@type": …, "value": …}` with base64': (
        {},
        {
            "Any": known(
                "Any", (r'x { type_url: "t/Leg" value: "\001\002" }', {"@type": "t/Leg", "value": "AQI="})
            )
        },
    ),
}
ROWS = rows_of(PAGE, "Avro", "Protobuf", "JSON")


def names_of(cell: str) -> set[str]:
    """Return the types that a cell names."""
    return set() if cell == NOTHING else set(cell.replace("`", "").split(", "))


def written_by_fastavro(case: Value) -> tuple[Schema, bytes]:
    """Return the schema of a record with a value, and its bytes."""
    read, written = case.type, case.type
    if isinstance(case.type, dict) and "written" in case.type:
        read, written = case.type["written"], case.type["type"]
    data = BytesIO()
    fastavro.schemaless_writer(data, orjson.loads(avro(field(written)).text), {"id": 1, "x": case.value})
    return avro(field(read)), data.getvalue()


def written_by_protobuf(case: Value) -> tuple[Schema, bytes]:
    """Return the schema of a message with a value, and its bytes."""
    schema = proto(case.type, IMPORTS + PROTO_TYPES)
    message = message_class(compile_schema(schema).message("Order"))(id=1)
    text_format.Parse(case.value, message)
    return schema, message.SerializeToString()


def x_of(schema: Schema, data: bytes) -> bytes:
    """Return the text of the field `x` as the codec reads it."""
    return orjson.dumps(orjson.loads(codec_of(schema).read(MessagePayload(data), schema))["x"])


@pytest.mark.parametrize(("avro_cell", "proto_cell", "form"), ROWS)
def test_canonical_json(avro_cell: str, proto_cell: str, form: str) -> None:
    """Each type of a row becomes JSON of the form that the row says, and each example is one of them."""
    of_avro, of_protobuf = CANONICAL[form]
    assert (set(of_avro), set(of_protobuf)) == (names_of(avro_cell), names_of(proto_cell))
    shown = set()
    for case in chain.from_iterable(of_avro.values()):
        assert x_of(*written_by_fastavro(case)) == orjson.dumps(case.json)
        shown.add(orjson.dumps(case.json).decode())
    for case in chain.from_iterable(of_protobuf.values()):
        assert x_of(*written_by_protobuf(case)) == orjson.dumps(case.json)
        shown.add(orjson.dumps(case.json).decode())
    assert set(re.findall(r'"[^"…]+"(?=`|$)', form)) <= shown


def test_each_form_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(CANONICAL) == [form for *_, form in ROWS]


@pytest.mark.parametrize("name", [*instants("timestamp", "Z"), *instants("local-timestamp", "")])
def test_times_of_avro_sort(name: str) -> None:
    """Texts of instants compare as the instants do, so filters may compare them."""
    schema = avro(field(logical(name, "long")))
    texts = []
    for since in (-1, 0, 1, 10, 999, 1000, 10**9, 10**12):
        data = BytesIO()
        fastavro.schemaless_writer(data, orjson.loads(avro(field("long")).text), {"id": 1, "x": since})
        texts.append(x_of(schema, data.getvalue()))
    assert texts == sorted(set(texts))


def test_timestamps_of_protobuf_sort_by_seconds() -> None:
    """Within one second they do not: a text with fewer digits comes after one with more."""
    times = ("seconds: -1", "seconds: 0 nanos: 1", "seconds: 1", "seconds: 1 nanos: 500000000")
    texts = [
        x_of(*written_by_protobuf(case))
        for time in times
        for case in known("Timestamp", (f"x {{ {time} }}", ""))
    ]
    assert texts[:3] == sorted(texts[:3])
    assert texts[3] < texts[2]


# changes of the writer's schema


class Change(NamedTuple):
    """A message, the schemas that it is written and read with, and the JSON that comes, or a reason."""

    writer: Schema
    reader: Schema
    written: Fields
    read: Fields | str

    def outcome(self) -> Fields | str:
        """Return what the codec makes of it."""
        data = codec_of(self.writer).write(orjson.dumps(self.written))
        try:
            found: Fields = orjson.loads(codec_of(self.reader).read(MessagePayload(data), self.writer))
        except SowlineError as error:
            return error.reason
        return found


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


def as_dropped_and_added(change: Change) -> bool:
    """The old name has what a dropped field has, and the new one what an added field has."""
    if not isinstance(change.read, dict):
        return False
    value = change.written["y"]
    kept = change.read.get("y")
    return change.read.get("x") != value and kept in (None, value)


def is_read(change: Change) -> bool:
    """Return whether the value comes as it was written, whatever the field is called."""
    got = change.read
    if not isinstance(got, dict):
        return False
    text = {"YQ==": "a"}
    values = [text.get(value, value) if isinstance(value, str) else value for value in got.values()]
    written = [
        text.get(value, value) if isinstance(value, str) else value for value in change.written.values()
    ]
    return sorted(map(str, values)) == sorted(map(str, written))


MEANS: dict[str, Callable[[Change], bool]] = {
    "left out": lambda change: change.read == BARE and len(change.written) > 1,
    "kept": lambda change: change.read == change.written,
    "kept in `@unknown": lambda change: "x" in change.written and set(change.read) == {"id", "@unknown"},
    "its default": lambda change: change.written == BARE and change.read == OPEN,
    "its default symbol": lambda change: change.read == {"id": 1, "x": "A"},
    "its zero value": lambda change: (
        change.written == BARE and change.read in (BARE | {"x": ""}, BARE | {"x": 0})
    ),
    "its number": lambda change: change.read == {"id": 1, "x": 2},
    "absent": lambda change: change.written == BARE and change.read == BARE,
    "as dropped and added": as_dropped_and_added,
    "read": is_read,
    "truncated": lambda change: change.read == {"id": 1, "x": change.written["x"] % 2**32},
    "bad message": lambda change: change.read == "bad message",
    "incompatible schema": lambda change: change.read == "incompatible schema",
}

WRITER_CHANGES: dict[str, tuple[dict[str, list[Change]], ...]] = {
    "a field is added": (
        {"left out": [Change(avro(STRING), avro(), OPEN, BARE)]},
        {"kept in `@unknown`": [Change(proto(X), proto(""), OPEN, BARE | {"@unknown": {"2": "EgRvcGVu"}})]},
        {
            "kept": [Change(js(NAMED), js(), OPEN, OPEN)],
            "`bad message` if `additionalProperties` is false": [
                Change(js(NAMED), js(additionalProperties=False), OPEN, "bad message")
            ],
        },
    ),
    "a field is dropped": (
        {
            "its default": [Change(avro(), avro(DEFAULT), BARE, OPEN)],
            "`incompatible schema` without one": [
                Change(avro(), avro(STRING), BARE, "incompatible schema"),
                Change(avro(), avro(field(["null", "string"])), BARE, "incompatible schema"),
            ],
        },
        {
            "its zero value": [Change(proto(""), proto(X), BARE, BARE | {"x": ""})],
            "absent if it is `optional` or a message": [
                Change(proto(""), proto(f"optional {X}"), BARE, BARE),
                Change(proto(""), proto("Leg x = 2;", PROTO_TYPES), BARE, BARE),
            ],
            "`bad message` if it is `required`": [
                Change(proto("", "", "proto2"), proto(f"required {X}", "", "proto2"), BARE, "bad message")
            ],
        },
        {
            "absent": [Change(js(), js(NAMED | {"default": "open"}), BARE, BARE)],
            "`bad message` if it is required": [Change(js(), js(NAMED, ("x",)), BARE, "bad message")],
        },
    ),
    "a field is renamed": (
        {
            "as dropped and added": [
                Change(avro(field("string", "y")), avro(DEFAULT), {"id": 1, "y": "a"}, OPEN)
            ],
            "read if the reader's field has the new name as an alias": [
                Change(
                    avro(field("string", "y")),
                    avro(field("string", aliases=["y"])),
                    {"id": 1, "y": "a"},
                    {"id": 1, "x": "a"},
                )
            ],
        },
        {"read": [Change(proto("string y = 2;"), proto(X), {"id": 1, "y": "a"}, {"id": 1, "x": "a"})]},
        {
            "as dropped and added": [
                Change(
                    Schema(JSON_SCHEMA, orjson.dumps(Y_NAMED).decode()),
                    js(NAMED),
                    {"id": 1, "y": "a"},
                    {"id": 1, "y": "a"},
                )
            ]
        },
    ),
    "fields are reordered": (
        {
            "read": [
                Change(
                    avro(STRING, field("int", "y")),
                    avro(field("int", "y"), STRING),
                    OPEN | {"y": 2},
                    OPEN | {"y": 2},
                )
            ]
        },
        {
            "read": [
                Change(
                    proto(f"{X} int32 y = 3;"), proto(f"int32 y = 3; {X}"), OPEN | {"y": 2}, OPEN | {"y": 2}
                )
            ]
        },
        {"read": [Change(js(NAMED), js(NAMED), {"x": "open", "id": 1}, {"x": "open", "id": 1})]},
    ),
    "a number becomes wider (`int` to `long`)": (
        {
            "`incompatible schema`": [
                Change(avro(field("long")), avro(field("int")), ONE, "incompatible schema"),
                Change(avro(field("double")), avro(field("float")), ONE, "incompatible schema"),
            ],
            "read if the reader's type is as wide": [
                Change(avro(field("long")), avro(field("long")), ONE, ONE),
                Change(avro(field("int")), avro(field("long")), ONE, ONE),
            ],
        },
        {
            "read": [Change(proto("int64 x = 2;"), proto("int32 x = 2;"), ONE, ONE)],
            "truncated if the value is too large": [
                Change(
                    proto("int64 x = 2;"), proto("int32 x = 2;"), {"id": 1, "x": 2**32 + 5}, {"id": 1, "x": 5}
                )
            ],
        },
        {
            "read": [Change(js({"type": "number"}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if the value doesn't fit": [
                Change(js({"type": "number"}), js({"type": "integer"}), {"id": 1, "x": 1.5}, "bad message"),
                Change(
                    js({"type": "integer"}),
                    js({"type": "integer", "maximum": 9}),
                    {"id": 1, "x": 10},
                    "bad message",
                ),
            ],
        },
    ),
    "a number becomes narrower (`long` to `int`)": (
        {"read": [Change(avro(field("int")), avro(field("long")), ONE, ONE)]},
        {"read": [Change(proto("int32 x = 2;"), proto("int64 x = 2;"), ONE, ONE)]},
        {"read": [Change(js({"type": "integer"}), js({"type": "number"}), ONE, ONE)]},
    ),
    "an integer becomes a `double`": (
        {
            "`incompatible schema`": [
                Change(avro(field("double")), avro(field("long")), ONE, "incompatible schema")
            ]
        },
        {
            "`incompatible schema`": [
                Change(proto("double x = 2;"), proto("int64 x = 2;"), ONE, "incompatible schema")
            ]
        },
        {
            "read": [Change(js({"type": "number"}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if it has a fraction": [
                Change(js({"type": "number"}), js({"type": "integer"}), {"id": 1, "x": 1.5}, "bad message")
            ],
        },
    ),
    "a field may now be null or absent": (
        {
            "read": [Change(avro(field(["null", "int"])), avro(field("int")), ONE, ONE)],
            "`incompatible schema` if it is null": [
                Change(
                    avro(field(["null", "int"])),
                    avro(field("int")),
                    {"id": 1, "x": None},
                    "incompatible schema",
                )
            ],
        },
        {
            "read": [Change(proto("optional int32 x = 2;"), proto("int32 x = 2;"), ONE, ONE)],
            "its zero value if it is absent": [
                Change(proto("optional int32 x = 2;"), proto("int32 x = 2;"), BARE, {"id": 1, "x": 0})
            ],
        },
        {
            "read": [Change(js({"type": ["integer", "null"]}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if it is null": [
                Change(
                    js({"type": ["integer", "null"]}),
                    js({"type": "integer"}),
                    {"id": 1, "x": None},
                    "bad message",
                )
            ],
        },
    ),
    "a union gets a branch": (
        {
            "read": [
                Change(avro(field(["null", "int", "string"])), avro(field(["null", "int"])), ONE, ONE),
            ],
            "`incompatible schema` if the value has this branch": [
                Change(
                    avro(field(["null", "int", "string"])),
                    avro(field(["null", "int"])),
                    OPEN,
                    "incompatible schema",
                )
            ],
        },
        {},
        {
            "read": [Change(js({"type": ["integer", "string"]}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if the value has this type": [
                Change(js({"type": ["integer", "string"]}), js({"type": "integer"}), OPEN, "bad message")
            ],
        },
    ),
    "an enum gets a symbol": (
        {
            "its default symbol": [
                Change(
                    avro(field(ABC)),
                    avro(field(AB | {"default": "A"})),
                    {"id": 1, "x": "C"},
                    {"id": 1, "x": "A"},
                )
            ],
            "`incompatible schema` without one": [
                Change(avro(field(ABC)), avro(field(AB)), {"id": 1, "x": "C"}, "incompatible schema")
            ],
        },
        {
            "its number": [Change(proto(*OPEN_3), proto(*OPEN_2), {"id": 1, "x": "C"}, {"id": 1, "x": 2})],
            "kept in `@unknown` if the enum is closed": [
                Change(
                    proto(*CLOSED_3),
                    proto(*CLOSED_2),
                    {"id": 1, "x": "C"},
                    {"id": 1, "@unknown": {"2": "EAM="}},
                )
            ],
        },
        {
            "`bad message`": [
                Change(
                    js({"enum": ["A", "B", "C"]}),
                    js({"enum": ["A", "B"]}),
                    {"id": 1, "x": "C"},
                    "bad message",
                )
            ]
        },
    ),
    "a field moves into a `oneof`": (
        {},
        {"read": [Change(proto(f"oneof one {{ {X} int32 y = 3; }}"), proto(f"optional {X}"), OPEN, OPEN)]},
        {},
    ),
    "a field leaves a `oneof`": (
        {},
        {
            "`incompatible schema`": [
                Change(
                    proto(f"optional {X} oneof one {{ int32 y = 3; }}"),
                    proto(f"oneof one {{ {X} int32 y = 3; }}"),
                    OPEN,
                    "incompatible schema",
                )
            ],
            "read if the `oneof` had no other field": [
                Change(proto(f"optional {X}"), proto(f"oneof one {{ {X} }}"), OPEN, OPEN)
            ],
        },
        {},
    ),
    "the record gets another name": (
        {
            "`incompatible schema`": [
                Change(avro(STRING, name="Other"), avro(STRING), OPEN, "incompatible schema")
            ],
            "read if only the namespace differs": [
                Change(avro(STRING, namespace="other"), avro(STRING), OPEN, OPEN)
            ],
            "read if the reader's record has the new name as an alias": [
                Change(avro(STRING, name="Other"), avro(STRING, aliases=["Other"]), OPEN, OPEN)
            ],
        },
        {
            "`incompatible schema`": [
                Change(proto(X, name="Other"), proto(X), OPEN, "incompatible schema"),
            ]
        },
        {"read": [Change(js(NAMED, title="Other"), js(NAMED, title="Order"), OPEN, OPEN)]},
    ),
    "`string` becomes `bytes`": (
        {"read": [Change(avro(field("bytes")), avro(STRING), {"id": 1, "x": "YQ=="}, {"id": 1, "x": "a"})]},
        {"read": [Change(proto("bytes x = 2;"), proto(X), {"id": 1, "x": "YQ=="}, {"id": 1, "x": "a"})]},
        {},
    ),
    "a logical type changes": (
        {
            "`incompatible schema`": [
                Change(
                    avro(field(logical("timestamp-millis", "long"))),
                    avro(field(logical("timestamp-micros", "long"))),
                    {"id": 1, "x": "2026-11-26T12:34:56.789Z"},
                    "incompatible schema",
                ),
                Change(
                    avro(field(logical("decimal", "bytes", precision=9, scale=2))),
                    avro(field(logical("decimal", "bytes", precision=9, scale=3))),
                    {"id": 1, "x": "1.50"},
                    "incompatible schema",
                ),
            ],
            "read if the reader has none": [
                Change(
                    avro(field(logical("uuid", "string"))),
                    avro(STRING),
                    {"id": 1, "x": A_UUID},
                    {"id": 1, "x": A_UUID},
                )
            ],
        },
        {},
        {},
    ),
    "a type changes otherwise": (
        {"`incompatible schema`": [Change(avro(STRING), avro(field("int")), OPEN, "incompatible schema")]},
        {
            "`incompatible schema`": [
                Change(proto(X), proto("int32 x = 2;"), OPEN, "incompatible schema"),
                Change(proto("sint32 x = 2;"), proto("int32 x = 2;"), ONE, "incompatible schema"),
                Change(proto("int32 x = 2;"), proto("repeated int32 x = 2;"), ONE, "incompatible schema"),
            ]
        },
        {"`bad message`": [Change(js(NAMED), js({"type": "integer"}), OPEN, "bad message")]},
    ),
}
WRITER_ROWS = rows_of(PAGE, "change of the writer's schema", "Avro", "Protobuf", "JSON Schema")


@pytest.mark.parametrize("row", WRITER_ROWS, ids=lambda row: str(row[0]))
@pytest.mark.parametrize("column", range(3), ids=TYPES)
def test_a_change_of_the_writers_schema(row: list[str], column: int) -> None:
    """What the cell says comes of messages under the changed schema, and the words mean that."""
    cases = WRITER_CHANGES[row[0]][column]
    assert [bare(phrase) for phrase in phrases_of(row[column + 1])] == list(map(bare, cases))
    for phrase, changes in cases.items():
        for change in changes:
            assert change.outcome() == change.read, phrase
            assert MEANS[main_words(phrase)](change), phrase
            assert {change.writer.type, change.reader.type} == {TYPES[column]}


def bare(phrase: str) -> str:
    """Return a phrase as `rows_of` has it if it is all of a cell."""
    return re.sub(r"^`([^`]*)`$", r"\1", phrase)


def test_each_change_of_the_writers_schema_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(WRITER_CHANGES) == [row[0] for row in WRITER_ROWS]


# changes of the reader schema


class Upgrade(NamedTuple):
    """Two reader schemas, a record under the first, and what it becomes under the second; None if that is refused."""

    earlier: Schema
    later: Schema
    before: Fields
    after: Fields | None

    def outcome(self) -> Fields | None:
        """Return the record under the second schema, as a command that changes it would store it."""
        codec = codec_of(self.later)
        if why_unreadable(self.later, self.earlier):
            with pytest.raises(SowlineError) as caught:
                codec.check_reads(self.earlier)
            assert caught.value.reason == "incompatible schema"
            return None
        stored = codec_of(self.earlier).completed(orjson.dumps(self.before))
        found: Fields = orjson.loads(codec.completed(codec.upgraded(stored)))
        return found


def is_dropped_and_added(upgrade: Upgrade) -> bool:
    """The old value is not under the new name."""
    return upgrade.after is not None and upgrade.after.get("y") != upgrade.before["x"]


VERDICTS: dict[str, Callable[[Upgrade], bool]] = {
    "yes": lambda upgrade: upgrade.after is not None,
    "no": lambda upgrade: upgrade.after is None,
    "restored": lambda upgrade: "@unknown" in upgrade.before and upgrade.after == OPEN,
    "as dropped and added": is_dropped_and_added,
}
UNKNOWN_X = BARE | {"@unknown": {"2": "EgRvcGVu"}}
INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
NULLABLE = {"type": ["integer", "null"]}
READER_CHANGES: dict[str, tuple[dict[str, list[Upgrade]], ...]] = {
    "a field is added: in Avro with a default, else optional": (
        {"yes": [Upgrade(avro(), avro(DEFAULT), BARE, OPEN)]},
        {
            "yes": [
                Upgrade(proto(""), proto(X), BARE, BARE | {"x": ""}),
                Upgrade(proto(""), proto(f"optional {X}"), BARE, BARE),
            ],
            "restored from `@unknown` if it was there": [Upgrade(proto(""), proto(X), UNKNOWN_X, OPEN)],
        },
        {"yes": [Upgrade(js(), js(NAMED), BARE, BARE)]},
    ),
    "a field is added: in Avro without a default, else required": (
        {
            "no": [
                Upgrade(avro(), avro(STRING), BARE, None),
                Upgrade(avro(), avro(field(["null", "string"])), BARE, None),
            ]
        },
        {"no": [Upgrade(proto("", "", "proto2"), proto(f"required {X}", "", "proto2"), BARE, None)]},
        {
            "no": [
                Upgrade(js(), js(NAMED, ("x",)), BARE, None),
                Upgrade(js(NAMED), js(NAMED, ("x",)), BARE, None),
            ]
        },
    ),
    "a field is dropped": (
        {"yes": [Upgrade(avro(STRING), avro(), OPEN, BARE)]},
        {"yes": [Upgrade(proto(X), proto(""), OPEN, BARE)]},
        {
            "yes": [Upgrade(js(NAMED), js(), OPEN, OPEN)],
            "no if `additionalProperties` is false": [
                Upgrade(js(NAMED), js(additionalProperties=False), OPEN, None)
            ],
        },
    ),
    "a field is renamed": (
        {
            "yes with an alias": [
                Upgrade(avro(STRING), avro(field("string", "y", aliases=["x"])), OPEN, {"id": 1, "y": "open"})
            ],
            "as dropped and added without one": [
                Upgrade(avro(STRING), avro(field("string", "y", default="")), OPEN, {"id": 1, "y": ""})
            ],
        },
        {"no": [Upgrade(proto(X), proto("string y = 2;"), OPEN, None)]},
        {
            "as dropped and added": [
                Upgrade(js(NAMED), Schema(JSON_SCHEMA, orjson.dumps(Y_NAMED).decode()), OPEN, OPEN)
            ]
        },
    ),
    "a number becomes wider": (
        {
            "yes": [
                Upgrade(avro(field("int")), avro(field("long")), ONE, ONE),
                Upgrade(avro(field("int")), avro(field("double")), ONE, ONE),
                Upgrade(
                    avro(field("float")), avro(field("double")), {"id": 1, "x": 0.1}, {"id": 1, "x": 0.1}
                ),
            ]
        },
        {
            "yes between integers": [
                Upgrade(proto("int32 x = 2;"), proto("int64 x = 2;"), ONE, ONE),
                Upgrade(proto("uint32 x = 2;"), proto("int64 x = 2;"), ONE, ONE),
            ],
            "no from `float` to `double`": [
                Upgrade(proto("float x = 2;"), proto("double x = 2;"), ONE, None)
            ],
        },
        {"yes": [Upgrade(js(INTEGER), js(NUMBER), ONE, ONE)]},
    ),
    "a number becomes narrower": (
        {"no": [Upgrade(avro(field("long")), avro(field("int")), ONE, None)]},
        {"no": [Upgrade(proto("int64 x = 2;"), proto("int32 x = 2;"), ONE, None)]},
        {
            "no": [
                Upgrade(js(NUMBER), js(INTEGER), ONE, None),
                Upgrade(js(INTEGER), js(INTEGER | {"maximum": 9}), ONE, None),
            ]
        },
    ),
    "a field may now be null or absent": (
        {"yes": [Upgrade(avro(field("int")), avro(field(["null", "int"])), ONE, ONE)]},
        {"yes": [Upgrade(proto("int32 x = 2;"), proto("optional int32 x = 2;"), ONE, ONE)]},
        {
            "yes": [
                Upgrade(js(INTEGER), js(NULLABLE), ONE, ONE),
                Upgrade(js(INTEGER, ("x",)), js(INTEGER), ONE, ONE),
            ]
        },
    ),
    "a field may no longer be null or absent": (
        {"no": [Upgrade(avro(field(["null", "int"])), avro(field("int")), ONE, None)]},
        {"yes": [Upgrade(proto("optional int32 x = 2;"), proto("int32 x = 2;"), BARE, {"id": 1, "x": 0})]},
        {"no": [Upgrade(js(NULLABLE), js(INTEGER), ONE, None)]},
    ),
    "an enum gets a symbol": (
        {"yes": [Upgrade(avro(field(AB)), avro(field(ABC)), {"id": 1, "x": "B"}, {"id": 1, "x": "B"})]},
        {
            "yes": [
                Upgrade(proto(*OPEN_2), proto(*OPEN_3), {"id": 1, "x": 2}, {"id": 1, "x": "C"}),
                Upgrade(
                    proto(*CLOSED_2),
                    proto(*CLOSED_3),
                    {"id": 1, "@unknown": {"2": "EAM="}},
                    {"id": 1, "x": "C"},
                ),
            ]
        },
        {
            "yes": [
                Upgrade(
                    js({"enum": ["A"]}), js({"enum": ["A", "B"]}), {"id": 1, "x": "A"}, {"id": 1, "x": "A"}
                )
            ]
        },
    ),
    "an enum loses a symbol": (
        {
            "no": [Upgrade(avro(field(ABC)), avro(field(AB)), {"id": 1, "x": "C"}, None)],
            "yes with a default symbol": [
                Upgrade(
                    avro(field(ABC)),
                    avro(field(AB | {"default": "A"})),
                    {"id": 1, "x": "C"},
                    {"id": 1, "x": "A"},
                )
            ],
        },
        {"no": [Upgrade(proto(*OPEN_3), proto(*OPEN_2), {"id": 1, "x": "C"}, None)]},
        {"no": [Upgrade(js({"enum": ["A", "B"]}), js({"enum": ["A"]}), {"id": 1, "x": "A"}, None)]},
    ),
    "a field moves into a `oneof`": (
        {},
        {
            "yes": [Upgrade(proto(f"optional {X}"), proto(f"oneof one {{ {X} int32 y = 3; }}"), OPEN, OPEN)],
            "no if the `oneof` gets another of the old fields": [
                Upgrade(
                    proto(f"optional {X} optional int32 y = 3;"),
                    proto(f"oneof one {{ {X} int32 y = 3; }}"),
                    OPEN,
                    None,
                )
            ],
        },
        {},
    ),
    "the record gets another name": (
        {
            "yes with an alias": [
                Upgrade(avro(STRING), avro(STRING, name="Other", aliases=["Order"]), OPEN, OPEN)
            ],
            "no without one": [Upgrade(avro(STRING), avro(STRING, name="Other"), OPEN, None)],
        },
        {"no": [Upgrade(proto(X), proto(X, name="Other"), OPEN, None)]},
        {"yes": [Upgrade(js(NAMED, title="Order"), js(NAMED, title="Other"), OPEN, OPEN)]},
    ),
    "a type changes between text and bytes, or to another logical type": (
        {
            "no": [
                Upgrade(avro(STRING), avro(field("bytes")), OPEN, None),
                Upgrade(avro(field("bytes")), avro(STRING), {"id": 1, "x": "YQ=="}, None),
                Upgrade(avro(field("long")), avro(field(logical("timestamp-millis", "long"))), ONE, None),
            ]
        },
        {
            "no": [
                Upgrade(proto(X), proto("bytes x = 2;"), OPEN, None),
                Upgrade(
                    proto("Leg x = 2;", PROTO_TYPES),
                    proto("google.protobuf.Timestamp x = 2;", IMPORTS),
                    {"id": 1, "x": {"z": 1}},
                    None,
                ),
            ]
        },
        {},
    ),
}
READER_ROWS = rows_of(PAGE, "change of the reader schema", "Avro", "Protobuf", "JSON Schema")


@pytest.mark.parametrize("row", READER_ROWS, ids=lambda row: str(row[0]))
@pytest.mark.parametrize("column", range(3), ids=TYPES)
def test_a_change_of_the_reader_schema(row: list[str], column: int) -> None:
    """The new schema is taken or refused, as the cell says, and records become what its words mean."""
    cases = READER_CHANGES[row[0]][column]
    assert [bare(phrase) for phrase in phrases_of(row[column + 1])] == list(map(bare, cases))
    for phrase, upgrades in cases.items():
        for upgrade in upgrades:
            assert upgrade.outcome() == upgrade.after, phrase
            assert VERDICTS[main_words(phrase)](upgrade), phrase
            assert {upgrade.earlier.type, upgrade.later.type} == {TYPES[column]}


def test_each_change_of_the_reader_schema_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(READER_CHANGES) == [row[0] for row in READER_ROWS]


# what is refused

ID = 7


class Refused(NamedTuple):
    """A message whose id leads to a resolution, and how it is read: as a delta if `fields` are given."""

    reader: Schema
    value: bytes
    found: Resolution
    framing: Framing = "confluent"
    fields: tuple[str, ...] | None = None

    def error(self) -> SowlineError:
        """Return the error that the owner of a partition gets."""
        resolutions = Resolutions()
        resolutions.add(reader_key(self.reader.digest), entry_value(Resolution(self.reader)))
        resolutions.add(id_key(ID), entry_value(self.found))
        bodies = TypedBodies(self.reader.type, self.framing, resolutions)
        read = bodies.read if self.fields is None else partial(bodies.read_delta, fields=self.fields)
        with pytest.raises(SowlineError) as caught:
            read(self.value, self.reader.digest)
        return caught.value


class Incomplete(NamedTuple):
    """A record after a delta."""

    reader: Schema
    merged: bytes

    def error(self) -> SowlineError:
        """Return the error that the owner of a partition gets."""
        with pytest.raises(SowlineError) as caught:
            codec_of(self.reader).completed(self.merged)
        return caught.value


def framed(schema: Schema, data: bytes) -> bytes:
    """Return a message in Confluent's wire format."""
    return frame("confluent", schema.type, ID, data)


def refused(reader: Schema, data: bytes, writer: Schema | None = None, **more: Any) -> Refused:
    """Return a message under a schema that the registry has."""
    return Refused(reader, framed(reader, data), Resolution(writer or reader), **more)


TREE = proto("Order x = 2;")


def nested_message(levels: int) -> bytes:
    """Return a message within a message within …"""
    root = message = message_class(compile_schema(TREE).message("Order"))()
    for _ in range(levels):
        message = message.x
        message.SetInParent()
    return bytes(root.SerializeToString())


LIST = avro(field({"type": "array", "items": "null"}))
REQUIRED = proto(f"required {X}", "", "proto2")
RECORDS = {AVRO: avro(STRING), PROTOBUF: proto(X), JSON_SCHEMA: js(NAMED)}
REFUSALS: dict[str, dict[str, list[Refused | Incomplete]]] = {
    "bad message": {
        "the message's frame, bytes or JSON are invalid": [
            *(Refused(schema, b'{"id": 1, "x": "open"}', Resolution(schema)) for schema in RECORDS.values()),
            Refused(RECORDS[AVRO], b"\0\0\0\0", Resolution(RECORDS[AVRO])),
            Refused(RECORDS[AVRO], framed(RECORDS[AVRO], b""), Resolution(RECORDS[AVRO]), "apicurio"),
            refused(RECORDS[AVRO], b"\2\10a"),
            refused(RECORDS[AVRO], b"\2\2aa"),
            refused(RECORDS[PROTOBUF], b"\x12\x08a"),
            refused(RECORDS[JSON_SCHEMA], b'{"id": 1, "x": 1}'),
            refused(RECORDS[JSON_SCHEMA], b"[]"),
        ],
        "the message is built to use excessive time or memory": [
            refused(LIST, b"\2" + b"\xfe\xff\xff\xff\x0f" + b"\0"),
            refused(TREE, nested_message(200)),
            refused(RECORDS[JSON_SCHEMA], b'{"y":' * 10_000 + b"1" + b"}" * 10_000),
        ],
    },
    "bad header": {
        "`sow.fields` has a path that the Avro or Protobuf schema lacks": [
            refused(RECORDS[AVRO], b"\2\2a", fields=("/y",)),
            refused(RECORDS[PROTOBUF], b"", fields=("/y",)),
        ]
    },
    "unknown schema": {
        "the registry has no schema with this id": [
            Refused(schema, framed(schema, b""), Resolution(None)) for schema in RECORDS.values()
        ]
    },
    "incompatible schema": {
        "the reader schema can't read messages of this schema": [
            refused(RECORDS[AVRO], b"\2", avro()),
            refused(RECORDS[PROTOBUF], b"\x10\1", proto("int32 x = 2;")),
        ],
        "the schema has another message type": [
            refused(RECORDS[AVRO], b"", RECORDS[JSON_SCHEMA]),
            refused(RECORDS[JSON_SCHEMA], b"{}", RECORDS[AVRO]),
        ],
        "the schema is invalid": [
            Refused(RECORDS[AVRO], framed(RECORDS[AVRO], b""), Resolution(None, problem="expected a schema"))
        ],
    },
    "incomplete record": {
        "after a delta, the record lacks a field that has no default": [
            Incomplete(RECORDS[AVRO], b'{"id":1}'),
            Incomplete(REQUIRED, b'{"id":1}'),
            Incomplete(js(NAMED, ("x",)), b'{"id":1}'),
        ]
    },
}
REASON_ROWS = rows_of(PAGE, "reason", "when")


@pytest.mark.parametrize(("reason", "when"), REASON_ROWS)
def test_what_is_refused(reason: str, when: str) -> None:
    """Each of these is refused with this reason."""
    cases = REFUSALS[reason]
    assert phrases_of(when) == list(cases)
    for phrase, refusals in cases.items():
        assert {refusal.error().reason for refusal in refusals} == {reason}, phrase


def test_each_reason_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(REFUSALS) == [reason for reason, _ in REASON_ROWS]


# the example


def test_the_example(kafka: str, tmp_path: Path) -> None:
    """What docs/message-types.md writes to a topic without a registry is read as it shows."""
    (topics,) = (
        block.text for block in blocks_of(PAGE) if "settlements" in block.text and block.language == "yaml"
    )
    reading = tmp_path / "reading"
    reading.mkdir()
    with system_of_pages(kafka, tmp_path, yaml.safe_load(topics)["topics"]) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        test = "tests/docs/test_message_types.py::test_the_example"
        Reader(PAGE, Running(made, services[1].url), reading, test).read()
