"""How often a cluster is asked."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from sowline.kafka.admin import Cluster


class Admin:
    """A Kafka client that knows no better of the partitions until it looks again."""

    def __init__(self, answer: "Future[Any]") -> None:
        self._answer = answer
        self.looks = 0

    def list_offsets(self, asked: dict[TopicPartition, Any], **given: Any) -> dict[TopicPartition, Any]:
        """Give that answer, and the offset 7 once it has looked."""
        return dict.fromkeys(asked, self._answer)

    def list_topics(self, topic: str, seconds: float) -> None:
        """Look again."""
        self._answer = answered(7)
        self.looks += 1


def answered(offset: int) -> "Future[Any]":
    """Return an answer."""
    answer: Future[Any] = Future()
    answer.set_result(SimpleNamespace(offset=offset))
    return answer


def refused(why: int) -> "Future[Any]":
    """Return a refusal."""
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(KafkaError(why)))
    return answer


@pytest.mark.parametrize(
    "answer",
    [
        answered(OFFSET_INVALID),
        refused(KafkaError._NOENT),
        refused(KafkaError.FENCED_LEADER_EPOCH),
        refused(KafkaError.UNKNOWN_LEADER_EPOCH),
        refused(KafkaError._UNKNOWN_PARTITION),
    ],
    ids=["no offset", "no leader", "previous leader", "leader to come", "partition to come"],
)
def test_the_end_of_a_partition_is_asked_for_until_it_is_known(
    answer: "Future[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a client that has lost its connection an offset may come that is none: a log would seem to be cut."""
    admin = Admin(answer)
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda options: admin)
    assert Cluster({}).ends("orders", [0]) == {0: 7}
    assert admin.looks == 1


def test_no_record_of_that_time_or_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka says so with an offset that is none either, and that is its answer."""
    answers = [answered(OFFSET_END), answered(9)]
    admin = SimpleNamespace(list_offsets=lambda asked, **given: dict.fromkeys(asked, answers.pop(0)))
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda options: admin)
    assert Cluster({}).offsets_at("orders", [0], 1) == {0: 9}


def test_a_look_that_got_no_end_reports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone who watches a topic would take what is no offset for the end of one that was made again."""
    admin = SimpleNamespace(
        list_offsets=lambda asked, **given: dict.fromkeys(asked, answered(OFFSET_INVALID)),
        describe_topics=lambda topics: {},
    )
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda options: admin)
    asked = Cluster({}).ask([("orders", 0)], starts=[("orders", 0)], uncommitted=True)
    assert asked.is_answered
    assert (asked.ends(), asked.starts(), asked.newest_ends()) == ({}, {}, {})
