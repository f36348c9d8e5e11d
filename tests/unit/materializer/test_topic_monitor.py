"""Watching: an owner that has nothing to write sees what others have written, and a topic that went."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sowline_materializer.topic_monitor import (
    ENDS_MAX,
    LOOK_SECONDS,
    TURN_SECONDS_MAX,
    KnownEnd,
    MonitorAnswer,
    TopicMonitor,
)
from tests.unit.sowline.kafka.test_cluster_answer import ORDERS, TRADES, answer_with

PARTITION = ("orders.changes", 1)
KNOWN = {PARTITION: KnownEnd("id", 7)}


class Cluster:
    """A cluster that answers when the test sets its answer."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def ask(self, partitions: Any, starts: Any, topics: Any) -> Any:
        """Take a question."""
        asked = SimpleNamespace(partitions=list(partitions), starts=list(starts), topics=topics)
        asked.is_answered = False
        self.asked.append(asked)
        return asked

    def answer(self, id: str, end: int, start: int = 0) -> None:
        """Answer the last one."""
        asked = self.asked[-1]
        asked.is_answered, asked.gone, asked.topic_ids, asked.ends = (
            True,
            frozenset,
            lambda but: {PARTITION[0]: id},
            lambda but: {PARTITION: end},
        )
        asked.starts = lambda but: {PARTITION: start}
        asked.leaderless = lambda but: {}

    def answer_that_it_is_gone(self) -> None:
        """Answer the last one: the topic is not there."""
        asked = self.asked[-1]
        asked.is_answered, asked.gone = True, lambda: frozenset({PARTITION[0]})
        asked.topic_ids = asked.starts = asked.ends = asked.leaderless = lambda but: {}

    def refuse(self) -> None:
        """Answer that it can't be."""

        def refused() -> Any:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        self.asked[-1].is_answered, self.asked[-1].gone = True, refused


NOTHING: frozenset[Any] = frozenset()


def asked() -> tuple[Cluster, TopicMonitor]:
    """Return a look that is on its way."""
    cluster = Cluster()
    monitor = TopicMonitor(cluster, tuple)  # type: ignore[arg-type]
    assert monitor.look(lambda: KNOWN, 100) is None
    return cluster, monitor


def test_a_look_waits_for_nothing() -> None:
    """It is asked for, and told once it is answered; the next one comes some seconds later."""
    cluster, monitor = asked()
    assert monitor.look(lambda: KNOWN, 101) is None
    cluster.answer("id", 9)
    assert monitor.look(lambda: KNOWN, 102) == MonitorAnswer({PARTITION: 9}, NOTHING, NOTHING)
    assert monitor.look(lambda: KNOWN, 99 + LOOK_SECONDS) is None
    assert len(cluster.asked) == 1
    monitor.look(lambda: KNOWN, 100 + LOOK_SECONDS)
    assert [one.partitions for one in cluster.asked] == [[PARTITION], [PARTITION]]


def test_nothing_is_asked_about_nothing() -> None:
    """Without topics and partitions it leaves the cluster alone."""
    cluster = Cluster()
    assert TopicMonitor(cluster, tuple).look(dict, 100) is None  # type: ignore[arg-type]
    assert cluster.asked == []


def test_a_topic_of_which_no_partition_is_known() -> None:
    """A worker without partitions asks whether their topics exist: the group may have taken them for that reason."""
    cluster = Cluster()
    monitor = TopicMonitor(cluster, lambda: [PARTITION[0]])  # type: ignore[arg-type]
    monitor.look(dict, 100)
    assert (cluster.asked[-1].partitions, cluster.asked[-1].topics) == ([], {PARTITION[0]})
    cluster.answer_that_it_is_gone()
    assert monitor.look(dict, 101) == MonitorAnswer({}, NOTHING, frozenset({PARTITION[0]}))


