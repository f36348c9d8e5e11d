"""Scalars of Protobuf have a JSON form that comes back as it was; what doesn't fit a field is refused."""

import math
import struct
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.scalars import (
    FLOAT_MAX,
    INT32,
    INT64,
    UINT32,
    UINT64,
    UnfitValueError,
    key_reader,
    key_writer,
    read_float,
    scalar_reader,
    scalar_writer,
    symbols,
)
from tests.unit.sowline.codecs.protobuf.schemas import proto_schema

INTEGERS = {
    "int32": INT32,
    "sint32": INT32,
    "sfixed32": INT32,
    "int64": INT64,
    "sint64": INT64,
    "sfixed64": INT64,
}
INTEGERS |= {"uint32": UINT32, "fixed32": UINT32, "uint64": UINT64, "fixed64": UINT64}
OTHERS = ("double", "float", "bool", "string", "bytes", "E")
ALIASES = "enum E { option allow_alias = true; A = 0; B = 1; ALSO_B = 1; }"


def _fields(syntax: str = "proto3") -> dict[str, FieldDescriptor]:
    """Return a field of each type, by the name of its type."""
    label = "optional " if syntax == "proto2" else ""
    text = "".join(f"{label}{name} f_{name} = {at}; " for at, name in enumerate((*INTEGERS, *OTHERS), 1))
    schema = proto_schema(f"message R {{ {text} }} {ALIASES}", syntax)
    return {field.name.removeprefix("f_"): field for field in compile_schema(schema).message("R").fields}


FIELDS = _fields()


def _again(name: str, value: Any) -> Any:
    """Return a value of the library after it has become JSON and was written again."""
    reader, field = scalar_reader(FIELDS[name]), FIELDS[name]
    return scalar_writer(field)(value if reader is None else reader(value))


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_has_the_range_of_its_type(name: str) -> None:
    """JSON has no ranges, so the ends are compared here."""
    least, most = INTEGERS[name]
    write = scalar_writer(FIELDS[name])
    assert (_again(name, least), _again(name, most)) == (least, most)
    for wrong in (least - 1, most + 1):
        with pytest.raises(UnfitValueError, match=f"an integer from {least} to {most}") as caught:
            write(wrong)
        assert caught.value.got == wrong


@given(st.floats())
def test_a_double_comes_back(value: float) -> None:
    """The numbers that JSON lacks are texts."""
    reader = scalar_reader(FIELDS["double"])
    assert reader is not None
    assert isinstance(reader(value), float) is math.isfinite(value)
    assert struct.pack("d", _again("double", value)) == struct.pack("d", value) or math.isnan(value)


@given(st.floats(width=32))
def test_a_float_comes_back_from_the_fewest_digits(value: float) -> None:
    """As the 32 bits that it has."""
    assert struct.pack("f", _again("float", value)) == struct.pack("f", value) or math.isnan(value)


def test_a_float_has_no_digits_of_a_double() -> None:
    """A double would show the rounding of the 32 bits: 0.10000000149011612."""
    (value,) = struct.unpack("f", struct.pack("f", 0.1))
    assert (read_float(value), read_float(16777216.0), read_float(-math.inf)) == (
        0.1,
        16777216.0,
        "-Infinity",
    )
    assert (read_float(math.inf), read_float(math.nan)) == ("Infinity", "NaN")


def test_a_number_that_rounds_to_infinity_is_no_float() -> None:
    """It would come back as another number; the text Infinity is one of the values."""
    write = scalar_writer(FIELDS["float"])
    assert math.isfinite(struct.unpack("f", struct.pack("f", write(math.nextafter(FLOAT_MAX, 0))))[0])
    with pytest.raises(UnfitValueError, match="fits into 32 bits"):
        write(FLOAT_MAX)
    assert write("Infinity") == math.inf


@given(st.binary())
def test_bytes_come_back(value: bytes) -> None:
    """As base64."""
    assert _again("bytes", value) == value


@pytest.mark.parametrize(
    ("name", "value"), [("bool", True), ("string", "é"), ("string", ""), ("E", 0), ("E", 7)]
)
def test_what_is_json_already_comes_back(name: str, value: object) -> None:
    """A number of an open enum without a name stays a number."""
    assert _again(name, value) == value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("int32", True, "an integer"),
        ("int32", 1.0, "an integer"),
        ("double", "inf", "a number, NaN"),
        ("double", True, "a number, NaN"),
        ("bool", 1, "true or false"),
        ("string", 1, "a string"),
        ("bytes", "a", "base64 text"),
        ("bytes", "AQ=\n=", "base64 text"),
        ("bytes", 1, "base64 text"),
        ("E", "C", "a symbol of E"),
        ("E", 2**31, "a symbol of E"),
        ("E", True, "a symbol of E"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: object, expected: str) -> None:
    """With what was expected, and what came."""
    with pytest.raises(UnfitValueError, match=expected) as caught:
        scalar_writer(FIELDS[name])(value)
    assert caught.value.got is value


def test_an_enum_is_read_under_its_first_name() -> None:
    """Both names are written."""
    field = FIELDS["E"]
    reader, write = scalar_reader(field), scalar_writer(field)
    assert reader is not None
    assert field.enum_type is not None
    assert (reader(1), write("B"), write("ALSO_B")) == ("B", 1, 1)
    assert symbols(field.enum_type) == {0: "A", 1: "B"}


def test_a_closed_enum_has_named_numbers_only() -> None:
    """Those of proto2 are closed."""
    write = scalar_writer(_fields("proto2")["E"])
    assert write("B") == 1
    with pytest.raises(UnfitValueError, match="a symbol of E"):
        write(1)


@pytest.mark.parametrize("name", INTEGERS)
def test_a_key_of_a_map_comes_back(name: str) -> None:
    """As the name of a member."""
    for number in (*INTEGERS[name], 0, 1):
        assert key_writer(FIELDS[name])(key_reader(FIELDS[name])(number)) == number


@pytest.mark.parametrize("key", [True, False])
def test_a_boolean_is_a_key(key: bool) -> None:
    """As JSON writes it."""
    text = key_reader(FIELDS["bool"])(key)
    assert text == str(key).lower()
    assert key_writer(FIELDS["bool"])(text) is key


def test_a_text_is_a_key() -> None:
    """Any text."""
    assert key_writer(FIELDS["string"])(key_reader(FIELDS["string"])("01")) == "01"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            ("int32", text)
            for text in ("", "-", "01", "+1", "--1", "-0", "1.0", " 1", "²", "2147483648", "1" * 5000)
        ),
        ("uint64", "-1"),
        ("bool", "True"),
        ("bool", "1"),
    ],
)
def test_one_key_has_one_name(name: str, text: str) -> None:
    """Two members must not be one key, and a long text is not parsed."""
    with pytest.raises(UnfitValueError, match="key"):
        key_writer(FIELDS[name])(text)
