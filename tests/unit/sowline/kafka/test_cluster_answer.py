"""A question that is asked again and again: when, and what becomes of an answer that does not come."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.retriable import ANSWER_SECONDS

INTERVAL = 3.0
ORDERS, TRADES = ("orders", 0), ("trades", 0)


class Admin:
    """A Kafka that gives the end of one partition, and an error for that of the other."""

    def __init__(self, error: int) -> None:
        self._error = KafkaException(KafkaError(error))

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Any]:
        """Return where partitions begin or end."""
        futures: dict[TopicPartition, Future[Any]] = {one: Future() for one in asked}
        for one, future in futures.items():
            if one.topic == TRADES[0]:
                future.set_exception(self._error)
            else:
                future.set_result(SimpleNamespace(offset=9))
        return futures

    def describe_topics(self, asked: Any) -> dict[str, Any]:
        """Return nothing about the topics."""
        return {}


def answer_with(error: int) -> ClusterAnswer:
    """Return an answer of that Kafka about both partitions."""
    return ClusterAnswer(cast("Any", Admin(error)), [ORDERS, TRADES], [ORDERS, TRADES], uncommitted=True)


class Asker:
    """Asks a question, notes how often, and takes each answer as its number."""

    def __init__(self) -> None:
        self.question = RepeatedQuestion(INTERVAL)
        self.asked: list[SimpleNamespace] = []

    def look(self, now: float) -> int | None:
        """Look at a time."""
        return self.question.look(now, self._ask, lambda answer: cast("SimpleNamespace", answer).number)

    def _ask(self) -> ClusterAnswer:
        self.asked.append(SimpleNamespace(is_answered=False, number=len(self.asked)))
        return cast("ClusterAnswer", self.asked[-1])


def test_an_answer_is_taken_once_and_the_question_is_asked_at_the_interval() -> None:
    """It is pending until its answer is taken; the next one comes no sooner than the interval."""
    asker = Asker()
    assert asker.look(INTERVAL) is None
    assert asker.question.is_pending
    asker.asked[0].is_answered = True
    assert asker.look(INTERVAL + 1) == 0
    assert not asker.question.is_pending
    assert asker.look(2 * INTERVAL - 0.1) is None
    assert len(asker.asked) == 1
    assert asker.look(2 * INTERVAL) is None
    assert len(asker.asked) == 2


def test_an_answer_that_never_comes_is_given_up() -> None:
    """The question is asked again, and the late answer is not taken for the new one."""
    asker = Asker()
    asker.look(INTERVAL)
    asker.look(INTERVAL + ANSWER_SECONDS - 0.1)
    assert asker.question.is_pending
    asker.look(INTERVAL + ANSWER_SECONDS)
    assert not asker.question.is_pending
    asker.look(INTERVAL + ANSWER_SECONDS)
    assert len(asker.asked) == 2
    asker.asked[0].is_answered = True
    assert asker.look(INTERVAL + ANSWER_SECONDS) is None
    asker.asked[1].is_answered = True
    assert asker.look(INTERVAL + ANSWER_SECONDS) == 1


@pytest.mark.parametrize("error", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT])
def test_a_partition_without_a_leader_hides_no_other(error: int) -> None:
    """Only its own offsets are not known."""
    answer = answer_with(error)
    assert (answer.ends(), answer.newest_ends(), answer.starts()) == ({ORDERS: 9}, {ORDERS: 9}, {ORDERS: 9})


def test_an_error_that_stays_is_raised() -> None:
    """It is to be reported: no later question gets another answer."""
    answer = answer_with(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    for ask in (answer.ends, answer.newest_ends, answer.starts):
        with pytest.raises(KafkaException):
            ask()


def test_partitions_without_a_leader_are_named_with_their_brokers() -> None:
    """Those of topics that are left out, or that all have one, are not among them."""
    brokers = [SimpleNamespace(id=3), SimpleNamespace(id=2)]
    parts = [
        SimpleNamespace(id=number, leader=leader, replicas=brokers)
        for number, leader in enumerate([None, brokers[0], None])
    ]
    answer = ClusterAnswer(cast("Any", Described({"orders": parts, "trades": parts})), [], topics=["orders"])
    assert answer.leaderless({"trades"}) == {("orders", 0): (3, 2), ("orders", 2): (3, 2)}


class Described:
    """A Kafka that describes the partitions of topics."""

    def __init__(self, partitions: dict[str, Any]) -> None:
        self._partitions = partitions

    def describe_topics(self, asked: Any) -> "dict[str, Future[Any]]":
        """Return the descriptions."""
        futures: dict[str, Future[Any]] = {name: Future() for name in self._partitions}
        for name, future in futures.items():
            future.set_result(SimpleNamespace(partitions=self._partitions[name]))
        return futures
