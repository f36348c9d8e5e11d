"""Connects readers of changes topics with Kafka: gets their events, sets their targets, and checks their topics."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from sowline.changes.changes_reader import ChangesReader, ChangesReplaced, Phase, incomplete
from sowline.changes.progress import ChangesId
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition, by_changes
from sowline.kafka.admin import Cluster, wait_for_answer
from sowline.kafka.clients import (
    REPORT_ENDS,
    Behind,
    assign_more,
    of_many,
    plain_consumer,
    poll_batch,
    raising,
    wake_fetchers,
)
from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.topic_settings import compaction_lag_ms

log = structlog.get_logger()

ChangesPartition = tuple[str, int]
"""The name of a changes topic and the number of one of its partitions."""

Readers = dict[ChangesPartition, ChangesReader]

LOOK_SECONDS = 3.0
"""The interval at which Kafka is asked whether the topics are the same. A replaced topic is noticed within 5 s."""


class ChangesDriver:
    """The readers of partitions of changes topics, and the consumer that reads for them."""

    consumer: Consumer

    def __init__(self, cluster: Cluster, topics: Iterable[TopicDefinition], stop: threading.Event) -> None:
        self.readers: Readers = {}
        self.loading: Readers = {}
        """The readers that are loading."""
        self._paused: set[ChangesPartition] = set()
        self.behind = Behind()
        """The number of events in Kafka that were not read yet."""
        self._cluster = cluster
        self._topics = by_changes(topics)
        self._stop = stop
        self._question = RepeatedQuestion(LOOK_SECONDS)

    # which partitions

    def load(self, changes: str, numbers: Iterable[int]) -> None:
        """Create readers that load partitions from their start up to their present end."""
        self._take(self.prepared(self._topics[changes], numbers))

    def prepared(self, topic: TopicDefinition, numbers: Iterable[int]) -> Readers:
        """Return new readers of a topic's partitions. Any thread may call this: it waits for Kafka, and changes
        nothing.
        """
        changes, numbers, found = topic.changes, list(numbers), Readers()
        starts = self._cluster.starts(changes, numbers)
        topic_id = self._cluster.topic_id(changes)
        for number, offset in starts.items():
            changes_id, lag_seconds = str(ChangesId(topic_id, offset)), compaction_lag_ms(topic) / 1000
            found[changes, number] = ChangesReader(changes_id, lag_seconds, topic.has_sow)
        self._aim(found, changes, numbers)
        return found

    def _take(self, readers: Readers) -> None:
        self.readers |= readers
        self.loading |= readers
        # A pending answer may have the id of the topic before it was replaced: the new reader would take itself for
        # one of a topic that is gone (test_an_answer_that_was_asked_for_before_a_load_does_not_count).
        self._question.forget()

    def _aim(self, readers: Readers, changes: str, numbers: Iterable[int]) -> None:
        now = time.monotonic()
        for number, end in self._cluster.ends(changes, numbers).items():
            readers[changes, number].aim(end, now)

    def follow(self, partition: ChangesPartition) -> None:
        """End a complete load."""
        self.loading.pop(partition).follow()

    def pause(self, partition: ChangesPartition) -> None:
        """Pause reading a partition; its load waits."""
        self._paused.add(partition)
        self.consumer.pause([TopicPartition(*partition)])

    def resume(self, partition: ChangesPartition) -> None:
        """Resume reading a partition that was paused."""
        if partition in self._paused:
            self._paused.remove(partition)
            self.consumer.resume([TopicPartition(*partition)])
            wake_fetchers(self.consumer)

    def starts(self, partitions: Iterable[ChangesPartition]) -> list[TopicPartition]:
        """Return where the readers of partitions read next."""
        return [TopicPartition(*partition, self.readers[partition].next_offset) for partition in partitions]

    # reading

    def poll(self, records_max: int, seconds: float) -> list[Message]:
        """Return the messages that have arrived, waiting for the first only; raise permanent errors."""
        return poll_batch(self.consumer, records_max, seconds, self._on_end)

    def _on_end(self, topic: str, number: int, offset: int) -> None:
        # There may be no events at the last offsets before the end. Without this, a reader that has everything would
        # be reported as behind.
        if (reader := self.readers.get((topic, number))) is not None:
            reader.at_end(offset)

    def look(self) -> None:
        """Update the phases of the loads, and set new targets where they need one; raise `ChangesReplaced`.

        Everything that was read must be applied before.
        """
        self._look_for_replaced()
        now = time.monotonic()
        for (changes, number), reader in self.loading.items():
            if (changes, number) not in self._paused and reader.look(now) is Phase.AIMING:
                # Compaction may have removed `K@5` before this load read it, because `K@9` after the original end
                # replaced it. Only a load up to the current end has K (test_a_load_that_takes_long_goes_on).
                log.warning(
                    "loading takes long; continuing to the current end", topic=changes, partition=number
                )
                wait_for_answer(partial(self._aim, self.readers, changes, [number]), self._stop)
        self.behind.look(self.consumer, lambda: self.starts(self.readers))

    def _look_for_replaced(self) -> None:
        """Ask for the ids of the topics without waiting; take the answer to the last question."""
        if self.readers or self._question.is_pending:
            self._question.look(time.monotonic(), self._ask, self._check_ids)

    def _ask(self) -> ClusterAnswer:
        return self._cluster.ask(topics={changes for changes, _ in self.readers})

    def _check_ids(self, asked: ClusterAnswer) -> None:
        # A topic that is gone may be created again, with another id.
        ids = asked.topic_ids(asked.gone())
        for (changes, _), reader in self.readers.items():
            _require_same(changes, reader, ids.get(changes))

    def require_same(self, partitions: Iterable[ChangesPartition]) -> None:
        """Raise `ChangesReplaced` if one of these topics was deleted and created again since its readers began."""
        ids: dict[str, str] = {}
        for partition in partitions:
            changes = partition[0]
            if changes not in ids:
                ids[changes] = self._cluster.topic_id(changes)
            _require_same(changes, self.readers[partition], ids[changes])

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet; None if there are none.

        Safe to call from any thread.
        """
        names: dict[str, list[int]] = defaultdict(list)
        # A copy, made in one step: the thread that reads may end a load meanwhile.
        for (changes, number), reader in list(self.loading.items()):
            if reader.phase is Phase.INCOMPLETE:
                names[changes].append(number)
        return "; ".join(incomplete(changes, names[changes]) for changes in sorted(names)) or None


