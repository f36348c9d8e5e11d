"""The output of a runner: a producer that writes each message once, in order, and nothing after one that failed."""

import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message

from sowline.commands.command import Headers
from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.clients import exact_producer, produce, served
from sowline.kafka.leader_watch import needing_leader
from sowline.kafka.leaderless import KafkaPartition


class ExactOutput:
    """The producer of one runner. After a failure it can't be used any more: create a new one.

    Once `stop` is set, it does not wait for space.
    """

    def __init__(self, kafka: KafkaConfig, topic: str, stop: threading.Event | None = None) -> None:
        self._topic = topic
        self._stop = stop
        self._producer = exact_producer(kafka, error_cb=self._on_error)
        self._targets: set[KafkaPartition] = set()
        """The partitions written to since Kafka had everything."""
        self._idle = needing_leader(kafka, self._targets)
        self._failed: KafkaError | None = None
        """Why this producer failed or lost a message; a new one may succeed."""
        self.written = 0
        """The number of messages, or of the units in them that the caller counts."""

    def _produce(self, number: int, value: bytes, key: bytes | None, headers: Headers) -> None:
        self._targets.add((self._topic, number))
        produce(
            self._producer,
            self._topic,
            value,
            key,
            number,
            self._on_delivery,
            stop=self._stop,
            headers=headers,
        )

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Let the producer work, and return how much is left; note a permanent failure for `require_written`."""
        try:
            return served(call, seconds)
        except KafkaException as error:
            # Each message still gets its report, which may be that Kafka refused it.
            self._failed = self._failed or error.args[0]
            return 1

    def flush(self, is_stopping: Callable[[], bool]) -> bool:
        """Wait until each message is delivered or failed; return False if the service stops before that.

        Raise `KafkaException` if a partition has no leader. The other messages would wait as long, because they are
        committed together. In the next runner, the partitions that need that leader wait for it.
        """
        while self._serve(self._producer.flush, 0.5):
            if is_stopping():
                return False
            self._idle()
        self._targets.clear()
        return True

    def require_written(self) -> None:
        """Raise `KafkaException` if a message failed: a new runner writes everything since the last commit again."""
        if self._failed is not None:
            raise KafkaException(self._failed)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            # The first error names the cause. Those after it only say that nothing is written behind a message that
            # failed.
            self._failed = self._failed or error

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = self._failed or error

    def close(self) -> None:
        """Drop the messages that Kafka doesn't have yet."""
        # The next runner writes everything since the last commit. What was flushed here would be there twice.
        self._producer.purge()
        # It refers to this object by its callback, and its threads would stay until Python looks for such cycles.
        del self._producer
