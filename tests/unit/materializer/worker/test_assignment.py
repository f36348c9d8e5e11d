"""Assignment: where transient topics begin again, and partitions that are recovered side by side."""

from collections.abc import Mapping
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.kafka.leaderless import KafkaPartition
from sowline.model.position import Position
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.worker.assignment import Assignment, Recovering, StartPhase
from sowline_materializer.worker.owned import OwnedPartitions


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

    def leaderless(self, topics: list[str]) -> dict[tuple[str, int], tuple[int, ...]]:
        """Return the second partition of `lost`, which no broker leads."""
        return {("lost.changes", 1): (2,)} if topics == ["lost.changes"] else {}

    def offsets_at(self, topic: str, partitions: list[int], time_ms: int) -> dict[int, int]:
        """Return offsets that tell what was asked."""
        return {partition: time_ms * 10 + partition for partition in partitions}


def topic(name: str, **given: Any) -> TopicDefinition:
    """Return a definition."""
    return define_topic(**{"name": name, "key": "/id", "partitions": 2, **given})


TOPICS = [
    topic("kept"),
    topic("epoch", durability="transient"),
    topic("now", durability="transient", recovery_point="now"),
    topic("lost", durability="transient", recovery_point="now"),
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
        (("lost", 0), 99),
        (("lost", 1), 99),
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
    start.over([("now", 0)])
    assert start.offset(("now", 0), 7, 99) is None


def test_without_transient_topics_kafka_is_not_asked() -> None:
    """The group is not described in vain."""
    cluster = FakeCluster()
    StartPhase(cluster, "workers", TOPICS[:2])  # type: ignore[arg-type]
    assert cluster.asked == []


def test_a_partition_that_had_no_leader_begins_whatever_its_changes_end_at() -> None:
    """Nobody could write to it, so that its end at the start is the one that it has later."""
    start = starting(FakeCluster())
    assert start.offset(("lost", 0), 8, 99) is None
    assert start.offset(("lost", 1), 8, 99) == 99
    start.over([("lost", 1)])
    assert start.offset(("lost", 1), 8, 99) is None


class FakeStore:
    """A store that knows whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        """Close it."""
        self.is_closed = True


class FakeConsumer:
    """A consumer that is given partitions, of which some are paused."""

    def __init__(self) -> None:
        self.paused: list[TopicPartition] = []

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Take them."""

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Give them back."""

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Read them again."""
        self.paused = [one for one in self.paused if one not in partitions]

    def assignment(self) -> list[TopicPartition]:
        """Return none, as no broker has to be woken."""
        return []

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Pause them."""
        self.paused += partitions


class SideBySide:
    """An assignment of three partitions whose recoveries wait for each other, and what came of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, errors: Mapping[int, Exception]) -> None:
        monkeypatch.setattr("sowline_materializer.worker.assignment.RECOVERED_AT_ONCE", 3)
        self.stores = [FakeStore() for _ in range(3)]
        self.owned = OwnedPartitions({"orders": topic("orders", partitions=3)})
        given: Any = None
        self.leaderless: dict[KafkaPartition, tuple[int, ...]] = {}
        cluster: Any = SimpleNamespace(leaderless=lambda topics: self.leaderless)
        self.cluster = cluster
        settings: Any = SimpleNamespace(kafka_client={})
        schemas: Any = SimpleNamespace(forget=lambda _: None, is_waiting=lambda _: False)
        self.assignment = Assignment(settings, cluster, self.owned, given, schemas, None, None)
        self._errors, self.met = errors, Barrier(3)
        monkeypatch.setattr(
            Assignment, "_begin", lambda _, partition_id, before=None: self.begun(partition_id)
        )
        monkeypatch.setattr(Assignment, "_finished", lambda _, partition_id, begun: self.finished(begun))
        monkeypatch.setattr(OwnedPartitions, "add", lambda owned, one, partition: self.opened.append(one[1]))
        self.opened: list[int] = []

    def begun(self, partition_id: PartitionId) -> Recovering:
        """Return a recovery that ends once all have begun, with an error for some."""

        def recover() -> Any:
            self.met.wait(10)
            if (error := self._errors.get(partition_id[1])) is not None:
                raise error
            return SimpleNamespace(store=self.stores[partition_id[1]])

        nothing: Any = None
        return Recovering(nothing, recover, 0, None)

    @staticmethod
    def finished(begun: Recovering) -> Any:
        """Return a partition whose store is that of the recovery."""
        begun.open()
        checkpoint = SimpleNamespace(position=Position(0, 4), next_offset=5)
        return SimpleNamespace(checkpoint=checkpoint)

    def assign(self) -> FakeConsumer:
        """Give the worker the three partitions."""
        consumer = FakeConsumer()
        self.assignment.on_assign(consumer, [TopicPartition("orders", number) for number in range(3)])  # type: ignore[arg-type]
        return consumer


