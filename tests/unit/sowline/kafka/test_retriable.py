"""Every question to Kafka is asked again after every error that passes, and no longer than its bound."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sowline.cli.doctor.kafka import KafkaExamination
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.retriable import (
    RETRIABLE,
    commit,
    committed,
    is_away,
    is_retriable,
    patiently,
    wait_for_result,
)
from tests.unit.sowline.kafka.broker import Broker, error_of

LASTING = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_CONFIG,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._AUTHENTICATION,
    KafkaError._FATAL,
)

TOPICS = Topics.model_validate(
    {
        "topics": [{"name": "orders", "key": "/id", "partitions": 2}],
        "fanouts": [{"name": "f", "topic": "orders", "delta": True}],
    }
)
ORDERS = TOPICS.topics[0]

FOUND = {
    "orders": (3, {}),
    "orders.changes": (2, {}),
    "fanout.f": (2, {"cleanup.policy": "compact"}),
    "old": (1, {}),
}
"""A log that was given a partition, topics whose settings do not serve, and dead letters that are missing."""

CALLS: dict[str, Callable[[Cluster], Any]] = {
    "ensure_topic": lambda cluster: cluster.ensure_topic(ORDERS),
    "ensure_fanout": lambda cluster: cluster.ensure_fanout(TOPICS.fanouts[0], ORDERS),
    "ensure_compacted": lambda cluster: cluster.ensure_compacted("eras"),
    "settings": lambda cluster: cluster.settings("orders"),
    "topic_names": lambda cluster: sorted(cluster.topic_names()),
    "delete_topics": lambda cluster: cluster.delete_topics(["old"]),
    "is_there": lambda cluster: [cluster.is_there(name) for name in ("orders", "missing")],
    "topic_id": lambda cluster: cluster.topic_id("orders"),
    "topic_ids": lambda cluster: cluster.topic_ids(["orders"]),
    "partitions": lambda cluster: cluster.partitions("orders"),
    "leaderless": lambda cluster: cluster.leaderless(["orders", "missing"]),
    "starts": lambda cluster: cluster.starts("orders", range(2)),
    "ends": lambda cluster: cluster.ends("orders", range(2)),
    "newest_ends": lambda cluster: cluster.newest_ends("orders", range(2)),
    "offsets_at": lambda cluster: cluster.offsets_at("orders", range(2), 1000),
    "is_empty_group": lambda cluster: cluster.is_empty_group("workers"),
    "owned": lambda cluster: cluster.owned("workers"),
    "groups_reading": lambda cluster: cluster.groups_reading("orders"),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two questions."""
    monkeypatch.setattr("sowline.kafka.retriable._FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr("sowline.kafka.admin.LOOK_AGAIN_SECONDS", 0)


@pytest.fixture
def cluster_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Broker], Cluster]:
    """Makes a cluster of a broker."""

    def make(broker: Broker) -> Cluster:
        monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda options: broker)
        return Cluster({})

    return make


def test_every_question_is_in_the_table() -> None:
    """Only `ask` waits for nothing: its callers ask again by themselves."""
    public = {name for name in vars(Cluster) if not name.startswith("_")}
    assert public == CALLS.keys() | {"ask"}


