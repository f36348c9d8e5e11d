"""Whose ends are sampled: all of few logs, of many those in turn, and always those that a reader waits for."""

import asyncio
from collections import Counter
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sowline.config.topic_definition import define_topic
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.model.position import Position
from sowline.wire.node_queries import (
    SAMPLE_SECONDS,
    SAMPLE_TURN_SECONDS_MAX,
    SAMPLED_MAX,
    sample_turn_seconds,
)
from sowline_query_service.replica.log_end import Reached
from sowline_query_service.topics.log_ends import LogEnds, LogEndSample, LogTurns


def test_few_logs_are_all_sampled_each_time() -> None:
    """A lag is then as old as one sample."""
    turns = LogTurns({"a": 8, "b": SAMPLED_MAX - 8})
    for _ in range(3):
        assert sorted(turns.next([])) == ["a", "b"]


@pytest.mark.parametrize(
    ("logs", "partitions"), [(200, 8), (2000, 8), (300, 1), (3, 5 * SAMPLED_MAX), (200, 60)]
)
def test_many_logs_come_in_turn(logs: int, partitions: int) -> None:
    """A sample has a share of them, and each comes as often as the others, and within the turn.

    A gateway judges the age of a lag by this turn.
    """
    turns = LogTurns({str(number): partitions for number in range(logs)})
    rounds = int(SAMPLE_TURN_SECONDS_MAX / SAMPLE_SECONDS)
    samples = [turns.next([]) for _ in range(3 * rounds)]
    share = max(SAMPLED_MAX, logs * partitions / rounds)
    assert all(len(sample) * partitions < share + 1 + partitions for sample in samples)
    counts = Counter(log for sample in samples for log in sample)
    assert len(counts) == logs
    assert max(counts.values()) - min(counts.values()) <= 1
    turn = round(sample_turn_seconds(logs * partitions) / SAMPLE_SECONDS)
    for begin in range(len(samples) - turn):
        assert len({log for sample in samples[begin : begin + turn] for log in sample}) == logs


def test_what_is_asked_for_comes_at_once() -> None:
    """Readers that demand freshness wait for no turn; the others' turns go on."""
    turns = LogTurns({str(number): SAMPLED_MAX // 2 for number in range(10)})
    assert turns.next(["7"]) == ["7", "0", "1"]
    assert turns.next(["7", "1"]) == ["7", "1", "2", "3"]
    seen = [log for _ in range(3) for log in turns.next(["7"]) if log != "7"]
    assert seen == ["4", "5", "6", "8", "9", "0"]


def future_of(answer: Any) -> "Future[Any]":
    """Return an answer of Kafka, or an error."""
    future: Future[Any] = Future()
    if isinstance(answer, int):
        future.set_exception(KafkaException(KafkaError(answer)))
    else:
        future.set_result(answer)
    return future


class Admin:
    """A Kafka that has the log `orders`, no leader of `trades`, and no log `gone`."""

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> "dict[TopicPartition, Future[Any]]":
        """Return where partitions end."""
        offsets = {"orders": SimpleNamespace(offset=9), "trades": KafkaError.LEADER_NOT_AVAILABLE}
        return {one: future_of(offsets.get(one.topic, KafkaError.UNKNOWN_TOPIC_OR_PART)) for one in asked}

    def describe_topics(self, asked: Any) -> "dict[str, Future[Any]]":
        """Return the ids of the topics."""
        there = {name: SimpleNamespace(topic_id=f"id of {name}") for name in ("orders", "trades")}
        return {
            name: future_of(there.get(name, KafkaError.UNKNOWN_TOPIC_OR_PART)) for name in asked.topic_names
        }


async def test_a_partition_whose_end_is_not_known_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample has the others: of a log that is deleted, and of a partition without a leader, nothing is known."""
    cluster = SimpleNamespace(ask=lambda asked, **given: ClusterAnswer(Admin(), asked, **given))  # type: ignore[arg-type]
    monkeypatch.setattr("sowline_query_service.topics.log_ends.Cluster", lambda *given: cluster)
    topics = [define_topic(name=name, key="/id") for name in ("orders", "trades", "gone")]
    samples: asyncio.Queue[LogEndSample] = asyncio.Queue()
    reached = Reached(Position(0, 5), "id of orders")
    ends = LogEnds(
        {},
        topics,
        lambda logs: {(name, 0): reached for name in logs},
        lambda logs: {},
        samples.put_nowait,
        lambda partition, offsets: None,
    )
    ends.start()
    sample = await samples.get()
    ends.stop()
    assert sample.ends == {("orders", 0): 9}
    assert sample.reached == {("orders", 0): reached}
