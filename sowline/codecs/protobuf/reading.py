"""Makes JSON of messages: one reader for each message type, compiled from its descriptor."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sowline.codecs.errors import bad_message
from sowline.codecs.field_tree import FieldTree
from sowline.codecs.protobuf.fields import (
    has_field,
    is_map,
    is_nested,
    list_fields,
    message_of,
    oneof_of,
    well_known_name,
)
from sowline.codecs.protobuf.scalars import UnfitValueError, key_reader, scalar_reader
from sowline.codecs.protobuf.unknown import UNKNOWN, read_unknown
from sowline.codecs.protobuf.well_known import (
    Pending,
    Reading,
    read_elements,
    read_entries,
    well_known_reader,
)

MEMBERS_MAX: Final = 1_000_000
"""The number of members and elements that the messages of a record may have.

An empty message in a list takes two bytes, but has all its defaults.
"""

Members = dict[str, Any]

_Step = Callable[[Any, Members, Pending], None]


class ProtobufReaders:
    """The readers of a message type and of all types that it uses."""

    def __init__(self) -> None:
        self._readers: dict[str, ProtobufReader] = {}
        self._unfinished: list[ProtobufReader] = []

    def reader_of(self, message: Descriptor) -> "ProtobufReader":
        """Return the reader of a message type, with its fields compiled."""
        reader = self.declared(message)
        # Not recursive: types may refer to each other, and in long chains.
        while self._unfinished:
            self._unfinished.pop().compile(self)
        return reader

    def declared(self, message: Descriptor) -> "ProtobufReader":
        """Return the reader of a message type. Its fields are compiled before `reader_of` returns."""
        reader = self._readers.get(message.full_name)
        if reader is None:
            reader = self._readers[message.full_name] = ProtobufReader(message)
            self._unfinished.append(reader)
        return reader


class ProtobufReader:
    """Fills objects with the fields of messages of one type."""

    def __init__(self, message: Descriptor) -> None:
        self._message = message
        self._member_count = len(message.fields) + 1
        self._fields: list[ProtobufFieldReader] = []
        self._closed_enums: list[ProtobufFieldReader] = []
        self._steps: list[_Step] = []

    def compile(self, readers: ProtobufReaders) -> None:
        """Compile the readers of the fields."""
        self._fields = [ProtobufFieldReader(field, readers) for field in self._message.fields]
        self._closed_enums = [field for field in self._fields if field.is_closed_enum]
        for is_always_there, fields in groupby(self._fields, lambda field: not field.has_presence):
            if is_always_there:
                self._steps.append(_steps_at_once(list(fields)))
            else:
                self._steps.extend(_optional_step(field) for field in fields)

    def object_of(self, message: Any) -> Members:
        """Return a whole record; raise `bad message`."""
        return _filled(self.fill, message)

    def delta_of(self, message: Any) -> Members:
        """Return the fields that are present; raise `bad message`."""
        return _filled(self._fill_present, message)

    def named_of(self, message: Any, tree: FieldTree) -> Members:
        """Return the fields that a tree names, null for those that are absent; raise `bad message`."""
        return _filled(partial(self._fill_named, tree), message)

    def fill(self, message: Any, members: Members, pending: Pending) -> int:
        """Fill an object with a whole message, and return the number of its members."""
        for step in self._steps:
            step(message, members, pending)
        return self._member_count + _fill_unknown(message, members)

    def _fill_present(self, message: Any, members: Members, pending: Pending) -> int:
        present = {field.name for field, _ in list_fields(message)}
        unknown = read_unknown(message)
        changed = present | self._with_unknown_symbols(unknown) if self._closed_enums else present
        for field in self._fields:
            if field.name not in present:
                # A delta that sets one member of a oneof clears the others.
                if field.name in changed or not changed.isdisjoint(field.siblings):
                    members[field.name] = None
            elif field.nested is None:
                members[field.name] = field.value(message, pending)
            else:
                members[field.name] = _nested(
                    field.nested._fill_present, getattr(message, field.name), pending
                )
        if unknown or self._closed_enums:
            self._fill_unknown_of_delta(unknown.keys(), unknown, members)
        return self._member_count + len(unknown)

    def _fill_named(self, tree: FieldTree, message: Any, members: Members, pending: Pending) -> int:
        present = {field.name for field, _ in list_fields(message)}
        unknown = read_unknown(message) if self._closed_enums or UNKNOWN in tree else {}
        given = {field.name for field in self._fields if field.name in tree and field.is_given(tree, present)}
        changed = given | (self._with_unknown_symbols(unknown) & tree.keys()) if self._closed_enums else given
        for field in self._fields:
            name = field.name
            if name not in given:
                # A delta that sets one member of a oneof clears the others.
                if name in tree or not changed.isdisjoint(field.siblings):
                    members[name] = None
            elif field.nested is None:
                members[name] = field.value(message, pending)
            else:
                below, nested = tree[name], field.nested
                fill = nested._fill_replacing if below is None else partial(nested._fill_named, below)
                members[name] = _nested(fill, getattr(message, name), pending)
        named = tree.get(UNKNOWN, {})
        if named is None and not unknown:
            members[UNKNOWN] = None
        elif self._closed_enums or UNKNOWN in tree:
            self._fill_unknown_of_delta((unknown if named is None else named).keys(), unknown, members)
        return self._member_count + len(unknown)

    def _with_unknown_symbols(self, unknown: dict[str, str]) -> set[str]:
        """Return the fields with symbols that their closed enums lack: the library keeps them as unknown fields."""
        return {field.name for field in self._closed_enums if field.number in unknown}

    def _fill_unknown_of_delta(
        self, named: AbstractSet[str], unknown: dict[str, str], members: Members
    ) -> None:
        """Fill in the named unknown fields, and those of changed closed enums, by number; null for absent ones.

        Without the enums, a record would keep its old unknown symbol next to the symbol that a delta sets.
        """
        numbers = named | {field.number for field in self._closed_enums if field.name in members}
        if numbers:
            members[UNKNOWN] = {number: unknown.get(number) for number in sorted(numbers, key=int)}

    def _fill_replacing(self, message: Any, members: Members, pending: Pending) -> int:
        """Fill an object that replaces another one when it is merged: absent fields are null."""
        # Naming every field makes the absent ones null, which removes them from the record when it is merged.
        tree: FieldTree = {field.name: None for field in self._fields}
        tree[UNKNOWN] = None
        return self._fill_named(tree, message, members, pending)


class ProtobufFieldReader:
    """Makes JSON of one field. `siblings` are the other members of its oneof, `nested` reads a nested message.

    `read` makes JSON of the field's value; None if the value is JSON already. `number` is a member of `UNKNOWN`.
    """

    def __init__(self, field: FieldDescriptor, readers: ProtobufReaders) -> None:
        self.name = field.name
        self.number = str(field.number)
        self.is_closed_enum = field.enum_type is not None and field.enum_type.is_closed
        self.has_presence = field.has_presence
        oneof = oneof_of(field)
        self.siblings = (
            frozenset(other.name for other in oneof.fields) - {field.name} if oneof else frozenset()
        )
        self.nested = readers.declared(_type_of(field)) if is_nested(field) else None
        self.read = _value_reader(field, readers)

    def value(self, message: Any, pending: Pending) -> Any:
        """Return the JSON of the field of a message."""
        value = getattr(message, self.name)
        return value if self.read is None else self.read(value, pending)

    def is_given(self, tree: FieldTree, present: set[str]) -> bool:
        """Return whether a field that a tree names has a value; without one, it is null.

        Fields below a message that is absent have their defaults, unless another member of its oneof is present.
        """
        if not self.has_presence or self.name in present:
            return True
        return tree[self.name] is not None and present.isdisjoint(self.siblings)


def _filled(fill: Callable[[Any, Members, Pending], int], message: Any) -> Members:
    """Return an object that is filled with a message and all messages in it."""
    members: Members = {}
    pending: Pending = [(fill, message, members)]
    left = MEMBERS_MAX
    try:
        # A stack of what remains, instead of recursion.
        while pending:
            fill_next, source, target = pending.pop()
            # Counted while objects are filled: two bytes of an empty message become all its defaults
            # (test_the_number_of_fields_is_limited).
            left -= fill_next(source, target, pending)
            if left < 0:
                raise bad_message(
                    f"expected at most {MEMBERS_MAX} fields in all messages of a record, got more"
                )
    except UnfitValueError as error:
        raise bad_message(
            f"expected {error.expected} in {error.below or 'a google.protobuf.Value'}, got {error.got}"
        ) from error
    # The library decodes the texts of maps only when they are read (test_proto2_texts_are_utf_8).
    except UnicodeDecodeError as error:
        raise bad_message("expected UTF-8 in the texts of maps, got other bytes") from error
    return members


def _steps_at_once(fields: list[ProtobufFieldReader]) -> _Step:
    """Return the step that reads fields without presence: one call gets them all, which is fast."""
    names = [field.name for field in fields]
    values_of = attrgetter(*names) if len(names) > 1 else _only(names[0])
    conversions = [(number, field.read) for number, field in enumerate(fields) if field.read is not None]

    def step(message: Any, members: Members, pending: Pending) -> None:
        values = list(values_of(message))
        for number, read in conversions:
            values[number] = read(values[number], pending)
        members.update(zip(names, values, strict=True))

    return step


def _only(name: str) -> Callable[[Any], tuple[Any]]:
    return lambda message: (getattr(message, name),)


def _optional_step(field: ProtobufFieldReader) -> _Step:
    name, value = field.name, field.value

    def step(message: Any, members: Members, pending: Pending) -> None:
        if has_field(message, name):
            members[name] = value(message, pending)

    return step


def _value_reader(field: FieldDescriptor, readers: ProtobufReaders) -> Reading | None:
    """Return the function that makes JSON of a field's value; None if the value is JSON already."""
    if is_map(field):
        return _map_reader(field, readers)
    if message_of(field) is not None:
        read = _message_reader(field, readers)
        return _messages_reader(read) if field.is_repeated else read
    convert = scalar_reader(field)
    if field.is_repeated:
        return _list_reader(convert)
    return None if convert is None else _converted(convert)


