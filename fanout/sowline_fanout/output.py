"""The output of a fanout: writes its messages to its Kafka topic, and checks that Kafka has them."""

import threading

from confluent_kafka import KafkaError, Message

from sowline.changes.change import Change, fit_header
from sowline.config.fanouts import FanoutDefinition
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.config.typed_message import TypedDelta
from sowline.errors import SowlineError
from sowline.kafka.exact_output import ExactOutput
from sowline.subscriptions.engine.delivery import Deltas, Form, Payload, intrinsics_of, payload_of, selected
from sowline.subscriptions.engine.shown import as_sent
from sowline.subscriptions.engine.subscription import Delivery
from sowline_fanout.message import fanout_headers
from sowline_fanout.typed_values import TypedValues

REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors with which Kafka refuses a message permanently."""


class FanoutOutput(ExactOutput):
    """The messages of one fanout."""

    def __init__(
        self,
        kafka: KafkaConfig,
        fanout: FanoutDefinition,
        source: TopicDefinition,
        values: TypedValues | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Prepare a producer; `values` makes the values if they are not JSON."""
        super().__init__(kafka, fanout.output, stop)
        self._fanout = fanout
        self._source = source
        self._values = values
        self._form = Form.live(fanout.reading, source, delta=fanout.delta)
        self._refused: KafkaError | None = None

    def send(self, number: int, change: Change, delivery: Delivery, traceparent: str | None = None) -> None:
        """Write the message of a delivery, unless it would be empty and the fanout leaves out empty messages.

        Raise `bad message` if the fanout's message type can't express it.
        """
        delivery = as_sent(delivery, None, is_conflated=self._source.is_conflated)
        payload = payload_of(
            change.sow_key, delivery, self._form, Deltas(self._source.key_fields), change.time
        )
        if payload is None:
            return
        # The names of removed fields go into a header. If they are too long for it, write the whole record: readers
        # replace what they hold (test_deltas).
        if payload.removed and not fit_header(payload.removed):
            payload = self._whole(payload, delivery)
        intrinsics = intrinsics_of(self._source.name, self._form, payload)
        written = TypedDelta(payload.body)
        if self._values is not None:
            payload, written = self._typed(self._values, payload, delivery)
        headers = fanout_headers(
            self._source, number, change, payload, intrinsics, traceparent, written.fields
        )
        self._produce(number, written.message, payload.sow_key, headers)
        self.written += 1

    def _whole(self, payload: Payload, delivery: Delivery) -> Payload:
        return payload._replace(body=selected(delivery.body, self._form), removed=None)

    def _typed(self, values: TypedValues, payload: Payload, delivery: Delivery) -> tuple[Payload, TypedDelta]:
        """Return a message in the fanout's message type: as a delta if it is one and the type can express it."""
        try:
            # A message type has no fields that are gone. The whole record has their defaults.
            if payload.removed == ():
                delta = values.delta(payload.body, delivery, self._form)
                if delta is not None and fit_header(delta.fields):
                    return payload, delta
            if payload.removed is not None:
                payload = self._whole(payload, delivery)
            return payload, TypedDelta(values.whole(payload.body))
        except SowlineError as error:
            raise SowlineError(
                error.reason,
                f"the record {payload.sow_key.decode()} of topic {self._source.name} can't be written as"
                f" {self._fanout.message_type}: {error.message}",
            ) from error

    def require_written(self) -> None:
        """Raise unless Kafka has all messages: `not written` if it refused one, otherwise `KafkaException`.

        After a `KafkaException` a new runner writes again everything since the last commit. Readers recognize repeats
        by their bookmarks.
        """
        # A refusal counts more than what follows from it. Kafka refuses a message as too large, then the producer
        # reports a gap as fatal: after a restart the same message would be refused again
        # (test_a_message_that_is_refused_stops_it).
        if self._refused is not None:
            raise SowlineError(
                "not written", f"Kafka refused a message of fanout {self._fanout.name}: {self._refused}"
            )
        super().require_written()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in REFUSALS:
            self._refused = self._refused or error
        else:
            super()._on_delivery(error, message)
