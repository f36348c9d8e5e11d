"""What a callback of a Kafka client raises comes out where it can be caught."""

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from sowline.kafka.clients import poll_batch, raising


def test_an_error_of_the_client_in_a_callback_can_be_caught() -> None:
    """As when a partition is handed out, and its place can't be asked for because Kafka is away."""
    asked: list[object] = []

    def ask(error: object) -> None:
        asked.append(error)
        if len(asked) == 1:
            consumer.committed([TopicPartition("t", 0)], timeout=0.1)

    def poll() -> None:
        while True:
            poll_batch(consumer, 10, 0.1)

    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "error_cb": raising(ask)}
    consumer = Consumer(settings)
    with pytest.raises(KafkaException, match="committed offsets"):
        poll()
    consumer.close()
