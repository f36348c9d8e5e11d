"""Resolves bookmarks: finds the position in each partition for a bookmark that is a time, a list or a range.

This happens before anything is sent. The result is real positions, after which every change is available.
"""

import asyncio
import time
from typing import NamedTuple

from sowline.changes.changes_reader import Verdict, verdict
from sowline.config.kafka_options import KafkaConfig
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.model.bookmark import EPOCH, NOW, Positions, PositionsByLog
from sowline.model.bookmark_range import BookmarkRange, Moment, Point
from sowline.model.position import Position, before_the_log
from sowline.serving.authorization.entitlements import Rights
from sowline.wire.request import Read
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.read_request import past_of, topics_of
from sowline_query_service.subscriptions.catch_up import BookmarkExpired, ChangesAfter, events_between
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

BEHIND_SECONDS_MAX = 10.0
"""Seconds to wait for a replica that is behind a bookmark."""

SOON_SECONDS = 1.0
"""Seconds of that wait after which holes in the log are looked for."""

BACK_RECORDS = 100
"""Offsets of the log to read in the first attempt to find the last record before an offset."""

NTH_LAST = 2**31
"""Higher than the number of any change that one log record makes."""


class LogOffsets(NamedTuple):
    """The offset of the first record at or after a time, in one partition of the log; and the partition's start."""

    first: int
    start: int


async def wait_for_replica(state: ServedTopics, topic: TopicState, positions: Positions) -> None:
    """Wait, for a limited time, until a replica has reached a client's bookmark; raise `behind` otherwise."""
    if not await state.wait_until_reached(topic, positions, BEHIND_SECONDS_MAX):
        raise _behind(topic)


def _behind(topic: TopicState) -> SowlineError:
    position = topic.bookmark(topic.positions)
    return SowlineError("behind", f"this replica is at {position}, before the bookmark; retry later")


async def check_eras(
    context: ServiceContext, topics: list[TopicState], bookmark_range: BookmarkRange
) -> None:
    """Raise `invalid bookmark` if a range names an era that does not exist, or `behind` if that is unknown."""
    points = [point for point in (*bookmark_range.starts, bookmark_range.end) if isinstance(point, dict)]
    for topic in topics:
        log = topic.definition.log
        newest: Positions = {}
        for positions in (point.get(log, {}) for point in points):
            newest |= {n: max(position, newest.get(n, position)) for n, position in positions.items()}
        await check_newest(context, topic, newest)


async def check_newest(context: ServiceContext, topic: TopicState, newest: Positions) -> None:
    """Raise as `check_eras` does, for the newest named position of each partition of a topic."""

    def unknown() -> list[int]:
        return [n for n, position in newest.items() if position.era > topic.partitions[n].held.era]

    if not unknown():
        return
    # Another replica is already in era 1, and its client comes here with `orders:0@1/5`. This replica will reach era
    # 1 soon. So read the ends once, and refuse only when the replica has everything up to them
    # (test_an_era_that_is_yet_to_come_here_is_waited_for).
    ends = await asyncio.to_thread(last_offsets, context.kafka, topic)

    def has_all() -> bool:
        return all(topic.partitions[n].next_offset >= ends[n] for n in unknown())

    if not await context.state.wait_until(has_all, BEHIND_SECONDS_MAX):
        raise _behind(topic)
    for number in unknown():
        era, log = topic.partitions[number].held.era, topic.definition.log
        raise SowlineError(
            "invalid bookmark",
            f"expected a position of an era that partition {number} of {log} has had, up to {era}, got"
            f" {newest[number]}; start without a bookmark",
        )


async def wait_for_start(
    context: ServiceContext, topics: list[TopicState], bookmark_range: BookmarkRange
) -> PositionsByLog:
    """Return the start of a range, once the replica has reached it; raise as each of the steps does."""
    await check_eras(context, topics, bookmark_range)
    begin = await begin_of(context, topics, bookmark_range)
    for topic in topics:
        # The bookmark may come from another replica, which was ahead of this one
        # (test_a_replica_behind_the_bookmark_is_waited_for).
        await wait_for_replica(context.state, topic, begin[topic.definition.log])
    return begin


