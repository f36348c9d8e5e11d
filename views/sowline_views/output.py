"""Writes partial states to the log of a view."""

import threading
from collections.abc import Iterable

from sowline.commands.command import PARTIALS, Headers
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.exact_output import ExactOutput
from sowline_views.core.outgoing import Outgoing

HEADERS: Headers = [("sow.command", PARTIALS.encode())]


class PartialsOutput(ExactOutput):
    """The states of one view."""

    def __init__(
        self, kafka: KafkaConfig, topic: TopicDefinition, stop: threading.Event | None = None
    ) -> None:
        super().__init__(kafka, topic.log, stop)

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Write messages; raise `KafkaException` if earlier ones have failed."""
        for partition, message in messages:
            self.written += len(message.states)
            self._produce(partition, message.encode(), None, HEADERS)
        self._serve(self._producer.poll, 0)
        self.require_written()
