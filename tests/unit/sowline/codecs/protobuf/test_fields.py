"""What the codec asks of a field's descriptor."""

import pytest
from google.protobuf.descriptor import Descriptor

from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.descriptors import message_class
from sowline.codecs.protobuf.fields import (
    enum_of,
    has_field,
    has_required,
    is_map,
    is_nested,
    is_wrapper,
    message_of,
    messages_below,
    oneof_of,
    oneofs_of,
    serialized,
    well_known_name,
)
from tests.unit.sowline.codecs.protobuf.schemas import proto_schema

TEXT = """
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message R {
  int32 plain = 1; E side = 2; I inner = 3; repeated I many = 4; map<string, I> named = 5; R again = 6;
  google.protobuf.Timestamp time = 7; google.protobuf.Int32Value limit = 8; optional int32 maybe = 9;
  oneof party { string trader = 10; I broker = 11; } oneof single { int32 alone = 12; } bool HasField = 13;
}
message I { string a = 1; } message Timestamp { int32 seconds = 1; } message Int32Value { int32 value = 1; }
enum E { A = 0; }
"""


@pytest.fixture(scope="module")
def record() -> Descriptor:
    """A message type with a field of each kind."""
    return compile_schema(proto_schema(TEXT, message="R")).message("R")


def test_messages_are_found_once_each(record: Descriptor) -> None:
    """Recursive ones, too."""
    names = [one.full_name for one in messages_below(record)]
    assert sorted(names) == sorted(
        {"R", "I", "R.NamedEntry", "google.protobuf.Timestamp", "google.protobuf.Int32Value"}
    )


def test_a_field_knows_its_type(record: Descriptor) -> None:
    """A scalar has no message."""
    fields = record.fields_by_name
    assert message_of(fields["plain"]) is None
    below = message_of(fields["inner"])
    assert below is not None
    assert (below.full_name, enum_of(fields["side"]).full_name) == ("I", "E")


def test_a_map_is_no_nested_message(record: Descriptor) -> None:
    """JSON shows a well-known type in a form of its own, so it is not nested."""
    fields = record.fields
    assert [field.name for field in fields if is_map(field)] == ["named"]
    assert [field.name for field in fields if is_nested(field)] == ["inner", "again", "broker"]


def test_a_well_known_type_is_the_one_of_the_library(record: Descriptor) -> None:
    """A message of the same name is another type."""
    names = {one.full_name: well_known_name(one) for one in messages_below(record)}
    assert {full_name for full_name, name in names.items() if name} == {
        "google.protobuf.Timestamp",
        "google.protobuf.Int32Value",
    }
    assert {one.full_name for one in messages_below(record) if is_wrapper(one)} == {
        "google.protobuf.Int32Value"
    }
    others = (record.file.message_types_by_name[name] for name in ("Timestamp", "Int32Value"))
    assert [(well_known_name(one), is_wrapper(one)) for one in others] == [("", False), ("", False)]


def test_the_oneof_of_an_optional_field_is_none(record: Descriptor) -> None:
    """The compiler makes it."""
    fields = record.fields_by_name
    assert oneof_of(fields["maybe"]) is oneof_of(fields["plain"]) is None
    assert [oneof.name for oneof in oneofs_of(record)] == ["party", "single"]


@pytest.mark.parametrize("label", ["required", "optional"])
def test_required_fields_are_found_at_any_depth(label: str) -> None:
    """A message without them can always be written."""
    text = f"message R {{ optional I i = 1; }} message I {{ {label} int32 a = 1; }}"
    assert has_required(compile_schema(proto_schema(text, "proto2")).message("R")) is (label == "required")


def test_a_field_may_have_the_name_of_a_method(record: Descriptor) -> None:
    """The methods are called by other means."""
    message = message_class(record)()
    assert (has_field(message, "inner"), serialized(message)) == (False, b"")
