"""Brings a subscription from its position to that of its topic, without a gap or a repeat.

It reads the replica's recent changes in memory if they reach back far enough, else the changes topic.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from typing import TypeVar

from confluent_kafka import KafkaException, Message

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, takes
from sowline.changes.event import Event
from sowline.config.kafka_options import KafkaConfig
from sowline.errors import SowlineError
from sowline.kafka.clients import REMOVED, read_range
from sowline.kafka.messages import event_of
from sowline.model.bookmark import Positions, format_position
from sowline.model.position import Position
from sowline.serving.cooperative import TURN_SECONDS, Turns
from sowline.subscriptions.engine.subscription import ChangeView, Delivery
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.subscription import LiveSubscription, put_change
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.topics.topic_state import TopicState

BATCH_MAX = 1000

PORTION_BYTES_MIN = 256 << 10
"""Bytes of changes to read from the changes topic at once for a client; more for a fast client."""

PORTION_BYTES_MAX = 1 << 20
SLOW_SECONDS = 0.2
READ_MAX = 100
"""Messages to read between two checks of the size."""

PREFETCH = {"queued.max.messages.kbytes": "1024"}
"""Consumer settings that limit the bytes fetched ahead for one client."""

T = TypeVar("T")


class BookmarkExpired(SowlineError):
    """The changes after the bookmark are no longer kept one by one."""

    def __init__(self, topic: TopicState, partition: int, position: Position) -> None:
        bookmark = format_position(topic.definition.log, partition, position._replace(nth=0))
        super().__init__(
            "bookmark_expired",
            f"the changes after {bookmark} are no longer kept one by one, or are too many to undo; start"
            " without a bookmark, or choose with bookmark_not_found=now, epoch or reset where to start instead",
        )


class Portion:
    """The number of bytes to read at once for a client. While the client reads them, no consumer is open for it."""

    def __init__(self) -> None:
        self.bytes_max = PORTION_BYTES_MIN

    def note(self, seconds: float) -> None:
        """Adapt to the seconds that the client took to read a portion."""
        if seconds > SLOW_SECONDS:
            self.bytes_max = PORTION_BYTES_MIN
        else:
            self.bytes_max = min(PORTION_BYTES_MAX, self.bytes_max * 4)


class ChangesAfter:
    """The changes of a `topic` after some positions. The caller advances `positions`."""

    def __init__(self, kafka: KafkaConfig, topic: TopicState, positions: Positions) -> None:
        self._kafka = kafka
        self.topic = topic
        self.positions = positions

    def behind(self) -> list[int]:
        """Return the partitions in which the replica is ahead of the positions."""
        partitions = self.topic.partitions.items()
        return [number for number, partition in partitions if self.positions[number] < partition.held]

    async def check(self) -> None:
        """Raise `BookmarkExpired` if the next change of a partition is no longer available."""
        for number in self.behind():
            partition = self.topic.partitions[number]
            if partition.recent(self.positions[number], 1) is None:
                await self._first_kept(number, partition)

    async def first(self, number: int) -> Change | None:
        """Return the next change of a partition, None if there is none; raise `BookmarkExpired` if it is gone."""
        partition = self.topic.partitions[number]
        recent = partition.recent(self.positions[number], 1)
        if recent is None:
            return await self._first_kept(number, partition)
        assert not recent or self.positions[number] < recent[0].position, "the next change is a later one"
        return recent[0] if recent else None

    async def _first_kept(self, number: int, partition: PartitionReplica) -> Change | None:
        async for events in self._changes_topic(number, partition):
            for change in self._following(number, events):
                return change
        return None

    async def of(self, number: int) -> AsyncIterator[list[Change]]:
        """Yield changes of one partition, in steps; in between, the caller moves the position to the last."""
        partition = self.topic.partitions[number]
        now = partition.held
        recent = partition.recent(self.positions[number], BATCH_MAX)
        if recent is None:
            async for events in self._changes_topic(number, partition):
                yield list(self._following(number, events))
        else:
            yield recent
        if recent is None or len(recent) < BATCH_MAX:
            # Progress events move a partition on without a change. Without this line a subscription that has every
            # change would still have a lag, and would never go live (test_what_happens_meanwhile_comes_too).
            self.positions[number] = max(now, self.positions[number])
        await asyncio.sleep(0)

    async def _changes_topic(self, number: int, partition: PartitionReplica) -> AsyncIterator[list[Event]]:
        """Yield the events after the position, as far as the replica has applied them.

        Raise `BookmarkExpired` if the last of these events is missing.
        """
        last, wanted = self.positions[number], partition.held
        # Read no further than the replica has applied. A subscription ahead of its replica would get the same changes
        # again once it is live (test_everything_after_the_position_comes_once).
        start, end = partition.offset_for(last), partition.next_offset
        portion = Portion()
        try:
            while start < end:
                async for events, reached in self._portion(number, start, end, portion.bytes_max):
                    start = reached
                    last = max(last, max((event.position for event in events), default=last))
                    began = time.monotonic()
                    yield events
                    portion.note(time.monotonic() - began)
        except KafkaException as error:
            if error.args[0].code() not in REMOVED:
                raise
        # Compaction has removed the last event that the replica applied, so others may be missing, too. A gap is
        # reported, never skipped (test_changes_that_are_gone_behind_what_is_kept).
        if last < wanted:
            raise BookmarkExpired(self.topic, number, last)

    def _portion(
        self, number: int, start: int, end: int, bytes_max: int
    ) -> AsyncIterator[tuple[list[Event], int]]:
        """Yield the next portion once; its consumer is closed by then."""
        changes = self.topic.definition.changes
        batches = read_range({**self._kafka, **PREFETCH}, changes, number, start, end, READ_MAX)
        return _in_thread(_first_of(batches, end, bytes_max))

    def _following(self, number: int, events: list[Event]) -> Iterator[Change]:
        """Yield the new changes among the events; raise `BookmarkExpired` at a gap."""
        held = self.positions[number]
        try:
            for event in events:
                if takes(event, held):
                    held = event.position
                    if isinstance(event, Change):
                        yield event
        except ChangesMissing as gap:
            # Compaction keeps the newest event of each key. After a bookmark, `[K@5, K@6]` becomes `[K@6]`: K@5 is
            # lost, and K@6 alone would be a gap for the client (test_a_gap_is_an_expired_bookmark).
            raise BookmarkExpired(self.topic, number, held) from gap


async def changes_since(
    kafka: KafkaConfig, begins: Sequence[tuple[TopicState, Positions]], changes_max: int
) -> list[list[tuple[int, Change]]]:
    """Return all changes after the positions in each topic, with their partitions, up to the instant of the return.

    Raise `BookmarkExpired` if they are gone, or more than `changes_max`.
    """
    # Repeat until no partition is behind: while one is read, others move on. The last check and the return are one
    # instant, so the caller knows every change up to now.
    followed: list[tuple[ChangesAfter, list[tuple[int, Change]]]] = [
        (ChangesAfter(kafka, topic, dict(positions)), []) for topic, positions in begins
    ]
    while any(after.behind() for after, _ in followed):
        for after, found in followed:
            for number in after.behind():
                async for changes in after.of(number):
                    found.extend((number, change) for change in changes)
                    if changes:
                        assert after.positions[number] < changes[0].position, "what follows is later"
                        after.positions[number] = changes[-1].position
                    if sum(len(found) for _, found in followed) > changes_max:
                        raise BookmarkExpired(after.topic, number, after.positions[number])
    return [found for _, found in followed]


class CatchUp:
    """Brings one subscription to its topic's position, as fast as its client reads."""

    def __init__(self, kafka: KafkaConfig, live: LiveSubscription) -> None:
        self._live = live
        self._after = ChangesAfter(kafka, live.topic, live.positions)

    async def check(self) -> None:
        """Raise `BookmarkExpired` if the next change is no longer available; deliver nothing."""
        await self._after.check()

    async def run(self, dispatcher: Dispatcher) -> None:
        """Deliver the missing changes; at the instant when none is missing, make the subscription live."""
        # Wait for room first. With a full outbox the subscription would be live for one change, fall behind, catch up
        # with one, and so on (test_a_client_without_room_is_waited_for).
        outbox = self._live.outbox
        await outbox.wait_turn()
        if await dispatcher.bring(self._live):
            return
        await outbox.wait_turn()
        while behind := self._after.behind():
            for number in behind:
                async for changes in self._after.of(number):
                    await self._deliver(dispatcher.turns, number, changes)
            await outbox.wait_turn()
        # There is no await between the last check of `behind` and this line. A change applied in between would be in
        # neither the catch-up nor the live subscription (test_everything_after_the_position_comes_once).
        dispatcher.add(self._live)

    async def _deliver(self, turns: Turns, number: int, changes: list[Change]) -> None:
        done = 0
        while done < len(changes):
            await self._live.outbox.wait_turn()
            # After the outbox: all clients that drain at one time would deliver in one turn of the loop otherwise
            # (test_clients_that_drain_together_take_turns).
            await turns.wait()
            if self._live.outbox.has_turn:
                done += self._deliver_first(number, changes[done:])

    def _deliver_first(self, number: int, changes: list[Change]) -> int:
        """Deliver the first changes, as far as the outbox takes them and the turn lasts; return how many."""
        live = self._live
        began = time.monotonic()
        for count, change in enumerate(changes, 1):
            seen, delivery = change_views(live, number, change)
            deliver_one(live, number, seen, delivery)
            # After each change: an outbox that is filled, or has a group open, takes no other one
            # (test_a_client_without_room_is_waited_for).
            if not live.outbox.has_turn or time.monotonic() - began > TURN_SECONDS:
                return count
        return len(changes)


