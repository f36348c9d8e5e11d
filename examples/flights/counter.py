"""The demo's bookkeeper: a plain Kafka consumer that counts what is on the log, its changes and its dead letters."""

import threading
from types import TracebackType
from typing import Self

from confluent_kafka import Message, TopicPartition

from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import plain_consumer
from sowline.model.position import Position, before_the_log
from sowline.protocol.change import Change, read_event
from sowline.protocol.command import Headers

BATCH_MAX = 5000
WAIT_S = 0.1


class ChangeCounter:
    """Counts the records of a topic's three Kafka topics, in a thread of its own, from its first record on.

    `applied` is true once the changes show that every record that is on the log has been applied.
    """

    def __init__(self, kafka: str, topic: str) -> None:
        self.commands = 0
        self.deltas = 0
        self.changes = 0
        self.dead = 0
        self.applied = False
        self.error: Exception | None = None
        self._log, self._changes, self._dead = topic, f"{topic}.changes", f"{topic}.dead"
        self._consumer = plain_consumer(kafka_config(kafka))
        self._positions: dict[int, Position] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tally", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            self._assign()
            while not self._stop.is_set():
                self._read()
        except Exception as error:
            self.error = error

    def _assign(self) -> None:
        metadata = self._consumer.list_topics(timeout=30).topics
        topics = (self._log, self._changes, self._dead)
        locations = [TopicPartition(topic, p, 0) for topic in topics for p in metadata[topic].partitions]
        self._positions = {p: before_the_log() for p in metadata[self._log].partitions}
        self._consumer.assign(locations)

    def _read(self) -> None:
        messages = self._consumer.consume(BATCH_MAX, WAIT_S)
        if messages:
            self.applied = False
            for message in messages:
                self._count(message)
        else:
            self.applied = self._behind() == 0

    def _count(self, message: Message) -> None:
        topic = message.topic()
        if topic == self._log:
            self.commands += 1
            self.deltas += ("sow.command", b"delta_publish") in (message.headers() or ())
        elif topic == self._dead:
            self.dead += 1
        else:
            self._count_change(message)

    def _count_change(self, message: Message) -> None:
        partition, key = message.partition(), message.key()
        assert partition is not None
        assert isinstance(key, bytes)
        headers: Headers = message.headers()  # type: ignore[assignment]
        event = read_event(key, message.value(), headers)
        if event.position > self._positions[partition]:  # else a repeat, which followers drop
            self._positions[partition] = event.position
            self.changes += isinstance(event, Change)

    def _behind(self) -> int:
        """Return how many records of the log the changes read so far do not cover, and how many are unread."""
        # Kafka gives a partition that nothing was read from a negative position.
        return sum(self._uncovered(p) for p in self._positions) + sum(
            self._end(location) - max(0, location.offset)
            for location in self._consumer.position(self._consumer.assignment())
        )

    def _uncovered(self, partition: int) -> int:
        return self._end(TopicPartition(self._log, partition)) - 1 - self._positions[partition].offset

    def _end(self, location: TopicPartition) -> int:
        ends = self._consumer.get_watermark_offsets(location, timeout=30)
        assert ends is not None, "Kafka did not say where its log ends"
        return int(ends[1])
