"""The codec of message type `protobuf`."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from sowline.codecs.codec import CompilerAway, MessageType
from sowline.codecs.errors import bad_message, bad_schema
from sowline.codecs.field_tree import FieldTree
from sowline.codecs.protobuf.compatibility import check_same_form, check_same_wire
from sowline.codecs.protobuf.compiled import compile_schema
from sowline.codecs.protobuf.delta_paths import fields_at
from sowline.codecs.protobuf.description import describe
from sowline.codecs.protobuf.descriptors import message_class
from sowline.codecs.protobuf.fields import (
    has_required,
    is_initialized,
    missing_fields,
    serialized,
    well_known_name,
)
from sowline.codecs.protobuf.reading import ProtobufReaders
from sowline.codecs.protobuf.writing import ProtobufWriter, ProtobufWriters
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.merge import merge

WRITERS_MAX: Final = 1000
"""The number of writer schemas for which a codec caches whether it can read them."""

PATHS_MAX: Final = 1000
"""The number of sets of paths that a codec keeps parsed."""


class ProtobufCodec:
    """A `Codec` for messages of one type. JSON has the fields' names as the `.proto` file has them.

    The JSON always has the fields without presence (in proto3, the fields not declared `optional`), and other fields
    only if they are set. The paths of a delta lead to a repeated field or a map, but not into it.

    Fields that the reader schema lacks are kept in `@unknown`: by field number, the base64 of all their occurrences
    with their tags, such as `{"@unknown": {"7": "OAE="}}`. The occurrences of one number stay in their order; the
    numbers are sorted. A delta replaces all occurrences of a number.
    """

    def __init__(self, reader: Schema) -> None:
        """Compile the reader schema; raise `bad schema` and `CompilerAway`."""
        self._message = compile_schema(reader).message(reader.message)
        name = self._message.full_name
        if well_known_name(self._message) or self._message.GetOptions().map_entry:
            raise bad_schema(f"expected a message with fields as the record, got {name}")
        self._class: Any = message_class(self._message)
        self._parse: Callable[[bytes], Any] = self._class.FromString
        self._has_required = has_required(self._message)
        self._reader = ProtobufReaders().reader_of(self._message)
        self._writer = ProtobufWriters(is_lenient=False).writer_of(self._message)
        self._lenient_writer = ProtobufWriters(is_lenient=True).writer_of(self._message)
        self._refusal_of = lru_cache(WRITERS_MAX)(partial(_refusal, self._message))
        self._tree_at: Callable[[tuple[str, ...]], FieldTree] = lru_cache(PATHS_MAX)(
            partial(fields_at, self._message)
        )

    @property
    def message_type(self) -> MessageType:
        """The record's type in its schema."""
        indexes: list[int] = []
        message = self._message
        while (around := message.containing_type) is not None:
            indexes.insert(0, [nested.name for nested in around.nested_types].index(message.name))
            message = around
        indexes.insert(0, list(message.file.message_types_by_name).index(message.name))
        return MessageType(tuple(indexes), self._message.full_name.removeprefix(f"{message.file.package}."))

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a whole record."""
        message = self._parsed(payload, writer)
        missing = self._missing(message)
        if missing:
            raise bad_message(missing)
        return _dumped(self._reader.object_of(message))

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the canonical JSON of the fields that a delta changes.

        With `fields`, these are the fields at the paths; one that is absent from the message is null. A path to a
        nested message replaces the old one. Without `fields`, these are the fields that the message has. Nested
        messages then merge field by field. In both cases the keys of a map merge into the old map, and the members of
        a oneof are null except the one that is set.

        The path of an unknown field has its number, like `/@unknown/7`. `/@unknown`, or the path of a message, names
        all unknown fields: those in the message merge into the old ones. If it has none, `@unknown` is null. A closed
        enum keeps a symbol that this schema lacks in `@unknown`, so the path of such a field also names its number
        there.
        """
        message = self._parsed(payload, writer)
        if fields is None:
            return _dumped(self._reader.delta_of(message))
        return _dumped(self._reader.named_of(message, self._tree_at(tuple(fields))))

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a record."""
        message = self._built(self._writer, _loaded(body))
        missing = self._missing(message)
        if missing:
            raise bad_message(missing)
        return self._serialized(message)

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the bytes of a delta and the paths of what its JSON names."""
        members = _loaded(body)
        message = self._built(self._writer, members)
        return self._serialized(message), self._writer.paths_of(members)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record with the fields of a delta merged into it."""
        return merge(body, delta)

    def completed(self, body: bytes) -> bytes:
        """Return the canonical JSON of a merged record; null members are not set."""
        return self._canonical(self._writer, body)

    def upgraded(self, body: bytes) -> bytes:
        """Convert canonical JSON of an earlier reader schema to this one. Members without a field are dropped.

        Fields that were unknown to the earlier schema come out of `@unknown`.
        """
        return self._canonical(self._lenient_writer, body)

    def described(self) -> dict[str, Any]:
        """Return a JSON Schema of the canonical JSON."""
        return describe(self._message)

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless this schema reads the bytes and the JSON of an earlier one."""
        message = compile_schema(earlier).message(earlier.message)
        check_same_wire(message, self._message)
        check_same_form(message, self._message)

    def _parsed(self, payload: MessagePayload, writer: Schema) -> Any:
        refusal = self._refusal_of(writer, payload.indexes, payload.message)
        if refusal is not None:
            raise SowlineError(*refusal)
        return self._parsed_bytes(payload.data)

    def _parsed_bytes(self, data: bytes) -> Any:
        try:
            return self._parse(data)
        except DecodeError as error:
            raise bad_message(
                f"expected the bytes of a {self._message.full_name}, got others: {error}"
            ) from error

    def _missing(self, message: Any) -> str:
        """Return a text about the required fields that a message lacks; empty if it lacks none."""
        if not self._has_required or is_initialized(message):
            return ""
        missing = ", ".join("/" + path.replace(".", "/") for path in missing_fields(message)[:3])
        return f"expected the required fields of {self._message.full_name}, got none in {missing}"

    def _built(self, writer: ProtobufWriter, members: dict[str, Any]) -> Any:
        message = self._class()
        writer.fill_from(message, members)
        return message

    def _serialized(self, message: Any) -> bytes:
        # Maps have no order: otherwise, equal records could have different bytes.
        data = serialized(message, deterministic=True)
        # The message may be nested deeper than a parser reads. Only the parser knows its limits: JSON values and
        # unknown fields count too (test_json_values_nest_as_deep_as_their_messages).
        self._parsed_bytes(data)
        return data

    def _canonical(self, writer: ProtobufWriter, body: bytes) -> bytes:
        # Read back from its bytes, because only that JSON is canonical: a double may have been rounded to a float
        # (test_completed_json_is_that_of_the_bytes).
        message = self._parsed_bytes(self._serialized(self._built(writer, _loaded(body))))
        missing = self._missing(message)
        if missing:
            raise SowlineError("incomplete record", missing)
        return _dumped(self._reader.object_of(message))


def _refusal(
    reader: Descriptor, writer: Schema, indexes: tuple[int, ...] | None, name: str
) -> tuple[str, str] | None:
    """Return why the reader schema can't read messages of a writer schema; None if it can."""
    try:
        schema = compile_schema(writer)
        message = schema.message_at(indexes) if indexes else schema.message(name or writer.message)
        check_same_wire(message, reader)
    # This error says nothing about the schema. If cached, it would refuse all later messages under the schema
    # (test_while_the_compiler_is_away_nothing_is_refused_for_good).
    except CompilerAway:
        raise
    except SowlineError as error:
        return error.reason, error.message
    return None


def _loaded(body: bytes) -> dict[str, Any]:
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_message(f"expected a JSON object, got other text: {error}") from error
    if type(members) is not dict:
        raise bad_message("expected a JSON object, got another JSON value")
    return members


def _dumped(members: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(members)
    except orjson.JSONEncodeError as error:
        # The Protobuf library returns bytes for a string field that is not UTF-8.
        raise bad_message("expected UTF-8 in every string field, got other bytes") from error
