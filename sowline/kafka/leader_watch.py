"""Finds out whether a wait for Kafka lasts because a partition has no leader, for which nobody answers."""

import time
from collections.abc import Callable, Collection
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.leaderless import KafkaPartition, Leaderless

PATIENCE_SECONDS: Final = 2.0
"""How long a wait lasts before Kafka is asked for the leaders, and the interval of the questions."""

GAP_SECONDS: Final = 5.0
"""After so long without a look, the next one belongs to another wait."""


class LeaderWatch:
    """Asks for leaders while a wait lasts. It waits for nothing itself: the answer arrives some looks later."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._cluster: Cluster | None = None
        self._question = RepeatedQuestion(PATIENCE_SECONDS)
        self._since = self._looked_at = float("-inf")

    def look(self, now: float, partitions: Collection[KafkaPartition]) -> Leaderless:
        """Return those of the awaited partitions that have no leader, as far as Kafka has answered.

        `now` is in seconds of a monotonic clock.
        """
        if now > self._looked_at + GAP_SECONDS:
            self._since = now
            # An answer to the previous wait may be out of date.
            self._question.forget()
        self._looked_at = now
        if now < self._since + PATIENCE_SECONDS:
            return {}
        found = self._question.look(now, lambda: self._ask({topic for topic, _ in partitions}), _found) or {}
        return {one: brokers for one, brokers in found.items() if one in partitions}

    def _ask(self, topics: Collection[str]) -> ClusterAnswer:
        # Most waits are short, and need no client.
        if self._cluster is None:
            self._cluster = Cluster(self._kafka)
        return self._cluster.ask(topics=topics)


def _found(asked: ClusterAnswer) -> Leaderless:
    return asked.leaderless(asked.gone())


def needing_leader(kafka: KafkaConfig, partitions: Collection[KafkaPartition]) -> Callable[[], None]:
    """Return what is called while a wait for partitions lasts. It raises Kafka's error once one has no leader.

    `partitions` may change meanwhile.
    """
    watch = LeaderWatch(kafka)

    def idle() -> None:
        if leaderless := watch.look(time.monotonic(), partitions):
            names = " and ".join(f"{topic} [{number}]" for topic, number in sorted(leaderless))
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"{names} has no leader"))

    return idle
