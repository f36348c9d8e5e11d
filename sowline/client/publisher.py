"""The publisher: commands straight to Kafka, idempotent, each with the publisher's own number."""

import logging
import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from confluent_kafka import KafkaError, Message

from sowline.client.write_failures import FlushAttempt, WriteFailures
from sowline.client.write_options import (
    Body,
    DeliveryReport,
    DeltaWriteOptions,
    KeyedWriteOptions,
    OnDelivery,
    Tagging,
    WriteOptions,
)
from sowline.commands.command import (
    DELTA,
    DELTA_PUBLISH,
    PUBLISH,
    SOW_DELETE,
    command_headers,
    read_command,
)
from sowline.commands.traceparent import TRACEPARENT
from sowline.config.kafka_options import KafkaConfig
from sowline.config.outgoing_body import outgoing_body
from sowline.config.outgoing_command import (
    ANY_PARTITION,
    check_document,
    check_tagging,
    checked_size,
)
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import DescribedTopics, Topics
from sowline.errors import SowlineError
from sowline.kafka.clients import exact_producer, produce
from sowline.language.emodb.writable import check_delta, check_deltas
from sowline.model.exact_numbers import write_exact
from sowline.model.key import partition_of
from sowline.runtime.tracing import TraceSpan, begin_publish

DELIVERY_MS_MAX = 120_000

ProducerOption = str | int | float | bool
"""The value of a setting of librdkafka."""

log = logging.getLogger("sowline")


