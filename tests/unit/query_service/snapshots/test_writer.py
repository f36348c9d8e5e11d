"""When a snapshot is taken, and how old it says that it is."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sowline.changes.change import Change
from sowline.config.topics import Topics, parse_topics
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.snapshots.writer import SnapshotWriter
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

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


def writer_of(**given: Any) -> Any:
    """Return a writer that does not run."""
    state = SimpleNamespace(broken=None)
    fields: dict[str, Any] = {"directory": None, "state": state, "topic_id": None, "restored": {}}
    fields |= {"seconds": 300.0, "bytes_per_second_max": 1}
    return SnapshotWriter(**fields | given)


def test_a_replica_whose_lag_is_not_known_has_no_snapshot() -> None:
    """It may lack changes that compaction removes soon."""
    assert writer_of()._begin(topic_of(), 0) is None


def test_a_broken_replica_has_no_snapshot() -> None:
    """A batch that failed in the middle has moved its position."""
    topic = topic_of()
    topic.log_ends[0].note(time.monotonic(), 6, "log", topic.partitions[0].reached)
    assert writer_of()._begin(topic, 0) is not None
    assert writer_of(state=SimpleNamespace(broken="failed"))._begin(topic, 0) is None


def test_the_age_is_that_of_what_the_replica_has() -> None:
    """A replica that has the whole log is as old as the sample; one that is behind as old as it has been for."""
    topic, at = topic_of(), time.monotonic() - 50
    topic.log_ends[0].note(at, 6, "log", topic.partitions[0].reached)
    begun = writer_of()._begin(topic, 0)
    assert begun is not None
    assert begun.taken_at == pytest.approx(time.time() - 50, abs=5)
    topic.log_ends[0].note(at + 40, 9, "log", topic.partitions[0].reached)
    assert writer_of()._begin(topic, 0).taken_at == pytest.approx(time.time() - 50, abs=5)


def test_a_snapshot_claim_if_due_when_there_is_none() -> None:
    """Then after each interval, which is a tenth of the compaction lag at most."""
    topic, writer = topic_of(), writer_of()
    partition = ("orders.changes", 0)
    assert writer._claim_if_due(topic, partition)
    assert not writer._claim_if_due(topic, partition)
    assert writer._due_at[partition] == pytest.approx(time.monotonic() + 60, abs=5)


def test_after_a_restored_one_the_next_claim_if_due_later() -> None:
    """It is as good as one that was just taken."""
    partition = ("orders.changes", 0)
    writer = writer_of(restored={partition: None}, seconds=30.0)
    assert not writer._claim_if_due(topic_of(), partition)
    assert writer._due_at[partition] == pytest.approx(time.monotonic() + 30, abs=5)
