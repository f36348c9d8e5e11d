"""The messages of a topic in its own message type, for everything that writes them or hands them to readers."""

from collections.abc import Sequence
from typing import NamedTuple

from sowline.codecs.codec import Codec
from sowline.codecs.framing import Framing, frame
from sowline.codecs.schema import AVRO, CodecType
from sowline.config.declared_topic import MessageType
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError


class TypedDelta(NamedTuple):
    """A delta in a topic's message type, and the paths that it changes if the message does not show them."""

    message: bytes
    fields: tuple[str, ...] = ()


def typed_message(definition: TopicDefinition, body: bytes) -> bytes:
    """Return the message with a body that is JSON; for a JSON topic, the body.

    Raise `bad message` if the reader schema has no such record.
    """
    codec = definition.codec
    return body if codec is None else _framed(definition, codec, codec.write(body))


def typed_delta(definition: TopicDefinition, body: bytes) -> TypedDelta:
    """Return the message of a delta that is JSON; for a JSON topic, the delta.

    Raise `bad message` if the reader schema does not name what the delta changes.
    """
    codec = definition.codec
    if codec is None:
        return TypedDelta(body)
    data, fields = codec.write_delta(body)
    return TypedDelta(_framed(definition, codec, data), fields)


def changes_nothing(message_type: MessageType, fields: Sequence[str]) -> bool:
    """Whether a delta without these paths could not be told from one that changes each field.

    An Avro message has each field of its schema. In other message types a delta shows by itself what it changes.
    """
    return message_type == AVRO and not fields


def framed(framing: Framing, codec: Codec, type: CodecType, schema_id: int, data: bytes) -> bytes:
    """Return a message of a codec in its frame."""
    indexes, message = codec.message_type
    return frame(framing, type, schema_id, data, indexes, message)


def _framed(definition: TopicDefinition, codec: Codec, data: bytes) -> bytes:
    if definition.framing == "none":
        return data
    pinned, reader = definition.declared.reader_schema, definition.reader
    assert pinned is not None, "only messages that name a schema have a frame"
    assert reader is not None, "it is the pinned schema"
    if pinned.id is None:
        raise SowlineError(
            "bad configuration",
            f"expected the id of the reader_schema of topic {definition.name}, with which Sowline frames the messages"
            " that it writes, got none: add its id in the registry, or set framing: none",
        )
    return framed(definition.framing, codec, reader.type, pinned.id, data)
