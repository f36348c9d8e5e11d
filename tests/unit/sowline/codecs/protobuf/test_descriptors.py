"""The message types of a compiled schema: by name, by indexes, and their classes."""

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from sowline.codecs.protobuf.descriptors import MAIN, ProtobufSchema, message_class
from sowline.errors import SowlineError


def field(name: str, number: int, type_name: str = "") -> FieldDescriptorProto:
    """Return a field with an integer, or with a message."""
    kind = FieldDescriptorProto.TYPE_MESSAGE if type_name else FieldDescriptorProto.TYPE_INT32
    label = FieldDescriptorProto.LABEL_OPTIONAL
    return FieldDescriptorProto(name=name, number=number, type=kind, type_name=type_name or None, label=label)


def schema(*messages: DescriptorProto, package: str = "shop") -> ProtobufSchema:
    """Return the schema of a file with these messages, which imports another."""
    money = FileDescriptorProto(
        name="money.proto", syntax="proto3", message_type=[DescriptorProto(name="Money")]
    )
    file = FileDescriptorProto(
        name=MAIN, package=package, syntax="proto3", message_type=messages, dependency=["money.proto"]
    )
    return ProtobufSchema([money, file])


LEG = DescriptorProto(name="Leg", field=[field("qty", 1)])
ORDER = DescriptorProto(name="Order", nested_type=[LEG], field=[field("leg", 1, ".shop.Order.Leg")])
OTHER = DescriptorProto(name="Other", field=[field("id", 1)])


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("", "shop.Order"),
        ("Other", "shop.Other"),
        ("shop.Other", "shop.Other"),
        ("Order.Leg", "shop.Order.Leg"),
        ("Money", "Money"),
    ],
)
def test_a_message_has_its_name_with_or_without_the_package(name: str, full_name: str) -> None:
    """The first one needs no name; one of an import has the name that it has there."""
    assert schema(ORDER, OTHER).message(name).full_name == full_name


def test_a_file_without_a_package() -> None:
    """Its messages have the names that they are written with."""
    assert schema(OTHER, package="").message("").full_name == "Other"
    assert schema(OTHER, package="").message_at((0,)).full_name == "Other"


@pytest.mark.parametrize(
    ("found", "name", "message"),
    [
        (schema(), "", "expected a schema with a message, got one without messages"),
        (schema(ORDER), "Other", "expected a schema with the message Other, got none"),
    ],
)
def test_a_message_that_is_not_there(found: ProtobufSchema, name: str, message: str) -> None:
    """The schema is what is wrong."""
    with pytest.raises(SowlineError, match=message) as caught:
        found.message(name)
    assert caught.value.reason == "bad schema"


@pytest.mark.parametrize(
    ("indexes", "full_name"), [((0,), "shop.Order"), ((0, 0), "shop.Order.Leg"), ((1,), "shop.Other")]
)
def test_indexes_count_messages_from_outside_to_inside(indexes: tuple[int, ...], full_name: str) -> None:
    """As writers put them before a message."""
    assert schema(ORDER, OTHER).message_at(indexes).full_name == full_name


@pytest.mark.parametrize("indexes", [(2,), (-1,), (1, 0)])
def test_indexes_of_no_message(indexes: tuple[int, ...]) -> None:
    """The message is what is wrong."""
    with pytest.raises(SowlineError, match="expected message indexes of the writer schema") as caught:
        schema(ORDER, OTHER).message_at(indexes)
    assert caught.value.reason == "bad message"


def test_extensions_become_unknown_fields() -> None:
    """Those of a file, and those that a message declares at any depth."""
    extension = field("unit", 1000)
    extension.extendee = ".shop.Order"
    leg = DescriptorProto(name="Leg", extension=[extension], field=[field("qty", 1)])
    order = DescriptorProto(name="Order", nested_type=[leg], extension=[extension])
    order.extension_range.add(start=1000, end=2000)
    assert not schema(order).message("Order").extensions
    assert not schema(order).message("Order.Leg").extensions


def test_classes_are_made_once() -> None:
    """With those of all types below."""
    found = schema(ORDER)
    made = message_class(found.message("Order"))
    assert message_class(found.message("Order")) is made
    written = made()
    written.leg.qty = 7
    assert made.FromString(written.SerializeToString()).leg.qty == 7