@pytest.mark.parametrize("answers_are_lost", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_every_question_is_asked_again_after_every_error_that_passes(
    call: str, answers_are_lost: bool, cluster_of: Callable[[Broker], Cluster]
) -> None:
    """Two refusals of each kind of request change nothing, also where Kafka made the change whose answer was lost."""
    calm = Broker(FOUND)
    expected = CALLS[call](cluster_of(calm))
    for code in sorted(RETRIABLE):
        if call == "delete_topics" and code == KafkaError.UNKNOWN_TOPIC_OR_PART and not answers_are_lost:
            continue  # the answer for a topic that another process has deleted
        if call in {"leaderless", "is_there"} and code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            continue  # the answer for a topic that does not exist
        refusing = Broker(FOUND, code, 2, answers_are_lost=answers_are_lost)
        assert (CALLS[call](cluster_of(refusing)), refusing.topics) == (expected, calm.topics), code
        assert refusing.asked.keys() >= calm.asked.keys()
        assert refusing.asked.total() > calm.asked.total()


@pytest.mark.parametrize("call", CALLS)
def test_no_question_is_asked_for_ever(
    call: str, cluster_of: Callable[[Broker], Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the bound, the error is Kafka's own: callers that wait for Kafka recognize it."""
    monkeypatch.setattr("sowline.kafka.retriable.ADMIN_SECONDS", 0.02)
    refusing = Broker(FOUND, KafkaError.NOT_COORDINATOR, 1_000_000)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR") as raised:
        CALLS[call](cluster_of(refusing))
    assert is_away(raised.value)


def test_a_question_without_an_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for ever for a leader must not take the time of the whole."""
    monkeypatch.setattr("sowline.kafka.retriable.ANSWER_SECONDS", 0.01)
    lost, found = Future[str](), Future[str]()
    found.set_result("known")
    asked = iter([lost, found])
    assert patiently(lambda: wait_for_result(next(asked))) == "known"


@pytest.mark.parametrize("call", CALLS)
def test_what_is_refused_for_good_is_asked_once(call: str, cluster_of: Callable[[Broker], Cluster]) -> None:
    """An operator has to do something: a refused change is a sentence with the topic, other questions raise."""
    for code in LASTING:
        refusing = Broker(FOUND, code, 1)
        with pytest.raises((KafkaException, SowlineError)):
            CALLS[call](cluster_of(refusing))
        assert refusing.asked.total() == 1, code


def test_a_topic_that_is_not_there_is_not_waited_for_like_a_kafka_that_is_away() -> None:
    """It is asked for again, since a new one takes a moment to be known, but nobody waits for it without a bound."""
    absent = error_of(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert (is_retriable(absent), is_away(absent)) == (True, False)
    assert not is_retriable(error_of(KafkaError.TOPIC_AUTHORIZATION_FAILED))


# the consumers of fanouts and views


def with_error(code: int | None) -> Any:
    """Return a partition as a consumer reports it."""
    return SimpleNamespace(offset=5, error=None if code is None else KafkaError(code))


@pytest.mark.parametrize("is_raised", [False, True], ids=["for a partition", "for the request"])
def test_offsets_of_a_group_are_asked_for_and_committed_again(is_raised: bool) -> None:
    """An error for one partition of several counts as much as one for all."""
    for code in sorted(RETRIABLE):
        asked: list[int] = []

        def ask(*_: Any, code: int = code, asked: list[int] = asked, **__: Any) -> list[Any]:
            asked.append(code)
            if len(asked) == 1 and is_raised:
                raise error_of(code)
            return [with_error(None), with_error(code if len(asked) == 1 else None)]

        consumer: Any = SimpleNamespace(committed=ask, commit=ask)
        partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
        assert [one.offset for one in committed(consumer, partitions)] == [5, 5]
        assert len(asked) == 2
        asked.clear()
        commit(consumer, partitions)
        assert len(asked) == 2


def test_a_refused_offset_is_raised() -> None:
    """It is not taken for a partition without an offset."""
    refused = with_error(KafkaError.GROUP_AUTHORIZATION_FAILED)
    consumer: Any = SimpleNamespace(committed=lambda *_, **__: [refused], commit=lambda *_, **__: [refused])
    for ask in (committed, commit):
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            ask(consumer, [TopicPartition("t", 0)])


# doctor


def test_the_doctor_asks_again() -> None:
    """A group that could not be described at first is not reported as one without members."""
    for code in sorted(RETRIABLE):
        found, refused = Future[Any](), Future[Any]()
        found.set_result("found")
        refused.set_exception(error_of(code))
        asked = iter([{"a": found, "b": refused}, {"a": found, "b": found}])
        examination = object.__new__(KafkaExamination)
        examination.unanswered = []
        assert examination._answers(asked.__next__, str) == {"a": "found", "b": "found"}
        assert examination.unanswered == []


def test_the_doctor_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered counts, and the rest is named with its error."""
    monkeypatch.setattr(sys.modules[KafkaExamination.__module__], "ANSWER_SECONDS_MAX", 0)
    found, refused = Future[Any](), Future[Any]()
    found.set_result("found")
    refused.set_exception(error_of(KafkaError.NOT_COORDINATOR))
    examination = object.__new__(KafkaExamination)
    examination.unanswered = []
    assert examination._answers(lambda: {"a": found, "b": refused}, str) == {"a": "found"}
    assert examination.unanswered == ["b: Broker: Not coordinator"]


def test_an_error_that_is_not_kafkas_is_raised_at_once() -> None:
    """A defect is not waited for."""
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 / 0)
