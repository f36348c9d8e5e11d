"""The reader of fanouts: follows their Kafka topics during the workload, from where they end when it begins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sowline.check.history import HistoryBegin, MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.bookmarks import (
    BEFORE_ALL,
    Partition,
    Position,
    named_position,
    position_text,
    read_bookmark,
)
from sowline.check.patience import Patience, UnansweredError
from sowline.check.recorder import Recorder
from sowline.check.topics import CheckedFanout
from sowline.commands.command import Headers
from sowline.config.kafka_options import KafkaConfig
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import plain_consumer, poll_batch
from sowline.kafka.messages import headers_of

BEGIN_SECONDS: Final = 30.0
"""How long a fanout may take to write its first changes; without them, no fanout is checked."""
MARK_SECONDS: Final = 3.0
"""How long to wait for marks before more of them are written: a fanout that begins writes the first as records."""
BATCH_MAX: Final = 1000
POLL_SECONDS: Final = 0.2

Mark = Callable[[str], Awaitable[str]]
"""Changes records of each partition of a topic that all fanouts select; returns the bookmark of the effect."""


class UncheckedError(SowlineError):
    """Why this checker can't read what fanouts write."""

    def __init__(self, message: str) -> None:
        super().__init__("not ready", message)


class FanoutReader:
    """Follows the Kafka topics of fanouts, and notes their messages once the history has begun."""

    def __init__(
        self, fanouts: Sequence[CheckedFanout], consumer: Consumer, recorder: Recorder, patience: Patience
    ) -> None:
        self._fanouts = {one.output: one for one in fanouts}
        self._consumer = consumer
        self._recorder = recorder
        self._patience = patience
        self._reached: dict[str, dict[Partition, Position]] = {one.name: {} for one in fanouts}
        """By fanout, the newest change of each partition that it has written."""
        self._settled: dict[str, str] = {}
        """By fanout, the bookmark up to which its messages were waited for."""
        self._news = asyncio.Event()
        self._failure = ""
        self._is_noting = self._is_over = False
        self._follower = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            while not self._is_over:
                for message in await asyncio.to_thread(poll_batch, self._consumer, BATCH_MAX, POLL_SECONDS):
                    self._take(message)
        except KafkaException as error:
            self._failure = str(error)
        finally:
            self._news.set()

    def _take(self, message: Message) -> None:
        fanout = self._fanouts[message.topic() or ""]
        read = written_message(
            _read_of(fanout), self._recorder.now, message.key(), message.value(), headers_of(message) or []
        )
        # The records with which a fanout begins are not changes: with them, it may begin again.
        if read.command != "sow" and (stand := named_position(read.bookmark)) is not None:
            reached = self._reached[fanout.name]
            reached[stand[0]] = max(stand[1], reached.get(stand[0], BEFORE_ALL))
            self._news.set()
        if self._is_noting:
            self._recorder.note(read)

    async def wait_begun(self, mark: Mark) -> None:
        """Write marks until each fanout writes changes as they come; raise `UncheckedError` if one does not."""
        seconds = min(self._patience.seconds, BEGIN_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                # Those after the first marks are as good as these: a busy machine may never have the newest in time.
                wanted = await self._mark(mark)
                while not await self._has_reached(wanted):
                    await self._mark(mark)
        except UnansweredError:
            if self._failure:
                raise UncheckedError(f"expected what fanouts write, got {self._failure}") from None
            raise
        except TimeoutError:
            named = ", ".join(self._fanouts)
            raise UncheckedError(
                f"expected changes of the checker's records in {named} within {seconds:g} s, got none: start the"
                " fanout service"
            ) from None

    async def _mark(self, mark: Mark) -> dict[str, Mapping[Partition, Position]]:
        return {one.name: read_bookmark(await mark(one.topic)) for one in self._fanouts.values()}

    async def _has_reached(self, wanted: Mapping[str, Mapping[Partition, Position]]) -> bool:
        """Return whether all fanouts write changes as new as the wanted ones before the next marks are due."""
        try:
            async with asyncio.timeout(MARK_SECONDS):
                for name, positions in wanted.items():
                    await self._reach(name, positions)
        except TimeoutError:
            return False
        return True

    def begin(self, begin: HistoryBegin) -> None:
        """Note each fanout as a read, and from now on its messages."""
        begins = {topic.name: topic.begin for topic in begin.topics}
        for one in self._fanouts.values():
            command: Any = "delta_subscribe" if one.is_delta else "subscribe"
            self._recorder.note(
                ReadOpened(
                    _read_of(one),
                    command,
                    one.topic,
                    self._recorder.now,
                    one.filter,
                    oof=True,
                    bookmark=begins[one.topic],
                    fanout=one.name,
                )
            )
        self._is_noting = True

    async def settle(
        self, fanout: CheckedFanout, bookmark: str, newest: Mapping[Partition, Position]
    ) -> None:
        """Wait until a fanout has written everything up to a bookmark: in each partition, the newest change."""
        # Before the wait: if the newest change is lost, it is in vain, and what is missing must be named all the same
        # (test_a_mistake_of_a_fanout).
        self._settled[fanout.name] = bookmark
        named = ", ".join(position_text(*stand) for stand in sorted(newest.items()))
        await self._patience.answered(
            f"the changes at {named} in {fanout.output}", self._reach(fanout.name, newest)
        )

    async def _reach(self, name: str, wanted: Mapping[Partition, Position]) -> None:
        reached = self._reached[name]
        while any(reached.get(partition, BEFORE_ALL) < position for partition, position in wanted.items()):
            if self._failure:
                raise UnansweredError(f"expected the changes of fanout {name}, got {self._failure}")
            self._news.clear()
            await self._news.wait()

    def end(self) -> None:
        """Note the end of each read, and no more messages."""
        for one in self._fanouts.values():
            # Kafka's refusal to let the checker read on is no fault of the fanout.
            settled = "" if self._failure else self._settled.get(one.name, "")
            self._recorder.note(ReadEnded(_read_of(one), self._recorder.now, settled))
        self._is_noting = False

    async def close(self) -> None:
        """Read no more."""
        self._is_over = True
        await self._follower
        await asyncio.to_thread(self._consumer.close)


@asynccontextmanager
async def followed_fanouts(
    fanouts: Sequence[CheckedFanout], kafka: KafkaConfig, mark: Mark, recorder: Recorder, patience: Patience
) -> AsyncIterator[FanoutReader]:
    """Lend a reader of fanouts that work; raise `UncheckedError` if there are none, or Kafka refuses."""
    try:
        consumer = await asyncio.to_thread(_consumer_at_ends, kafka, [one.output for one in fanouts])
    except KafkaException as error:
        raise UncheckedError(f"expected access to Kafka, got {error}") from error
    reader = FanoutReader(fanouts, consumer, recorder, patience)
    try:
        await reader.wait_begun(mark)
        yield reader
    finally:
        await reader.close()


def _consumer_at_ends(kafka: KafkaConfig, outputs: Sequence[str]) -> Consumer:
    cluster = Cluster(kafka)
    if missing := sorted({*outputs} - {*cluster.topic_names()}):
        raise UncheckedError(
            f"expected the Kafka topics of the checker's fanouts, found no {', '.join(missing)}: add what `sowline"
            " check --definitions` prints to the file of topics, and start the fanout service"
        )
    consumer = plain_consumer(kafka)
    consumer.assign(
        [
            TopicPartition(output, number, end)
            for output in outputs
            for number, end in cluster.ends(output, range(cluster.partitions(output))).items()
        ]
    )
    return consumer


def _read_of(fanout: CheckedFanout) -> str:
    return f"fanout {fanout.name}"


def written_message(
    read: str, at: float, key: bytes | None, value: bytes | None, headers: Headers
) -> MessageRead:
    """Return a message of a fanout's Kafka topic as an event; what it lacks is for the judge to notice."""
    about = _object(dict(headers).get("sow"))
    return MessageRead(
        read,
        about.get("command", "publish"),
        at,
        about.get("bookmark", ""),
        (key or b"").decode(errors="replace"),
        _object(value),
        about.get("delta", False),
        tuple(about.get("removed", ())),
        about.get("reason", ""),
        about.get("timestamp", ""),
        correlation_id=about.get("correlation_id", ""),
    )


def _object(text: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(text or b"{}")
    # Nor does a message of somebody else end the reading: the judge then names it
    # (test_a_message_of_somebody_else).
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