def change_views(live: LiveSubscription, number: int, change: Change) -> tuple[ChangeView, Delivery | None]:
    """Return the effect of a partition's next change for a subscription that is not live."""
    seen = ChangeView(change, live.topic.metadata, f"{live.log}:{number}", live.positions[number])
    return seen, live.engine.on_change(seen)


def deliver_one(live: LiveSubscription, number: int, seen: ChangeView, delivery: Delivery | None) -> None:
    """Deliver a change to a subscription, and set its position to that of the change."""
    assert live.positions[number] < seen.change.position, "a subscription does not go back"
    if delivery is not None:
        put_change(live.topic, number, seen, [(live, delivery)])
    live.positions[number] = seen.change.position
    if live.conflated is not None:
        live.conflated.relieve()


def events_between(
    kafka: KafkaConfig, topic: TopicState, number: int, start: int, end: int
) -> AsyncIterator[list[Event]]:
    """Yield a partition's events in the changes topic from offset `start` up to, not including, `end`."""
    batches = read_range(kafka, topic.definition.changes, number, start, end, BATCH_MAX)
    return _in_thread(map(_events, batches))


def _first_of(
    batches: Generator[list[Message], None, None], end: int, bytes_max: int
) -> Iterator[tuple[list[Event], int]]:
    """Yield once: the first events, about `bytes_max` bytes of them, and the offset after the last one."""
    found: list[Event] = []
    size = 0
    for messages in batches:
        events = _events(messages)
        found += events
        size += sum(
            len(event.body or b"") + len(event.previous or b"")
            for event in events
            if isinstance(event, Change)
        )
        if size >= bytes_max:
            end = (messages[-1].offset() or 0) + 1
            break
    batches.close()
    yield found, end


def _events(messages: list[Message]) -> list[Event]:
    return list(map(event_of, messages))


async def _in_thread(batches: Iterator[T]) -> AsyncIterator[T]:
    """Iterate over blocking batches without blocking the event loop."""
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch
