"""Reads `<log>.schemas`: the knowledge of a topic's partitions about schemas."""

import time
from typing import Final

from confluent_kafka import TopicPartition

from sowline.codecs.resolutions import Resolutions
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.clients import REPORT_ENDS, consuming, poll_batch

SECONDS_MAX: Final = 10.0
"""The time in which Kafka must deliver all entries."""


def read_schema_log(kafka: KafkaConfig, definition: TopicDefinition) -> dict[int, Resolutions]:
    """Return each partition's knowledge of schemas, from all entries up to the current end.

    Raise TimeoutError if Kafka does not deliver them in `SECONDS_MAX`, and KafkaException for an error of Kafka.
    """
    found = {number: Resolutions() for number in range(definition.partitions)}
    left = set(found)
    until = time.monotonic() + SECONDS_MAX
    with consuming(kafka, REPORT_ENDS) as consumer:
        consumer.assign([TopicPartition(definition.kafka.schema_log, number, 0) for number in found])
        while left:
            for message in poll_batch(
                consumer, 1000, 0.1, lambda topic, number, offset: left.discard(number)
            ):
                found[message.partition() or 0].add(message.key(), message.value())
            if left and time.monotonic() > until:
                raise TimeoutError(f"no answer within {SECONDS_MAX:g} s")
    return found
