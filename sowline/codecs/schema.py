"""A schema as text, and the part of a message that names one."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final, Literal

import orjson

AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
JSON_SCHEMA: Final = "json-schema"

MSGPACK: Final = "msgpack"
BSON: Final = "bson"
BINARY: Final = "binary"
COMPOSITE_LOCAL: Final = "composite-local"
COMPOSITE_GLOBAL: Final = "composite-global"

SchemaType = Literal[
    "avro", "protobuf", "json-schema", "msgpack", "bson", "binary", "composite-local", "composite-global"
]
"""The message types that have schemas, or options in their stead."""


@dataclass(frozen=True)
class Schema:
    """The text of a schema, and of all that it refers to.

    `references` are pairs of name and text, in the order in which they can be read: an imported `.proto` file, or a
    named Avro type. `message` is the full name of a Protobuf message; empty for the first one of the text.
    """

    type: SchemaType
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