@pytest.mark.parametrize("known", [KnownEnd("id@5", 7), KnownEnd("id", 7, has_head=False)])
def test_a_head_that_is_known_to_be_gone(known: KnownEnd) -> None:
    """It was written again already, or does not count: a log, and changes without a SOW, are deleted by age."""
    cluster = Cluster()
    monitor = TopicMonitor(cluster, tuple)  # type: ignore[arg-type]
    monitor.look(lambda: {PARTITION: known}, 100)
    cluster.answer("id", 9, 5)
    assert monitor.look(dict, 101) == MonitorAnswer({PARTITION: 9}, NOTHING, NOTHING)


@pytest.mark.parametrize(("id", "end", "start"), [("other", 9, 0), ("id", 6, 0), ("id", 9, 1)])
def test_a_topic_that_was_made_again(id: str, end: int, start: int) -> None:
    """Its id is another, or it has lost its end or its head."""
    cluster, monitor = asked()
    cluster.answer(id, end, start)
    assert monitor.look(lambda: KNOWN, 101) == MonitorAnswer(
        {PARTITION: end}, frozenset({PARTITION}), NOTHING
    )


@pytest.mark.parametrize("partitions", [ENDS_MAX, 1600, 5000])
def test_the_ends_of_many_partitions_are_asked_for_in_turn(partitions: int) -> None:
    """A look asks for a share of them, and for the ids of all topics."""
    known = {(f"orders-{number // 8}", number % 8): KnownEnd("id", 7) for number in range(partitions)}
    cluster = Cluster()
    monitor = TopicMonitor(cluster, tuple)  # type: ignore[arg-type]
    looks = int(TURN_SECONDS_MAX / LOOK_SECONDS)
    for look in range(looks):
        monitor.look(lambda: known, look * LOOK_SECONDS)
        cluster.refuse()
        monitor.look(lambda: known, look * LOOK_SECONDS)
    assert all(len(one.partitions) <= max(ENDS_MAX, partitions / looks + 1) for one in cluster.asked)
    assert all(one.topics == {topic for topic, _ in known} for one in cluster.asked)
    counts = Counter(one for asked in cluster.asked for one in asked.partitions)
    assert counts.keys() == known.keys()
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(("id", "is_replaced"), [("other", True), ("id", False)])
def test_a_topic_that_was_made_again_before_its_turn(id: str, is_replaced: bool) -> None:
    """Each look compares the ids of all topics."""
    cluster, monitor = asked()
    cluster.answer(id, 9)
    cluster.asked[-1].ends = cluster.asked[-1].starts = lambda but: {}
    found = monitor.look(lambda: KNOWN, 101)
    assert found == MonitorAnswer({}, frozenset({PARTITION} if is_replaced else ()), NOTHING)


def test_a_topic_that_is_gone() -> None:
    """Nothing is known of its partitions."""
    cluster, monitor = asked()
    cluster.answer_that_it_is_gone()
    assert monitor.look(lambda: KNOWN, 101) == MonitorAnswer({}, NOTHING, frozenset({PARTITION[0]}))


def test_a_stale_owners_event_is_found_although_another_partition_has_no_leader() -> None:
    """Nothing is known of the end of that one, and the other's is what it is."""
    answer = answer_with(KafkaError.LEADER_NOT_AVAILABLE)
    known = {ORDERS: KnownEnd("", 7, has_head=False), TRADES: KnownEnd("", 7, has_head=False)}
    monitor = TopicMonitor(SimpleNamespace(ask=lambda *_, **__: answer), tuple)  # type: ignore[arg-type]
    monitor.look(lambda: known, 100)
    assert monitor.look(lambda: known, 101) == MonitorAnswer({ORDERS: 9}, NOTHING, NOTHING)


def test_a_look_that_fails_is_one_that_was_not_taken() -> None:
    """A broker that is away for a while is no reason to begin again."""
    cluster, monitor = asked()
    cluster.refuse()
    assert monitor.look(lambda: KNOWN, 101) is None
