"""The frame of a message on Kafka: the part before the payload, which names the writer schema."""

from typing import Final, Literal, NamedTuple

from sowline.codecs.errors import bad_message
from sowline.codecs.schema import PROTOBUF, CodecType, MessagePayload

Framing = Literal["confluent", "apicurio", "none"]
"""How a message names its schema: Confluent's wire format, Apicurio's (of version 2), or not at all."""

INDEXES_MAX: Final = 100
"""The number of message indexes that a Protobuf message may have: the depth of nested message types."""

_MAGIC: Final = 0
_ID_BYTES: Final = {"confluent": 4, "apicurio": 8}
_VARINT_BYTES_MAX: Final = 5
_NAME_TAG: Final = b"\x0a"


class Frame(NamedTuple):
    """The contents of a message's bytes: the schema's id (None without a frame), and the message itself."""

    schema_id: int | None
    payload: MessagePayload


def read_frame(framing: Framing, type: CodecType, value: bytes) -> Frame:
    """Remove the frame of a message; raise `bad message` if it has no such frame."""
    if framing == "none":
        return Frame(None, MessagePayload(value))
    size = 1 + _ID_BYTES[framing]
    if len(value) < size or value[0] != _MAGIC:
        raise bad_message(
            f"expected a message in the {framing} format, with a byte 0 and a schema id of {size - 1} bytes, got"
            f" {_shown(value, size)}: use a serializer of that format, or set another one for the topic"
        )
    schema_id = int.from_bytes(value[1:size], "big")
    if type != PROTOBUF:
        return Frame(schema_id, MessagePayload(value[size:]))
    if framing == "apicurio":
        name, at = _read_name(value, size)
        return Frame(schema_id, MessagePayload(value[at:], message=name))
    indexes, at = _read_indexes(value, size)
    return Frame(schema_id, MessagePayload(value[at:], indexes))


def frame(
    framing: Framing,
    type: CodecType,
    schema_id: int,
    data: bytes,
    indexes: tuple[int, ...] = (0,),
    message: str = "",
) -> bytes:
    """Return the bytes of a message; without a frame, these are `data`.

    `indexes` are for Protobuf in Confluent's format, and `message` is the name for Protobuf in Apicurio's. Raise
    `bad message` if the format can't hold the id, the indexes or the name.
    """
    if framing == "none":
        return data
    size = _ID_BYTES[framing]
    if not 0 <= schema_id < 1 << 8 * size:
        raise bad_message(f"expected a schema id of {size} bytes for the {framing} format, got {schema_id}")
    head = bytes([_MAGIC]) + schema_id.to_bytes(size, "big")
    if type != PROTOBUF:
        return head + data
    return head + (_name_bytes(message) if framing == "apicurio" else _index_bytes(indexes)) + data


def _read_indexes(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = _read_zigzag(value, at)
    if count == 0:  # the short form of the first message type
        return (0,), at
    # Five bytes can claim two billion indexes: without the limit, a message of a few bytes would be read for as long
    # as it has bytes, and named as cut short (test_refusals).
    if not 0 < count <= INDEXES_MAX:
        raise bad_message(f"expected at most {INDEXES_MAX} message indexes, got {count}")
    indexes = []
    for _ in range(count):
        index, at = _read_zigzag(value, at)
        # Python takes -1 for the last message type: a broken frame would be read as a message of that
        # (test_refusals).
        if index < 0:
            raise bad_message(f"expected message indexes of 0 or more, got {index}")
        indexes.append(index)
    return tuple(indexes), at


def _index_bytes(indexes: tuple[int, ...]) -> bytes:
    # Confluent's serializers write this short form, and equal messages must have equal bytes. Both forms are read
    # (test_the_first_message_at_length).
    if indexes == (0,):
        return b"\0"
    if not 0 < len(indexes) <= INDEXES_MAX or not all(0 <= index < 1 << 31 for index in indexes):
        raise bad_message(f"expected 1 to {INDEXES_MAX} message indexes of 0 or more, got {indexes}")
    return b"".join(_varint(2 * number) for number in (len(indexes), *indexes))  # zigzag doubles them


def _read_name(value: bytes, at: int) -> tuple[str, int]:
    """Read Apicurio's message `Ref`, whose only field is the name of the message type, after its length."""
    length, at = _read_varint(value, at)
    end = at + length
    if end > len(value):
        raise bad_message(f"expected the name of a Protobuf message of {length} bytes, got {len(value) - at}")
    if length == 0:
        return "", end
    # The name must end within its Ref: what follows is the message.
    name_length, name_at = _read_varint(value[:end], at + 1)
    if value[at : at + 1] != _NAME_TAG or name_at + name_length != end:
        raise bad_message(
            "expected the name of a Protobuf message after the schema id, got other fields: send it in the body"
            " of the message and not in headers"
        )
    try:
        return value[name_at:end].decode(), end
    except UnicodeDecodeError as error:
        raise bad_message(
            f"expected the name of a Protobuf message in UTF-8, got {value[name_at:end]!r}"
        ) from error


def _name_bytes(message: str) -> bytes:
    name = message.encode()
    if not name:
        raise bad_message("expected the name of a Protobuf message for the apicurio format, got none")
    reference = _NAME_TAG + _varint(len(name)) + name
    return _varint(len(reference)) + reference


def _read_zigzag(value: bytes, at: int) -> tuple[int, int]:
    number, at = _read_varint(value, at)
    return (number >> 1) ^ -(number & 1), at


def _read_varint(value: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, of at most 32 bits, and the offset after it."""
    number = 0
    for shift, byte in enumerate(value[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            # Five bytes hold 35 bits.
            if number >> 32:
                break
            return number, at + shift + 1
    raise bad_message(
        f"expected a number of at most 32 bits at offset {at}, got {_shown(value[at:], _VARINT_BYTES_MAX)}"
    )


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _shown(value: bytes, count: int) -> str:
    return f"{len(value)} bytes that begin with {value[:count].hex()}" if value else "nothing"
