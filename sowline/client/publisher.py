"""The publisher: commands straight to Kafka, idempotent, each with the publisher's own number."""

import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack

import orjson
from confluent_kafka import KafkaError, Message

from sowline.body import read_object
from sowline.command import DELTA, DELTA_PUBLISH, PUBLISH, SOW_DELETE, Headers, command_headers, read_command
from sowline.document.writable import check_delta, check_deltas
from sowline.errors import SowlineError
from sowline.filter import About
from sowline.kafka import KafkaConfig, exact_producer
from sowline.key import check_key_text, key_text
from sowline.topics import TopicDefinition, Topics
from sowline.traceparent import TRACEPARENT
from sowline.tracing import Span, begin_publish

Body = Mapping[str, Any] | bytes | str

DELIVERY_MS_MAX = 120_000


class Tagging(TypedDict, total=False):
    """What a write to a document may say of itself."""

    tags: Sequence[str] | str
    """A list, or one text with commas: conditions of subscribers can ask for them."""
    change_id: str | None
    """The writer's own id of the change: a UUID, or any text."""


class Writing(Tagging, total=False):
    """What may go with the command that writes a record."""

    correlation: str | None
    """Goes along to the subscribers."""
    expiration: float | None
    """The record's lifetime in seconds, 0 for none; without it the topic's counts."""


