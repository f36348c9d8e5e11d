"""Snapshots of partitions, in parts: what begins one, its blocks, and how it is kept; and when the next is due."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, ref

from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.changes_driver import ChangesPartition
from sowline.kafka.topic_settings import compaction_lag_ms
from sowline_query_service.index.rows import Captured
from sowline_query_service.replica.partition_replica import Head
from sowline_query_service.snapshots.block import BLOCK_RECORDS_MAX, Index, blocks_of, encoded, encoded_index
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import BlockAt, Manifest
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

LAG_SHARE: Final = 10
"""A snapshot is taken in each tenth of the topic's compaction lag at least: after half of it, it is too old."""

ROWS_MAX: Final = 16 * BLOCK_RECORDS_MAX
"""Rows that the event loop searches at once for those of a partition."""


class Begun(NamedTuple):
    """The state of a partition when its snapshot began."""

    topic_id: str
    head: Head
    entries: Index
    changes_applied: int
    rows_end: int
    taken_at: float


class NewestSnapshot(NamedTuple):
    """The newest snapshot of a partition, and how many changes its topic's state had applied by then."""

    manifest: Manifest
    topic: ReferenceType[TopicState]
    changes_applied: int

    def has_records_of(self, topic: TopicState, begun: Begun) -> bool:
        """Whether the state has still the same records."""
        # A topic that was removed and defined again begins to count its changes at 0, so equal counts alone prove
        # nothing (test_a_topic_that_was_defined_again_is_written_whole).
        return self.topic() is topic and self.changes_applied == begun.changes_applied


class SnapshotTimes:
    """When the snapshots of partitions are due: each `seconds`, and often enough that none becomes too old.

    `restored` are the partitions that began with a snapshot.
    """

    def __init__(self, seconds: float, restored: Mapping[ChangesPartition, Manifest]) -> None:
        self._seconds = seconds
        self._restored = restored
        self._due_at: dict[ChangesPartition, float] = {}

    def claim(self, topic: TopicDefinition, number: int, now: float) -> bool:
        """Return whether a snapshot of a partition is due; the caller takes it, and the next one is due later."""
        partition = topic.changes, number
        seconds = min(self._seconds, compaction_lag_ms(topic) / 1000 / LAG_SHARE)
        due_at = self._due_at.setdefault(partition, now + seconds if partition in self._restored else now)
        if now >= due_at:
            self._due_at[partition] = now + seconds
        return now >= due_at


def whole_at(topic: TopicState, number: int) -> float | None:
    """Return the newest time at which the replica is known to have had every change, in seconds since 1970."""
    # A replica with a lag misses changes, which compaction may remove soon. So its snapshot is older than now.
    seconds = topic.lags()[number].seconds
    return None if seconds is None else time.time() - seconds


class PartitionSnapshots:
    """Makes the parts of snapshots. `whole_at` returns the time of the replica's state, as the function does."""

    def __init__(
        self,
        directory: SnapshotDirectory,
        state: ServedTopics,
        topic_id: Callable[[str], str],
        whole_at: Callable[[TopicState, int], float | None],
    ) -> None:
        self._directory = directory
        self._state = state
        self._topic_id = topic_id
        self._whole_at = whole_at
        self.written: dict[ChangesPartition, NewestSnapshot] = {}
        """The newest snapshots of this process."""

    def begin(self, topic: TopicState, number: int) -> Begun | None:
        """Return the state to begin with; None if it is not known that the replica has every change."""
        replica, taken_at = topic.partitions[number], self._whole_at(topic, number)
        name, topic_id = topic.definition.name, self._topic_id(topic.definition.changes)
        # A batch that failed in the middle has moved the position, and not all of its changes were applied. And a
        # topic that was removed may have another changes topic by now, in which its offsets mean nothing
        # (test_a_removed_topic_has_no_snapshot).
        is_removed = self._state.topics.get(name) is not topic
        if self._state.broken or is_removed or replica.head is None or taken_at is None:
            return None
        return Begun(topic_id, replica.head, replica.index, replica.changes_applied, topic.rows.end, taken_at)

    def blocks(
        self, topic: TopicState, number: int, begun: Begun, in_loop: Callable[..., Any]
    ) -> Iterator[bytes]:
        """Yield the blocks of a partition's records, then its index."""
        rows_max = BLOCK_RECORDS_MAX * min(len(topic.partitions), ROWS_MAX // BLOCK_RECORDS_MAX)
        for start in range(0, begun.rows_end, rows_max):
            captured = in_loop(self._capture, topic, number, start, start + rows_max)
            yield from map(encoded, blocks_of(captured))
        yield encoded_index(begun.entries)

    def keep(self, topic: TopicState, number: int, begun: Begun, blocks: Iterator[bytes]) -> None:
        """Write a snapshot; if no change was applied since the last one, only its manifest."""
        definition, partition = topic.definition, (topic.definition.changes, number)
        before = self.written.get(partition)
        if before is not None and before.has_records_of(topic, begun):
            # The records are the same; only the position has moved, and the snapshot must not become too old.
            manifest = replace(before.manifest, head=begun.head, taken_at=begun.taken_at)
            self._directory.write_manifest(definition.name, number, manifest)
        else:
            data = f"{number}.{time.time_ns()}.data"

            def describe(at: list[BlockAt], index: BlockAt) -> Manifest:
                lag_seconds = compaction_lag_ms(definition) / 1000
                facts = (begun.topic_id, definition.fixed_digest, lag_seconds, begun.taken_at, begun.head)
                return Manifest(*facts, data, at, index)

            manifest = self._directory.write(definition.name, number, data, blocks, describe)
        self.written[partition] = NewestSnapshot(manifest, ref(topic), begun.changes_applied)

    @staticmethod
    def _capture(topic: TopicState, number: int, start: int, stop: int) -> Captured:
        return topic.rows.capture(topic.rows.of_partition(number, start, stop))
