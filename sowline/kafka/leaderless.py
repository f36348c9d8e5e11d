"""Partitions of Kafka that have no leader, because every broker that has them is down."""

from collections.abc import Mapping
from typing import Any

KafkaPartition = tuple[str, int]
"""A Kafka topic and the number of one of its partitions."""

Leaderless = Mapping[KafkaPartition, tuple[int, ...]]
"""Partitions without a leader, each with the ids of the brokers that have it."""


def leaderless(described: Mapping[str, Any]) -> Leaderless:
    """Return the partitions without a leader among those of Kafka's descriptions, which are given by topic."""
    return {
        (topic, partition.id): tuple(broker.id for broker in partition.replicas)
        for topic, about in described.items()
        for partition in about.partitions
        if partition.leader is None
    }
