"""What drives readers of changes topics: their targets, the ends they reach, and topics that are replaced."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from sowline.changes.changes_reader import ChangesReader, ChangesReplaced, Phase
from sowline.changes.progress import Progress
from sowline.config.topic_definition import define_topic
from sowline.kafka.changes_driver import LOOK_SECONDS, AssignedChanges, ChangesDriver, MemberChanges
from sowline.model.position import Position
from tests.played_cluster import PlayedCluster

ORDERS = define_topic(name="orders", key="/id", partitions=2)
CHANGES = ORDERS.changes
FIRST, SECOND = (CHANGES, 0), (CHANGES, 1)
AT = Position(0, 7)
WHOLE = Progress(AT, AT, 8, {}, "digest", "log", 1000, {})
NOTHING = Position(0, -1)


class Cluster(PlayedCluster):
    """A cluster with one topic, or without it; it answers questions once `is_answering`."""

    def __init__(self) -> None:
        super().__init__(5, start=3)
        self.is_gone = False
        self.error: KafkaException | None = None
        self.is_answering = True
        self.asked = 0
        self.pending = SimpleNamespace()

    def ask(self, *asked: Any, **more: Any) -> Any:
        """Return a pending question."""
        assert CHANGES in set(more["topics"]) <= {CHANGES, "output"}
        self.asked += 1
        self.pending = super().ask(*asked, **more)
        self.pending.is_answered, self.pending.gone = self.is_answering, self._gone
        if self.is_gone:
            self.pending.topic_ids = lambda gone: {}
        return self.pending

    def _gone(self) -> frozenset[str]:
        if self.error is not None:
            raise self.error
        return frozenset()


class AtEnd(NamedTuple):
    """The news that a partition was read to its end."""

    name: str
    number: int
    end: int

    def error(self) -> KafkaError:
        """Say so."""
        return KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        """Return the topic."""
        return self.name

    def partition(self) -> int:
        """Return the partition."""
        return self.number

    def offset(self) -> int:
        """Return the end."""
        return self.end


class Consumer:
    """A consumer that notes what it is asked to do."""

    def __init__(self) -> None:
        self.at_end: list[AtEnd] = []
        self.calls: list[tuple[str, list[tuple[int, int]]]] = []
        self.callbacks: dict[str, Callable[..., None]] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda given: self.calls.append((name, [(one.partition, one.offset) for one in given]))

    def assignment(self) -> list[TopicPartition]:
        """Return none, as no broker has to be woken."""
        return []

    def seek(self, one: TopicPartition) -> None:
        """Read on elsewhere."""
        self.calls.append(("seek", [(one.partition, one.offset)]))

    def poll(self, seconds: float) -> AtEnd:
        """Return which partition was read to its end."""
        return self.at_end.pop()

    def consume(self, count: int, seconds: float) -> list[AtEnd]:
        """Return nothing more."""
        return []

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        """Join the group."""
        assert topics == [CHANGES]
        self.callbacks = callbacks

    def get_watermark_offsets(self, partition: TopicPartition, cached: bool) -> tuple[int, int]:
        """Return the start and the end of a partition."""
        return 3, 10


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The time, which passes only if a test lets it."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("sowline.kafka.changes_driver.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def cluster() -> Cluster:
    """The cluster that is asked."""
    return Cluster()


@pytest.fixture
def assigned(clock: Any, cluster: Cluster) -> AssignedChanges:
    """A driver that loads both partitions."""
    driver = AssignedChanges(cluster, [ORDERS], threading.Event())  # type: ignore[arg-type]
    driver.consumer = Consumer()  # type: ignore[assignment]
    driver.load(CHANGES, range(2))
    return driver


def calls(driver: ChangesDriver) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return what the consumer of a driver was asked to do."""
    return driver.consumer.calls  # type: ignore[attr-defined, no-any-return]


