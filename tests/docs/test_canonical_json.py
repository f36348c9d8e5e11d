"""Each type that docs/message-types.md lists becomes the JSON that the page says, and no row lacks its cases.

The values are written by other libraries, fastavro and Google's, and read by the codecs.
"""

import re
from datetime import date, time
from decimal import Decimal
from io import BytesIO
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import orjson
import pytest
from google.protobuf import text_format

from sowline.codecs.codec import codec_of
from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.descriptors import message_class
from sowline.codecs.schema import MessagePayload, Schema
from tests.docs.message_schemas import (
    A_UUID,
    IMPORTS,
    NOTHING,
    PAGE,
    PROTO_TYPES,
    Json,
    avro,
    field,
    logical,
    proto,
)
from tests.docs.pages import rows_of


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
