"""The end of a subscription: a bookmark or a time. Every change up to it is sent, and none after it."""

import asyncio
import time
from typing import Protocol

import structlog
from confluent_kafka import KafkaException
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_fixed

from sowline.changes.change import Change
from sowline.model.bookmark import NOW, Positions, PositionsByLog
from sowline.model.bookmark_range import BookmarkRange, Moment
from sowline.model.position import Position
from sowline_query_service.context import ServiceContext
from sowline_query_service.subscriptions.bookmark_resolver import last_records, log_offsets_at
from sowline_query_service.topics.topic_state import TopicState

log = structlog.get_logger()

GRACE_SECONDS = 0.2
"""Delay after a time before Kafka is asked which records precede it, because its clock may differ."""

ASK_AGAIN_SECONDS = 1.0


class End(Protocol):
    """The end of a subscription in one topic."""

    def takes(self, number: int, change: Change) -> bool:
        """Whether a change of a partition is before the end."""
        ...

    def is_reached(self, number: int) -> bool:
        """Whether the replica has everything of a partition that is before the end."""
        ...

    def final_position(self, number: int, position: Position) -> Position:
        """Return the last position of a subscription that was sent everything up to `position`."""
        ...

    async def settle(self) -> None:
        """Determine the positions that the replica must reach."""


Ends = dict[str, End]
"""The end in each topic, by log."""


class EndAt:
    """An end at a position; `takes`: the change at that position is still sent."""

    def __init__(self, topic: TopicState, positions: Positions, *, takes: bool = True) -> None:
        self._topic = topic
        self.positions = positions
        self.is_inclusive = takes

    def takes(self, number: int, change: Change) -> bool:
        """Whether a change of a partition is before the end."""
        end = self.positions[number]
        return change.position < end or (self.is_inclusive and change.position == end)

    def is_reached(self, number: int) -> bool:
        """Whether the replica has everything of a partition that is before the end."""
        return self._topic.partitions[number].held >= self.positions[number]

    def final_position(self, number: int, position: Position) -> Position:
        """Return the last position of a subscription that was sent everything up to `position`."""
        return min(position, self.positions[number]) if self.is_inclusive else position

    async def settle(self) -> None:
        """Do nothing: the positions are known."""


class EndTime:
    """An end at a time, which may be in the future: the last change at or before it."""

    def __init__(self, context: ServiceContext, topic: TopicState, last_ms: int) -> None:
        self._context = context
        self._topic = topic
        self._last_ms = last_ms
        self._wanted: Positions | None = None

    def takes(self, number: int, change: Change) -> bool:
        """Whether a change of a partition is before the end."""
        return change.replay_time <= self._last_ms

    def is_reached(self, number: int) -> bool:
        """Whether the replica has everything of a partition that is before the end."""
        # None until the time has passed: the log may still get records with an earlier time
        # (test_an_end_to_come_is_waited_for). A partition without a position had no record until then.
        wanted = self._wanted
        return wanted is not None and (
            number not in wanted or self._topic.partitions[number].held >= wanted[number]
        )

    def final_position(self, number: int, position: Position) -> Position:
        """Return the last position of a subscription that was sent everything up to `position`."""
        return position

    async def settle(self) -> None:
        """After the time has passed, ask Kafka for the last record before it; retry until Kafka answers."""
        # After a pause, the replay settles its end again (test_a_paused_replay_keeps_its_end).
        if self._wanted is not None:
            return
        await asyncio.sleep(max(0.0, self._last_ms / 1000 + GRACE_SECONDS - time.time()))
        topic, kafka = self._topic, self._context.kafka
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(KafkaException),
            wait=wait_fixed(ASK_AGAIN_SECONDS),
            before_sleep=self._log_refusal,
        )
        async for attempt in retrying:
            with attempt:
                positions = await asyncio.to_thread(log_offsets_at, kafka, topic, self._last_ms + 1)
                self._wanted = await last_records(self._context, topic, positions)

    def _log_refusal(self, attempt: RetryCallState) -> None:
        why = attempt.outcome and attempt.outcome.exception()
        log.warning(
            "Kafka did not return the offset of a time", topic=self._topic.definition.name, why=str(why)
        )


def ends_of(
    context: ServiceContext, topics: list[TopicState], bookmark_range: BookmarkRange, now: PositionsByLog
) -> Ends | None:
    """Return the end of a subscription in each topic; None if it has none. `now` are the topics' positions."""
    end = bookmark_range.end
    if end is None:
        return None
    if isinstance(end, Moment):
        ms, rest = divmod(end.microseconds, 1000)
        last_ms = ms if bookmark_range.takes_end or rest else ms - 1
        return {topic.definition.log: EndTime(context, topic, last_ms) for topic in topics}
    positions, takes = (now, True) if end == NOW else (end, bookmark_range.takes_end)
    assert isinstance(positions, dict), "an end that is neither a name nor a time has positions"
    return {
        topic.definition.log: EndAt(topic, dict(positions[topic.definition.log]), takes=takes)
        for topic in topics
    }


def known_end(ends: Ends | None) -> PositionsByLog | None:
    """Return the positions at which a subscription ends, if they are known."""
    positions = {
        log: end.positions for log, end in (ends or {}).items() if isinstance(end, EndAt) and end.is_inclusive
    }
    return positions if ends and len(positions) == len(ends) else None
