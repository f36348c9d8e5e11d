"""Canonical JSON as the bytes of a record."""

import struct
from typing import Any

import pytest

from sowline.codecs.avro.encoding import Encoder, varint
from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.avro.types import load_types
from tests.property.avro_schemas import fixed, logical, record, schema_of


def encoder(*fields: Any, branch: int = 0) -> Encoder:
    """Return the encoder of a record with these fields; a union has this branch."""
    return Encoder(load_types(schema_of(record(*fields))).root, lambda union, value: branch)


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("null", None, b""),
        ("boolean", True, b"\1"),
        ("boolean", False, b"\0"),
        ("int", -1, b"\1"),
        ("long", 64, b"\x80\1"),
        ("float", 0.5, struct.pack("<f", 0.5)),
        ("double", 0.1, struct.pack("<d", 0.1)),
        ("string", "é", b"\4\xc3\xa9"),
        ("bytes", "/wA=", b"\4\xff\0"),
        (fixed(2), "/wA=", b"\xff\0"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", b"\2"),
        (logical("int", "date"), "1970-01-03", b"\4"),
        ({"type": "array", "items": "int"}, [], b"\0"),
        ({"type": "array", "items": "int"}, [1, 2], b"\4\2\4\0"),
        ({"type": "map", "values": "int"}, {}, b"\0"),
        ({"type": "map", "values": "int"}, {"x": 1, "y": 2}, b"\4\2x\2\2y\4\0"),
        (record(("x", "int"), ("y", "int"), name="Inner"), {"y": 2, "x": 1}, b"\2\4"),
    ],
)
def test_a_value_is_encoded_as_its_type(kind: Any, value: Any, data: bytes) -> None:
    """Fields follow each other in the order of the schema, without names."""
    assert encoder(("a", kind), ("b", "int")).bytes_of({"a": value, "b": 3}) == data + b"\6"


def test_a_union_has_the_number_of_its_branch() -> None:
    """The caller chooses it."""
    assert encoder(("a", ["null", "int", "long"]), branch=1).bytes_of({"a": 5}) == b"\2\x0a"
    assert encoder(("a", ["null", "int", "long"]), branch=2).bytes_of({"a": 5}) == b"\4\x0a"


def test_records_of_any_depth_are_encoded() -> None:
    """Without recursion."""
    document: dict[str, Any] = {"next": []}
    for _ in range(5000):
        document = {"next": [document]}
    data = encoder(("next", {"type": "array", "items": "Order"})).bytes_of(document)
    assert data == b"\2" * 5000 + b"\0" * 5001


@pytest.mark.parametrize(("kind", "value"), [("array", {}), ("map", []), ("map", "x")])
def test_the_encoder_checks_kinds(kind: str, value: Any) -> None:
    """A value may fit its branch only as far as branches are compared."""
    part = {"type": kind, "items" if kind == "array" else "values": "int"}
    with pytest.raises(SchemaMisfit, match="an array" if kind == "array" else "an object"):
        encoder(("a", part)).bytes_of({"a": value})


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        ((1 << 63) - 1, "feffffffffffffffff01"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_an_integer_takes_as_few_bytes_as_it_can(number: int, data: str) -> None:
    """Small negative integers are short, too."""
    assert varint(number) == bytes.fromhex(data)


@pytest.mark.parametrize("value", [{"x": 1}, {"x": 1, "y": 2, "z": 3}, [], {"x": 1, "z": 2}])
def test_the_encoder_checks_the_branch(value: Any) -> None:
    """A wrong branch is noticed: no field may be left out of the bytes."""
    with pytest.raises(SchemaMisfit):
        encoder(("a", record(("x", "int"), ("y", "int"), name="Inner"))).bytes_of({"a": value})
