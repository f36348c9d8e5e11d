"""The joined topics of a view: loads all of their partitions, and follows them."""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Message

from sowline.changes.change import Change
from sowline.changes.changes_reader import Phase
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import by_changes
from sowline.kafka.admin import Cluster
from sowline.kafka.changes_driver import AssignedChanges, ChangesPartition, Readers
from sowline.kafka.messages import event_of
from sowline.model.position import Position
from sowline_views.core.followed_partition import FollowedPartition
from sowline_views.core.joined_tables import JoinedEvent, JoinedTable, JoinedTables

BATCH_MAX = 1000
LOAD_BATCH_MAX = 10_000


class JoinedTopics:
    """The joined topics of one view. Call `close`."""

    def __init__(
        self, kafka: KafkaConfig, cluster: Cluster, joined: Sequence[JoinedTable], stop: threading.Event
    ) -> None:
        self.tables = JoinedTables(joined)
        self._cluster = cluster
        self._topics = by_changes(table.topic for table in joined)
        self._changes = AssignedChanges(cluster, self._topics.values(), stop)
        for changes, topic in self._topics.items():
            self._changes.load(changes, range(topic.partitions))
        self._partitions: dict[ChangesPartition, FollowedPartition] = {}
        self._follow(self._changes.readers)
        self._filling: dict[ChangesPartition, Iterator[JoinedEvent]] = {}
        """The loaded records that are not in the tables yet. Their partitions are paused."""
        self._changes.assign(kafka)

    def _follow(self, readers: Readers) -> None:
        for (changes, number), reader in readers.items():
            name = f"{changes} [{number}]"
            self._partitions[changes, number] = FollowedPartition(name, reader, self.tables.space)

    @property
    def are_loaded(self) -> bool:
        """Whether all records are in the tables."""
        return not (self._changes.awaited or self._changes.loading or self._filling)

    def ends(self) -> dict[ChangesPartition, int]:
        """Return the present end of each partition."""
        found = {}
        for changes, topic in self._topics.items():
            for number, end in self._cluster.ends(changes, range(topic.partitions)).items():
                found[changes, number] = end
        return found

    def have_reached(self, ends: Mapping[ChangesPartition, int]) -> bool:
        """Whether everything before these offsets was taken."""
        return self.are_loaded and all(
            self._changes.readers[partition].next_offset >= end for partition, end in ends.items()
        )

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet; None if there are none."""
        return self._changes.waiting()

    def events(self) -> Iterator[JoinedEvent]:
        """Yield the events that have arrived for the tables. Raise `ChangesMissing` and `ChangesReplaced`."""
        batch_max = BATCH_MAX if self.are_loaded else LOAD_BATCH_MAX
        for message in self._changes.poll(batch_max, 0.0):
            if (event := self._taken(message)) is not None:
                yield event
        self._advance_loads()

    def _taken(self, message: Message) -> JoinedEvent | None:
        changes, number = message.topic() or "", message.partition() or 0
        event = event_of(message)
        taken = self._partitions[changes, number].taken(event, message.offset() or 0)
        if taken is None:
            return None
        change = taken if isinstance(taken, Change) else None
        return JoinedEvent(self._topics[changes].log, number, taken.position, change)

    def _advance_loads(self) -> None:
        """End the loads that are complete, and put the next portion of loaded records into the tables.

        The caller is a member of a consumer group, which must poll in between: a large partition takes minutes.
        """
        self._changes.look()
        for _, readers in self._changes.come():
            self._follow(readers)
            self._changes.read(readers)
        for partition, reader in list(self._changes.loading.items()):
            if reader.phase is Phase.COMPLETE:
                # A later change must not come before the record that it changes.
                self._changes.pause(partition)
                self._changes.follow(partition)
                self._filling[partition] = self._loaded(partition, reader.position)
        if self._filling:
            partition, events = next(iter(self._filling.items()))
            portion = list(itertools.islice(events, LOAD_BATCH_MAX))
            for event in portion:
                # No source partition is loaded before all tables are (`have_reached`), so there are no states to
                # change yet.
                self.tables.put(event)
            if len(portion) < LOAD_BATCH_MAX:
                del self._filling[partition]
                self._changes.resume(partition)

    def _loaded(self, partition: ChangesPartition, position: Position) -> Iterator[JoinedEvent]:
        log_name, number = self._topics[partition[0]].log, partition[1]
        for change in self._partitions[partition].take_loaded():
            yield JoinedEvent(log_name, number, position, change)
        # Without a change, so that the position of a partition without records is known, too.
        yield JoinedEvent(log_name, number, position)

    def close(self) -> None:
        """Leave Kafka."""
        self._filling.clear()  # their iterators would hold the store open after its space has ended
        self._changes.close()
