"""Writes the result of a step to Kafka and waits for the acknowledgement, so that the state may be committed."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import length_hint
from types import ModuleType

import structlog
from confluent_kafka import KafkaError, KafkaException, Message

from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import Headers
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import StartAgain
from sowline.kafka.clients import exact_producer, served
from sowline.kafka.leader_watch import LeaderWatch
from sowline.kafka.leaderless import KafkaPartition
from sowline.kafka.retriable import AWAY
from sowline.native import raise_unless_panic
from sowline_materializer.core.step import DeadLetter, Forward
from sowline_materializer.partition.owner_commands import Append

log = structlog.get_logger()

MESSAGE_CHARACTERS_MAX = 2000
"""Limit for the message of a dead letter, so that the letter always fits its topic."""

CLOSE_SECONDS_MAX = 1.0

LINGER_MS = 20
"""How long a message may wait for others. A message that is waited for is not delayed; librdkafka wakes up less
often.
"""

Report = Callable[[KafkaError | None, Message], None]


class NotWritten(StartAgain):
    """Kafka refused a message permanently, or the service stops: restart from the committed state."""


class Emitter:
    """The one producer of a worker: events, forwards and dead letters of all its partitions."""

    def __init__(
        self,
        kafka: KafkaConfig,
        stopping: Callable[[], bool],
        native: ModuleType | None = None,
    ) -> None:
        self._native = native
        self._stopping = stopping
        self._errors: list[KafkaError] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._targets: set[KafkaPartition] = set()
        """The partitions written to since Kafka had everything."""
        self._watch = LeaderWatch(kafka)
        self._producer = exact_producer(kafka, error_cb=self._on_error, linger_ms=LINGER_MS)

    def events(self, definition: TopicDefinition, partition: int, events: Sequence[Event]) -> None:
        """Write changes and progress events to a changes partition, in order, with deltas if the definition says so.

        The delivery report of the last event of a batch has its offset; the others were written before it, without
        gaps.
        """
        if not events:
            return
        at, last, topic = 0, len(events) - 1, definition.changes
        while at < last:
            at = self._produce_plain(topic, partition, events, at, last)
            if at < last:
                self._produce_event(definition, partition, events[at])
                at += 1
        self._produce_event(definition, partition, events[last], self._on_last)

    def _produce_plain(
        self, topic: str, partition: int, events: Sequence[Event], start: int, end: int
    ) -> int:
        """Produce changes of the native core from `start` to `end` at most; return the index after them.

        No line of Python runs for a single one of them: it would take as long as producing it.
        """
        if self._native is None or not isinstance(events[start], self._native.Change):
            return start
        try:
            messages = self._native.messages(events, start, end)
        except BaseException as error:
            raise_unless_panic(error, f"{topic} [{partition}]")
            self._native = None
            return start
        values, keys, headers, stop = messages.values, messages.keys, messages.headers, int(messages.end)
        left = iter(values)
        produced = map(
            self._producer.produce,
            repeat(topic),
            left,
            keys,
            repeat(partition),
            repeat(None),
            repeat(None),
            repeat(0),
            headers,
        )
        while True:
            try:
                deque(produced, maxlen=0)
                return stop
            except BufferError:
                # The iterator has passed the message that found no room: produce that first, to keep the order
                # (test_changes_of_the_native_core_are_written_in_order).
                full = len(values) - length_hint(left) - 1
                self._produce(topic, values[full], keys[full], partition, None, headers[full])

    def _produce_event(
        self, definition: TopicDefinition, partition: int, event: Event, report: Report | None = None
    ) -> None:
        topic = definition.changes
        if isinstance(event, Progress):
            self._produce(topic, event.value(), event.key, partition, report)
            return
        delta = (
            event.delta(definition.key_fields)
            if definition.declared.delta and definition.has_deltas
            else None
        )
        self._produce(topic, event.value, event.sow_key, partition, report, event.headers(delta))

    def forwards(self, topic: str, forwards: Iterable[Forward]) -> None:
        """Write records to the log partitions that own them, with unchanged headers except for their origin."""
        for forward in forwards:
            record = forward.record
            headers = [*(record.headers or ()), ("sow.origin", str(forward.origin).encode())]
            self._produce(topic, record.value, record.key, forward.partition, self._on_any, headers)

    def appends(self, topic: str, partition: int, appends: Iterable[Append]) -> None:
        """Write the owner's own commands to its log partition; only the next batch waits for them."""
        for append in appends:
            self._produce(topic, append.value, append.key, partition, self._on_any, append.headers)
        self._served(self._producer.poll, 0)
        self._check()

    def schemas(self, topic: str, partition: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Write entries, as keys and values, to a partition of a topic's schemas, and wait for Kafka to have them."""
        for key, value in entries:
            self._produce(topic, value, key, partition, self._on_any)
        self.wait()

    def dead(self, topic: str, partition: int, letters: Iterable[DeadLetter]) -> None:
        """Write refused records unchanged, with the reason, keyed by their partition and offset in the log."""
        for letter in letters:
            record = letter.record
            original_key = [] if record.key is None else [("sow.original_key", record.key)]
            # The message may quote text that UTF-8 can't hold. A letter that fails would stop the partition.
            reason = [
                ("sow.reason", letter.reason.encode()),
                ("sow.message", letter.message[:MESSAGE_CHARACTERS_MAX].encode("utf-8", "replace")),
            ]
            headers: Headers = [*(record.headers or ()), *original_key, *reason]
            key = f"{partition}@{record.offset}".encode()
            self._produce(topic, record.value, key, 0, self._on_any, headers)

    def _produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        report: Report | None,
        headers: Headers | None = None,
    ) -> None:
        """Produce a message; if the producer's queue is full, wait for space first, as `wait` does."""
        self._targets.add((topic, partition))
        while True:
            try:
                self._producer.produce(topic, value, key, partition, report, headers=headers)  # type: ignore[arg-type]
                return
            except BufferError:
                self._served(self._producer.poll, 0.1)
                self._go_on()

    def wait(self) -> None:
        """Wait until Kafka has everything; raise `NotWritten` if it never will, or if the service stops.

        Also raise it if a partition has no leader. The others' events would wait as long, because they are
        acknowledged together. In the next worker, the partitions that need that leader wait for it.
        """
        while self._served(self._producer.flush, 0.5):
            self._go_on()
        self._check()
        self._targets.clear()

    def _go_on(self) -> None:
        """Raise `NotWritten` if it's no use to wait any longer."""
        self._check()
        # Nothing is committed for these messages yet, so a worker may stop here: the next owner makes them again.
        # Without this line it could not stop while Kafka is away, whether it waits for acknowledgements or for space
        # (test_waiting_ends_when_the_service_is_to_stop, test_a_full_queue_lets_the_service_stop).
        if self._stopping():
            raise NotWritten("stopping before Kafka has acknowledged everything")
        if leaderless := self._watch.look(time.monotonic(), self._targets):
            names = ", ".join(f"{topic} [{number}]" for topic, number in sorted(leaderless))
            raise NotWritten(f"Kafka has no leader of {names}")

    def _served(self, call: Callable[[float], int], seconds: float) -> int:
        """Let the producer work for `seconds` and return its result; raise `NotWritten` once it has failed."""
        try:
            return served(call, seconds)
        except KafkaException as error:
            raise NotWritten(f"the producer has failed: {error}") from error

    def end(self, topic: str, partition: int) -> int | None:
        """Return the offset after the last event that Kafka acknowledged in a changes partition."""
        return self._ends.get((topic, partition))

    def _check(self) -> None:
        if self._errors:
            raise NotWritten(f"Kafka refused a message: {self._errors[0]}")

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._errors.append(error)
        elif error.code() not in AWAY:
            log.warning("Kafka reported an error", why=str(error))

    def _on_any(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)

    def _on_last(self, error: KafkaError | None, message: Message) -> None:
        self._on_any(error, message)
        if error is None:
            self._ends[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1

    def close(self) -> None:
        """Discard unwritten messages: no committed state depends on them. Messages in flight may still arrive.

        This waits for them for a short time only, without callbacks: librdkafka would report a gap, and Python's
        callbacks an error of their own.
        """
        self._producer.flush(CLOSE_SECONDS_MAX)
        self._producer.purge(in_flight=False)
        self._producer.flush(0)
