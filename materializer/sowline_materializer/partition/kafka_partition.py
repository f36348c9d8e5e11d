"""The extents of a partition's log and changes in Kafka, and their messages."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from types import ModuleType
from typing import Any

import structlog
from confluent_kafka import Message

from sowline.changes.event import Event
from sowline.changes.progress import ChangesId
from sowline.codecs.resolutions import Resolutions
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import DEFINE
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.kafka.leader_watch import needing_leader
from sowline.kafka.messages import event_of, headers_of
from sowline.kafka.native_reader import read_natively
from sowline.model.limits import Limits, names_template, read_define

log = structlog.get_logger()

UNTIL_THE_END = sys.maxsize
"""An offset that no partition reaches."""


@dataclass(frozen=True, slots=True)
class KafkaExtent:
    """The present extent of a partition in Kafka."""

    log_id: str
    log_start: int
    log_end: int
    changes_start: int
    changes_end: int
    changes_id: str
    """As a `ChangesId`; without the start if the topic has no SOW, whose changes are deleted by age."""


def kafka_extent(cluster: Cluster, definition: TopicDefinition, partition: int) -> KafkaExtent:
    """Ask Kafka for the offsets and topic ids of a partition's log and changes.

    The end of the changes is read first. A previous owner may still write: none of its events up to that end may seem
    to come from beyond the log's end.
    """
    one, log, changes = [partition], definition.log, definition.changes
    ids, before = cluster.topic_ids([log, changes]), dict[str, str]()
    while ids != before:
        changes_end = cluster.ends(changes, one)[partition]
        changes_start = cluster.starts(changes, one)[partition]
        log_start, log_end = cluster.starts(log, one)[partition], cluster.ends(log, one)[partition]
        # A topic is deleted and created again between two of these answers. With its old id, the events of an owner
        # that has not noticed would count: the partition would open without records
        # (test_a_topic_that_is_replaced_between_two_answers).
        before, ids = ids, cluster.topic_ids([log, changes])
    return KafkaExtent(
        log_id=ids[log],
        log_start=log_start,
        log_end=log_end,
        changes_start=changes_start,
        changes_end=changes_end,
        changes_id=changes_id(definition, ids[changes], changes_start),
    )


def changes_id(definition: TopicDefinition, topic_id: str, start: int) -> str:
    """Return the id of a partition's changes that begin at this offset."""
    return str(ChangesId(topic_id, start if definition.has_sow else 0))


class PartitionReader:
    """Reads ranges of a partition's log and changes, and logs with its name and number."""

    def __init__(self, kafka: KafkaConfig, definition: TopicDefinition, number: int) -> None:
        self._kafka = kafka
        self._definition = definition
        self.number = number

    def log(self, start: int, end: int) -> Iterator[list[Message]]:
        """Yield the messages of the log between two offsets."""
        return self._read(self._definition.log, start, end)

    def events(self, start: int, end: int) -> Iterator[tuple[int, Event]]:
        """Yield the events of the changes partition between two offsets, each with its offset."""
        messages = chain.from_iterable(self._read(self._definition.changes, start, end))
        for message in messages:
            yield message.offset() or 0, event_of(message)

    def changes_to_load(self, start: int, end: int, native: ModuleType | None) -> Iterator[Sequence[Message]]:
        """Yield the messages of the same, for a load; `native` is the native core, which reads them if it can."""
        changes = self._definition.changes
        if native is None:
            return self._read(changes, start, end)
        idle = needing_leader(self._kafka, {(changes, self.number)})
        return read_natively(native, self._kafka, changes, self.number, start, end, idle=idle)

    def _read(self, topic: str, start: int, end: int) -> Iterator[list[Message]]:
        """Yield messages; raise Kafka's error if the partition loses its leader, as its other ones may be served."""
        idle = needing_leader(self._kafka, {(topic, self.number)})
        return read_range(self._kafka, topic, self.number, start, end, idle=idle)

    def bodies(self) -> TypedBodies | None:
        """Return the reader of the log's bodies, with all present entries of `<log>.schemas`; None for JSON."""
        reader = self._definition.reader
        if reader is None:
            return None
        resolutions = Resolutions()
        self.read_schemas(resolutions)
        return TypedBodies(reader.type, self._definition.framing, resolutions)

    @property
    def schema_log(self) -> str:
        """The Kafka topic of the schemas."""
        return self._definition.kafka.schema_log

    def read_schemas(self, resolutions: Resolutions) -> None:
        """Add the entries of the partition in `<log>.schemas`, up to its present end."""
        for messages in self._read(self.schema_log, 0, UNTIL_THE_END):
            for message in messages:
                resolutions.add(message.key(), message.value())

    def limits_at(self, start: int, end: int, template: str | None) -> Limits | None:
        """Return the limits at an offset of the log: those before the next `define`; None if there is none.

        `template` is that of documents whose log has no `define` that changes it.
        """
        first: Limits | None = None
        for was, now in self._defines(start, end):
            first = first or was
            if not self._definition.documents or names_template(was, now):
                return replace(first, template=was.template)
        return None if first is None else replace(first, template=template)

    def _defines(self, start: int, end: int) -> Iterator[tuple[Limits, Limits]]:
        for messages in self.log(start, end):
            for message in messages:
                if ("sow.command", DEFINE.encode()) in (headers_of(message) or ()):
                    # A malformed `define` is a dead letter, and changes no limits.
                    with suppress(SowlineError):
                        yield read_define(message.value())

    @property
    def logger(self) -> Any:
        """The logger of this partition."""
        return log.bind(topic=self._definition.name, partition=self.number)


def offsets_of(messages: Iterable[Message]) -> list[int]:
    """Return the offsets of Kafka messages."""
    return [message.offset() or 0 for message in messages]
