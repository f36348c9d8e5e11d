"""What drives readers of changes topics: their targets, the ends they reach, and topics that are replaced."""

import threading
from collections.abc import Callable, Iterable, Sequence
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

ORDERS = define_topic(name="orders", key="/id", partitions=2)
CHANGES = ORDERS.changes
FIRST, SECOND = (CHANGES, 0), (CHANGES, 1)
AT = Position(0, 7)
WHOLE = Progress(AT, AT, 8, {}, "digest", "log", 1000, {})
NOTHING = Position(0, -1)


class Cluster:
    """A cluster with one topic; it answers questions for ids once `is_answering`."""

    def __init__(self) -> None:
        self.id: str | None = "this"
        self.end = 5
        self.error: KafkaException | None = None
        self.is_answering = True
        self.asked = 0
        self.pending = SimpleNamespace()

    def topic_id(self, topic: str) -> str:
        """Return the topic's id."""
        assert self.id is not None
        return self.id

    def starts(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return where partitions begin."""
        return dict.fromkeys(numbers, 3)

    def ends(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return where partitions end."""
        return dict.fromkeys(numbers, self.end)

    def ask(self, topics: Iterable[str]) -> Any:
        """Return a pending question, which is answered with what is true when it is asked."""
        assert set(topics) == {CHANGES}
        self.asked += 1
        found = {} if self.id is None else {CHANGES: self.id}
        self.pending = SimpleNamespace(
            is_answered=self.is_answering, gone=self._gone, topic_ids=lambda gone: dict(found)
        )
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
    assert assigned.loading[FIRST] is assigned.readers[FIRST] is not before
    assert (assigned.readers[FIRST].target, calls(assigned)) == (8, [("seek", [(0, 3)])])


def test_a_topic_that_is_replaced_is_noticed(assigned: AssignedChanges, clock: Any, cluster: Cluster) -> None:
    """By readers that load and that follow, without waiting for Kafka. One that is only gone is waited for."""
    assigned.look()
    cluster.id = None
    for _ in range(3):
        clock.now += LOOK_SECONDS
        assigned.look()
    cluster.id, cluster.is_answering = "another", False
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
