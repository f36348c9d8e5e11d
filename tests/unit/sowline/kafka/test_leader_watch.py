"""A wait that lasts: whether it is for a partition without a leader."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sowline.kafka.leader_watch import GAP_SECONDS, PATIENCE_SECONDS, LeaderWatch, needing_leader

ORDERS, TRADES = ("orders", 1), ("trades", 0)
BEGIN = 1000.0
LATE = BEGIN + PATIENCE_SECONDS


class Kafka:
    """A Kafka in which both partitions have no leader; it answers a question by the next look."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []

    def ask(self, topics: set[str]) -> Any:
        """Take a question."""
        self.asked.append(topics)
        leaderless = {ORDERS: (2,), TRADES: (2, 3)}
        return SimpleNamespace(is_answered=True, gone=frozenset, leaderless=lambda but: leaderless)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """The Kafka that is asked."""
    kafka = Kafka()
    monkeypatch.setattr("sowline.kafka.leader_watch.Cluster", lambda _: kafka)
    return kafka


def test_a_short_wait_asks_nothing(kafka: Kafka) -> None:
    """Kafka is asked once the wait has lasted for some time."""
    watch = LeaderWatch({})
    assert [watch.look(BEGIN, {ORDERS}), watch.look(LATE - 0.1, {ORDERS})] == [{}, {}]
    assert kafka.asked == []


def test_a_long_wait_names_those_that_it_is_for(kafka: Kafka) -> None:
    """The answer comes with a later look; what nobody waits for is left out."""
    watch = LeaderWatch({})
    watch.look(BEGIN, {ORDERS})
    assert watch.look(LATE, {ORDERS}) == {}
    assert watch.look(LATE + 0.5, {ORDERS}) == {ORDERS: (2,)}
    assert kafka.asked == [{"orders"}]


def test_an_answer_to_the_wait_before_does_not_count(kafka: Kafka) -> None:
    """The partition may have had a leader since: the next wait asks for itself."""
    watch = LeaderWatch({})
    watch.look(BEGIN, {ORDERS})
    watch.look(LATE, {ORDERS})
    later = LATE + GAP_SECONDS + 0.1
    assert [watch.look(later + n, {ORDERS}) for n in (0, 1, PATIENCE_SECONDS)] == [{}, {}, {}]
    assert watch.look(later + PATIENCE_SECONDS + 0.5, {ORDERS}) == {ORDERS: (2,)}


def test_a_reader_of_such_a_partition_ends(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises the error that Kafka itself has for it."""
    times = iter([BEGIN, LATE, LATE + 0.5])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    idle = needing_leader({}, {ORDERS})
    idle()
    idle()
    with pytest.raises(KafkaException, match=r"orders \[1\] has no leader") as error:
        idle()
    assert error.value.args[0].code() == KafkaError.LEADER_NOT_AVAILABLE
