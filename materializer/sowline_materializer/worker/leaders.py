"""The leaders that a worker's partitions need in Kafka: a partition waits for them, and the others continue.

A partition of Kafka has no leader while every broker that has it is down. Clients that read or write it wait until
one is back: a worker that waited too would hold up all of its partitions.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.leaderless import KafkaPartition, Leaderless, why_it_waits
from sowline.kafka.topic_settings import kafka_topics
from sowline_materializer.partition.partition import PartitionId


class WithoutLeader(Exception):
    """A partition can't be applied while partitions of Kafka have no leader; nothing of it was written since its
    checkpoint.
    """

    def __init__(self, leaderless: Leaderless) -> None:
        super().__init__(why_it_waits(leaderless))
        self.leaderless = leaderless


class PartitionStates(Protocol):
    """What `Leaders` needs of the partitions that a worker owns."""

    @property
    def definitions(self) -> Mapping[str, TopicDefinition]:
        """The definitions of the topics, by their log topics."""
        ...

    @property
    def partitions(self) -> Mapping[PartitionId, object]:
        """The open partitions."""
        ...

    @property
    def leaderless(self) -> Mapping[PartitionId, Leaderless]:
        """The partitions of Kafka for whose leaders a partition waits."""
        ...


class Leaders:
    """What a worker knows of the partitions without a leader, and which of its own need one."""

    def __init__(self, owned: PartitionStates) -> None:
        self._owned = owned
        self._leaderless: Leaderless = {}

    @property
    def topics(self) -> set[str]:
        """The topics of the partitions without a leader: they are asked for until all have one."""
        return {topic for topic, _ in self._leaderless}

    def note(self, leaderless: Leaderless) -> None:
        """Take in which partitions have no leader. Those of `topics` that aren't among them have one again."""
        self._leaderless = leaderless

    def missed_by(self, partition_id: PartitionId) -> Leaderless:
        """Return the partitions without a leader that a partition reads or writes whatever its records are."""
        log, number = partition_id
        if not self._leaderless:
            return {}
        definition = self._owned.definitions[log]
        return self._among(
            (topic, number) for topic in kafka_topics(definition) if topic != definition.kafka.dead
        )

    def require(self, targets: Iterable[KafkaPartition]) -> None:
        """Raise `WithoutLeader` if one of the partitions that a record is to be written to has no leader."""
        if missed := self._among(targets):
            raise WithoutLeader(missed)

    def needed_topics(self) -> set[str]:
        """Return the Kafka topics that the owners of all topics read or write."""
        return {
            topic for definition in self._owned.definitions.values() for topic in kafka_topics(definition)
        }

    def lost(self) -> dict[PartitionId, Leaderless]:
        """Return the open partitions that need a leader that is missing."""
        if not self._leaderless:
            return {}
        missed = {one: self.missed_by(one) for one in self._owned.partitions}
        return {one: leaderless for one, leaderless in missed.items() if leaderless}

    def back(self) -> list[PartitionId]:
        """Return the waiting partitions whose leaders are all back."""
        return [
            one
            for one, awaited in self._owned.leaderless.items()
            if not self._among(awaited) and not self.missed_by(one)
        ]

    def _among(self, targets: Iterable[KafkaPartition]) -> Leaderless:
        return {one: self._leaderless[one] for one in targets if one in self._leaderless}
