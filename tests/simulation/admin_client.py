"""The stand-in for the admin client of `confluent_kafka`: just what the services ask it."""

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.simulation.broker import Broker
from tests.simulation.clients import process_of

OFFSET_LATEST = -1
"""How a question for the end of a partition is put to Kafka."""


class AdminClient:
    """Says what topics there are, and where they begin and end."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._process = process_of(config)
        self._broker: Broker = self._process.broker

    def list_offsets(
        self,
        asked: Mapping[TopicPartition, Any],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Any]:
        """Return where partitions begin or end."""
        is_committed = isolation_level == IsolationLevel.READ_COMMITTED
        if all(
            spec._value >= 0 for spec in asked.values()
        ):  # by time, right behind the others: nothing happens
            return {
                partition_id: _known(self._offset(partition_id, spec, is_committed))
                for partition_id, spec in asked.items()
            }
        self._process.boundary("ask")
        for partition_id, spec in asked.items():
            if spec._value == OFFSET_LATEST:
                end = self._offset(partition_id, spec, is_committed)
                name, number = partition_id.topic, partition_id.partition
                self._process.trace.note("ask", topic=name, partition=number, by=self._process.name, end=end)
        return {
            partition_id: self._answer(
                SimpleNamespace(offset=self._offset(partition_id, asked[partition_id], is_committed))
            )
            for partition_id in asked
        }

    def _offset(self, partition_id: TopicPartition, spec: Any, is_committed: bool) -> int:
        part = self._broker.parts[partition_id.topic, partition_id.partition]
        end = part.stable if is_committed else part.end
        if spec._value < 0:
            return end if spec._value == -1 else 0
        return next((one.at for one in part.held if one.time >= spec._value and one.at < end), -1)

    def describe_topics(self, wanted: Any) -> dict[str, Any]:
        """Return the ids of topics, and which of their partitions have a leader."""
        self._process.boundary("ask")
        there = {topic for topic, _ in self._broker.parts}
        return {
            name: self._answer(self._described(name)) if name in there else _unknown()
            for name in wanted.topic_names
        }

    def _described(self, name: str) -> Any:
        broker, there = self._broker, SimpleNamespace(id=1)
        partitions = [
            SimpleNamespace(id=one[1], leader=None if one in broker.leaderless else there, replicas=[there])
            for one in broker.parts
            if one[0] == name
        ]
        return SimpleNamespace(topic_id=f"{name}-{broker.parts[name, 0].generation}", partitions=partitions)

    def _answer(self, answer: Any) -> Any:
        """Return the future of an answer; some take up to a second, unless somebody waits for them."""
        chance = self._process.chance
        due = time.monotonic() + (chance.random() if chance.random() < 0.3 else 0)
        # Once an answer is there, it stays: a question about many partitions would never be answered otherwise.
        return SimpleNamespace(result=lambda seconds: answer, done=lambda: time.monotonic() >= due)


def _known(offset: int) -> Any:
    """Return the future of an offset that is there already."""
    return SimpleNamespace(result=lambda seconds: SimpleNamespace(offset=offset), done=lambda: True)


def _unknown() -> Any:
    """Return the future of the answer that there is no such topic."""

    def result(seconds: float) -> Any:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    return SimpleNamespace(result=result, done=lambda: True)