def _require_same(changes: str, reader: ChangesReader, topic_id: str | None) -> None:
    # The progress events of a new topic name its id: a load would wait forever for one with the old id, and a reader
    # that follows would never advance in a partition without changes
    # (test_a_topic_that_is_replaced_while_it_is_followed).
    if topic_id is not None:
        reader.note_topic(topic_id)
        if reader.phase is Phase.REPLACED:
            raise ChangesReplaced(changes)


class AssignedChanges(ChangesDriver):
    """Reads partitions that its user chooses: `load` them, then `assign`."""

    def assign(self, kafka: KafkaConfig) -> None:
        """Begin to read the partitions of all readers. Call `close`."""
        self.consumer = plain_consumer(kafka, {**REPORT_ENDS, **of_many(len(self.readers))})
        self.consumer.incremental_assign(self.starts(self.readers))

    def close(self) -> None:
        """Stop reading."""
        self.consumer.close()

    def add(self, topic: TopicDefinition, readers: Readers) -> None:
        """Read a topic, too, by readers that were prepared; the other partitions are read on."""
        self._topics[topic.changes] = topic
        self._take(readers)
        assign_more(self.consumer, self.starts(readers))

    def remove(self, topic: TopicDefinition) -> list[ChangesPartition]:
        """Read no more of a topic; return the partitions that were read."""
        removed = [partition for partition in self.readers if partition[0] == topic.changes]
        self.consumer.incremental_unassign([TopicPartition(*partition) for partition in removed])
        wake_fetchers(self.consumer)
        for partition in removed:
            del self.readers[partition]
            self.loading.pop(partition, None)
            self._paused.discard(partition)
            self.behind.lags.pop(partition, None)
        self._topics.pop(topic.changes, None)
        self._question.forget()
        return removed

    def load_again(self, partition: ChangesPartition) -> None:
        """Load a partition from its start instead of following it."""
        changes, number = partition
        if wait_for_answer(partial(self.load, changes, [number]), self._stop):
            [start] = self.starts([partition])
            self.consumer.seek(start)


class MemberChanges(ChangesDriver):
    """Reads the partitions of one topic that a consumer group gives to this member."""

    def __init__(
        self, consumer: Consumer, cluster: Cluster, topic: TopicDefinition, stop: threading.Event
    ) -> None:
        super().__init__(cluster, [topic], stop)
        self.consumer = consumer
        self._changes = topic.changes
        self.is_member = False
        """Whether the group has assigned its partitions, which may be none."""

    def join(self, opened: Callable[[Sequence[int]], None], closed: Callable[[int], None]) -> None:
        """Join the group.

        `opened` is called with added partitions, and makes their readers; `closed` with each removed partition.
        """

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            opened([one.partition for one in partitions])
            assign_more(consumer, self.starts((one.topic, one.partition) for one in partitions))
            self.is_member = True

        def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for one in partitions:
                if self.readers.pop((one.topic, one.partition), None) is not None:
                    self.loading.pop((one.topic, one.partition), None)
                    # The group may assign it to this member again, which would then find it paused.
                    self.resume((one.topic, one.partition))
                    closed(one.partition)

        self.consumer.subscribe(
            [self._changes],
            on_assign=raising(on_assign),
            on_revoke=raising(on_revoke),
            on_lost=raising(on_revoke),
        )

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()
        # It refers to this object by its callbacks. The threads of this object's clients would stay until Python
        # looks for such cycles (test_many_changes_leave_nothing_behind).
        del self.consumer

    def follow_after(self, number: int, reader: ChangesReader) -> None:
        """Follow a partition from a known position."""
        self.readers[self._changes, number] = reader
        self._question.forget()

    @property
    def total_behind(self) -> int | None:
        """The number of events in its partitions that were not read yet; None while that is unknown."""
        numbers = [number for _, number in list(self.readers)]
        return self.behind.total(self._changes, numbers) if self.is_member else None
