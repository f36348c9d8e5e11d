"""Checks whether one message type reads what was written under another one: the bytes, and the canonical JSON.

For the bytes, the rules are those of Protobuf's documentation for updating a message type. The JSON has names instead
of numbers, and exact integers, so its rules are stricter.
"""

from collections.abc import Callable, Iterable
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from sowline.codecs.errors import incompatible_schema
from sowline.codecs.protobuf.fields import enum_of, is_map, message_of, oneof_of, oneofs_of, well_known_name
from sowline.codecs.protobuf.scalars import INTEGER_RANGES

PATH_CHARS_MAX: Final = 500
"""The number of characters kept from the end of a path to a field."""

_INTEGER: Final = "an integer"
_WIRE_FORMS: Final = {
    FieldDescriptor.TYPE_INT32: _INTEGER,
    FieldDescriptor.TYPE_INT64: _INTEGER,
    FieldDescriptor.TYPE_UINT32: _INTEGER,
    FieldDescriptor.TYPE_UINT64: _INTEGER,
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_ENUM: "an enum",
    FieldDescriptor.TYPE_SINT32: "a zigzag integer",
    FieldDescriptor.TYPE_SINT64: "a zigzag integer",
    FieldDescriptor.TYPE_FIXED32: "a fixed integer of 32 bits",
    FieldDescriptor.TYPE_SFIXED32: "a fixed integer of 32 bits",
    FieldDescriptor.TYPE_FIXED64: "a fixed integer of 64 bits",
    FieldDescriptor.TYPE_SFIXED64: "a fixed integer of 64 bits",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_MESSAGE: "a message",
    FieldDescriptor.TYPE_GROUP: "a group",
}
_COMPATIBLE: Final = {
    frozenset(pair)
    for pair in (
        (_INTEGER, "bool"),
        (_INTEGER, "an enum"),
        ("string", "bytes"),
        ("bytes", "a message"),
    )
}
_LENGTH_PREFIXED: Final = ("string", "bytes", "a message")

_Difference = Callable[[FieldDescriptor, FieldDescriptor], str]
"""Returns the conflict between an old field and the new field with its number; empty if there is none."""


def check_same_wire(writer: Descriptor, reader: Descriptor) -> None:
    """Raise `incompatible schema` unless the reader's message type reads the bytes of the writer's."""
    if writer.full_name != reader.full_name:
        raise incompatible_schema(f"expected a message {reader.full_name}, got {writer.full_name}")
    for old, new, path in _pairs(writer, reader):
        _check_fields(old, new, path, _wire_difference)
        _check_oneofs(old, new, path)


def check_same_form(earlier: Descriptor, reader: Descriptor) -> None:
    """Raise `incompatible schema` unless canonical JSON of the earlier message type can become that of the reader's.

    Both have passed `check_same_wire`.
    """
    for old, new, path in _pairs(earlier, reader):
        _check_names(old, new, path)
        _check_fields(old, new, path, _form_difference)
        _check_required(old, new, path)


def _pairs(old: Descriptor, new: Descriptor) -> Iterable[tuple[Descriptor, Descriptor, str]]:
    """Yield the two types, then all pairs of types below fields of the same number, each once, with a path to it."""
    seen = {(old.full_name, new.full_name)}
    pending = [(old, new, "")]
    # The list grows while it is read: chains of types need no stack.
    for one, other, path in pending:
        yield one, other, path
        for field in one.fields:
            match = other.fields_by_number.get(field.number)
            below, below_match = message_of(field), None if match is None else message_of(match)
            if below is None or below_match is None:
                continue
            pair = (below.full_name, below_match.full_name)
            if pair not in seen:
                seen.add(pair)
                # The paths of a long chain of types would be as long as the chain.
                pending.append((below, below_match, f"{path}/{field.name}"[-PATH_CHARS_MAX:]))