def read_what_comes(driver: AssignedChanges) -> None:
    """Let it ask, take the answer, and read the awaited partitions that have come."""
    for _ in range(2):
        driver.look()
    for topic, readers in driver.come():
        assert topic is ORDERS
        driver.read(readers)


def test_a_load_ends_at_the_end_that_it_began_with(assigned: AssignedChanges) -> None:
    """It begins where the partition does; a sentence names what it waits for."""
    reader = assigned.readers[FIRST]
    assert (reader.changes_id, reader.next_offset, reader.target) == ("this@3", 3, 5)
    assigned.look()
    assert reader.phase is Phase.LOADING
    assigned.consumer.at_end = [AtEnd(*FIRST, 5)]  # type: ignore[attr-defined]
    assert assigned.poll(10, 0) == []
    assigned.look()
    assert (assigned.waiting() or "").startswith("waiting for orders.changes [0]: it is empty")
    reader.take(WHOLE._replace(changes_id="this@3"), 5)
    assigned.look()
    assert (reader.phase, assigned.waiting()) == (Phase.COMPLETE, None)
    assigned.follow(FIRST)
    assert (reader.phase, list(assigned.loading), set(assigned.readers)) == (
        Phase.FOLLOWING,
        [SECOND],
        {FIRST, SECOND},
    )
    assert assigned.behind.lags == {FIRST: 7, SECOND: 7}


def test_a_load_that_takes_long_gets_a_new_target(
    assigned: AssignedChanges, clock: Any, cluster: Cluster
) -> None:
    """It is logged. A partition that is paused reads nothing, so its load waits."""
    assigned.pause(SECOND)
    for reader in assigned.readers.values():
        reader.take(WHOLE._replace(changes_id="this@3"), 4)
    clock.now, cluster.end = clock.now + 3600, 9
    with capture_logs() as logs:
        assigned.look()
    assert [(line["event"], line["partition"]) for line in logs] == [
        ("loading takes long; continuing to the current end", 0)
    ]
    assert [reader.target for reader in assigned.readers.values()] == [9, 5]
    assigned.resume(SECOND)
    assigned.resume(SECOND)
    assert calls(assigned) == [("pause", [(1, -1001)]), ("resume", [(1, -1001)])]


def test_a_load_begins_again(assigned: AssignedChanges, cluster: Cluster) -> None:
    """With a new reader, from the start of the partition as it is now."""
    before, cluster.end = assigned.readers[FIRST], 8
    assigned.load_again(FIRST)
    assert (list(assigned.readers), assigned.awaited) == ([SECOND], {FIRST})
    read_what_comes(assigned)
    assert assigned.loading[FIRST] is assigned.readers[FIRST] is not before
    assert (assigned.readers[FIRST].target, assigned.awaited) == (8, set())
    assert calls(assigned) == [("incremental_unassign", [(0, -1001)]), ("incremental_assign", [(0, 3)])]


def test_a_topic_that_is_replaced_is_noticed(assigned: AssignedChanges, clock: Any, cluster: Cluster) -> None:
    """By readers that load and that follow, without waiting for Kafka. One that is only gone is waited for."""
    assigned.look()
    cluster.is_gone = True
    for _ in range(3):
        clock.now += LOOK_SECONDS
        assigned.look()
    cluster.is_gone, cluster.id, cluster.is_answering = False, "another", False
    clock.now += LOOK_SECONDS
    assigned.look()
    assigned.look()
    cluster.pending.is_answered = True
    with pytest.raises(ChangesReplaced, match=r"orders\.changes was deleted and created again") as error:
        assigned.look()
    assert (error.value.reason, assigned.readers[FIRST].phase) == ("changes replaced", Phase.REPLACED)


def test_how_often_kafka_is_asked(assigned: AssignedChanges, clock: Any, cluster: Cluster) -> None:
    """Not at each look; a replaced topic is to be noticed within 5 seconds, with the time for an answer."""
    assert LOOK_SECONDS <= 4
    for _ in range(10):
        assigned.look()
    assert cluster.asked == 1
    clock.now += LOOK_SECONDS
    assigned.look()
    assert cluster.asked == 2


