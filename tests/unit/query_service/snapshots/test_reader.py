"""From where a partition follows that begins with a snapshot."""

from pathlib import Path
from time import time

from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline_query_service.replica.partition_replica import Head
from sowline_query_service.snapshots.block import encoded_index
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import Manifest
from sowline_query_service.snapshots.reader import SnapshotReader
from sowline_query_service.topics.state import ServedTopics

TOPICS = parse_topics("topics: [{name: orders, key: /id, partitions: 1}]")


def followed_from(path: Path, next_offset: int, offsets: range) -> int | None:
    """Return the offset to follow from with a snapshot of this next offset, if the changes topic has these."""
    state = ServedTopics(TOPICS, ring_changes_max=10)
    [topic] = state.definitions.values()
    directory = SnapshotDirectory(path)
    head = Head(Position(0, 9), next_offset, 1000, 1000)
    directory.write(
        "orders",
        0,
        "0.1.data",
        [encoded_index([])],
        lambda at, index: Manifest("id", topic.fixed_digest, 600.0, time(), head, "0.1.data", at, index),
    )
    try:
        return SnapshotReader(directory, state).restore(
            topic, 0, "id", offsets, lambda do, *given: do(*given)
        )
    finally:
        directory.close()


def test_the_last_event_of_a_snapshot_is_read_again(tmp_path: Path) -> None:
    """It shows whether the changes topic lost its end since; there is none before the topic's start."""
    assert followed_from(tmp_path, 5, range(9)) == 4
    assert followed_from(tmp_path, 5, range(5, 9)) == 5
    assert followed_from(tmp_path, 10, range(9)) is None