def _check_fields(old: Descriptor, new: Descriptor, path: str, difference: _Difference) -> None:
    for field in old.fields:
        match = new.fields_by_number.get(field.number)
        wrong = "" if match is None else difference(field, match)
        if wrong:
            raise incompatible_schema(f"expected {wrong} in {path}/{field.name}")


def _wire_difference(old: FieldDescriptor, new: FieldDescriptor) -> str:
    before, after = _WIRE_FORMS[old.type], _WIRE_FORMS[new.type]
    if before != after and frozenset((before, after)) not in _COMPATIBLE:
        return f"a type that reads {before}, got {after}"
    is_resized = old.is_repeated != new.is_repeated
    # Repeated numbers may be packed into one value, which a single number is not read from.
    if is_resized and not (before in _LENGTH_PREFIXED and after in _LENGTH_PREFIXED):
        return "a field that repeats as before, got a change between one value and many"
    return ""


def _check_oneofs(old: Descriptor, new: Descriptor, path: str) -> None:
    for oneof in oneofs_of(new):
        known = [
            old.fields_by_number[field.number]
            for field in oneof.fields
            if field.number in old.fields_by_number
        ]
        before = [oneof_of(field) for field in known]
        names = {None if one is None else one.name for one in before}
        # A reader of the oneof would keep only the last of the fields that are set.
        if len(known) > 1 and (None in names or len(names) > 1):
            both = " and ".join(field.name for field in known[:2])
            raise incompatible_schema(
                f"expected a oneof {path}/{oneof.name} without fields that could be set together, got {both}"
            )


def _check_names(old: Descriptor, new: Descriptor, path: str) -> None:
    for field in old.fields:
        same_number = new.fields_by_number.get(field.number)
        same_name = new.fields_by_name.get(field.name)
        if same_number is not None and same_number.name != field.name:
            raise incompatible_schema(
                f"expected field {field.number} to keep its name {path}/{field.name}, got {same_number.name}:"
                " stored JSON has the old name. Add a new field with a new number"
            )
        # Stored JSON of the old field would be read as the new one.
        if same_name is not None and same_name.number != field.number:
            raise incompatible_schema(
                f"expected {path}/{field.name} to keep its number {field.number}, got {same_name.number}"
            )


def _form_difference(old: FieldDescriptor, new: FieldDescriptor) -> str:
    if old.is_repeated != new.is_repeated or is_map(old) != is_map(new):
        return "a list, a map or one value as before, got another of them"
    before, after = message_of(old), message_of(new)
    if before is not None or after is not None:
        names = [well_known_name(message) if message is not None else None for message in (before, after)]
        return "" if names[0] == names[1] else "a message with the same JSON form as before, got another one"
    if old.type in INTEGER_RANGES and new.type in INTEGER_RANGES:
        least, most = INTEGER_RANGES[new.type]
        is_wider = least <= INTEGER_RANGES[old.type][0] and INTEGER_RANGES[old.type][1] <= most
        return "" if is_wider else "a type for all integers of the old one, got one for fewer"
    if old.type != new.type:
        return "a type with the same JSON form as before, got another one"
    return _enum_difference(enum_of(old), enum_of(new)) if old.enum_type is not None else ""


def _enum_difference(old: EnumDescriptor, new: EnumDescriptor) -> str:
    numbers = {value.name: value.number for value in new.values}
    for value in old.values:
        if numbers.get(value.name) != value.number:
            return f"an enum with the symbol {value.name} = {value.number}, got one without it"
    # Stored JSON may have numbers that an open enum does not know, and a closed one can't hold.
    if new.is_closed and not old.is_closed:
        return "an open enum, as before, got a closed one"
    return ""


def _check_required(old: Descriptor, new: Descriptor, path: str) -> None:
    for field in new.fields:
        before = old.fields_by_number.get(field.number)
        if field.is_required and not (before is not None and before.is_required):
            raise incompatible_schema(
                f"expected no new required field, got {path}/{field.name}: stored records may not have it"
            )
