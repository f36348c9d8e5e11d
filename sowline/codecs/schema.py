"""A schema or the options of a message type as text, and the part of a message that names a schema."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final, Literal, TypeGuard, get_args

import orjson

AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
JSON_SCHEMA: Final = "json-schema"

FIX: Final = "fix"
NVFIX: Final = "nvfix"
XML: Final = "xml"
MSGPACK: Final = "msgpack"
BSON: Final = "bson"
BINARY: Final = "binary"
COMPOSITE_LOCAL: Final = "composite-local"
COMPOSITE_GLOBAL: Final = "composite-global"

SchemaType = Literal["avro", "protobuf", "json-schema"]
"""The message types that have schemas."""

FormatType = Literal[
    "fix", "nvfix", "xml", "msgpack", "bson", "binary", "composite-local", "composite-global"
]
"""The message types without schemas, other than JSON."""

CodecType = Literal[SchemaType, FormatType]
"""The message types whose messages are not JSON that is stored as it comes."""

WITHOUT_DELTAS: Final = frozenset({BINARY, COMPOSITE_GLOBAL})
"""The message types in which a delta replaces the record, so that whole records are sent in place of deltas."""

_FORMAT_TYPES: Final = frozenset(get_args(FormatType))


def is_format(type: str) -> TypeGuard[FormatType]:
    """Whether a message type has options in place of schemas."""
    return type in _FORMAT_TYPES


@dataclass(frozen=True)
class Schema:
    """The texts of a schema and its references; for message types without schemas, their options as JSON.

    `references` are pairs of name and text, in the order in which they can be read: an imported `.proto` file, or a
    named Avro type. `message` is the full name of a Protobuf message; empty for the first one of the text.
    """

    type: CodecType
    text: str
    references: tuple[tuple[str, str], ...] = ()
    message: str = ""

    @cached_property
    def digest(self) -> str:
        """A hash of the whole schema: 16 hexadecimal digits."""
        parts = [self.type, self.text, self.references, self.message]
        return blake2b(orjson.dumps(parts), digest_size=8).hexdigest()


@dataclass(frozen=True)
class MessagePayload:
    """A message without its frame, and what the frame says about its Protobuf type.

    Confluent's has `indexes`, the path to a message of the schema. Apicurio's has the name of the `message` without
    its package. With neither, the type is `Schema.message`.
    """

    data: bytes
    indexes: tuple[int, ...] | None = None
    message: str = ""
