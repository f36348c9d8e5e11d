"""The newest messages of a topic's log, of its changes, or of its dead letters, as they are in Kafka."""

import asyncio
import base64
import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson
from confluent_kafka import Message

from sowline.commands.command import UNREADABLE_HEADERS
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.messages import headers_of
from sowline.kafka.read_back import NewestMessages, read_newest
from sowline.serving.http.requests import number_in
from sowline.wire.server_message import iso_time

DEFAULT_MESSAGES_MAX = 100
LIMIT_MAX = 1000
OFFSET_MAX = 2**63 - 1
READS_AT_ONCE = 2
"""Tails to read at the same time; others wait."""

VALUE_BYTES_MAX = 64 * 1024
"""Bytes of a value that an answer contains; a longer one is cut."""

UNREADABLE_NOTE = "a header name is not UTF-8, so no header of this message can be read"

TAIL_PARAMETERS = ("limit", "partition", "before", "key", "reason")


class TailKind(Enum):
    """The Kafka topics of a topic."""

    LOG = "log"
    CHANGES = "changes"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class TailRequest:
    """The newest messages of partitions of a Kafka topic, with a key and a reason if these are given."""

    kafka_topic: str
    partitions: tuple[int, ...]
    messages_max: int = DEFAULT_MESSAGES_MAX
    before: int | None = None
    """The offset before which the messages are; None for the newest."""
    key: bytes | None = None
    reason: bytes | None = None

    def wants(self, message: Message) -> bool:
        """Whether a message is one of those that are requested."""
        if self.key is not None and message.key() != self.key:
            return False
        return self.reason is None or ("sow.reason", self.reason) in (headers_of(message) or ())


def tail_request_of(definition: TopicDefinition, kind: TailKind, given: Mapping[str, str]) -> TailRequest:
    """Return the request in the parameters of a URL; raise `bad request`."""
    kafka_topic = {
        TailKind.LOG: definition.log,
        TailKind.CHANGES: definition.changes,
        TailKind.DEAD: definition.kafka.dead,
    }[kind]
    partitions = tuple(range(1 if kind is TailKind.DEAD else definition.partitions))
    if "partition" in given:
        number = _number("partition", given["partition"], 0, len(partitions) - 1)
        partitions = (number,)
    if "before" in given and len(partitions) > 1:
        raise SowlineError(
            "bad request", "expected a partition together with before, which is an offset of it, got none"
        )
    before = _number("before", given["before"], 0, OFFSET_MAX) if "before" in given else None
    limit = _number("limit", given["limit"], 1, LIMIT_MAX) if "limit" in given else DEFAULT_MESSAGES_MAX
    if "reason" in given and kind is not TailKind.DEAD:
        raise SowlineError(
            "bad request", f"expected a reason for dead letters only, got one for {kind.value}"
        )
    key, reason = given.get("key"), given.get("reason")
    return TailRequest(
        kafka_topic,
        partitions,
        limit,
        before,
        None if key is None else key.encode(),
        None if reason is None else reason.encode(),
    )


def _number(name: str, text: str, least: int, most: int) -> int:
    number = number_in(text)
    if isinstance(number, str) or not least <= number <= most:
        raise SowlineError("bad request", f"expected {name}={least} to {most}, got {text[:20]!r}")
    return number


class TailReader:
    """Reads the newest messages of Kafka topics, a few requests at a time."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        # A read takes one of the few threads that the file descriptors allow, for seconds: subscriptions that catch
        # up need the others.
        self._turns = asyncio.Semaphore(READS_AT_ONCE)

    async def read(self, wanted: TailRequest) -> bytes:
        """Return the messages as JSON, newest first; raise `not ready` if Kafka does not answer in time."""
        async with self._turns:
            try:
                return await asyncio.to_thread(self._read, wanted)
            except TimeoutError:
                raise SowlineError(
                    "not ready", f"Kafka did not deliver {wanted.kafka_topic} in time; try again"
                ) from None

    def _read(self, wanted: TailRequest) -> bytes:
        found = {
            number: read_newest(
                self._kafka, wanted.kafka_topic, number, wanted.messages_max, wanted.wants, end=wanted.before
            )
            for number in wanted.partitions
        }
        messages = sorted(
            (message for each in found.values() for message in each.messages),
            key=lambda message: (message.timestamp()[1], message.partition() or 0, message.offset() or 0),
            reverse=True,
        )
        answer = {
            "kafka_topic": wanted.kafka_topic,
            "searched": [_extent(number, each) for number, each in found.items()],
            "messages": [_described(message) for message in messages[: wanted.messages_max]],
        }
        return orjson.dumps(answer)


def _extent(number: int, found: NewestMessages) -> dict[str, Any]:
    return {"partition": number, "begin": found.begin, "end": found.end, "complete": found.is_complete}


def _described(message: Message) -> dict[str, Any]:
    value, headers = message.value(), headers_of(message) or []
    is_cut = value is not None and len(value) > VALUE_BYTES_MAX
    described = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": iso_time(message.timestamp()[1]),
        "key": _text(message.key()),
        "headers": {name: _text(content) for name, content in headers},
        "bytes": 0 if value is None else len(value),
        "value": _text(value if value is None else value[:VALUE_BYTES_MAX], is_cut=is_cut),
    }
    if is_cut:
        described["cut"] = True
    if headers == UNREADABLE_HEADERS:
        described["note"] = UNREADABLE_NOTE
    return described


def _text(content: bytes | str | None, *, is_cut: bool = False) -> str | None:
    """Return bytes as text; those that are not UTF-8 in base64, after `base64:`.

    Cut bytes may end within a character, which is left out.
    """
    if content is None or isinstance(content, str):
        return content
    try:
        # Not final if cut: half a character at the end would turn the whole text into base64
        # (test_a_cut_value_is_text).
        return codecs.utf_8_decode(content, "strict", not is_cut)[0]
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(content).decode()
