"""Questions about a field's descriptor that every part of the codec asks, and calls of a message's methods."""

from collections.abc import Callable
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

# A field named HasField hides the method of its message, so methods are called through another class.
has_field = cast("Callable[[Any, str], bool]", FileDescriptorProto.HasField)
clear_field = cast("Callable[[Any, str], None]", FileDescriptorProto.ClearField)
copy_from = cast("Callable[[Any, Any], None]", FileDescriptorProto.CopyFrom)
is_initialized = cast("Callable[[Any], bool]", FileDescriptorProto.IsInitialized)
list_fields = cast("Callable[[Any], list[tuple[FieldDescriptor, Any]]]", FileDescriptorProto.ListFields)
merge_from_bytes = cast("Callable[[Any, bytes], int]", FileDescriptorProto.MergeFromString)
missing_fields = cast("Callable[[Any], list[str]]", cast("Any", FileDescriptorProto).FindInitializationErrors)
serialized = cast("Callable[..., bytes]", FileDescriptorProto.SerializePartialToString)
set_present = cast("Callable[[Any], None]", FileDescriptorProto.SetInParent)
which_oneof = cast("Callable[[Any, str], str | None]", FileDescriptorProto.WhichOneof)

_WELL_KNOWN_FILES: Final = {
    "Any": "any",
    "Duration": "duration",
    "FieldMask": "field_mask",
    "ListValue": "struct",
    "Struct": "struct",
    "Timestamp": "timestamp",
    "Value": "struct",
    "BoolValue": "wrappers",
    "BytesValue": "wrappers",
    "DoubleValue": "wrappers",
    "FloatValue": "wrappers",
    "Int32Value": "wrappers",
    "Int64Value": "wrappers",
    "StringValue": "wrappers",
    "UInt32Value": "wrappers",
    "UInt64Value": "wrappers",
}


def well_known_name(message: Descriptor) -> str:
    """Return the name of a well-known type that has its own JSON form, like `Timestamp`; else an empty text."""
    file = _WELL_KNOWN_FILES.get(message.name)
    # By the file too: a user's own file may give the name to a message with other fields
    # (test_own_types_with_well_known_names_are_plain_messages).
    is_known = (
        file is not None
        and message.full_name == f"google.protobuf.{message.name}"
        and message.file.name == f"google/protobuf/{file}.proto"
    )
    return message.name if is_known else ""


def is_wrapper(message: Descriptor) -> bool:
    """Return whether a message is a well-known wrapper of a scalar, like `Int32Value`."""
    return _WELL_KNOWN_FILES.get(well_known_name(message)) == "wrappers"


def message_of(field: FieldDescriptor) -> Descriptor | None:
    """Return the type of a message or group field, None for a scalar."""
    return field.message_type


def enum_of(field: FieldDescriptor) -> EnumDescriptor:
    """Return the type of an enum field."""
    enum = field.enum_type
    assert enum is not None
    return enum


def oneofs_of(message: Descriptor) -> list[OneofDescriptor]:
    """Return the oneofs of a message type, without those that the compiler makes for `optional` fields."""
    return [oneof for oneof in message.oneofs if oneof_of(oneof.fields[0]) is not None]


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    message = message_of(field)
    return message is not None and message.GetOptions().map_entry


def is_nested(field: FieldDescriptor) -> bool:
    """Return whether a field holds one message that JSON shows as an object with its fields."""
    message = message_of(field)
    return message is not None and not field.is_repeated and not well_known_name(message)


def oneof_of(field: FieldDescriptor) -> OneofDescriptor | None:
    """Return the oneof of a field; None for the oneof that the compiler makes for an `optional` field."""
    oneof = field.containing_oneof
    # By the name too: a user may write a oneof of one field (test_the_oneof_of_an_optional_field_is_none).
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return None
    return oneof


def messages_below(message: Descriptor) -> list[Descriptor]:
    """Return a message type and all message types below its fields, each once."""
    found = {message.full_name: message}
    pending = [message]
    for one in pending:
        for field in one.fields:
            below = message_of(field)
            if below is not None and below.full_name not in found:
                found[below.full_name] = below
                pending.append(below)
    return pending


def has_required(message: Descriptor) -> bool:
    """Return whether a message type, or one below its fields, has required fields."""
    return any(field.is_required for one in messages_below(message) for field in one.fields)
