"""When a snapshot is taken, and how old it says that it is."""

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from sowline.changes.change import Change
from sowline.config.topics import Topics, parse_topics
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.snapshots.partition_snapshots import (
    Begun,
    PartitionSnapshots,
    SnapshotTimes,
    whole_at,
)
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState
from tests.unit.query_service.snapshots.test_manifest import MANIFEST

TOPICS = parse_topics("topics: [{name: orders, key: /id, partitions: 1, resume_window: 100s}]")


def topic_of(topics: Topics = TOPICS) -> TopicState:
    """Return a topic whose only partition has applied one change, at offset 5 of the log."""
    topic = ServedTopics(topics, ring_changes_max=10).topics["orders"]
    position = Position(0, 5)
    change = Change(b"1", b"{}", None, position, Position(0, 4), "publish", 1000)
    topic.partitions[0].load([EventAtOffset(0, change)])
    topic.partitions[0].loaded()
    topic.partitions[0].log_id = "log"
    return topic


def begun(topic: TopicState, broken: str | None = None, current: TopicState | None = None) -> Begun | None:
    """Return what a snapshot of the partition begins with, if `current` is the state of its topic now."""
    nothing: Any = None
    state: Any = SimpleNamespace(broken=broken, topics={"orders": current or topic})
    return PartitionSnapshots(nothing, state, str, whole_at).begin(topic, 0)


def test_a_replica_whose_lag_is_not_known_has_no_snapshot() -> None:
    """It may lack changes that compaction removes soon."""
    assert begun(topic_of()) is None


def test_a_broken_replica_has_no_snapshot() -> None:
    """A batch that failed in the middle has moved its position."""
    topic = topic_of()
    topic.log_ends[0].note(time.monotonic(), 6, "log", topic.partitions[0].reached)
    assert begun(topic) is not None
    assert begun(topic, "failed") is None


def test_a_removed_topic_has_no_snapshot() -> None:
    """Its changes topic may be another one by now, in which its offsets mean nothing."""
    topic = topic_of()
    topic.log_ends[0].note(time.monotonic(), 6, "log", topic.partitions[0].reached)
    assert begun(topic, current=topic_of()) is None


def test_a_topic_that_was_defined_again_is_written_whole() -> None:
    """It has applied as many changes as the one before it, and other records."""
    data = Mock(write=Mock(return_value=MANIFEST))
    state: Any = SimpleNamespace(broken=None, topics={})
    snapshots = PartitionSnapshots(data, state, str, lambda *_: 1.0)
    written = []
    for topic in (first := topic_of(), first, topic_of()):
        state.topics["orders"] = topic
        began = snapshots.begin(topic, 0)
        assert began is not None
        snapshots.keep(topic, 0, began, iter(()))
        written.append((data.write.call_count, data.write_manifest.call_count))
    assert written == [(1, 0), (1, 1), (2, 1)]


def test_the_age_is_that_of_what_the_replica_has() -> None:
    """A replica that has the whole log is as old as the sample; one that is behind as old as it has been for."""
    topic, at = topic_of(), time.monotonic() - 50
    for later, end in ((0, 6), (40, 9)):
        topic.log_ends[0].note(at + later, end, "log", topic.partitions[0].reached)
        found = begun(topic)
        assert found is not None
        assert found.taken_at == pytest.approx(time.time() - 50, abs=5)


def claims(times: SnapshotTimes, *at: float) -> list[bool]:
    """Return whether a snapshot is due at these times."""
    return [times.claim(TOPICS.topics[0], 0, now) for now in at]


def test_a_snapshot_is_due_when_there_is_none() -> None:
    """Then after each interval, which is a tenth of the compaction lag at most."""
    times = SnapshotTimes(300.0, {})
    assert claims(times, 1000, 1000, 1059, 1060, 1061) == [True, False, False, True, False]


def test_after_a_restored_one_the_next_is_due_later() -> None:
    """It is as good as one that was just taken."""
    restored: Any = {("orders.changes", 0): None}
    assert claims(SnapshotTimes(30.0, restored), 1000, 1029, 1030) == [False, False, True]