async def begin_of(
    context: ServiceContext, topics: list[TopicState], bookmark_range: BookmarkRange
) -> PositionsByLog:
    """Return the position at which a range starts: in each partition the earliest of its starts.

    A partition that no start names starts before the log. Raise `BookmarkExpired` if a time can no longer be
    resolved, `invalid bookmark` if it is in the future, and `behind`.
    """
    positions: PositionsByLog = {topic.definition.log: {} for topic in topics}
    for start in bookmark_range.starts:
        for topic in topics:
            held = positions[topic.definition.log]
            for number, position in (
                await _positions(context, topic, start, bookmark_range.takes_start)
            ).items():
                # Several bookmarks of a list may name a partition. Only from the earliest position does the client
                # get every change after each of them (test_of_a_list_the_earliest_position_of_each_partition_counts).
                held[number] = min(position, held.get(number, position))
    return {
        topic.definition.log: {
            number: positions[topic.definition.log].get(number, before_the_log())
            for number in topic.partitions
        }
        for topic in topics
    }


async def _positions(
    context: ServiceContext, topic: TopicState, start: Point, takes_start: bool
) -> Positions:
    if isinstance(start, Moment):
        ms, rest = divmod(start.microseconds, 1000)
        # Log times have milliseconds, bookmarks microseconds. `[12:00:00.0005` starts with the next millisecond
        # (test_brackets_say_whether_the_position_itself_counts).
        first_ms = ms + bool(rest) if takes_start else ms + 1
        return await before_time(context, topic, first_ms)
    if start == NOW:
        return topic.positions
    if start == EPOCH:
        return dict.fromkeys(topic.partitions, before_the_log())
    assert isinstance(start, dict), "what is neither a name nor a time has positions"
    named = start.get(topic.definition.log, {})
    if not takes_start:
        return named
    await wait_for_replica(context.state, topic, named)
    return await _real(context, topic, {number: _just_before(at) for number, at in named.items()})


def _just_before(position: Position) -> Position:
    era, offset, nth = position
    return Position(era, offset, nth - 1) if nth else Position(era, offset - 1, NTH_LAST)


async def wait_for_past(context: ServiceContext, request: Read, rights: Rights) -> None:
    """Wait until the replica can answer a request, if that asks for a time; raise `behind` after a time limit."""
    if not request.bookmark:
        return
    topics = topics_of(context.state, request.topic, rights.read)
    past = past_of(request.bookmark_range, request.options, topics)
    if past is not None:
        await wait_for_time(context, topics, past)


async def wait_for_time(context: ServiceContext, topics: list[TopicState], ms: int) -> None:
    """Wait until the replica has applied all that the log had at a past time; raise `behind` after a time limit."""
    for topic in topics if ms / 1000 < time.time() else ():
        # A replica that has applied a later record of every partition has everything up to the time. Only otherwise
        # is Kafka asked.
        if any(partition.time <= ms for partition in topic.partitions.values()):
            positions = await asyncio.to_thread(log_offsets_at, context.kafka, topic, ms + 1)
            await wait_applied(context, topic, positions)


async def before_time(context: ServiceContext, topic: TopicState, first_ms: int) -> Positions:
    """Return the position of each partition after all changes before a time, given in ms.

    Raise `BookmarkExpired` if the log no longer has the records of that time, and as `begin_of` does.
    """
    await _wait_for_clock(first_ms)
    positions = await asyncio.to_thread(log_offsets_at, context.kafka, topic, first_ms)
    await wait_applied(context, topic, positions)
    raw: Positions = {}
    for number, (first, start) in positions.items():
        partition = topic.partitions[number]
        era = partition.held.era
        # The replica has everything that the log had at the time, and nothing later: it is at that position.
        # Elsewhere the last offset before the time decides. If the log starts only after it, the position is unknown:
        # records of that time may have been deleted, or the time was in another era
        # (test_a_time_before_the_log_began_is_not_found).
        if partition.time < first_ms:
            raw[number] = partition.held
        elif first <= start and (era or start):
            raise BookmarkExpired(topic, number, before_the_log(era))
        else:
            raw[number] = Position(era, first - 1, NTH_LAST)
    return await _real(context, topic, raw)


async def _wait_for_clock(first_ms: int) -> None:
    """Wait for a time that is about to come; raise `invalid bookmark` if it is further away."""
    seconds = first_ms / 1000 - time.time()
    if seconds > BEHIND_SECONDS_MAX:
        raise SowlineError("invalid bookmark", "expected a past time to start at, got a future time")
    if seconds > 0:
        await asyncio.sleep(seconds)


