"""Finding places: where in each partition a subscription begins that names a time, a list or a range.

A place is found before anything is told: a real position of the changes, from which every change is to be had.
"""

import asyncio
import time
from typing import NamedTuple

from confluent_kafka import TopicPartition

from query_service.asking import Places, past_of, topics_of
from query_service.backend import Backend
from query_service.catch_up import BookmarkExpired, ChangesAfter, events_between
from query_service.rights import Rights
from query_service.state import State, TopicState
from sowline.bookmark import EPOCH, NOW, Positions
from sowline.cluster import Cluster
from sowline.errors import SowlineError
from sowline.following import Verdict, verdict
from sowline.kafka import KafkaConfig, consuming, read_range
from sowline.position import Position, before_the_log
from sowline.span import Moment, Point, Span
from sowline.wire import Request

BEHIND_SECONDS_MAX = 10.0
"""How long a replica is waited for that is behind a bookmark."""

SOON_SECONDS = 1.0
"""After so long of that, holes in the log are looked for."""

ASK_SECONDS_MAX = 30.0
"""How long Kafka may take for an answer."""

BACK_RECORDS = 100
"""Offsets of the log that are read at first to find the last record before another."""

NTH_LAST = 2**31
"""Above the number of any change that one log record makes."""


class LogPlace(NamedTuple):
    """Where in a partition of the log records of a time begin, and where the log begins."""

    first: int
    start: int


async def wait_for_replica(state: State, topic: TopicState, positions: Positions) -> None:
    """Wait for a replica that is behind a client's bookmark, but not for ever; raises `behind`."""
    if not await state.wait_until_reached(topic, positions, BEHIND_SECONDS_MAX):
        place = topic.bookmark(topic.positions)
        raise SowlineError("behind", f"this replica stands at {place}, before the bookmark; try again later")


async def begin_of(backend: Backend, topics: list[TopicState], span: Span) -> Places:
    """Return where a span begins: of each partition the earliest of its starts, before the log if none names it.

    Raises `BookmarkExpired` where a time can't be found any more, `behind`, and `invalid bookmark` where it is to
    come.
    """
    places: Places = {topic.definition.log: {} for topic in topics}
    for start in span.starts:
        for topic in topics:
            held = places[topic.definition.log]
            for number, position in (await _positions(backend, topic, start, span.takes_start)).items():
                held[number] = min(position, held.get(number, position))
    return {
        topic.definition.log: {
            part.number: places[topic.definition.log].get(part.number, before_the_log())
            for part in topic.partitions
        }
        for topic in topics
    }


async def _positions(backend: Backend, topic: TopicState, start: Point, takes_start: bool) -> Positions:
    if isinstance(start, Moment):
        ms, rest = divmod(start.microseconds, 1000)
        first_ms = ms + bool(rest) if takes_start else ms + 1
        return await before_time(backend, topic, first_ms)
    if start == NOW:
        return topic.positions
    if start == EPOCH:
        return {part.number: before_the_log() for part in topic.partitions}
    assert isinstance(start, dict)
    named = start.get(topic.definition.log, {})
    if not takes_start:
        return named
    await wait_for_replica(backend.state, topic, named)
    return await _real(backend, topic, {number: _just_before(at) for number, at in named.items()})


def _just_before(position: Position) -> Position:
    era, offset, nth = position
    return Position(era, offset, nth - 1) if nth else Position(era, offset - 1, NTH_LAST)


async def wait_for_past(backend: Backend, request: Request, rights: Rights) -> None:
    """Wait until the replica has all that it takes to answer a query of a time, if it is one; raises `behind`."""
    if not request.bookmark:
        return
    topics = topics_of(backend.state, request.topic, rights.read)
    past = past_of(request.span, request.parsed_options, topics)
    if past is not None:
        await wait_for_time(backend, topics, past)


async def wait_for_time(backend: Backend, topics: list[TopicState], ms: int) -> None:
    """Wait until the replica has all that the log had at a time that has passed; raises `behind`."""
    for topic in topics if ms / 1000 < time.time() else ():
        if any(partition.time <= ms for partition in topic.partitions):
            log, count = topic.definition.log, len(topic.partitions)
            places = await asyncio.to_thread(log_places, backend.kafka, log, count, ms + 1)
            await wait_applied(backend, topic, places)


