"""The copies of a worker, over a Kafka that does not always answer."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline_materializer.standby.standby import Standby
from tests.unit.materializer.standby.followed import DEFINITION


class FakeKafka:
    """A Kafka that has a changes topic for each id, and a consumer of them, to which it sends nothing but errors."""

    def __init__(self) -> None:
        self.ids = {"orders.changes": "a", "items.changes": "a"}
        self.errors: list[KafkaError] = []
        self.assigned: list[str] = []
        self.questions = 0

    # the admin client

    def _answer(self, topic: str, answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if topic in self.ids:
            future.set_result(answer)
        else:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return future

    def list_offsets(self, asked: Any, **given: Any) -> dict[TopicPartition, Future[Any]]:
        """Return where partitions begin or end."""
        return {one: self._answer(one.topic, SimpleNamespace(offset=0)) for one in asked}

    def describe_topics(self, asked: Any) -> dict[str, Future[Any]]:
        """Return the topics' ids."""
        self.questions += 1
        names = asked.topic_names
        return {one: self._answer(one, SimpleNamespace(topic_id=self.ids.get(one))) for one in names}

    # the cluster

    def ask(self, partitions: Any, *, starts: Any) -> ClusterAnswer:
        """Ask, and have an answer at once."""
        admin: Any = self
        return ClusterAnswer(admin, partitions, starts)

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic."""
        return self.ids[topic]

    def starts(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """Return where partitions begin."""
        return dict.fromkeys(partitions, 0)

    # the consumer

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these too."""
        self.assigned += [one.topic for one in partitions]

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these no more."""
        self.assigned.append("")

    def consume(self, count: int, timeout: float) -> list[Any]:
        """Return the errors, each about no topic."""
        errors, self.errors = self.errors, []
        return [
            SimpleNamespace(topic=lambda: None, partition=lambda: None, error=lambda one=one: one)
            for one in errors
        ]

    def close(self) -> None:
        """Close the consumer."""


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """A Kafka whose clients every `Standby` gets, and which is asked all the time."""
    kafka = FakeKafka()
    monkeypatch.setattr("sowline_materializer.standby.standby.plain_consumer", lambda *given: kafka)
    monkeypatch.setattr("sowline_materializer.standby.standby.Cluster", lambda *given: kafka)
    monkeypatch.setattr("sowline_materializer.standby.standby.LOOK_SECONDS", 0)
    return kafka


@pytest.fixture
def standby(kafka: FakeKafka, tmp_path: Path) -> Iterator[Standby]:
    """The copies of two topics, which are being loaded."""
    items = define_topic(name="items", key="/id")
    standby = Standby({}, {"items": items, "orders": DEFINITION}, lambda one: tmp_path / one[0] / str(one[1]))
    standby.cover([])
    while not standby.statistics().behind.keys() >= {("items", 0), ("orders", 0)}:
        standby.work(0)
    yield standby
    standby.close()


def test_an_error_about_no_topic_is_logged(kafka: FakeKafka, standby: Standby) -> None:
    """The copies go on."""
    kafka.errors = [KafkaError(KafkaError._ALL_BROKERS_DOWN)]
    with capture_logs() as logs:
        standby.work(0)
    assert [one["event"] for one in logs] == ["Kafka reported an error"]
    assert standby.statistics().behind.keys() == {("items", 0), ("orders", 0)}


def test_a_changes_topic_that_is_gone_hides_no_other(kafka: FakeKafka, standby: Standby) -> None:
    """One is deleted; the copy of another, which was replaced, is loaded again all the same."""
    assert kafka.assigned == ["items.changes", "orders.changes"]
    kafka.ids = {"orders.changes": "b"}
    for _ in range(4):
        standby.work(0)
    assert kafka.assigned[2:] == ["", "orders.changes"]


def test_a_copy_that_waits_for_kafka_does_not_keep_the_service_from_stopping(
    kafka: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the service is to stop, a question without an answer is not asked again."""
    monkeypatch.setattr("sowline_materializer.standby.standby.Cluster", Cluster)
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda config: kafka)
    kafka.ids = {}
    stop = threading.Event()
    stop.set()
    standby = Standby({}, {"orders": DEFINITION}, lambda one: tmp_path / one[0], stop=stop)
    standby.cover([])
    standby.work(0)
    assert kafka.questions == 1
    standby.close()


def test_a_copy_that_waits_for_a_leader_holds_up_no_owner(
    kafka: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about a partition without a leader is repeated once, and later again with the copy's next start."""
    monkeypatch.setattr("sowline_materializer.standby.standby.Cluster", Cluster)
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda config: kafka)
    monkeypatch.setattr("sowline.kafka.retriable.ADMIN_SECONDS", 1.0)
    asked: list[Any] = []

    def leaderless(partitions: Any, **given: Any) -> dict[TopicPartition, Future[Any]]:
        asked.append(partitions)
        futures: dict[TopicPartition, Future[Any]] = {one: Future() for one in partitions}
        for future in futures.values():
            future.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
        return futures

    monkeypatch.setattr(kafka, "list_offsets", leaderless)
    standby = Standby({}, {"orders": DEFINITION}, lambda one: tmp_path / one[0])
    standby.cover([])
    standby.work(0)
    assert len(asked) == 2
    assert standby.statistics().behind == {}
    standby.close()