class Publisher:
    """Writes publishes, deltas and deletes to the logs of its topics; safe to use from several threads.

    Each command carries the publisher's id and a rising number, so that a command that is written twice takes effect
    once. By default each publisher has a new id. If you give an id, no two publishers may use it at a time, and
    `start` must be above every number used before.

    On a topic whose message type has a schema, JSON is written as a message of that type. Bytes are written as they
    are: they must be such a message, with its frame.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: Topics | DescribedTopics,
        *,
        publisher: str | None = None,
        start: int = 1,
        **options: ProducerOption,
    ) -> None:
        self.redefine(topics)
        self.id = publisher or f"python-{uuid.uuid4().hex[:16]}"
        self._sequence = start
        self._lock = threading.Lock()
        self._failures = WriteFailures()
        self._reports: deque[tuple[OnDelivery, DeliveryReport]] = deque()
        # Under the gapless guarantee, one command that timed out would be fatal to the producer.
        limits = {"message.timeout.ms": DELIVERY_MS_MAX, "enable.gapless.guarantee": False}
        settings: dict[str, Any] = limits | options
        self._producer = exact_producer(kafka, **settings)

    def __contains__(self, topic: object) -> bool:
        """Whether this topic can be written to."""
        return topic in self._topics

    def redefine(self, topics: Topics | DescribedTopics) -> None:
        """Write by these definitions from now on."""
        self._topics: Mapping[str, TopicDefinition] = {topic.name: topic for topic in topics.topics}

    def publish(
        self,
        topic: str,
        data: Body,
        *,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[KeyedWriteOptions],
    ) -> None:
        """Insert the record, or replace it whole."""
        self._write(topic, PUBLISH, data, on_delivery, **writing)

    def delta_publish(
        self,
        topic: str,
        data: Body,
        *,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[DeltaWriteOptions],
    ) -> None:
        """Merge the fields into the record with this `key`, or with the key fields in `data`."""
        self._write(topic, DELTA_PUBLISH, data, on_delivery, **writing)

    def delta(
        self,
        topic: str,
        key: str,
        delta: str,
        *,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[WriteOptions],
    ) -> None:
        """Apply a delta to the document with this key text."""
        definition = self._definition(topic)
        check_document(key, definition)
        body = checked_size(check_delta(delta), definition)
        self._send(definition, DELTA, body, key, writing, on_delivery)

    def deltas(
        self,
        topic: str,
        key: str,
        stream: str,
        *,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[WriteOptions],
    ) -> None:
        """Apply one delta, or each of a stream, to a document; all are checked before one is written.

        `on_delivery` is called for each.
        """
        definition = self._definition(topic)
        check_document(key, definition)
        bodies = [checked_size(body, definition) for body in read_stream(stream, writing)]
        for body in bodies:
            self._send(definition, DELTA, body, key, writing, on_delivery)

    def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        key: str | None = None,
        correlation: str | None = None,
        on_delivery: OnDelivery | None = None,
        **tagging: Unpack[Tagging],
    ) -> None:
        """Delete records: all that match a filter (`1=1`: every one), those with SOW keys, or the one that `data`
        names.

        On a topic whose publishers give keys, a `key` names the record, and `data` is optional.
        """
        named = data is not None or key is not None
        if (filter is not None) + (keys is not None) + named != 1:
            raise SowlineError(
                "bad request", "expected exactly one of filter, keys, data and key, got none or several"
            )
        if (keys is not None and not keys) or (filter is not None and not filter.strip()):
            raise SowlineError("bad request", "expected something to delete, got an empty selector")
        selected = {"filter": filter, "keys": keys, "key": key}
        self._write(topic, SOW_DELETE, data, on_delivery, **selected, correlation=correlation, **tagging)

    def _write(
        self, topic: str, command: str, data: Body | None, on_delivery: OnDelivery | None, **about: Any
    ) -> None:
        definition = self._definition(topic)
        if command == SOW_DELETE and not definition.has_sow:
            raise SowlineError(
                "no sow", f"expected a topic that keeps records, got {topic!r}, which has no SOW"
            )
        outgoing = outgoing_body(
            definition,
            command,
            None if data is None else encode(data),
            correlation=about.get("correlation"),
            key=about.pop("key", None),
            fields=about.pop("fields", ()),
            is_typed=isinstance(data, bytes),
        )
        about |= {"fields": outgoing.fields}
        self._send(definition, command, outgoing.value, outgoing.key, about, on_delivery)

    def _send(
        self,
        definition: TopicDefinition,
        command: str,
        body: bytes | None,
        key: str | None,
        about: Mapping[str, Any],
        on_delivery: OnDelivery | None,
    ) -> None:
        """Write a command whose body and key have been checked."""
        is_tagged = check_tagging(about, definition)
        self._failures.raise_since(self._failures.raised)
        header_key = key if definition.has_sow and definition.key_rule.takes_header else None
        # If the key is not known yet, one partition for all records keeps the order in which this publisher writes.
        unknown = definition.has_sow and body is not None and key is None
        partition = partition_of(self.id, definition.partitions) if unknown else ANY_PARTITION
        # Numbered and queued under one lock: a command that followed a higher number would count as a repeat.
        with self._lock:
            headers = command_headers(
                command, publisher=self.id, sequence=str(self._sequence), key=header_key, **about
            )
            if is_tagged:
                # Read as the materializer does: a command that it refuses becomes a dead letter, of which
                # this caller would not hear.
                read_command(headers)
            self._sequence += 1
            span = begin_publish(definition.name)
            if span is not None:
                headers.append((TRACEPARENT, span.traceparent.encode()))
            report = partial(self._on_delivery, definition.name, on_delivery, span)
            encoded = None if key is None else key.encode()
            produce(self._producer, definition.log, body, encoded, partition, report, headers=headers)
            # Nothing else takes the reports of delivered commands before `flush`: until they are taken, they fill the
            # queue.
            self._producer.poll(0)
        self._call_back()

    def _definition(self, topic: str) -> TopicDefinition:
        if topic not in self._topics:
            known = ", ".join(self._topics) or "none"
            raise SowlineError("invalid topic", f"expected a topic ({known}), got {topic!r}")
        return self._topics[topic]

    def _on_delivery(
        self,
        topic: str,
        on_delivery: OnDelivery | None,
        span: TraceSpan | None,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        """Note the outcome of a command; Kafka's client calls this while it is polled or flushed."""
        if error is not None:
            self._failures.note(error)
        if on_delivery is not None:
            self._reports.append((on_delivery, _report_of(topic, error, message)))
        if span is not None and error is None:
            span.end({"partition": message.partition() or 0, "position": str(message.offset())})
        elif span is not None:
            span.end(error=str(error))

    def _call_back(self) -> None:
        """Call the callbacks of the commands that Kafka has accepted or refused.

        While Kafka's client is polled, this publisher is locked: a callback that wrote would never end.
        """
        while True:
            # Another thread may take the last report after a look at the queue: the write, which Kafka's client has,
            # must not end with an error of this queue.
            try:
                on_delivery, report = self._reports.popleft()
            except IndexError:
                return
            try:
                on_delivery(report)
            except Exception:
                log.exception("on_delivery of a command for %s failed", report.topic)

    def begin_flush(self, seconds: float = DELIVERY_MS_MAX / 1000) -> FlushAttempt:
        """Return a wait for everything written so far, for callers that may give up while a thread waits."""
        return FlushAttempt(self._failures, self._flush_producer, seconds)

    def _flush_producer(self, seconds: float) -> int:
        """Wait until Kafka has everything; return how many commands it has not acknowledged."""
        left = self._producer.flush(seconds)
        self._call_back()
        return left

    def flush(self, seconds: float = DELIVERY_MS_MAX / 1000) -> None:
        """Wait until Kafka has everything written so far; raise `not written` if it did not accept something."""
        flush = self.begin_flush(seconds)
        flush.wait()
        flush.check()

    def close(self) -> None:
        """Flush and end."""
        self.flush()


def _report_of(topic: str, error: KafkaError | None, message: Message) -> DeliveryReport:
    if error is None:
        return DeliveryReport(topic, message.partition(), message.offset(), None)
    refusal = SowlineError("not written", f"Kafka did not accept the command: {error}")
    return DeliveryReport(topic, None, None, refusal)


def encode(data: Body) -> bytes:
    """Return a body as bytes."""
    if isinstance(data, bytes):
        return data
    return data.encode() if isinstance(data, str) else write_exact(data)


def read_stream(stream: str, writing: WriteOptions) -> list[bytes]:
    """Return the checked texts of a stream's deltas; raise `bad request` if several would have the same change id."""
    deltas = check_deltas(stream)
    if len(deltas) > 1 and writing.get("change_id"):
        raise SowlineError("bad request", f"expected one delta with a change_id, got {len(deltas)}")
    return deltas
