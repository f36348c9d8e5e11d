"""The output of a fanout: the messages that it writes to its Kafka topic, and whether Kafka has them."""

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message

from fanout.engine.delivery import Deltas, Form, Payload, intrinsics_of, payload_of, selected
from fanout.engine.subscription import Delivery
from fanout.message import fanout_headers
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topics import FanoutDefinition, TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.clients import exact_producer
from sowline.protocol.change import Change, fit_header
from sowline.protocol.command import Headers

REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Why Kafka does not take a message, however often it is written."""


class FanoutOutput:
    """The producer of one fanout. It does not recover from a failure: then a new one is needed."""

    def __init__(self, kafka: KafkaConfig, fanout: FanoutDefinition, source: TopicDefinition) -> None:
        self._fanout = fanout
        self._source = source
        self._form = Form.of(fanout.reading, delta=fanout.delta)
        self._producer = exact_producer(kafka, source.log_bytes_max, error_cb=self._on_error)
        self._refused: KafkaError | None = None
        self._failed: KafkaError | None = None
        """Why this producer can write no more, or has lost a message; a new one may do."""
        self.messages = 0

    def send(self, number: int, change: Change, delivery: Delivery, traceparent: str | None = None) -> None:
        """Write what a delivery is to the fanout's readers, unless it is an update that changes nothing for them."""
        payload = payload_of(
            change.sow_key, delivery, self._form, Deltas(self._source.key_paths), change.time
        )
        if payload is None:
            return
        if payload.removed and not fit_header(payload.removed):
            payload = payload._replace(body=selected(delivery.body, self._form), removed=None)
        intrinsics = intrinsics_of(self._source.name, self._form, payload)
        headers = fanout_headers(self._source, number, change, payload, intrinsics, traceparent)
        self._produce(number, payload, headers)

    def _produce(self, number: int, payload: Payload, headers: Headers) -> None:
        while True:
            try:
                self._producer.produce(
                    self._fanout.output,
                    payload.body,
                    payload.sow_key,
                    number,
                    self._on_delivery,
                    headers=headers,  # type: ignore[arg-type]
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.messages += 1

    def flush(self, is_stopping: Callable[[], bool]) -> bool:
        """Wait until Kafka has all messages; return False if the service stops before that."""
        while self._producer.flush(0.5):
            if is_stopping():
                return False
        return True

    def require_written(self) -> None:
        """Raise unless Kafka has all messages: `not written` if it refused one, else KafkaException.

        After the latter a new fanout writes again what was written since the last commit. The bookmarks show that.
        """
        if self._refused is not None:
            raise SowlineError(
                "not written", f"Kafka refused a message of fanout {self._fanout.name}: {self._refused}"
            )
        if self._failed is not None:
            raise KafkaException(self._failed)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in REFUSALS:
            self._refused = self._refused or error
        elif error is not None:
            self._failed = self._failed or error

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = self._failed or error

    def close(self) -> None:
        """Give up the messages that Kafka does not have yet."""
        self._producer.purge()