def test_partitions_are_recovered_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each recovery waits here until all have begun; one that is refused stops its partition only."""
    rig = SideBySide(monkeypatch, {1: SowlineError("log incomplete", "offsets are gone")})
    consumer = rig.assign()
    assert rig.opened == [0, 2]
    assert rig.owned.stopped == {("orders", 1): "offsets are gone"}
    assert [one.partition for one in consumer.paused] == [1]
    assert not any(store.is_closed for store in rig.stores)


def test_what_was_recovered_in_vain_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One recovery fails for good: the worker ends, and no store of those behind it stays open."""
    rig = SideBySide(monkeypatch, {1: StoreDamaged("the disk is gone")})
    with pytest.raises(StoreDamaged):
        rig.assign()
    assert rig.opened == [0]
    assert [store.is_closed for store in rig.stores] == [False, False, True]


def test_kafka_that_is_away_is_asked_about_one_partition_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question waits long: the worker ends with the first one that has no answer."""
    rig = SideBySide(monkeypatch, {})
    asked: list[PartitionId] = []

    def begun(_: Assignment, partition_id: PartitionId, before: Recovering | None = None) -> Recovering:
        asked.append(partition_id)
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    monkeypatch.setattr(Assignment, "_begin", begun)
    with pytest.raises(KafkaException):
        rig.assign()
    assert asked == [("orders", 0)]


def test_a_partition_that_cannot_begin_stops_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused about one partition says nothing about the others."""
    rig = SideBySide(monkeypatch, {})
    begin = Assignment._begin
    rig.met = Barrier(2)

    def begun(one: Assignment, partition_id: PartitionId, before: Recovering | None = None) -> Recovering:
        if partition_id[1] == 1:
            raise SowlineError("bad topic", "its changes can't be created")
        return begin(one, partition_id, before)

    monkeypatch.setattr(Assignment, "_begin", begun)
    rig.assign()
    assert rig.opened == [0, 2]
    assert rig.owned.stopped == {("orders", 1): "its changes can't be created"}


def test_a_partition_without_a_leader_is_opened_once_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is asked first: a recovery would wait for the leader, and all the others with it."""
    rig = SideBySide(monkeypatch, {})
    rig.met, rig.leaderless = Barrier(2), {("orders.changes", 1): (2,)}
    consumer = rig.assign()
    assert (rig.opened, rig.owned.stopped) == ([0, 2], {})
    assert rig.owned.leaderless == {("orders", 1): {("orders.changes", 1): (2,)}}
    assert [one.partition for one in consumer.paused] == [1]
    rig.assignment.follow_leaders(consumer)  # type: ignore[arg-type]
    assert rig.opened == [0, 2]
    rig.met, rig.leaderless = Barrier(1), {}
    rig.assignment.leaders.note({})
    rig.assignment.follow_leaders(consumer)  # type: ignore[arg-type]
    assert (rig.opened, rig.owned.leaderless, consumer.paused) == ([0, 2, 1], {}, [])


def test_a_partition_that_loses_its_leader_while_it_is_open_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits like one that never had one."""
    rig = SideBySide(monkeypatch, {})
    consumer = rig.assign()
    closed: list[str] = []
    partition: Any = SimpleNamespace(close=lambda: closed.append("closed"))
    rig.owned.partitions["orders", 2] = partition
    rig.assignment.leaders.note({("orders", 2): (2,)})
    rig.assignment.follow_leaders(consumer)  # type: ignore[arg-type]
    assert (closed, list(rig.owned.leaderless)) == (["closed"], [("orders", 2)])


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_leader_that_goes_while_a_partition_is_opened(
    monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Kafka is asked why: the partition waits alone, and another reason ends the worker."""
    rig = SideBySide(monkeypatch, {1: KafkaException(KafkaError(KafkaError._NOENT))})
    answers = iter([{}, {("orders", 1): (2,)} if is_lost else {}])
    rig.cluster.leaderless = lambda topics: next(answers)
    if is_lost:
        rig.assign()
        assert (rig.opened, list(rig.owned.leaderless)) == ([0, 2], [("orders", 1)])
    else:
        with pytest.raises(KafkaException):
            rig.assign()
