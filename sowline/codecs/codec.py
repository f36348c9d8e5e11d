"""The codec of a message type: the operations of every message type except JSON."""

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from sowline.codecs.schema import (
    AVRO,
    BINARY,
    BSON,
    COMPOSITE_GLOBAL,
    COMPOSITE_LOCAL,
    FIX,
    JSON_SCHEMA,
    MSGPACK,
    NVFIX,
    PROTOBUF,
    XML,
    CodecType,
    MessagePayload,
    Schema,
)
from sowline.errors import SowlineError, StartAgain
from sowline.version import installing

CODECS_MAX: Final = 1000
"""The number of reader schemas whose codecs are kept."""

_MODULES: Final = {
    AVRO: ("sowline.codecs.avro", "AvroCodec"),
    PROTOBUF: ("sowline.codecs.protobuf", "ProtobufCodec"),
    JSON_SCHEMA: ("sowline.codecs.json_schema", "JsonSchemaCodec"),
    FIX: ("sowline.codecs.fix", "FixCodec"),
    NVFIX: ("sowline.codecs.fix", "NvfixCodec"),
    XML: ("sowline.codecs.xml", "XmlCodec"),
    MSGPACK: ("sowline.codecs.msgpack", "MsgpackCodec"),
    BSON: ("sowline.codecs.bson", "BsonCodec"),
    BINARY: ("sowline.codecs.binary", "BinaryCodec"),
    COMPOSITE_LOCAL: ("sowline.codecs.composite", "CompositeLocalCodec"),
    COMPOSITE_GLOBAL: ("sowline.codecs.composite", "CompositeGlobalCodec"),
}


class CompilerAway(SowlineError, StartAgain):
    """The schema compiler can't run or doesn't end. The schema and the message may be valid: retry."""

    def __init__(self, message: str) -> None:
        super().__init__("schema compiler away", message)


class MessageType(NamedTuple):
    """A Protobuf message in its schema: the path of indexes to it, and its name without the package."""

    indexes: tuple[int, ...]
    name: str


NO_MESSAGE_TYPE: Final = MessageType((0,), "")


class Codec(Protocol):
    """Converts bodies between the bytes of a message and canonical JSON, under one reader schema. Pure.

    For a message type without schemas, the reader schema and each writer schema are the text of its options.
    Canonical JSON is one JSON object whose fields the reader schema names. Equal messages give equal bytes. Every
    method raises SowlineError: `bad message` if the bytes or the JSON are not what the schema describes,
    `incompatible schema` if the reader schema can't read the writer's.
    """

    @property
    def message_type(self) -> MessageType:
        """The Protobuf type of a record, for frames; `NO_MESSAGE_TYPE` for other message types."""

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a whole record."""

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the canonical JSON of the fields that a delta changes.

        `fields` are their paths, like `/legs`, or `/customer/name`; None if the message itself shows what it changes.
        Raise `bad header` for a path that no record can have under the schema.
        """

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a record whose JSON is given, under the reader schema and without a frame.

        The JSON need not be canonical: fields with defaults may be missing.
        """

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the bytes of a delta, and the paths that `read_delta` needs to get the same JSON back."""

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a delta; both are canonical. `completed` checks the result."""

    def completed(self, body: bytes) -> bytes:
        """Return the canonical JSON of a record that a delta has changed or created; fields with defaults are added.

        Raise `incomplete record` if a field without a default is missing.
        """

    def upgraded(self, body: bytes) -> bytes:
        """Convert canonical JSON of an earlier reader schema to this one. JSON of this schema doesn't change."""

    def described(self) -> dict[str, Any]:
        """Return a JSON Schema (draft 2020-12) of the canonical JSON: its types, required fields and definitions."""

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless this reader schema reads every record written under an earlier one."""


# All partitions of a topic ask for the same codec. Some are expensive to make: a Protobuf schema needs a process for
# its compiler (test_equal_schemas_share_a_codec).
@lru_cache(CODECS_MAX)
def codec_of(reader: Schema) -> Codec:
    """Return the codec with this reader schema.

    Raise `bad schema` if it is not a valid schema of a record, and `bad configuration` if the library that reads its
    message type is not installed.
    """
    # Imported when a topic needs it: most libraries of message types are optional.
    module, name = _MODULES[reader.type]
    try:
        codec_class = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise _not_installed(reader.type, error.name) from error
    codec: Codec = codec_class(reader)
    return codec


def _not_installed(message_type: CodecType, package: str | None) -> SowlineError:
    return SowlineError(
        "bad configuration",
        f"expected the package {package} for topics of message type {message_type}, found none:"
        f" {installing(message_type)}",
    )
