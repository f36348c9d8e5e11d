"""Writes the commands of the APIs to the log, as any producer would, and waits for their outcomes."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message

from query_service.replica.outcomes import CommandOutcome, Outcomes
from query_service.topics.follower import Batches
from sowline.client.publisher import ANY_PARTITION, check_document, check_tagging, checked_key, checked_size
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topics import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.clients import exact_producer
from sowline.model.key import partition_of
from sowline.protocol.command import DELTA, Headers, Origin, command_headers, read_command

DELIVERY_MS_MAX = 30_000
OUTCOME_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1
QUEUE_KBYTES = 64 * 1024
"""Kilobytes of commands that may wait for Kafka, in addition to the largest; above that, writes get `busy`."""


class CheckedCommand(NamedTuple):
    """A command, checked and ready to be written."""

    topic: TopicDefinition
    command: str
    body: bytes | None
    key: bytes | None
    partition: int
    headers: Headers

    @property
    def is_for_all(self) -> bool:
        """Whether it is for all partitions: a delete by filter or SOW keys."""
        return self.body is None and self.key is None

    @classmethod
    def of(
        cls, topic: TopicDefinition, command: str, body: bytes | None, fields: Mapping[str, Any]
    ) -> "CheckedCommand":
        """Check a command; raise if the materializer would refuse its body or headers.

        `fields` has the values for its headers; `key` is the SOW key that the publisher gives.
        """
        text = checked_key(body, topic, fields.get("correlation"), fields.get("key"))
        takes_header = topic.has_sow and topic.key_rule.takes_header
        headers = _headers(topic, command, {**fields, "key": text if takes_header else None})
        if text is not None:
            return cls(topic, command, body, text.encode(), partition_of(text, topic.partitions), headers)
        if body is None:
            return cls(topic, command, None, None, 0, headers)
        # The key is not known yet. One partition for all such commands keeps their order: with several, two writes of
        # one record could be applied in reverse.
        partition = partition_of(topic.name, topic.partitions) if topic.has_sow else ANY_PARTITION
        return cls(topic, command, body, None, partition, headers)

    @classmethod
    def of_delta(
        cls, topic: TopicDefinition, key: str, delta: bytes, fields: Mapping[str, Any]
    ) -> "CheckedCommand":
        """Check the command for a valid delta text, for the document with this key text."""
        check_document(key, topic)
        body = checked_size(delta, topic)
        headers = _headers(topic, DELTA, {**fields, "key": None})
        return cls(topic, DELTA, body, key.encode(), partition_of(key, topic.partitions), headers)


def _headers(topic: TopicDefinition, command: str, fields: Mapping[str, Any]) -> Headers:
    check_tagging(fields, topic)
    headers = command_headers(command, **fields)
    read_command(headers)
    return headers


class Publishing:
    """Writes commands to the logs and waits for their outcomes. For use in the event loop."""

    def __init__(self, kafka: KafkaConfig, topics: Sequence[TopicDefinition]) -> None:
        self._kafka = kafka
        self._bytes_max = max(topic.log_bytes_max for topic in topics)
        self._logs = {topic.changes: topic.log for topic in topics}
        self._outcomes = Outcomes()
        self._moved = asyncio.Event()
        self._writer: _Writer | None = None

    def take(self, batches: Batches) -> None:
        """Take the events that the replicas have applied."""
        for (changes, partition), portions in batches.items():
            self._outcomes.take(self._logs[changes], partition, portions)
        self._moved.set()
        self._moved = asyncio.Event()

    def write(self, write: CheckedCommand) -> "PendingCommand":
        """Write a command after those written before; raise `busy` if too many wait for Kafka."""
        if self._writer is None:
            self._writer = _Writer(self._kafka, self._bytes_max)
        # Before the command is written: its outcome may be applied here before Kafka's acknowledgement arrives.
        token = self._outcomes.begin(write.topic.log)
        try:
            return PendingCommand(self, write, self._writer.write(write), token)
        except BaseException:
            self._outcomes.end(write.topic.log, token)
            raise

    async def outcome(self, write: CheckedCommand, origin: Origin) -> CommandOutcome:
        """Wait until this replica has applied the command, also in partitions it was forwarded to; raise `behind`."""
        topic = write.topic
        everywhere = range(topic.partitions if write.is_for_all else 0)
        others = [number for number in everywhere if number != origin.partition]
        try:
            async with asyncio.timeout(OUTCOME_SECONDS_MAX):
                while (outcome := self._outcomes.of(topic.log, origin, others)) is None:
                    await self._moved.wait()
        except TimeoutError:
            raise SowlineError(
                "behind",
                f"the command is on the log, but was not applied within {OUTCOME_SECONDS_MAX:g} s. Nothing is lost:"
                " the materializer is behind, or does not run",
            ) from None
        return outcome

    def end(self, write: CheckedCommand, token: int) -> None:
        """Stop waiting for a written command."""
        self._outcomes.end(write.topic.log, token)

    async def close(self) -> None:
        """Wait until waiting commands are written."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)


class PendingCommand:
    """A command being written. Call `end`: until then, its outcome is kept."""

    def __init__(
        self, publishing: Publishing, write: CheckedCommand, persisted: "asyncio.Future[Origin]", token: int
    ) -> None:
        self.write = write
        self._publishing = publishing
        self._persisted = persisted
        self._token = token

    async def persisted(self) -> Origin:
        """Wait until Kafka has it; return its partition and offset, or raise `not written`."""
        return await self._persisted

    async def outcome(self) -> CommandOutcome:
        """Wait for its outcome; raise if the materializer refused it."""
        outcome = await self._publishing.outcome(self.write, await self._persisted)
        if outcome.refusal is not None:
            raise SowlineError(
                outcome.refusal,
                f"the materializer refused the {self.write.command}; its dead letter in {self.write.topic.dead} says"
                " why",
            )
        return outcome

    def end(self) -> None:
        """Stop waiting for the outcome."""
        self._publishing.end(self.write, self._token)


class _Writer:
    """A producer, and the thread that polls its delivery reports."""

    def __init__(self, kafka: KafkaConfig, bytes_max: int) -> None:
        limits = {
            "message.timeout.ms": DELIVERY_MS_MAX,
            "enable.gapless.guarantee": False,
            "queue.buffering.max.kbytes": QUEUE_KBYTES + 2 * bytes_max // 1024,
        }
        self._producer = exact_producer(kafka, bytes_max, **limits)
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report, name="publishing", daemon=True)
        self._thread.start()

    def write(self, write: CheckedCommand) -> "asyncio.Future[Origin]":
        """Write a command; return a future of its partition and offset. Raise `busy` if too many wait."""
        persisted: asyncio.Future[Origin] = self._loop.create_future()
        persisted.add_done_callback(_looked_at)

        def report(error: KafkaError | None, message: Message) -> None:
            self._loop.call_soon_threadsafe(_settle, persisted, error, message)

        try:
            self._producer.produce(
                write.topic.log,
                write.body,
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
    """Mark the error as retrieved: no client may wait for it any more."""
    if not persisted.cancelled():
        persisted.exception()
