"""Commands that come in through a door: written to the log as any producer would, and what became of them."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message

from query_service.follower import Batches
from query_service.outcomes import Outcome, Outcomes
from sowline.command import DELTA, Headers, Origin, command_headers, read_command
from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig, exact_producer
from sowline.key import partition_of
from sowline.publisher import check_document, check_tagging, checked_key, checked_size
from sowline.topics import TopicDefinition

DELIVERY_MS_MAX = 30_000
OUTCOME_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1
QUEUE_KBYTES = 64 * 1024
"""Commands that wait for Kafka, beside the largest; above that it is `busy`."""

ANY_PARTITION = -1
"""Kafka's client chooses: of a topic without a SOW, whose messages have no key."""


class Write(NamedTuple):
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
        return self.body is None

    @classmethod
    def of(
        cls, topic: TopicDefinition, command: str, body: bytes | None, about: Mapping[str, Any]
    ) -> "Write":
        """Check a command; raises what the materializer would refuse its body or its headers for."""
        headers = _headers(topic, command, about)
        if body is None:
            return cls(topic, command, None, None, 0, headers)
        text = checked_key(body, topic, about.get("correlation"))
        if text is None:
            return cls(topic, command, body, None, ANY_PARTITION, headers)
        return cls(topic, command, body, text.encode(), partition_of(text, topic.partitions), headers)

    @classmethod
    def of_delta(cls, topic: TopicDefinition, key: str, delta: bytes, about: Mapping[str, Any]) -> "Write":
        """Check what goes with a delta, whose text is one, for the document with this key text."""
        check_document(key, topic)
        body = checked_size(delta, topic)
        headers = _headers(topic, DELTA, about)
        return cls(topic, DELTA, body, key.encode(), partition_of(key, topic.partitions), headers)


def _headers(topic: TopicDefinition, command: str, about: Mapping[str, Any]) -> Headers:
    check_tagging(about, topic)
    headers = command_headers(command, **about)
    read_command(headers)
    return headers


class Publishing:
    """Writes commands to the logs and waits for what becomes of them. All of it is used from the event loop."""

    def __init__(self, kafka: KafkaConfig, topics: Sequence[TopicDefinition]) -> None:
        self._kafka = kafka
        self._bytes_max = max(topic.log_bytes_max for topic in topics)
        self._logs = {topic.changes: topic.log for topic in topics}
        self._outcomes = Outcomes()
        self._moved = asyncio.Event()
        self._writer: _Writer | None = None

    def take(self, batches: Batches) -> None:
        """Take in what the replicas have applied."""
        for (changes, partition), events in batches.items():
            self._outcomes.take(self._logs[changes], partition, events)
        self._moved.set()
        self._moved = asyncio.Event()

    def write(self, write: Write) -> "Written":
        """Write a command behind those that were written before; raises `busy` where too many wait for Kafka."""
        if self._writer is None:
            self._writer = _Writer(self._kafka, self._bytes_max)
        token = self._outcomes.begin(write.topic.log)
        try:
            return Written(self, write, self._writer.write(write), token)
        except BaseException:
            self._outcomes.end(write.topic.log, token)
            raise

    async def outcome(self, write: Write, place: Origin) -> Outcome:
        """Wait until this replica has applied the command, wherever it was forwarded to; raises `behind`."""
        topic = write.topic
        everywhere = range(topic.partitions if write.is_for_all else 0)
        others = [number for number in everywhere if number != place.partition]
        try:
            async with asyncio.timeout(OUTCOME_SECONDS_MAX):
                while (outcome := self._outcomes.of(topic.log, place, others)) is None:
                    await self._moved.wait()
        except TimeoutError:
            raise SowlineError(
                "behind",
                f"the command is on the log, but was not applied within {OUTCOME_SECONDS_MAX:g} s: nothing is lost,"
                " the materializer is behind or away",
            ) from None
        return outcome

    def end(self, write: Write, token: int) -> None:
        """Say that nobody waits for a written command any more."""
        self._outcomes.end(write.topic.log, token)

    async def close(self) -> None:
        """Write what is not written yet."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)


class Written:
    """A command on its way. What becomes of it is kept until `end`, which must be called."""

    def __init__(
        self, publishing: Publishing, write: Write, persisted: "asyncio.Future[Origin]", token: int
    ) -> None:
        self.write = write
        self._publishing = publishing
        self._persisted = persisted
        self._token = token

    async def persisted(self) -> Origin:
        """Wait until Kafka has it; return its partition and offset, or raise `not written`."""
        return await self._persisted

    async def outcome(self) -> Outcome:
        """Wait for what became of it; raises the reason for which it was refused."""
        outcome = await self._publishing.outcome(self.write, await self._persisted)
        if outcome.refusal is not None:
            raise SowlineError(
                outcome.refusal,
                f"the materializer refused the {self.write.command}: {self.write.topic.dead} has it, and says more",
            )
        return outcome

    def end(self) -> None:
        """Say that nobody waits for it any more."""
        self._publishing.end(self.write, self._token)


class _Writer:
    """A producer, and the thread in which it reports."""

    def __init__(self, kafka: KafkaConfig, bytes_max: int) -> None:
        limits = {
            "message.timeout.ms": DELIVERY_MS_MAX,
            "enable.gapless.guarantee": False,
            "queue.buffering.max.kbytes": QUEUE_KBYTES + 2 * bytes_max // 1024,
        }
        self._producer = exact_producer(kafka, bytes_max, **limits)
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report, name="doors", daemon=True)
        self._thread.start()

    def write(self, write: Write) -> "asyncio.Future[Origin]":
        """Write a command; the future has its place. Raises `busy` where too many wait to be written."""
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
                "busy", "too many commands wait to be written; publish more slowly, or to Kafka itself"
            ) from None
        return persisted

    def _report(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(POLL_SECONDS)

    def close(self) -> None:
        """Write what is not written yet."""
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
    """Let an error pass that nobody waits for: its client has left."""
    if not persisted.cancelled():
        persisted.exception()