class Publisher:
    """Writes publishes, deltas and deletes to the logs of the topics it is given; safe from several threads.

    Each command carries the publisher's id and a rising number, so that writing it twice has its effect
    once. The id contains a fresh part for every publisher; one that is given must never be used by two at
    a time, and `start` must then be above every number used before.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: Topics,
        *,
        publisher: str | None = None,
        start: int = 1,
        **options: Any,
    ) -> None:
        self._topics: dict[str, TopicDefinition] = {topic.name: topic for topic in topics.topics}
        self.id = publisher or f"python-{uuid.uuid4().hex[:16]}"
        self._sequence = start
        self._lock = threading.Lock()
        self._failure: KafkaError | None = None
        bytes_max = max((topic.log_bytes_max for topic in topics.topics), default=1_000_000)
        limits = {"message.timeout.ms": DELIVERY_MS_MAX, "enable.gapless.guarantee": False}
        self._producer = exact_producer(kafka, bytes_max, **limits, **options)

    def publish(self, topic: str, data: Body, **writing: Unpack[Writing]) -> None:
        """Insert the record, or replace it whole."""
        self._write(topic, PUBLISH, data, **writing)

    def delta_publish(self, topic: str, data: Body, **writing: Unpack[Writing]) -> None:
        """Merge the fields into the record that the key fields in `data` name; its lifetime begins anew."""
        self._write(topic, DELTA_PUBLISH, data, **writing)

    def delta(self, topic: str, key: str, delta: str, **writing: Unpack[Writing]) -> None:
        """Do with the document that has this key text what the delta says."""
        definition = self._definition(topic)
        check_document(key, definition)
        body = checked_size(check_delta(delta), definition)
        self._send(definition, DELTA, body, key, writing)

    def deltas(self, topic: str, key: str, stream: str, **writing: Unpack[Writing]) -> None:
        """Do with a document what one delta says, or each of a stream; all are checked before one is written."""
        definition = self._definition(topic)
        check_document(key, definition)
        bodies = [checked_size(body, definition) for body in read_stream(stream, writing)]
        for body in bodies:
            self._send(definition, DELTA, body, key, writing)

    def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        correlation: str | None = None,
        **tagging: Unpack[Tagging],
    ) -> None:
        """Delete records: all that match a filter (`1=1`: every one), those of SOW keys, or the one `data` names."""
        if sum(selector is not None for selector in (filter, keys, data)) != 1:
            raise SowlineError("bad request", "expected exactly one of filter, keys and data")
        if (keys is not None and not keys) or (filter is not None and not filter.strip()):
            raise SowlineError("bad request", "expected something to delete, got an empty selector")
        self._write(topic, SOW_DELETE, data, filter=filter, keys=keys, correlation=correlation, **tagging)

    def _write(self, topic: str, command: str, data: Body | None, **about: Any) -> None:
        definition = self._definition(topic)
        if command == SOW_DELETE and not definition.has_sow:
            raise SowlineError(
                "no sow", f"expected a topic that keeps records, got {topic!r}, which has no SOW"
            )
        body = None if data is None else encode(data)
        key = None if body is None else checked_key(body, definition, about.get("correlation"))
        self._send(definition, command, body, key, about)

    def _send(
        self,
        definition: TopicDefinition,
        command: str,
        body: bytes | None,
        key: str | None,
        about: Mapping[str, Any],
    ) -> None:
        """Write a command, of which the body and the key are checked already."""
        is_tagged = check_tagging(about, definition)
        self._raise_failure()
        with self._lock:
            headers = command_headers(command, publisher=self.id, sequence=str(self._sequence), **about)
            if is_tagged:
                read_command(headers)
            self._sequence += 1
            span = begin_publish(definition.name)
            if span is not None:
                headers.append((TRACEPARENT, span.traceparent.encode()))
            self._produce(definition.log, body, None if key is None else key.encode(), headers, span)

    def _produce(
        self, log: str, body: bytes | None, key: bytes | None, headers: Headers, span: Span | None
    ) -> None:
        report = self._on_delivery if span is None else partial(self._on_traced, span)
        while True:
            try:
                self._producer.produce(
                    log,
                    body,
                    key,
                    on_delivery=report,
                    headers=headers,  # type: ignore[arg-type]
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _definition(self, topic: str) -> TopicDefinition:
        if topic not in self._topics:
            known = ", ".join(self._topics) or "none"
            raise SowlineError("invalid topic", f"expected a topic ({known}), got {topic!r}")
        return self._topics[topic]

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error

    def _on_traced(self, span: Span, error: KafkaError | None, message: Message) -> None:
        self._on_delivery(error, message)
        if error is None:
            span.end({"partition": message.partition() or 0, "position": str(message.offset())})
        else:
            span.end(error=str(error))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise SowlineError("not written", f"Kafka did not take an earlier command: {failure}")

    def flush(self, seconds: float = DELIVERY_MS_MAX / 1000) -> None:
        """Wait until Kafka has everything written so far; raises `not written` where it did not take it."""
        left = self._producer.flush(seconds)
        self._raise_failure()
        if left:
            raise SowlineError(
                "not written", f"Kafka has not acknowledged {left} commands within {seconds:g} s"
            )

    def close(self) -> None:
        """Flush and end."""
        self.flush()


def encode(data: Body) -> bytes:
    """Return a body as bytes."""
    if isinstance(data, bytes):
        return data
    return data.encode() if isinstance(data, str) else orjson.dumps(data)


def checked_key(body: bytes, definition: TopicDefinition, correlation: str | None) -> str | None:
    """Return the key text of a body, preprocessed, None in a topic without; raises what the body is refused for."""
    document = read_object(checked_size(body, definition))
    if not definition.has_sow:
        return None
    if definition.preprocess is not None:
        about = About(topic=definition.name, size=len(body), correlation=correlation)
        definition.preprocess.apply(body, document, about)
    return key_text(document, definition.key_paths)


def read_stream(stream: str, writing: Writing) -> list[bytes]:
    """Return the texts of a stream's deltas, checked; raises `bad request` where several have one id."""
    deltas = check_deltas(stream)
    if len(deltas) > 1 and writing.get("change_id"):
        raise SowlineError("bad request", f"expected one delta with a change_id, got {len(deltas)}")
    return deltas


def checked_size(body: bytes, definition: TopicDefinition) -> bytes:
    """Return a body, or a delta's text, that is no larger than the topic allows; raises `too large`."""
    if len(body) > definition.record_bytes_max:
        raise SowlineError(
            "too large", f"expected a record of at most {definition.record_bytes_max} bytes, got {len(body)}"
        )
    return body


def check_document(key: str, definition: TopicDefinition) -> None:
    """Raise `no documents`, or what is wrong with the key text that names one."""
    if not definition.documents:
        raise _no_documents(definition, "a delta")
    check_key_text(key, definition.key_paths)


def check_tagging(about: Mapping[str, Any], definition: TopicDefinition) -> bool:
    """Return whether there are tags or the id of a change; raises `no documents` where they are for what has none."""
    is_tagged = bool(about.get("tags") or about.get("change_id"))
    if is_tagged and not definition.documents:
        raise _no_documents(definition, "tags and change_id")
    return is_tagged


def _no_documents(definition: TopicDefinition, what: str) -> SowlineError:
    return SowlineError(
        "no documents", f"expected documents: true in the definition of topic {definition.name}, for {what}"
    )
