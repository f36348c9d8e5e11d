"""BSON messages, for the tests of the modules that convert them."""

from sowline.codecs.bson import BsonCodec
from sowline.codecs.schema import BSON, MessagePayload, Schema

READER = Schema(BSON, "{}")

CODEC = BsonCodec(READER)


def read(data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return CODEC.read(MessagePayload(data), READER)
