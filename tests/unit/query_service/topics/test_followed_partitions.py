"""The partitions of a follower: those without a leader, those of transient topics, and those with a snapshot."""

from sowline.config.topic_definition import define_topic
from sowline.kafka.changes_driver import ChangesPartition
from tests.played_cluster import PlayedCluster
from tests.unit.query_service.topics.followed import (
    PARTITION,
    Followed,
    again,
    change,
    end,
    follower_of,
    long_ago,
    message,
    progress,
)

TRANSIENT = {"key": "/id", "durability": "transient", "recovery_point": "now"}
LACKING = {PARTITION: (2,)}


def test_a_partition_whose_leader_comes_later(loaded: list[ChangesPartition]) -> None:
    """It is named meanwhile, and then followed from its snapshot like any other."""
    follower = Followed(loaded)
    follower.cluster.lacking, follower.snapshot = LACKING, 1
    follower.begin()
    for _ in range(2):
        follower.read()
    assert (follower.changes.readers, follower.partitions.leaderless) == ({}, LACKING)
    assert "a leader of orders.changes [0] in Kafka" in (follower.partitions.waiting() or "")
    follower.cluster = PlayedCluster(2)
    for _ in range(2):
        follower.read()
    assert (follower.reader.has_snapshot, follower.consumer.calls) == (True, [("assign", [(0, 1)])])
    follower.read(message(1, again(2)))
    assert (loaded, follower.partitions.waiting()) == ([PARTITION], None)


def test_a_transient_topic_whose_leader_comes_later(loaded: list[ChangesPartition]) -> None:
    """Its end counts as of then: what a worker writes that opens it comes after that."""
    follower = Followed(loaded, **TRANSIENT)
    follower.cluster.lacking = LACKING
    follower.begin()
    follower.cluster = PlayedCluster(2)
    for _ in range(3):
        follower.read()
    follower.read(message(0, change(1)), message(1, progress(3)))
    assert loaded == []
    follower.read(message(2, change(5)), message(3, progress(5)))
    assert loaded == [PARTITION]


def test_a_new_topic_without_a_leader(loaded: list[ChangesPartition]) -> None:
    """The caller that adds it need not wait for the leader."""
    follower = follower_of(loaded)
    topic = define_topic(name="trades", key="/id")
    follower.cluster.lacking = {(topic.changes, 0): (2,)}
    follower.partitions.add(topic)
    for _ in range(3):
        follower.read()
    assert follower.changes.awaited == {(topic.changes, 0)}
    follower.cluster.lacking = {}
    for _ in range(3):
        follower.read()
    assert follower.consumer.calls == [("assign", [(0, 0)])]


def test_an_old_snapshot_is_kept_until_there_is_a_leader(loaded: list[ChangesPartition]) -> None:
    """It would be emptied, and nobody could fill it; the others would wait."""
    follower = Followed(loaded)
    follower.snapshot = 1
    follower.begin()
    follower.cluster.lacking = LACKING
    for _ in range(2):
        follower.read()
    follower.reader.aim(2, long_ago(follower))
    for _ in range(3):
        follower.read()
    assert (follower.discarded, follower.reader.has_snapshot) == ([], True)
    follower.cluster.lacking = {}
    for _ in range(6):
        follower.read()
    assert (follower.discarded, follower.reader.has_snapshot) == ([PARTITION], False)


def transient(loaded: list[ChangesPartition], owned: set[tuple[str, int]]) -> Followed:
    """A follower of a transient topic whose changes ended at 2 when it began; workers own some partitions."""
    follower = Followed(loaded, **TRANSIENT)
    follower.cluster = PlayedCluster(2, owned=owned)
    follower.begin()
    follower.read(message(0, change(1)), message(1, progress(3)))
    return follower


def test_a_transient_topic_without_an_owner(loaded: list[ChangesPartition]) -> None:
    """It is loaded once a worker has opened it, and all that this ends is here; until then it says why."""
    follower = transient(loaded, set())
    follower.read(end(2))
    assert loaded == []
    assert "a transient topic starts empty when a materializer opens it" in (
        follower.partitions.waiting() or ""
    )
    follower.read(message(2, change(4, last=False)))
    assert loaded == []
    follower.read(message(3, change(5)), message(4, progress(5)))
    assert (loaded, follower.partitions.waiting()) == ([PARTITION], None)


def test_a_transient_topic_that_a_worker_has(loaded: list[ChangesPartition]) -> None:
    """It is loaded at its end, like any other."""
    transient(loaded, {("orders", 0)})
    assert loaded == [PARTITION]


def test_a_snapshot_that_is_followed_for_too_long(loaded: list[ChangesPartition]) -> None:
    """Compaction may have removed events since: the partition is emptied, and read from its start."""
    follower = Followed(loaded)
    follower.snapshot = 1
    follower.begin()
    follower.cluster = PlayedCluster(9)
    follower.read()
    assert (follower.discarded, follower.consumer.calls) == ([], [])
    follower.reader.aim(2, long_ago(follower))
    for _ in range(3):
        follower.read()
    reader = follower.reader
    assert follower.discarded == [PARTITION]
    assert follower.consumer.calls == [("unassign", [(0, -1001)]), ("assign", [(0, 0)])]
    assert (reader.has_snapshot, reader.target) == (False, 9)
