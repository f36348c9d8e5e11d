"""The publisher: commands straight to Kafka, idempotent, each with the publisher's own number."""

import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from confluent_kafka import KafkaError, Message

from sowline.body import read_object
from sowline.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE, Headers, command_headers
from sowline.errors import SowlineError
from sowline.filter import About
from sowline.kafka import KafkaConfig, exact_producer
from sowline.key import key_text
from sowline.topics import TopicDefinition, Topics

Body = Mapping[str, Any] | bytes | str

DELIVERY_MS_MAX = 120_000


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

    def publish(
        self, topic: str, data: Body, *, correlation: str | None = None, expiration: float | None = None
    ) -> None:
        """Insert the record, or replace it whole.

        `expiration` is its lifetime in seconds, 0 for none; without it the topic's counts.
        """
        self._write(topic, PUBLISH, data, correlation=correlation, expiration=expiration)

    def delta_publish(
        self, topic: str, data: Body, *, correlation: str | None = None, expiration: float | None = None
    ) -> None:
        """Merge the fields into the record that the key fields in `data` name; its lifetime begins anew."""
        self._write(topic, DELTA_PUBLISH, data, correlation=correlation, expiration=expiration)

    def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        correlation: str | None = None,
    ) -> None:
        """Delete records: all that match a filter (`1=1`: every one), those of SOW keys, or the one `data` names."""
        if sum(selector is not None for selector in (filter, keys, data)) != 1:
            raise SowlineError("bad request", "expected exactly one of filter, keys and data")
        if (keys is not None and not keys) or (filter is not None and not filter.strip()):
            raise SowlineError("bad request", "expected something to delete, got an empty selector")
        self._write(topic, SOW_DELETE, data, filter=filter, keys=keys, correlation=correlation)

    def _write(self, topic: str, command: str, data: Body | None, **about: Any) -> None:
        definition = self._definition(topic)
        if command == SOW_DELETE and not definition.has_sow:
            raise SowlineError(
                "no sow", f"expected a topic that keeps records, got {topic!r}, which has no SOW"
            )
        body = None if data is None else encode(data)
        text = None if body is None else checked_key(body, definition, about.get("correlation"))
        key = None if text is None else text.encode()
        self._raise_failure()
        with self._lock:
            headers = command_headers(command, publisher=self.id, sequence=str(self._sequence), **about)
            self._sequence += 1
            self._produce(definition.log, body, key, headers)

    def _produce(self, log: str, body: bytes | None, key: bytes | None, headers: Headers) -> None:
        while True:
            try:
                self._producer.produce(
                    log,
                    body,
                    key,
                    on_delivery=self._on_delivery,
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
    if len(body) > definition.record_bytes_max:
        raise SowlineError(
            "too large", f"expected a record of at most {definition.record_bytes_max} bytes, got {len(body)}"
        )
    document = read_object(body)
    if not definition.has_sow:
        return None
    if definition.preprocess is not None:
        about = About(topic=definition.name, size=len(body), correlation=correlation)
        definition.preprocess.apply(body, document, about)
    return key_text(document, definition.key_paths)
