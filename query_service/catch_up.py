"""Bringing a subscription from where it stands to where its topic stands, without a gap or a repeat.

From the replica's recent changes in memory where they reach back far enough, else from the changes topic.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from confluent_kafka import Message

from fanout.subscription import Sighting
from query_service.active import Active, deliver
from query_service.hub import Hub
from query_service.replica import PartitionReplica
from query_service.state import TopicState
from sowline.bookmark import Positions
from sowline.change import Change, read_event
from sowline.errors import SowlineError
from sowline.following import Verdict, verdict
from sowline.kafka import KafkaConfig, read_range
from sowline.position import Position

BATCH_MAX = 1000


class BookmarkExpired(SowlineError):
    """Changes after the bookmark are no longer to be had one by one."""

    def __init__(self, position: Position) -> None:
        super().__init__(
            "bookmark_expired",
            f"the changes after {position} are no longer kept one by one; begin again with a sow_and_subscribe, "
            "or ask for it with the option reset",
        )


class ChangesAfter:
    """The changes of a topic after a place. `positions` moves on as they are handed out."""

    def __init__(self, kafka: KafkaConfig, topic: TopicState, positions: Positions) -> None:
        self._kafka = kafka
        self._topic = topic
        self.positions = positions

    def behind(self) -> list[int]:
        """The partitions of which there is more."""
        partitions = enumerate(self._topic.partitions)
        return [number for number, partition in partitions if self.positions[number] < partition.held]

    async def check(self) -> None:
        """Raise `BookmarkExpired` if the next change is no longer to be had."""
        for number in self.behind():
            partition = self._topic.partitions[number]
            if partition.recent(self.positions[number], 1) is None:
                async for messages in self._changes_topic(number, partition):
                    if any(self._following(number, messages)):
                        break

    async def of(self, number: int) -> AsyncIterator[list[Change]]:
        """Yield changes of one partition, in steps; in between, whoever takes them moves the position to the last."""
        partition = self._topic.partitions[number]
        now = partition.held
        recent = partition.recent(self.positions[number], BATCH_MAX)
        if recent is None:
            async for messages in self._changes_topic(number, partition):
                yield list(self._following(number, messages))
        else:
            yield recent
        if recent is None or len(recent) < BATCH_MAX:
            self.positions[number] = max(now, self.positions[number])
        await asyncio.sleep(0)

    def _changes_topic(self, number: int, partition: PartitionReplica) -> AsyncIterator[list[Message]]:
        """Read what was written after the position, as far as the replica has applied it."""
        start = partition.offset_for(self.positions[number])
        topic = self._topic.definition.changes
        return _in_thread(read_range(self._kafka, topic, number, start, partition.next_offset, BATCH_MAX))

    def _following(self, number: int, messages: list[Message]) -> Iterator[Change]:
        """Yield the new changes among the messages; raises `BookmarkExpired` at a gap."""
        held = self.positions[number]
        for message in messages:
            event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
            judged = verdict(event, held)
            if judged is Verdict.GAP:
                raise BookmarkExpired(held)
            if judged is Verdict.TAKE:
                held = event.position
                if isinstance(event, Change):
                    yield event


async def changes_since(
    kafka: KafkaConfig, places: Sequence[tuple[TopicState, Positions]], limit: int
) -> list[list[tuple[int, Change]]]:
    """Return all changes after a place in each topic, with their partitions, up to the instant of the return.

    Raises `BookmarkExpired` where they are not to be had, or are more than `limit`.
    """
    followed: list[tuple[ChangesAfter, list[tuple[int, Change]]]] = [
        (ChangesAfter(kafka, topic, dict(positions)), []) for topic, positions in places
    ]
    while any(after.behind() for after, _ in followed):
        for after, found in followed:
            for number in after.behind():
                async for changes in after.of(number):
                    found.extend((number, change) for change in changes)
                    if changes:
                        after.positions[number] = changes[-1].position
                    if sum(len(found) for _, found in followed) > limit:
                        raise BookmarkExpired(after.positions[number])
    return [found for _, found in followed]


class CatchUp:
    """Brings one subscription to its topic's position, at the pace of its client."""

    def __init__(self, kafka: KafkaConfig, active: Active) -> None:
        self._active = active
        self._after = ChangesAfter(kafka, active.topic, active.positions)

    async def check(self) -> None:
        """Raise `BookmarkExpired` if the next change is no longer to be had, before anything is delivered."""
        await self._after.check()

    async def run(self, hub: Hub) -> None:
        """Deliver what is missing; at the instant when nothing is, make the subscription live.

        Not before the client has room, though: it would be live for one change, and for the next, without end.
        """
        outbox = self._active.outbox
        await outbox.wait_drained()
        while behind := self._after.behind():
            for number in behind:
                async for changes in self._after.of(number):
                    await self._deliver(number, changes)
            await outbox.wait_drained()
        hub.add(self._active)

    async def _deliver(self, number: int, changes: list[Change]) -> None:
        active = self._active
        for change in changes:
            await active.outbox.wait_drained()
            seen = Sighting(change, active.topic.about, f"{active.log}:{number}", active.positions[number])
            delivery = active.engine.on_change(seen)
            if delivery is not None:
                deliver(active.topic, number, seen, [(active, delivery)])
            active.positions[number] = change.position
            if active.conflated is not None:
                active.conflated.relieve()


async def _in_thread(batches: Iterator[list[Message]]) -> AsyncIterator[list[Message]]:
    """Iterate over blocking batches without blocking the event loop."""
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch
