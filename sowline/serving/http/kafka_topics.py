"""The state of one topic's Kafka topics in Kafka: offsets, retention, and the consumer groups that read them."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException

from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.retriable import ANSWER_SECONDS
from sowline.kafka.topic_settings import kafka_topics

SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.compaction.lag.ms",
    "max.message.bytes",
)

POLL_SECONDS = 0.01


async def described_kafka_topics(kafka: KafkaConfig, definition: TopicDefinition) -> list[dict[str, Any]]:
    """Return the log, the changes topic, the dead letters and the schemas of a topic as Kafka has them.

    Each has its settings of retention, the first offset and the end of each partition, and the consumer groups with
    a member that reads it. Raise `not ready` if Kafka does not answer.
    """
    try:
        return await asyncio.to_thread(_described, kafka, definition)
    except KafkaException as error:
        raise SowlineError(
            "not ready", f"Kafka did not describe the topics of {definition.name}: {error}; try again"
        ) from None


async def counted_dead_letters(kafka: KafkaConfig, topics: Sequence[TopicDefinition]) -> dict[str, int]:
    """Return how many dead letters Kafka keeps of each topic. Raise `not ready` if it does not answer.

    That is two questions for all topics together, however many there are.
    """
    if not topics:
        return {}
    try:
        return await asyncio.to_thread(_counted, kafka, topics)
    except KafkaException as error:
        raise SowlineError("not ready", f"Kafka did not count the dead letters: {error}; try again") from None


def _counted(kafka: KafkaConfig, topics: Sequence[TopicDefinition]) -> dict[str, int]:
    partitions = {
        topic.name: [(name, number) for number in range(kafka_topics(topic)[name][0])]
        for topic in topics
        for name in (topic.kafka.dead,)
    }
    asked = [one for of_topic in partitions.values() for one in of_topic]
    cluster = Cluster(kafka)  # answers arrive only while it exists
    answer = cluster.ask(asked, starts=asked)
    deadline = time.monotonic() + ANSWER_SECONDS
    while not answer.is_answered:
        if time.monotonic() > deadline:
            raise SowlineError("not ready", "Kafka did not count the dead letters in time; try again")
        time.sleep(POLL_SECONDS)
    starts, ends = answer.starts(), answer.ends()
    # A sum without such a partition would be too small
    # (test_dead_letters_of_a_partition_without_a_leader_are_not_counted).
    if unknown := [one for one in asked if one not in starts or one not in ends]:
        name, number = unknown[0]
        raise SowlineError(
            "not ready", f"Kafka did not count the dead letters of {name} [{number}]; try again"
        )
    return {name: sum(ends[one] - starts[one] for one in of_topic) for name, of_topic in partitions.items()}


def _described(kafka: KafkaConfig, definition: TopicDefinition) -> list[dict[str, Any]]:
    cluster = Cluster(kafka)
    # In the same order as the definition's: JSON topics have no schemas.
    kinds = zip(("log", "changes", "dead", "schemas"), definition.kafka.names, strict=False)
    return [{"kind": kind, **_one(cluster, name)} for kind, name in kinds]


def _one(cluster: Cluster, name: str) -> dict[str, Any]:
    numbers = range(cluster.partitions(name))
    starts, ends = cluster.starts(name, numbers), cluster.ends(name, numbers)
    settings = cluster.settings(name)
    return {
        "kafka_topic": name,
        "settings": {setting: settings[setting] for setting in SETTINGS if setting in settings},
        "partitions": [
            {"partition": number, "begin": starts[number], "end": ends[number]} for number in numbers
        ],
        "consumer_groups": cluster.groups_reading(name),
    }