async def _real(context: ServiceContext, topic: TopicState, raw: Positions) -> Positions:
    """Return, for each position, the `after` of the next change: a position that exists."""
    # `offset.NTH_LAST` is made up, and the offset before a time may have no change. If compaction has removed the
    # next change, reading it raises `BookmarkExpired` now, not after a part was sent
    # (test_a_time_before_changes_that_are_gone_is_not_found).
    after = ChangesAfter(context.kafka, topic, raw)
    real: Positions = {}
    for number in raw:
        change = await after.first(number)
        real[number] = topic.partitions[number].held if change is None else change.after
    return real


# times in the log


def log_offsets_at(kafka: KafkaConfig, topic: TopicState, first_ms: int) -> dict[int, LogOffsets]:
    """Ask Kafka for the first offset of this time or later in each partition; its end if there is none."""
    log, numbers = topic.definition.log, list(topic.partitions)
    if not numbers:
        return {}
    cluster = Cluster(kafka)
    found, starts = cluster.offsets_at(log, numbers, first_ms), cluster.starts(log, numbers)
    return {number: LogOffsets(offset, starts[number]) for number, offset in found.items()}


async def wait_applied(context: ServiceContext, topic: TopicState, positions: dict[int, LogOffsets]) -> None:
    """Wait until the replica has applied the log up to these offsets; raise `behind` after a time limit."""
    state = context.state
    # The offset before may have no record: transaction markers take offsets, too. A replica never reaches such an
    # offset. Usually there is a record, so the log is read only after a second.
    if await state.wait_until_reached(topic, _lasts(topic, positions), SOON_SECONDS):
        return
    await wait_for_replica(state, topic, await last_records(context, topic, positions))


async def last_records(
    context: ServiceContext, topic: TopicState, positions: dict[int, LogOffsets]
) -> Positions:
    """Return the position of the last record before each offset; there may be holes in between."""
    wanted = _lasts(topic, positions)
    for number, (first, start) in positions.items():
        if number in wanted and topic.partitions[number].held < wanted[number]:
            last = await asyncio.to_thread(
                _last_record, context.kafka, topic.definition.log, number, start, first
            )
            assert last < first, "the last record is before the offset"
            wanted[number] = Position(wanted[number].era, last)
    return wanted


def _lasts(topic: TopicState, positions: dict[int, LogOffsets]) -> Positions:
    return {
        number: Position(topic.partitions[number].held.era, first - 1)
        for number, (first, start) in positions.items()
        if first > start
    }


def _last_record(kafka: KafkaConfig, log: str, number: int, start: int, end: int) -> int:
    back = BACK_RECORDS
    while True:
        begin = max(start, end - back)
        batches = read_range(kafka, log, number, begin, end)
        last = max((message.offset() or 0 for batch in batches for message in batch), default=None)
        if last is not None or begin == start:
            return -1 if last is None else last
        back *= 10


# the changes topic


def first_offsets(kafka: KafkaConfig, topic: TopicState) -> dict[int, int]:
    """Return the start offset of each partition of the changes topic."""
    return Cluster(kafka).starts(topic.definition.changes, topic.partitions)


def last_offsets(kafka: KafkaConfig, topic: TopicState) -> dict[int, int]:
    """Return the end offset of each partition of the changes topic."""
    return Cluster(kafka).ends(topic.definition.changes, topic.partitions)


async def oldest(context: ServiceContext, topics: list[TopicState]) -> PositionsByLog:
    """Return the oldest positions after which every change is available: those after the last gaps."""
    positions: PositionsByLog = {}
    for topic in topics:
        held = topic.positions
        starts = await asyncio.to_thread(first_offsets, context.kafka, topic)
        for number, partition in topic.partitions.items():
            async with context.scans:
                position = await _behind_last_gap(
                    context, topic, number, starts[number], partition.next_offset
                )
            held[number] = held[number] if position is None else position
        positions[topic.definition.log] = held
    return positions


async def _behind_last_gap(
    context: ServiceContext, topic: TopicState, number: int, start: int, end: int
) -> Position | None:
    """Return the position after the last gap of a partition's changes between two offsets; None if there is none."""
    position: Position | None = None
    at: Position | None = None
    async for events in events_between(context.kafka, topic, number, start, end):
        for event in events:
            # The first event counts as a gap: nothing is known of what was before it. An event of a stale owner must
            # not move `at` back, or the next event would look like a gap
            # (test_the_oldest_position_is_behind_the_last_gap).
            if at is None or verdict(event, at) is Verdict.GAP:
                position = event.after
            at = event.position if at is None else max(at, event.position)
    return position
