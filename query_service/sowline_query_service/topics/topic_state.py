"""The State of the World of one topic, as a query service holds it: its rows, and the replicas of its partitions."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from sowline.config.shard import WHOLE, Shard
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.emodb.template import Fields, read_template
from sowline.language.filter.metadata import Metadata
from sowline.model.bookmark import Positions, format_bookmark
from sowline.model.key import partition_of
from sowline_query_service.index.budget import Memory
from sowline_query_service.index.rows import NoRows, Rows
from sowline_query_service.replica.history import Former, Histories, PartitionHistory, joined, time_text
from sowline_query_service.replica.log_end import Lag, LogEnd, OpenTransaction
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.timeline import Timeline, Timelines
from sowline_query_service.topics.message_reader import is_plain
from sowline_query_service.topics.topic_indexes import Indexes


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The records to restore in the current state, to get the state of a topic at a past time."""

    positions: Positions
    """The position of each partition."""
    records: int
    """The number of records."""
    former: Former
    partitions: NDArray[np.uint16]
    """The partition of each former state."""


class TopicState:
    """One topic: its records in rows, and the replicas of its partitions, which update the rows."""

    def __init__(
        self,
        definition: TopicDefinition,
        ring_changes_max: int,
        ring_bytes_max: int,
        memory: Memory,
        histories: Histories,
        timelines: Timelines,
        native: ModuleType | None = None,
        shard: Shard = WHOLE,
    ) -> None:
        self.definition = definition
        self._memory = memory
        self._histories = histories
        self._timelines = timelines
        self.native = native
        """The module of the native core, if that is to be used."""
        self.rows = Rows() if definition.has_sow else NoRows()
        self.indexes = Indexes(definition, self.rows, memory, native)
        self.metadata = Metadata(topic=definition.name)
        self.partitions = {
            number: PartitionReplica(
                number,
                self.rows,
                ring_changes_max,
                ring_bytes_max,
                self._history(),
                self._timeline(),
            )
            for number in shard.partitions(definition)
        }
        """The partitions that this service holds, by number, in ascending order."""
        assert list(self.partitions) == sorted(self.partitions), "partitions are in ascending order"
        self.log_ends = {number: LogEnd() for number in self.partitions}

    def _history(self) -> PartitionHistory | None:
        if self.definition.declared.history is None:
            return None
        history = PartitionHistory(self.definition.declared.history, self.rows)
        self._histories.add(history)
        return history

    def _timeline(self) -> Timeline | None:
        if not self.definition.documents:
            return None
        timeline = Timeline(self.definition.declared.history_ttl)
        self._timelines.add(timeline)
        return timeline

    def redefine(self, definition: TopicDefinition) -> None:
        """Take another definition of the topic. A history that it adds or changes begins now."""
        # An unchanged history continues: a new one would know nothing of the past.
        assert definition.name == self.definition.name, "it is the same topic"
        has_other_history = definition.declared.history != self.definition.declared.history
        self.definition = definition
        self.indexes.redefine(definition)
        for timeline in self.timelines:
            timeline.ttl_ms = definition.declared.history_ttl
        for partition in self.partitions.values() if has_other_history else ():
            if partition.history is not None:
                self._histories.remove(partition.history)
            partition.history = self._history()
            if partition.history is not None:
                partition.history.restart(partition.changed_time)

    def close(self) -> None:
        """Release its part of the memory that all topics share."""
        self._memory.remove(self.indexes)
        for history in self.histories:
            self._histories.remove(history)
        for timeline in self.timelines:
            self._timelines.remove(timeline)

    @property
    def plain_partitions(self) -> int:
        """The number of partitions whose plain changes the native core may load."""
        plain = self.partitions.values() if is_plain(self.definition) else ()
        return sum(not partition.native_has_failed for partition in plain)

    @property
    def changes_applied(self) -> int:
        """The number of changes applied since its partitions began to follow."""
        return sum(partition.changes_applied for partition in self.partitions.values())

    @property
    def loading(self) -> bool:
        """Whether a partition is still being loaded."""
        return any(partition.loading for partition in self.partitions.values())

    @property
    def positions(self) -> Positions:
        """The position of each partition."""
        return {number: partition.held for number, partition in self.partitions.items()}

    @property
    def changed_time(self) -> int:
        """The log time of the newest change, in ms since 1970; 0 if there was none."""
        return max((partition.changed_time for partition in self.partitions.values()), default=0)

    @property
    def histories(self) -> list[PartitionHistory]:
        """The histories of its partitions; none if the topic has no history."""
        return [one.history for one in self.partitions.values() if one.history is not None]

    @property
    def timelines(self) -> list[Timeline]:
        """The timelines of its partitions; none if the topic has no documents."""
        return [one.timeline for one in self.partitions.values() if one.timeline is not None]

    def template(self, key_text: str) -> Fields:
        """Return the fields of the template with which the owner of a key's partition reads documents."""
        partition = self.partitions.get(partition_of(key_text, self.definition.partitions))
        owner = None if partition is None else partition.owner_definition
        # Until its `define` is applied, another template in the file is that of no document. A refused one never is.
        limits = self.definition.limits if owner is None else owner.limits_under(self.definition)
        return read_template(limits.template)

    def log_difference(self) -> str | None:
        """Return how the definition differs from the one that an owner works by; None if it does not."""
        for partition in self.partitions.values():
            owners = partition.owner_definition
            if owners is None:
                continue
            definition, limits = self.definition, owners.limits_under(self.definition)
            if owners.digest != definition.digest_with(limits.template):
                return f"{definition.name}: its changes are made by another definition"
            if limits != definition.limits:
                fields = ", ".join(definition.limits.differing(limits))
                return f"{definition.name} ({fields}): the log has another definition"
        return None

    def lags(self) -> dict[int, Lag]:
        """Return how far each partition is behind the end of its log; not known while it is loaded."""
        now = time.monotonic()
        return {
            number: Lag() if partition.loading else self.log_ends[number].lag(partition.reached, now)
            for number, partition in self.partitions.items()
        }

    def transactions(self) -> dict[int, OpenTransaction]:
        """Return the open transactions that partitions wait for, by partition."""
        found = {
            number: self.log_ends[number].transaction(partition.reached)
            for number, partition in self.partitions.items()
        }
        return {number: one for number, one in found.items() if one is not None}

    def past(self, at: int) -> Past:
        """Return the state at a time, in ms since 1970, rounded down to the topic's granularity.

        The topic must have a history. Raise `history expired` if the time is before it.
        """
        name = self.definition.name
        assert self.definition.declared.history is not None, f"{name} has no history"
        histories = {n: one.history for n, one in self.partitions.items() if one.history is not None}
        # The topic has a past only as far back as all of its partitions
        # (test_the_past_goes_back_as_far_as_all_partitions_do).
        floor = max((history.floor for history in histories.values()), default=0)
        if at < floor:
            raise SowlineError(
                "history expired",
                f"expected a time not before {time_text(floor)}, got {time_text(at)}: {name} no longer keeps its"
                " older history",
            )
        found = {number: history.since(at) for number, history in histories.items()}
        former = [(number, since.former) for number, since in found.items() if since is not None]
        return Past(
            {n: self.partitions[n].held if since is None else since.after for n, since in found.items()},
            len(self.rows) - sum(since.gained for since in found.values() if since is not None),
            joined([states for _, states in former]),
            np.repeat(
                np.array([n for n, _ in former], np.uint16),
                np.array([len(states) for _, states in former], np.int64),
            ),
        )

    def require(self, key: str) -> None:
        """Raise `gateway required` if this service does not hold the partition of a record with this key text."""
        number = partition_of(key, self.definition.partitions)
        if number not in self.partitions:
            raise SowlineError(
                "gateway required",
                f"expected the key of a record of this query service's partitions, got one of partition {number} of"
                f" {self.definition.name}; ask a gateway",
            )

    def held_of(self, positions: Positions) -> Positions:
        """Return the positions whose partitions this service holds: a bookmark names the partitions of all shards."""
        return {number: position for number, position in positions.items() if number in self.partitions}

    def bookmark(self, positions: Positions) -> str:
        """Return the positions as a bookmark of this topic's log."""
        return format_bookmark({self.definition.log: positions})

    @property
    def record_count(self) -> int:
        """The number of records."""
        return len(self.rows)


def require_loaded(topics: Iterable[TopicState]) -> None:
    """Raise `not ready` while one of the topics is being loaded."""
    for topic in topics:
        if topic.loading:
            raise SowlineError(
                "not ready", f"topic {topic.definition.name} is still being loaded; retry shortly"
            )


def lag_seconds(topics: Sequence[TopicState]) -> float | None:
    """Return the lag of the topic that is furthest behind its log; None if the lag of one is unknown."""
    return Lag.of([lag for topic in topics for lag in topic.lags().values()]).seconds