def test_an_answer_that_was_asked_for_before_a_load_does_not_count(
    assigned: AssignedChanges, cluster: Cluster
) -> None:
    """It has the id of the topic as it was before."""
    assigned.look()
    cluster.id = "another"
    assigned.load(CHANGES, range(2))
    assigned.look()
    assert {reader.topic_id for reader in assigned.readers.values()} == {"another"}


def test_a_kafka_that_refuses_an_answer(assigned: AssignedChanges, clock: Any, cluster: Cluster) -> None:
    """It is logged, and asked again."""
    cluster.error = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with capture_logs() as logs:
        assigned.look()
        assigned.look()
    assert [line["event"] for line in logs] == ["Kafka reported an error"]


def test_what_is_required_to_be_the_same(assigned: AssignedChanges, cluster: Cluster) -> None:
    """Where it matters at once, it is asked for at once."""
    assigned.require_same([FIRST])
    cluster.id = "another"
    with pytest.raises(ChangesReplaced):
        assigned.require_same([FIRST])


def test_partitions_of_a_group(clock: Any, cluster: Cluster) -> None:
    """What comes is opened and read from where its reader begins; what goes is closed, and no longer paused."""
    driver = MemberChanges(Consumer(), cluster, ORDERS, threading.Event())  # type: ignore[arg-type]
    closed: list[int] = []

    def opened(numbers: Sequence[int]) -> None:
        driver.load(CHANGES, [number for number in numbers if number == 0])
        if 1 in numbers:
            driver.follow_after(1, ChangesReader.after(AT, 6, "this"))

    driver.join(opened, closed.append)
    assert (driver.is_member, driver.total_behind) == (False, None)
    consumer: Any = driver.consumer
    both = [TopicPartition(CHANGES, 0), TopicPartition(CHANGES, 1)]
    consumer.callbacks["on_assign"](consumer, both)
    assert (driver.is_member, list(driver.loading)) == (True, [FIRST])
    driver.look()
    assert driver.total_behind == 7 + 4
    driver.pause(SECOND)
    consumer.callbacks["on_revoke"](consumer, [both[1], TopicPartition(CHANGES, 2)])
    consumer.callbacks["on_lost"](consumer, both[:1])
    assert (closed, driver.readers, driver.loading) == ([1, 0], {}, {})
    assert calls(driver) == [
        ("incremental_assign", [(0, 3), (1, 6)]),
        ("pause", [(1, -1001)]),
        ("resume", [(1, -1001)]),
    ]


# partitions without a leader

LACKING = {SECOND: (2, 3)}
WAITS = "waiting for a leader of orders.changes [1] in Kafka: start a broker that has it (2, 3)"


def test_a_partition_without_a_leader_holds_up_no_other(clock: Any, cluster: Cluster) -> None:
    """It is awaited, and a sentence and a line of the log name it. It is loaded once its leader is there."""
    cluster.lacking = LACKING
    driver = AssignedChanges(cluster, [ORDERS], threading.Event())  # type: ignore[arg-type]
    driver.consumer = Consumer()  # type: ignore[assignment]
    driver.load(CHANGES, range(2))
    with capture_logs() as logs:
        read_what_comes(driver)
    assert (list(driver.loading), driver.awaited, driver.leaderless) == ([FIRST], {SECOND}, LACKING)
    assert (driver.waiting() or "").startswith(WAITS)
    assert [(line["event"], line["partition"]) for line in logs] == [("partition waits for a leader", 1)]
    cluster.lacking, cluster.end = {}, 8
    clock.now += LOOK_SECONDS
    read_what_comes(driver)
    assert (list(driver.loading), driver.awaited, driver.waiting()) == ([FIRST, SECOND], set(), None)
    assert (driver.readers[SECOND].changes_id, driver.readers[SECOND].target) == ("this@3", 8)
    assert calls(driver) == [("incremental_assign", [(1, 3)])]


