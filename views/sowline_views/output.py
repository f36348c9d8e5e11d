"""Writes partial states to the log of a view."""

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message

from sowline.commands.command import PARTIALS, Headers
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.clients import exact_producer
from sowline_views.core.outgoing import Outgoing

HEADERS: Headers = [("sow.command", PARTIALS.encode())]


class PartialsOutput:
    """The producer of one view. After a failure it can't be used any more: make a new one."""

    def __init__(self, kafka: KafkaConfig, topic: TopicDefinition) -> None:
        self._log = topic.log
        self._producer = exact_producer(kafka, topic.kafka.log_bytes_max, error_cb=self._on_error)
        self._failed: KafkaError | None = None
        self.states = 0
        """The number of states written."""

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Write messages; raise `KafkaException` if earlier ones have failed."""
        for partition, message in messages:
            self.states += len(message.states)
            self._produce(partition, message.encode())
        self._producer.poll(0)
        if self._failed is not None:
            raise KafkaException(self._failed)

    def _produce(self, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(
                    self._log,
                    value,
                    partition=partition,
                    headers=HEADERS,  # type: ignore[arg-type]
                    on_delivery=self._on_delivery,
                )
                return
            except BufferError:  # the local queue is full: wait for deliveries
                self._producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = self._failed or error

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = self._failed or error

    def close(self) -> None:
        """Drop the messages that Kafka does not have yet."""
        self._producer.purge()
