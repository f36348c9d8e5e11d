"""The parts of composite messages: their codecs, by the topic's options, and their bytes."""

import struct
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, Concatenate, Final, Literal, ParamSpec, TypeVar, cast

import msgspec
import orjson

from sowline.codecs.binary import BinaryCodec
from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.errors import bad_message, bad_schema, incompatible_schema
from sowline.codecs.schema import MessagePayload, Schema, SchemaType
from sowline.codecs.schemaless import SchemalessCodec, checked_json
from sowline.errors import SowlineError

_PARTS_MAX: Final = 100

_LENGTH: Final = struct.Struct(">I")
_LENGTH_MAX: Final = (1 << 32) - 1
_BLANKS: Final = b" \t\r\n"

raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Return the fields of a valid JSON object with their exact texts."""

raw_object = msgspec.json.Encoder().encode
"""Return the JSON object with fields of exact texts."""


class _PartOptions(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["json", "fix", "nvfix", "xml", "msgpack", "bson", "binary"]
    format: dict[str, Any] = {}


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    parts: Annotated[list[_PartOptions], msgspec.Meta(min_length=1, max_length=_PARTS_MAX)]


class JsonPart(SchemalessCodec):
    """The codec of a part of type `json`: an object, kept byte for byte except the blanks around it."""

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the object."""
        return self.write(payload.data)

    def write(self, body: bytes) -> bytes:
        """Return the object."""
        checked_json(body)
        return body.strip(_BLANKS)


P = ParamSpec("P")
T = TypeVar("T")


def _naming_part(
    method: Callable[Concatenate["MessagePart", P], T],
) -> Callable[Concatenate["MessagePart", P], T]:
    """Name the part in the errors of a method."""

    # This runs for each part of each message: a context manager takes several times as long.
    @wraps(method)
    def naming(part: "MessagePart", /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return method(part, *args, **named)
        except SowlineError as error:
            raise SowlineError(error.reason, f"part {part.number}: {error.message}") from error

    return naming


class MessagePart:
    """One part of the messages of a topic; every error names it."""

    def __init__(self, number: int, type: str, options: str) -> None:
        self.number = number
        # A part may be of type `json`, which has a codec only in composite messages.
        self.schema = Schema(cast("SchemaType", type), options)
        self.codec = self._codec(type)

    @_naming_part
    def _codec(self, type: str) -> Codec:
        return JsonPart(self.schema) if type == "json" else codec_of(self.schema)

    @property
    def is_binary(self) -> bool:
        """Whether the part is not parsed."""
        return isinstance(self.codec, BinaryCodec)

    @_naming_part
    def read(self, data: bytes) -> bytes:
        """Return the canonical JSON of a part that is not empty."""
        return self.codec.read(MessagePayload(data), self.schema)

    @_naming_part
    def read_delta(self, data: bytes) -> bytes:
        """Return the canonical JSON of a part's delta."""
        return self.codec.read_delta(MessagePayload(data), self.schema, None)

    @_naming_part
    def write(self, body: bytes) -> bytes:
        """Return the bytes of a part."""
        return _some(self.codec.write(body))

    @_naming_part
    def write_delta(self, body: bytes) -> bytes:
        """Return the bytes of a part's delta."""
        return _some(self.codec.write_delta(body)[0])

    @_naming_part
    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a part after a delta."""
        return self.codec.merged(body, delta)

    @_naming_part
    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless the part reads messages written under earlier options."""
        self.codec.check_reads(earlier)


def _some(data: bytes) -> bytes:
    # In the message, no bytes mean that there is no part: the record would come back without it
    # (test_other_json_is_not_written_as_parts).
    if not data:
        raise bad_message("expected at least one byte, got an empty part: leave it out")
    return data


def parts_of(reader: Schema) -> list[MessagePart]:
    """Return the parts that a topic's options describe; raise `bad schema`."""
    try:
        options = msgspec.json.decode(reader.text, type=_Options)
    except msgspec.MsgspecError as error:
        raise bad_schema(
            f'expected a message_format like {{"parts": [{{"type": "json"}}]}}: {error}'
        ) from None
    return [
        # Sorted, because codecs are cached by the text of their options.
        MessagePart(number, part.type, orjson.dumps(part.format, option=orjson.OPT_SORT_KEYS).decode())
        for number, part in enumerate(options.parts)
    ]


def check_same_parts(parts: Sequence[MessagePart], earlier: Schema) -> None:
    """Raise `incompatible schema` unless each part reads messages that earlier options wrote for the same part."""
    before = parts_of(earlier)
    types, types_before = ([part.schema.type for part in some] for some in (parts, before))
    if types != types_before:
        raise incompatible_schema(
            f"expected the parts {', '.join(types_before)}, as in the topic's records, got {', '.join(types)}"
        )
    for part, old in zip(parts, before, strict=True):
        part.check_reads(old.schema)


def split(data: bytes, count: int) -> list[bytes]:
    """Return the bytes of a message's parts; raise `bad message` unless it has exactly these parts."""
    found: list[bytes] = []
    at = 0
    for number in range(count):
        start = at + _LENGTH.size
        length = _LENGTH.unpack_from(data, at)[0] if start <= len(data) else None
        # The length is compared before anything is read: it may claim 4 GB (test_hostile_bytes_are_refused).
        if length is None or length > len(data) - start:
            raise bad_message(
                f"expected {count} parts, each after its length in 4 bytes, got a message of {len(data)} bytes with"
                f" part {number} at byte {at}{'' if length is None else f' of {length} bytes'}"
            )
        at = start + length
        found.append(data[start:at])
    if at != len(data):
        raise bad_message(
            f"expected {count} parts, got {len(data) - at} bytes after them: configure all parts of a message"
        )
    return found


def joined(parts: Sequence[bytes]) -> bytes:
    """Return the message that consists of parts."""
    for number, part in enumerate(parts):
        if len(part) > _LENGTH_MAX:
            raise bad_message(f"part {number}: expected at most {_LENGTH_MAX} bytes, got {len(part)}")
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def checked_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields of a JSON body with their exact texts; raise `bad message` or `too deep`."""
    checked_json(body)
    return raw_fields(body)
