"""Messages whose records are in the message type of their topic, made from messages in JSON."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.config.typed_message import typed_message
from sowline.errors import SowlineError
from sowline.wire.server_message import sow_batch
from sowline.wire.typed_frame import write_typed

RECORDS_AT_ONCE = 100
"""Records to write before other tasks run."""

_DATA = b'"data":'


class TypedBody(NamedTuple):
    """A record in the message type of its topic, or the `problem` because of which there is none."""

    body: bytes
    problem: str = ""


class _Described(msgspec.Struct, gc=False):
    """The fields of a message that its typed form depends on."""

    command: str
    topic: str = ""
    query_id: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")
    records: list[msgspec.Raw] | int | None = None


class _DataOnly(msgspec.Struct, gc=False):
    data: msgspec.Raw


_read = msgspec.json.Decoder(_Described).decode
_read_data = msgspec.json.Decoder(_DataOnly).decode


def record_data(record: bytes) -> bytes:
    """Return the data of a record of a `sow` message."""
    return bytes(_read_data(record).data)


def in_message_type(definition: TopicDefinition, body: bytes) -> bytes:
    """Return a record in the message type of its topic; raise `bad message` if it can't be written in it."""
    codec = definition.codec
    try:
        return typed_message(definition, body)
    except SowlineError as error:
        if codec is None or error.reason != "bad message":
            raise
        # Records that were last written under an earlier reader schema are stored as they were then
        # (test_a_record_of_an_earlier_reader_schema).
        return typed_message(definition, codec.upgraded(body))


class TypedMessages:
    """Makes typed messages for all clients of a service.

    A change goes to all its subscribers at one instant. So the last record of each topic is kept, and written once.
    """

    def __init__(self, definitions: Mapping[str, TopicDefinition]) -> None:
        self._definitions = definitions
        self._last: dict[str, tuple[bytes, TypedBody]] = {}

    def forget(self, topic: str) -> None:
        """Keep no record of a topic whose definition has changed, or that is gone."""
        self._last.pop(topic, None)

    def of(self, message: bytes) -> bytes:
        """Return a message as a binary frame; one without records as it is."""
        described = _read(message)
        if isinstance(described.records, list):
            return self._batch(described, described.records)
        data = bytes(described.data)
        if not data:
            return message
        typed = self.body(described.topic, data)
        return write_typed(_with_size(message, data, typed), [typed.body])

    def _batch(self, described: _Described, records: list[msgspec.Raw]) -> bytes:
        texts, bodies = [], []
        for record in map(bytes, records):
            data = record_data(record)
            typed = self.body(described.topic, data)
            texts.append(_with_size(record, data, typed))
            bodies.append(typed.body)
        return write_typed(sow_batch(described.query_id, described.topic, texts), bodies)

    def body(self, topic: str, data: bytes) -> TypedBody:
        """Return a record of a topic in its message type."""
        last = self._last.get(topic)
        if last is not None and last[0] == data:
            return last[1]
        try:
            typed = TypedBody(in_message_type(self._definitions[topic], data))
        except SowlineError as error:
            typed = TypedBody(b"", f"{error.reason}: {error.message}")
        self._last[topic] = data, typed
        return typed


def _with_size(text: bytes, data: bytes, typed: TypedBody) -> bytes:
    """Return a message or a record with the size of its body in place of its data, which is its last field."""
    start = -len(data) - 1
    assert text[start - len(_DATA) : start] == _DATA, "services write the data last"
    head = b'%b"size":%d' % (text[: start - len(_DATA)], len(typed.body))
    return head + (b',"problem":%b}' % orjson.dumps(typed.problem) if typed.problem else b"}")
