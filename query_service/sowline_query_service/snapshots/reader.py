"""Restores partitions from their snapshots, before the follower continues from there."""

import time
from itertools import islice

import structlog

from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.changes_driver import ChangesPartition
from sowline.kafka.topic_settings import compaction_lag_ms
from sowline_query_service.snapshots.block import decoded, decoded_index
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import Expected, Manifest, Unreadable, discard_reason
from sowline_query_service.topics.followed_partitions import InLoop
from sowline_query_service.topics.state import ServedTopics

log = structlog.get_logger()


def has_snapshots(topic: TopicDefinition) -> bool:
    """Return whether there are snapshots of a topic.

    There are none of a topic with a history or documents: the changes before the snapshot are part of its state.
    There are none of a transient topic: it starts empty.
    """
    return topic.declared.history is None and not topic.documents and not topic.starts_empty


class SnapshotReader:
    """Restores the partitions of a query service that starts."""

    def __init__(self, directory: SnapshotDirectory, state: ServedTopics) -> None:
        self._directory = directory
        self._state = state
        self.restored: dict[ChangesPartition, Manifest] = {}
        """The snapshots that were used."""

    def restore(
        self, topic: TopicDefinition, number: int, topic_id: str, offsets: range, in_loop: InLoop
    ) -> int | None:
        """Restore a partition; return the offset of the changes topic to follow from.

        `offsets` are those that the partition has in the changes topic. Return None if the partition must be loaded:
        there is no snapshot, or it can't be used. Then the log says why; the next snapshot replaces it.
        """
        if not has_snapshots(topic):
            return None
        began, partition = time.monotonic(), (topic.changes, number)
        lag_seconds = compaction_lag_ms(topic) / 1000
        expected = Expected(topic_id, topic.fixed_digest, offsets, lag_seconds, time.time())
        try:
            manifest = self._directory.manifest(topic.name, number)
            if manifest is None:
                return None
            # Before the blocks are read: records of a snapshot that does not fit must never reach the rows.
            if (found := discard_reason(manifest, expected)) is not None:
                in_loop(self._state.discard_snapshot, partition, *found)
                return None
            records = self._fill(topic.name, partition, manifest, in_loop)
        except Unreadable as error:
            in_loop(self._state.discard_snapshot, partition, "damaged", str(error))
            return None
        self.restored[partition] = manifest
        log.info(
            "snapshot restored",
            topic=topic.name,
            partition=number,
            records=records,
            age_seconds=round(expected.now - manifest.taken_at, 1),
            seconds=round(time.monotonic() - began, 3),
        )
        # The last event before it, too: it shows whether the topic lost its end since
        # (test_the_last_event_of_a_snapshot_is_read_again).
        return max(offsets.start, manifest.head.next_offset - 1)

    def _fill(self, topic: str, partition: ChangesPartition, manifest: Manifest, in_loop: InLoop) -> int:
        """Add the records and the index of a snapshot; return the number of records."""
        blocks, records = self._directory.blocks(topic, manifest), 0
        for data in islice(blocks, len(manifest.blocks)):
            block = decoded(data)
            in_loop(self._state.restore_block, partition, block)
            records += len(block.keys)
        (index,) = blocks
        in_loop(self._state.restored, partition, manifest.head, decoded_index(index))
        return records
