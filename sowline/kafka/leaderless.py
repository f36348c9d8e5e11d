"""Partitions of Kafka that have no leader, because every broker that has them is down."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily

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


def why_it_waits(leaderless: Leaderless) -> str:
    """Return what a partition that needs a leader waits for, and what to do."""
    names = " and ".join(f"{topic} [{number}]" for topic, number in sorted(leaderless))
    brokers = ", ".join(map(str, sorted({id for ids in leaderless.values() for id in ids})))
    return (
        f"waiting for a leader of {names} in Kafka: start a broker that has it ({brokers}); the partition then"
        " continues by itself, and nothing is lost"
    )


def leaderless_metric(partitions: int) -> GaugeMetricFamily:
    """Return the metric of how many partitions wait for a leader."""
    return GaugeMetricFamily(
        "sowline_partitions_leaderless", "Partitions that wait for a leader in Kafka", value=partitions
    )