def _converted(convert: Callable[[Any], Any]) -> Reading:
    return lambda value, pending: convert(value)


def _list_reader(convert: Callable[[Any], Any] | None) -> Reading:
    if convert is None:
        return lambda values, pending: list(values)
    return lambda values, pending: [convert(one) for one in values]


def _messages_reader(read: Reading) -> Reading:
    return lambda messages, pending: read_elements(messages, read, pending)


def _map_reader(field: FieldDescriptor, readers: ProtobufReaders) -> Reading:
    key_field, value_field = _type_of(field).fields
    key_text = key_reader(key_field)
    read = _value_reader(value_field, readers)

    if read is None or message_of(value_field) is None:

        def read_map(values: Any, pending: Pending) -> Members:
            # Maps have no order on the wire, but equal records have equal JSON.
            entries = sorted((key_text(key), one) for key, one in values.items())
            return dict(entries) if read is None else {key: read(one, pending) for key, one in entries}

        return read_map
    return lambda values, pending: read_entries(values, key_text, read, pending)


def _message_reader(field: FieldDescriptor, readers: ProtobufReaders) -> Reading:
    message = _type_of(field)
    if not well_known_name(message):
        reader = readers.declared(message)
        return lambda value, pending: _nested(reader.fill, value, pending)
    read = well_known_reader(message)

    def read_known(value: Any, pending: Pending) -> Any:
        try:
            return read(value, pending)
        except UnfitValueError as error:
            raise UnfitValueError(error.expected, error.got, field.full_name) from error

    return read_known


def _fill_unknown(message: Any, members: Members) -> int:
    unknown = read_unknown(message)
    if unknown:
        members[UNKNOWN] = unknown
    return len(unknown)


def _nested(fill: Callable[[Any, Members, Pending], int], message: Any, pending: Pending) -> Members:
    members: Members = {}
    pending.append((fill, message, members))
    return members


def _type_of(field: FieldDescriptor) -> Descriptor:
    message = message_of(field)
    assert message is not None
    return message
