"""Starting: where transient topics begin again, and where they go on."""

from typing import Any

import pytest

from materializer.worker.assignment import StartPhase
from sowline.config.topics import TopicDefinition


class FakeCluster:
    """A cluster with two partitions of each topic, whose changes end at 7."""

    def __init__(self, empty: bool = True) -> None:
        self._empty = empty
        self.asked: list[str] = []

    def is_empty_group(self, group: str) -> bool:
        """Tell whether the group is empty."""
        self.asked.append(group)
        return self._empty

    def ends(self, topic: str, partitions: range) -> dict[int, int]:
        """Return the ends."""
        assert topic.endswith(".changes")
        return dict.fromkeys(partitions, 7)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return an offset that tells what was asked."""
        return time_ms * 10 + partition


def topic(name: str, **given: Any) -> TopicDefinition:
    """Return a definition."""
    return TopicDefinition.model_validate({"name": name, "key": "/id", "partitions": 2, **given})


TOPICS = [
    topic("kept"),
    topic("epoch", durability="transient"),
    topic("now", durability="transient", recovery_point="now"),
    topic("then", durability="transient", recovery_point="19700101T000002.5Z"),
]


def starting(cluster: FakeCluster) -> StartPhase:
    """Return what a worker asks."""
    return StartPhase(cluster, "workers", TOPICS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        (("kept", 0), None),
        (("epoch", 0), None),
        (("now", 1), 99),
        (("then", 0), 25_000),
        (("then", 1), 25_001),
    ],
)
def test_each_topic_begins_where_it_says(partition: tuple[str, int], offset: int | None) -> None:
    """Persistent ones, and those that begin at the epoch, go on."""
    assert starting(FakeCluster()).offset(partition, 7, 99) == offset


def test_where_others_work_nothing_starts() -> None:
    """A worker that joins a group takes partitions over as they are."""
    assert starting(FakeCluster(empty=False)).offset(("now", 0), 7, 99) is None


def test_a_partition_that_somebody_has_had_since_goes_on() -> None:
    """Two workers may find the group empty; who opens a partition second sees what the first has written."""
    assert starting(FakeCluster()).offset(("now", 0), 8, 99) is None


def test_after_the_first_assignment_partitions_only_move() -> None:
    """What comes later comes from somebody."""
    start = starting(FakeCluster())
    start.over()
    assert start.offset(("now", 0), 7, 99) is None


def test_without_transient_topics_kafka_is_not_asked() -> None:
    """The group is not described in vain."""
    cluster = FakeCluster()
    StartPhase(cluster, "workers", TOPICS[:2])  # type: ignore[arg-type]
    assert cluster.asked == []