async def before_time(backend: Backend, topic: TopicState, first_ms: int) -> Positions:
    """Return where each partition stands behind all changes that were before a time, given in ms."""
    await _wait_for_clock(first_ms)
    places = await asyncio.to_thread(
        log_places, backend.kafka, topic.definition.log, len(topic.partitions), first_ms
    )
    await wait_applied(backend, topic, places)
    raw: Positions = {}
    for number, (first, start) in places.items():
        partition = topic.partitions[number]
        era = partition.held.era
        if partition.time < first_ms:
            raw[number] = partition.held
        elif first <= start and (era or start):
            raise BookmarkExpired(topic, number, before_the_log(era))
        else:
            raw[number] = Position(era, first - 1, NTH_LAST)
    return await _real(backend, topic, raw)


async def _wait_for_clock(first_ms: int) -> None:
    """Wait until a time is there; one that is further away is refused."""
    seconds = first_ms / 1000 - time.time()
    if seconds > BEHIND_SECONDS_MAX:
        raise SowlineError(
            "invalid bookmark", "expected a time that has passed to begin at, got one that is still to come"
        )
    if seconds > 0:
        await asyncio.sleep(seconds)


async def _real(backend: Backend, topic: TopicState, raw: Positions) -> Positions:
    """Return the positions that changes have: what the first change behind each comes after."""
    after = ChangesAfter(backend.kafka, topic, raw)
    real: Positions = {}
    for number in raw:
        change = await after.first(number)
        real[number] = topic.partitions[number].held if change is None else change.after
    return real


# what the log says of times


def log_places(kafka: KafkaConfig, log: str, partitions: int, first_ms: int) -> dict[int, LogPlace]:
    """Ask Kafka where each partition's records of this time and later begin: at its end, if there are none."""
    numbers = range(partitions)
    cluster = Cluster(kafka)
    with consuming(kafka) as consumer:
        asked = [TopicPartition(log, number, first_ms) for number in numbers]
        found = consumer.offsets_for_times(asked, timeout=ASK_SECONDS_MAX)
    ends, starts = cluster.ends(log, numbers), cluster.starts(log, numbers)
    return {
        place.partition: LogPlace(
            place.offset if place.offset >= 0 else ends[place.partition], starts[place.partition]
        )
        for place in found
    }


async def wait_applied(backend: Backend, topic: TopicState, places: dict[int, LogPlace]) -> None:
    """Wait until the replica has applied the log up to these places; raises `behind`."""
    state = backend.state
    if await state.wait_until_reached(topic, _lasts(topic, places), SOON_SECONDS):
        return
    await wait_for_replica(state, topic, await last_records(backend, topic, places))


async def last_records(backend: Backend, topic: TopicState, places: dict[int, LogPlace]) -> Positions:
    """Return the position of the last record before each place: the offset before it may be a hole."""
    wanted = _lasts(topic, places)
    for number, (first, start) in places.items():
        if number in wanted and topic.partitions[number].held < wanted[number]:
            last = await asyncio.to_thread(
                _last_record, backend.kafka, topic.definition.log, number, start, first
            )
            wanted[number] = Position(wanted[number].era, last)
    return wanted


def _lasts(topic: TopicState, places: dict[int, LogPlace]) -> Positions:
    return {
        number: Position(topic.partitions[number].held.era, first - 1)
        for number, (first, start) in places.items()
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


# what is left of the changes


def first_offsets(kafka: KafkaConfig, topic: TopicState) -> dict[int, int]:
    """Return where each partition of the changes topic begins."""
    return Cluster(kafka).starts(topic.definition.changes, range(len(topic.partitions)))


async def oldest(backend: Backend, topics: list[TopicState]) -> Places:
    """Return the oldest place from which every change is still to be had: behind the last gap of each partition."""
    places: Places = {}
    for topic in topics:
        held = topic.positions
        starts = await asyncio.to_thread(first_offsets, backend.kafka, topic)
        for number, partition in enumerate(topic.partitions):
            place: Position | None = None
            at: Position | None = None
            async for events in events_between(
                backend.kafka, topic, number, starts[number], partition.next_offset
            ):
                for event in events:
                    if at is None or verdict(event, at) is Verdict.GAP:
                        place = event.after
                    at = event.position if at is None else max(at, event.position)
            held[number] = held[number] if place is None else place
        places[topic.definition.log] = held
    return places
