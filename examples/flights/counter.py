"""The demo's bookkeeper: a plain Kafka consumer that counts what is on the log, its changes and its dead letters.

Visitors may write, too: from the console, or with any producer. The bookkeeper tells their commands from those of the
demo's pipeline by the publisher, and notes which records they have written: the comparison leaves these out.
"""

import threading
from collections import defaultdict
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, Message, TopicPartition

from sowline.changes.change import Change
from sowline.config.kafka_names import KafkaNames
from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import plain_consumer
from sowline.kafka.messages import event_of, headers_of
from sowline.model.position import Position, before_the_log

BATCH_MAX = 5000
WAIT_S = 0.1
KAFKA_S_MAX = 30


class ChangeCounter:
    """Counts the records of a topic's three Kafka topics, in its own thread, from the first record on.

    `publisher` is the pipeline's: its commands carry that name, a slash, and a number. `applied` is true once the
    changes show that every record that is on the log has been applied.
    """

    def __init__(self, kafka: str, topic: str, publisher: str) -> None:
        self.commands = 0
        """Commands of the pipeline."""
        self.deltas = 0
        self.changes = 0
        """Changes, those of visitors too."""
        self.dead = 0
        """Dead letters of the pipeline."""
        self.by_visitors = 0
        """Commands of visitors."""
        self.refused_visits = 0
        """Dead letters of visitors' commands."""
        self.visited: set[str] = set()
        """The SOW keys of the records that visitors have written."""
        self.applied = False
        self.error: Exception | None = None
        self._publisher = f"{publisher}/".encode()
        names = KafkaNames.of_log(topic)
        self._log, self._changes, self._dead = names.log, names.changes, names.dead
        self._consumer = plain_consumer(kafka_config(kafka))
        self._positions: dict[int, Position] = {}
        self._reached: dict[int, int] = defaultdict(int)
        """By partition, the offset before which every command of the log was read."""
        self._visits: set[tuple[int, int]] = set()
        """The partitions and offsets of visitors' commands."""
        self._letters = set[str | bytes | None]()
        """The keys of the dead letters: the partitions and offsets of their commands."""
        self._early: dict[int, list[tuple[int, str]]] = defaultdict(list)
        """By partition, changes that arrived before their commands were read: the offset, and the SOW key."""
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
        metadata = self._consumer.list_topics(timeout=KAFKA_S_MAX).topics
        topics = (self._log, self._changes, self._dead)
        locations = [TopicPartition(topic, p, 0) for topic in topics for p in metadata[topic].partitions]
        self._positions = {p: before_the_log() for p in metadata[self._log].partitions}
        self._consumer.assign(locations)

    def _read(self) -> None:
        messages = [message for message in self._consumer.consume(BATCH_MAX, WAIT_S) if not message.error()]
        if messages:
            self.applied = False
            for message in messages:
                self._count(message)
            return
        try:
            self.applied = self._behind() == 0
        except KafkaException:  # Kafka is being restarted
            self.applied = False

    def _count(self, message: Message) -> None:
        topic = message.topic()
        if topic == self._log:
            self._count_command(message)
        elif topic == self._dead:
            # A materializer that was killed writes a dead letter again, with the same key.
            if message.key() not in self._letters:
                self._letters.add(message.key())
                is_ours = self._is_ours(message)
                self.dead += is_ours
                self.refused_visits += not is_ours
        else:
            self._count_change(message)

    def _is_ours(self, message: Message) -> bool:
        """Whether a command is the pipeline's."""
        headers = headers_of(message) or []
        return any(
            name == "sow.publisher" and (text or b"").startswith(self._publisher) for name, text in headers
        )

    def _count_command(self, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        if self._is_ours(message):
            self.commands += 1
            self.deltas += ("sow.command", b"delta_publish") in (headers_of(message) or ())
        else:
            self.by_visitors += 1
            self._visits.add((partition, offset))
        self._reached[partition] = offset + 1
        while self._early[partition] and self._early[partition][0][0] <= offset:
            self._note_writer(partition, *self._early[partition].pop(0))

    def _note_writer(self, partition: int, offset: int, key: str) -> None:
        if (partition, offset) in self._visits:
            self.visited.add(key)

    def _count_change(self, message: Message) -> None:
        partition, key = message.partition(), message.key()
        assert partition is not None
        assert isinstance(key, bytes)
        event = event_of(message)
        if event.position <= self._positions[partition]:  # a repeat, which followers drop
            return
        self._positions[partition] = event.position
        if isinstance(event, Change):
            self.changes += 1
            if event.position.offset < self._reached[partition]:
                self._note_writer(partition, event.position.offset, event.sow_key.decode())
            else:
                self._early[partition].append((event.position.offset, event.sow_key.decode()))

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
        ends = self._consumer.get_watermark_offsets(location, timeout=KAFKA_S_MAX)
        assert ends is not None, "Kafka did not say where its log ends"
        return int(ends[1])
