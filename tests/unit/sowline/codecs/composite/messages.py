"""Composite messages, for the tests of the modules that convert them."""

import struct
from typing import Any

import msgspec
import orjson

from sowline.codecs.composite import CompositeGlobalCodec, CompositeLocalCodec
from sowline.codecs.schema import COMPOSITE_GLOBAL, COMPOSITE_LOCAL, CodecType, MessagePayload, Schema


def schema(type: CodecType, *parts: str) -> Schema:
    """Return the options of a topic whose messages have parts of these types."""
    return Schema(type, orjson.dumps({"parts": [{"type": part} for part in parts]}).decode())


LOCAL = CompositeLocalCodec(schema(COMPOSITE_LOCAL, "json", "msgpack", "binary"))

GLOBAL = CompositeGlobalCodec(schema(COMPOSITE_GLOBAL, "json", "msgpack", "binary"))

BOTH: list[CompositeLocalCodec | CompositeGlobalCodec] = [LOCAL, GLOBAL]


def message(*parts: bytes) -> bytes:
    """Return the bytes of a message with these parts."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def packed(**fields: Any) -> bytes:
    """Return a map of MessagePack."""
    return msgspec.msgpack.encode(fields)


def read(codec: CompositeLocalCodec | CompositeGlobalCodec, data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return codec.read(MessagePayload(data), codec.reader)


WHOLE = message(b'{"a":1}', packed(b=1), b"12")
