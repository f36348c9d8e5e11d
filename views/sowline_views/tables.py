"""The joined topics of a view: loads all of their partitions, and follows them."""

import time
from collections.abc import Iterator, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from sowline.changes.change import Change, ChangesId
from sowline.changes.changes_loader import LoadProgress, Phase, incomplete
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import by_changes
from sowline.kafka.admin import Cluster, compaction_lag_ms
from sowline.kafka.clients import REPORT_ENDS, plain_consumer, poll_batch
from sowline.kafka.messages import event_of
from sowline_views.core.followed_partition import FollowedPartition
from sowline_views.core.joined_tables import JoinedEvent, JoinedTable, JoinedTables

log = structlog.get_logger()

BATCH_MAX = 1000
LOAD_BATCH_MAX = 10_000

TablePartition = tuple[str, int]
"""A changes topic, and the number of a partition."""


class JoinedTopics:
    """The joined topics of one view. Call `close`."""

    def __init__(self, kafka: KafkaConfig, cluster: Cluster, joined: Sequence[JoinedTable]) -> None:
        self.tables = JoinedTables(joined)
        self._cluster = cluster
        self._topics = by_changes(table.topic for table in joined)
        self._partitions: dict[TablePartition, FollowedPartition] = {}
        self._consumer: Consumer = plain_consumer(kafka, REPORT_ENDS)
        starts = []
        for changes, topic in self._topics.items():
            numbers = range(topic.partitions)
            topic_id = cluster.topic_id(changes)
            first = cluster.starts(changes, numbers)
            for number in numbers:
                changes_id = str(ChangesId(topic_id, first[number]))
                progress = LoadProgress(changes_id, compaction_lag_ms(topic) / 1000)
                self._aim((changes, number), progress)
                name = f"{changes} [{number}]"
                self._partitions[changes, number] = FollowedPartition(
                    name, topic_id, progress, self.tables.space
                )
                starts.append(TopicPartition(changes, number, first[number]))
        self._consumer.assign(starts)

    def _aim(self, partition: TablePartition, progress: LoadProgress) -> None:
        changes, number = partition
        progress.aim(self._cluster.ends(changes, [number])[number], time.monotonic())

    @property
    def are_loaded(self) -> bool:
        """Whether all records are in the tables."""
        return all(one.load is None for one in self._partitions.values())

    def ends(self) -> dict[TablePartition, int]:
        """Return the present end of each partition."""
        found = {}
        for changes, topic in self._topics.items():
            for number, end in self._cluster.ends(changes, range(topic.partitions)).items():
                found[changes, number] = end
        return found

    def have_reached(self, ends: Mapping[TablePartition, int]) -> bool:
        """Whether everything before these offsets was taken."""
        return self.are_loaded and all(
            self._partitions[partition].next_offset >= end for partition, end in ends.items()
        )

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet; None if there are none."""
        waits: dict[str, list[int]] = {}
        for (changes, number), one in self._partitions.items():
            if one.phase is Phase.INCOMPLETE:
                waits.setdefault(changes, []).append(number)
        return "; ".join(incomplete(changes, numbers) for changes, numbers in waits.items()) or None

    def events(self) -> Iterator[JoinedEvent]:
        """Read what has arrived; yield what the tables must take. Raise `ChangesMissing`."""
        batch_max = BATCH_MAX if self.are_loaded else LOAD_BATCH_MAX
        for message in poll_batch(self._consumer, batch_max, 0.0, self._on_end):
            if (event := self._taken(message)) is not None:
                yield event
        if not self.are_loaded:
            self._advance_loads()

    def _taken(self, message: Message) -> JoinedEvent | None:
        changes, number = message.topic() or "", message.partition() or 0
        event = event_of(message)
        taken = self._partitions[changes, number].taken(event, message.offset() or 0)
        if taken is None:
            return None
        change = taken if isinstance(taken, Change) else None
        return JoinedEvent(self._topics[changes].log, number, taken.position, change)

    def _on_end(self, topic: str, number: int, offset: int) -> None:
        self._partitions[topic, number].at_end(offset)

    def _advance_loads(self) -> None:
        for partition, followed in self._partitions.items():
            load = followed.load
            if load is None:
                continue
            followed.phase = load.phase(time.monotonic())
            if followed.phase is Phase.LATE:
                log.warning(
                    "loading takes long; continuing to the current end",
                    topic=partition[0],
                    partition=partition[1],
                )
                self._aim(partition, load.progress)
            elif followed.phase is Phase.COMPLETE:
                log_name, position = self._topics[partition[0]].log, load.position
                for change in followed.loaded():
                    self.tables.put(JoinedEvent(log_name, partition[1], position, change))
                self.tables.put(JoinedEvent(log_name, partition[1], position))

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()