def test_a_partition_that_loses_its_leader_is_named(
    assigned: AssignedChanges, clock: Any, cluster: Cluster
) -> None:
    """Its reader stays: it reads on where it is."""
    for lacking, waits in ((LACKING, True), ({}, False)):
        cluster.lacking = lacking
        clock.now += LOOK_SECONDS
        read_what_comes(assigned)
        assert ((assigned.waiting() or "").startswith(WAITS), assigned.leaderless) == (waits, lacking)
        assert list(assigned.readers) == [FIRST, SECOND]


def test_a_load_without_a_leader_gets_no_new_target(
    assigned: AssignedChanges, clock: Any, cluster: Cluster
) -> None:
    """Nobody answers where it ends; the others get theirs. One that has just lost its leader is tried once."""
    for reader in assigned.readers.values():
        reader.take(WHOLE._replace(changes_id="this@3"), 4)
    cluster.lacking, clock.now = LACKING, clock.now + 3600
    cluster.end = 9
    with capture_logs() as logs:
        for _ in range(3):
            assigned.look()
    assert [reader.target for reader in assigned.readers.values()] == [9, 5]
    assert [line["event"] for line in logs].count("waiting for Kafka") <= 1
    cluster.lacking, clock.now = {}, clock.now + LOOK_SECONDS
    for _ in range(3):
        assigned.look()
    assert [reader.target for reader in assigned.readers.values()] == [9, 9]


def test_a_topic_that_is_removed_is_awaited_no_more(assigned: AssignedChanges, cluster: Cluster) -> None:
    """Neither a partition without a leader, nor one whose leader has just come back."""
    cluster.lacking = LACKING
    assigned.load_again(SECOND)
    for _ in range(2):
        assigned.look()
    assert assigned.remove(ORDERS) == [FIRST]
    assert (assigned.awaited, assigned.leaderless, list(assigned.come())) == (set(), {}, [])


OUTPUT = ("output", 0)


def test_a_member_awaits_what_needs_a_leader(clock: Any, cluster: Cluster) -> None:
    """Also that of another topic. Kafka's group may take such a partition away again; else it is opened later."""
    cluster.lacking, gone = {SECOND: (2,), OUTPUT: (2,)}, Consumer()
    driver = MemberChanges(
        gone,  # type: ignore[arg-type]
        cluster,  # type: ignore[arg-type]
        ORDERS,
        threading.Event(),
        lambda number: [OUTPUT] if number == 0 else [],
    )
    opened: list[int] = []
    closed: list[int] = []

    def open_partitions(numbers: Sequence[int]) -> None:
        opened.extend(numbers)
        for number in numbers:
            driver.follow_after(number, ChangesReader.after(AT, 6, "this"))

    driver.join(open_partitions, closed.append)
    both = [TopicPartition(CHANGES, 0), TopicPartition(CHANGES, 1)]
    gone.callbacks["on_assign"](gone, both)
    assert (opened, driver.awaited, driver.is_member) == ([], {FIRST, SECOND}, True)
    assert "a leader of orders.changes [1] and output [0] in Kafka" in (driver.waiting() or "")
    for _ in range(2):
        driver.look()
    assert driver.come() == []
    gone.callbacks["on_revoke"](gone, both[:1])
    assert (closed, driver.awaited, driver.leaderless) == ([], {SECOND}, {SECOND: (2,)})
    cluster.lacking, clock.now = {}, clock.now + LOOK_SECONDS
    for _ in range(2):
        driver.look()
    open_partitions(driver.come())
    driver.read([1])
    assert (opened, driver.awaited, driver.waiting()) == ([1], set(), None)
    assert calls(driver) == [
        ("incremental_assign", [(0, -1), (1, -1)]),
        ("pause", [(0, -1001)]),
        ("pause", [(1, -1001)]),
        ("resume", [(0, -1001)]),
        ("seek", [(1, 6)]),
        ("resume", [(1, -1001)]),
    ]
