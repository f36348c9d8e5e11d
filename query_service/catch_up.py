"""Bringing a subscription from where it stands to where its topic stands, without a gap or a repeat.

From the replica's recent changes in memory where they reach back far enough, else from the changes topic.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

from confluent_kafka import Message

from query_service.hub import Active, Hub, deliver
from query_service.replica import PartitionReplica
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


class CatchUp:
    """Brings one subscription to its topic's position, at the pace of its client."""

    def __init__(self, kafka: KafkaConfig, active: Active) -> None:
        self._kafka = kafka
        self._active = active

    async def check(self) -> None:
        """Raise `BookmarkExpired` if the next change is no longer to be had, before anything is delivered."""
        for number in self._behind():
            partition = self._active.topic.partitions[number]
            if partition.recent(self._active.positions[number], 1) is None:
                await self._first_after(number, partition)

    async def _first_after(self, number: int, partition: PartitionReplica) -> None:
        async for messages in self._changes_topic(number, partition):
            if any(self._following(number, messages)):
                return

    async def run(self, hub: Hub) -> None:
        """Deliver what is missing; at the instant when nothing is, make the subscription live.

        Not before the client has room, though: it would be live for one change, and for the next, without end.
        """
        active = self._active
        await active.outbox.wait_drained()
        while behind := self._behind():
            for number in behind:
                await self._advance(number, active.topic.partitions[number])
            await active.outbox.wait_drained()
        hub.add(active)

    def _behind(self) -> list[int]:
        positions = self._active.positions
        return [
            n for n, partition in enumerate(self._active.topic.partitions) if positions[n] < partition.held
        ]

    async def _advance(self, number: int, partition: PartitionReplica) -> None:
        """Deliver the next changes of one partition."""
        held = self._active.positions[number]
        now = partition.held
        recent = partition.recent(held, BATCH_MAX)
        if recent is None:
            await self._read_back(number, partition)
            return
        await self._deliver(number, recent)
        if len(recent) < BATCH_MAX:
            self._moved_to(number, now)
        await asyncio.sleep(0)

    def _moved_to(self, number: int, position: Position) -> None:
        self._active.positions[number] = max(position, self._active.positions[number])

    async def _deliver(self, number: int, changes: Iterable[Change]) -> None:
        active = self._active
        for change in changes:
            await active.outbox.wait_drained()
            deliver(active.topic, number, change, [active])
            active.positions[number] = change.position

    async def _read_back(self, number: int, partition: PartitionReplica) -> None:
        """Deliver changes from the changes topic, up to where the replica has applied it."""
        now = partition.held
        async for messages in self._changes_topic(number, partition):
            await self._deliver(number, list(self._following(number, messages)))
        self._moved_to(number, now)

    def _changes_topic(self, number: int, partition: PartitionReplica) -> AsyncIterator[list[Message]]:
        """Read what was written after the subscription's position, as far as the replica has applied it."""
        start = partition.offset_for(self._active.positions[number])
        topic = self._active.topic.definition.changes
        return _in_thread(read_range(self._kafka, topic, number, start, partition.next_offset, BATCH_MAX))

    def _following(self, number: int, messages: list[Message]) -> Iterator[Change]:
        """Yield the new changes among the messages; raises `BookmarkExpired` at a gap."""
        held = self._active.positions[number]
        for message in messages:
            event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
            judged = verdict(event, held)
            if judged is Verdict.GAP:
                raise BookmarkExpired(held)
            if judged is Verdict.TAKE:
                held = event.position
                if isinstance(event, Change):
                    yield event


async def _in_thread(batches: Iterator[list[Message]]) -> AsyncIterator[list[Message]]:
    """Iterate over blocking batches without blocking the event loop."""
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch
