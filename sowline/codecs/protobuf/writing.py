"""Makes messages of JSON: one writer for each message type, compiled from its descriptor."""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sowline.codecs.errors import bad_message
from sowline.codecs.protobuf.fields import (
    is_map,
    is_nested,
    message_of,
    oneof_of,
    oneofs_of,
    set_present,
    well_known_name,
)
from sowline.codecs.protobuf.scalars import UnfitValueError, key_writer, scalar_writer
from sowline.codecs.protobuf.unknown import UNKNOWN, write_unknown
from sowline.codecs.protobuf.well_known import Unwritten, Writing, well_known_writer
from sowline.errors import SowlineError

NESTED_MESSAGES_MAX: Final = 100
"""The levels of messages within a message that the Protobuf library reads. It writes more."""

Members = dict[str, Any]


class ProtobufWriters:
    """The writers of a message type and of all types that it uses. `is_lenient`: unknown members are dropped."""

    def __init__(self, is_lenient: bool) -> None:
        self.is_lenient = is_lenient
        self._writers: dict[str, ProtobufWriter] = {}
        self._unfinished: list[ProtobufWriter] = []

    def writer_of(self, message: Descriptor) -> "ProtobufWriter":
        """Return the writer of a message type, with its fields compiled."""
        writer = self.declared(message)
        # Not recursive: types may refer to each other, and in long chains.
        while self._unfinished:
            self._unfinished.pop().compile(self)
        return writer

    def declared(self, message: Descriptor) -> "ProtobufWriter":
        """Return the writer of a message type. Its fields are compiled before `writer_of` returns."""
        writer = self._writers.get(message.full_name)
        if writer is None:
            writer = self._writers[message.full_name] = ProtobufWriter(message, self.is_lenient)
            self._unfinished.append(writer)
        return writer


class ProtobufWriter:
    """Fills messages of one type with the members of objects."""

    def __init__(self, message: Descriptor, is_lenient: bool) -> None:
        self._message = message
        self._is_lenient = is_lenient
        self._fields: dict[str, ProtobufFieldWriter] = {}
        self._oneofs: list[list[str]] = []

    def compile(self, writers: ProtobufWriters) -> None:
        """Compile the writers of the fields."""
        self._fields = {field.name: ProtobufFieldWriter(field, writers) for field in self._message.fields}
        self._oneofs = [[field.name for field in oneof.fields] for oneof in oneofs_of(self._message)]

    def fill_from(self, message: Any, members: Members) -> None:
        """Fill an empty message with an object; raise `bad message`."""
        # One level of messages after the other: the depth that is accepted does not depend on the caller's stack
        # (test_depth_does_not_depend_on_the_caller).
        level: Unwritten = [(self.fill, message, members, "")]
        for _ in range(NESTED_MESSAGES_MAX + 1):
            unwritten: Unwritten = []
            for fill, target, value, path in level:
                try:
                    fill(target, value, path, unwritten)
                except UnfitValueError as error:
                    raise _unfit(error, path) from error
            if not unwritten:
                return
            level = unwritten
        raise bad_message(f"expected at most {NESTED_MESSAGES_MAX} levels of messages in a message, got more")

    def fill(self, message: Any, members: Any, path: str, unwritten: Unwritten) -> None:
        """Fill an empty message with an object, without the messages within its messages."""
        if type(members) is not dict:
            raise UnfitValueError(f"an object with the fields of {self._message.full_name}", members)
        if UNKNOWN in members:
            write_unknown(message, members[UNKNOWN])
        for name, value in members.items():
            field = self._fields.get(name)
            if field is None:
                if name != UNKNOWN and not self._is_lenient:
                    raise bad_message(f"expected a field of {self._message.full_name}, got {path}/{name}")
            elif value is not None or field.is_null_value(members):
                field.write_at(message, value, path, unwritten)
        for names in self._oneofs:
            given = [name for name in names if members.get(name) is not None]
            # The library would silently keep the one that was set last
            # (test_json_that_the_schema_does_not_describe_is_refused).
            if len(given) > 1:
                raise bad_message(
                    f"expected one of the fields {', '.join(names)} in {path or '/'}, got {' and '.join(given)}"
                )

    def paths_of(self, members: Members) -> tuple[str, ...]:
        """Return the paths of the fields that the JSON of a delta names; raise `bad message`."""
        paths: list[str] = []
        pending: list[tuple[ProtobufWriter, Members, str]] = [(self, members, "")]
        for writer, some, path in pending:
            for name, value in some.items():
                field = writer._fields.get(name)
                nested = None if field is None else field.nested
                below = f"{path}/{name}"
                if value is None or (nested is None and name != UNKNOWN):
                    paths.append(below)
                elif nested is None:
                    paths.extend(_paths_of_unknown(value, below))
                elif value:
                    pending.append((nested, value, below))
                # An empty object changes nothing, but its path would replace the message
                # (test_an_empty_message_changes_nothing_that_paths_could_name).
                elif nested._fields:
                    raise _nothing_to_change(below)
                else:
                    paths.append(below)
        return tuple(paths)


class ProtobufFieldWriter:
    """Fills one field. `nested` writes a nested message."""

    def __init__(self, field: FieldDescriptor, writers: ProtobufWriters) -> None:
        self._name = field.name
        message, oneof = message_of(field), oneof_of(field)
        self._is_value = message is not None and well_known_name(message) == "Value" and not field.is_repeated
        self._siblings = [other.name for other in oneof.fields] if oneof else []
        self.nested = writers.declared(message) if message is not None and is_nested(field) else None
        self._write = _field_writer(field, writers)

    def is_null_value(self, members: Members) -> bool:
        """Return whether a null is a google.protobuf.Value. If not, the field is not set."""
        return self._is_value and all(members.get(name) is None for name in self._siblings)

    def write_at(self, message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        """Fill the field of a message that is at a path; raise `bad message`."""
        try:
            self._write(message, value, path, unwritten)
        except UnfitValueError as error:
            raise _unfit(error, f"{path}/{self._name}") from error


def _paths_of_unknown(fields: Members, path: str) -> list[str]:
    if not fields:
        raise _nothing_to_change(path)
    return [f"{path}/{number}" for number in sorted(fields, key=int)]


def _nothing_to_change(path: str) -> SowlineError:
    return bad_message(f"expected a field in {path} for the delta to change, got none")


def _unfit(error: UnfitValueError, path: str) -> SowlineError:
    return bad_message(f"expected {error.expected} in {path}{error.below}, got {_shown(error.got)}")


def _shown(value: Any) -> str:
    if type(value) is dict:
        return "an object"
    if type(value) is list:
        return "an array"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _field_writer(field: FieldDescriptor, writers: ProtobufWriters) -> Writing:
    if is_map(field):
        return _map_writer(field, writers)
    if message_of(field) is not None:
        write = _message_writer(field, writers)
        return _messages_writer(field.name, write) if field.is_repeated else _one_writer(field.name, write)
    convert = scalar_writer(field)
    return _list_writer(field.name, convert) if field.is_repeated else _scalar_writer(field.name, convert)


def _scalar_writer(name: str, convert: Callable[[Any], Any]) -> Writing:
    def write(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        setattr(message, name, convert(value))

    return write


def _one_writer(name: str, write_message: Writing) -> Writing:
    def write(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        target = getattr(message, name)
        # An empty message is present too (test_each_kind_of_field_has_its_bytes).
        set_present(target)
        write_message(target, value, f"{path}/{name}", unwritten)

    return write


def _list_writer(name: str, convert: Callable[[Any], Any]) -> Writing:
    def write(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        values = getattr(message, name)
        for number, one in enumerate(_checked(value, list, "an array")):
            try:
                values.append(convert(one))
            except UnfitValueError as error:
                raise UnfitValueError(error.expected, error.got, f"[{number}]") from error

    return write


def _messages_writer(name: str, write_message: Writing) -> Writing:
    def write(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        values = getattr(message, name)
        for number, one in enumerate(_checked(value, list, "an array")):
            try:
                write_message(values.add(), one, f"{path}/{name}[{number}]", unwritten)
            except UnfitValueError as error:
                raise UnfitValueError(error.expected, error.got, f"[{number}]{error.below}") from error

    return write


def _map_writer(field: FieldDescriptor, writers: ProtobufWriters) -> Writing:
    name = field.name
    entry = message_of(field)
    assert entry is not None
    key_field, value_field = entry.fields
    write_key = key_writer(key_field)
    write_entry = _entry_writer(value_field, writers)

    def write(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        entries = getattr(message, name)
        for key, one in _checked(value, dict, "an object").items():
            try:
                write_entry(entries, write_key(key), one, f"{path}/{name}/{key}", unwritten)
            except UnfitValueError as error:
                raise UnfitValueError(error.expected, error.got, f"/{key}{error.below}") from error

    return write


def _entry_writer(
    field: FieldDescriptor, writers: ProtobufWriters
) -> Callable[[Any, Any, Any, str, Unwritten], None]:
    if message_of(field) is not None:
        write_message = _message_writer(field, writers)

        def write_entry(entries: Any, key: Any, value: Any, path: str, unwritten: Unwritten) -> None:
            write_message(entries[key], value, path, unwritten)

        return write_entry
    convert = scalar_writer(field)

    def write_scalar(entries: Any, key: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        entries[key] = convert(value)

    return write_scalar


def _message_writer(field: FieldDescriptor, writers: ProtobufWriters) -> Writing:
    """Return the function that fills a message of a field's type with JSON, at once or later."""
    message = message_of(field)
    assert message is not None
    if well_known_name(message):
        return well_known_writer(message)
    writer = writers.declared(message)

    def write(target: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        unwritten.append((writer.fill, target, value, path))

    return write


def _checked(value: Any, kind: type, expected: str) -> Any:
    if type(value) is not kind:
        raise UnfitValueError(expected, value)
    return value
