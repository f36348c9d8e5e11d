"""Writes the commands of the APIs to the log, as any producer would."""

import asyncio
import threading
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message

from sowline.commands.command import Origin
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.clients import exact_producer
from sowline.serving.writes.checked_command import CheckedCommand

DELIVERY_MS_MAX = 30_000
POLL_SECONDS = 0.1
QUEUE_KBYTES = 64 * 1024
"""Kilobytes of commands that may wait for Kafka, in addition to the largest; above that, writes get `busy`."""


class CommandWriter:
    """Writes commands in their order; it connects to Kafka with the first. For use in the event loop."""

    def __init__(self, kafka: KafkaConfig, topics: Mapping[str, TopicDefinition]) -> None:
        """`topics` are those of the service, by name; more may be added later."""
        self._kafka = kafka
        self._topics = topics
        self._writer: _Writer | None = None
        self._closing: set[asyncio.Future[None]] = set()

    def write(self, command: CheckedCommand) -> "asyncio.Future[Origin]":
        """Write a command; return a future of its partition and offset, or of the error `not written`.

        Raise `busy` if too many wait for Kafka, and `not written` if the producer refuses the command.
        """
        if self._writer is None:
            bytes_max = max((topic.kafka.log_bytes_max for topic in self._topics.values()), default=0)
            self._writer = _Writer(self._kafka, bytes_max)
        try:
            return self._writer.write(command)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            # A producer with a fatal error takes nothing more: without a new one, no client could write until the
            # service restarts (test_a_producer_that_failed_for_good_is_replaced).
            if error.fatal() or error.code() == KafkaError._FATAL:
                self._replace(self._writer)
            raise SowlineError("not written", f"the producer did not take the command: {error}") from failure

    def _replace(self, failed: "_Writer") -> None:
        """Let the next write create a new producer; the failed one still reports what was given to it."""
        self._writer = None
        closing = asyncio.get_running_loop().run_in_executor(None, failed.close)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Wait until waiting commands are written."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        await asyncio.gather(*self._closing)


class _Writer:
    """A producer, and the thread that polls its delivery reports."""

    def __init__(self, kafka: KafkaConfig, bytes_max: int) -> None:
        limits = {
            "message.timeout.ms": DELIVERY_MS_MAX,
            # With the guarantee, one command that Kafka doesn't take in time stops the producer: all later writes of
            # this service would fail until it restarts. Here, a client learns of each failure.
            "enable.gapless.guarantee": False,
            "queue.buffering.max.kbytes": QUEUE_KBYTES + 2 * bytes_max // 1024,
        }
        # The Kafka topics have limits of their own, and topics that are added later may have larger ones.
        self._producer = exact_producer(kafka, **limits)
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report, name="publishing", daemon=True)
        self._thread.start()

    def write(self, write: CheckedCommand) -> "asyncio.Future[Origin]":
        """Write a command; return a future of its partition and offset. Raise `busy` if too many wait."""
        persisted: asyncio.Future[Origin] = self._loop.create_future()
        persisted.add_done_callback(_looked_at)

        def report(error: KafkaError | None, message: Message) -> None:
            # The producer reports in the thread that polls it. Futures are not safe to settle outside of their loop.
            self._loop.call_soon_threadsafe(_settle, persisted, error, message)

        try:
            self._producer.produce(
                write.topic.log,
                write.value,
                write.key,
                write.partition,
                report,
                headers=write.headers,  # type: ignore[arg-type]
            )
        except BufferError:
            raise SowlineError(
                "busy", "too many commands wait to be written; publish more slowly, or directly to Kafka"
            ) from None
        return persisted

    def _report(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(POLL_SECONDS)

    def close(self) -> None:
        """Wait until waiting commands are written, for `DELIVERY_MS_MAX` at most; then stop."""
        self._producer.flush(DELIVERY_MS_MAX / 1000)
        self._stop.set()
        self._thread.join(1)


def _settle(persisted: "asyncio.Future[Origin]", error: KafkaError | None, message: Message) -> None:
    if persisted.done():
        return
    if error is None:
        persisted.set_result(Origin(message.partition() or 0, message.offset() or 0))
    else:
        persisted.set_exception(SowlineError("not written", f"Kafka did not take the command: {error}"))


def _looked_at(persisted: "asyncio.Future[Origin]") -> None:
    """Mark the error as retrieved: its client may have left."""
    if not persisted.cancelled():
        persisted.exception()
