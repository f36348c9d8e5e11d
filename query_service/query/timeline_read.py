"""Telling a document's timeline: which of its writes are asked for, reading them, and how they go on the wire.

A timeline is of one instant: the writes up to where the replica stands when it is asked. What compaction has taken
since they were noted is left out.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from query_service.asking import one_topic
from query_service.replica import PartitionReplica
from query_service.rights import NOT_ENTITLED, Rights
from query_service.state import State, TopicState
from query_service.timeline import Noted
from sowline.bookmark import EPOCH, NOW, Positions, format_position
from sowline.change import DELETE, Change, read_event
from sowline.command import SOW_DELETE
from sowline.document.fold import Outcome
from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig, read_at
from sowline.key import partition_of, sow_key
from sowline.position import Position
from sowline.span import Moment, Point, Span, parse_span
from sowline.wire import Request, iso_time

LIMIT_MAX = 1000
"""Writes in one answer."""

READS_AT_ONCE = 2
"""Timelines that are read from Kafka at a time; the others wait."""

BYTES_MAX = 64 << 20
"""Of the documents in an answer of more than one write: all of it is in memory at once."""

READ_SECONDS_MAX = 30.0
WALKED_AT_ONCE = 5000
"""Writes that are gone over before others in the event loop get a turn."""

APPLIED = Outcome.APPLIED.value
NOT_APPLIED = (Outcome.NOOP.value, Outcome.CONDITION_FALSE.value)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which writes of which document are asked for, in which order."""

    topic: TopicState
    key: str
    span: Span
    limit: int
    newest_first: bool

    @property
    def sow_key(self) -> bytes:
        """The document's SOW key."""
        return sow_key(self.topic.definition.domain_prefix, self.key)

    @property
    def partition(self) -> PartitionReplica:
        """The partition of the document."""
        return self.topic.partitions[partition_of(self.key, len(self.topic.partitions))]

    @property
    def awaited(self) -> Positions:
        """The newest of the places that are asked for, which the replica must have reached; empty without any."""
        points = (*self.span.starts, self.span.end)
        places = [_position(point, self) for point in points if isinstance(point, dict)]
        newest = max((place for place in places if place is not None), default=None)
        return {} if newest is None else {self.partition.number: newest}


@dataclass(frozen=True, slots=True)
class Told:
    """A timeline: its writes as they go on the wire, where the replica stood, and since when it has every write."""

    wanted: Wanted
    bookmark: str
    since: int
    """A time in ms since 1970: of what was before it, writes may be missing."""
    writes: list[bytes]

    @property
    def answer(self) -> bytes:
        """All of it as one JSON object."""
        wanted = self.wanted
        about = {"topic": wanted.topic.definition.name, "key": wanted.key, "sow_key": wanted.sow_key.decode()}
        head = orjson.dumps({**about, "bookmark": self.bookmark, "since": iso_time(self.since)})
        return b'%s,"writes":[%s]}' % (head[:-1], b",".join(self.writes))


def wanted_of(state: State, request: Request, rights: Rights) -> Wanted:
    """Return what a request asks for; raises the reason of whatever is wrong with it."""
    topic = one_topic(state, request.topic, rights.read)
    if not rights.read.of(topic.definition.name).is_whole:
        raise SowlineError(
            NOT_ENTITLED,
            f"expected to be entitled to all of {topic.definition.name} for a timeline: it tells what a document was",
        )
    if not topic.definition.documents:
        raise SowlineError(
            "no documents",
            f"expected a topic with documents: true for a timeline, got {topic.definition.name}",
        )
    if not request.key:
        raise SowlineError("key missing", "expected the key of a document, got none")
    if not 1 <= request.limit <= LIMIT_MAX:
        raise SowlineError("invalid limit", f"expected a limit of 1 to {LIMIT_MAX}, got {request.limit}")
    span = parse_span(request.bookmark or EPOCH, request.up_to)
    wanted = Wanted(topic, request.key, span, request.limit, request.reversed)
    for point in (*span.starts, span.end):
        _check(point, wanted)
    return wanted


def _check(point: Point | None, wanted: Wanted) -> None:
    if isinstance(point, dict) and _position(point, wanted) is None:
        log, number = wanted.topic.definition.log, wanted.partition.number
        raise SowlineError(
            "invalid bookmark", f"expected a place in partition {number} of {log}, where the document is"
        )


def _position(place: dict[str, Positions], wanted: Wanted) -> Position | None:
    return place.get(wanted.topic.definition.log, {}).get(wanted.partition.number)


class TimelineReader:
    """Answers for timelines, a few at a time; `bytes_max` is what an answer may have."""

    def __init__(self, kafka: KafkaConfig, bytes_max: int) -> None:
        self._kafka = kafka
        self._bytes_max = min(bytes_max, BYTES_MAX)
        self._turns = asyncio.Semaphore(READS_AT_ONCE)

    async def told(self, wanted: Wanted) -> Told:
        """Return a timeline as it is at this instant; raises `result too large`, and `not ready` without Kafka."""
        topic, partition = wanted.topic, wanted.partition
        timeline = partition.timeline
        assert timeline is not None, "the topic has documents"
        walk = timeline.newest_first(wanted.sow_key)
        bookmark = topic.bookmark(topic.positions)
        now = int(time.time() * 1000)
        since = max(timeline.floor, now - topic.definition.history_ttl)
        if not wanted.newest_first:
            walk = iter(reversed(await _offsets(walk, wanted, None)))
        writes: list[bytes] = []
        while len(writes) < wanted.limit:
            offsets = await _offsets(walk, wanted, wanted.limit - len(writes))
            if not offsets:
                break
            changes = await self._read(wanted, [noted.offset for noted in offsets])
            writes += [
                _write(wanted, change)
                for change in changes
                if _is_within(wanted, change.time, change.position)
            ]
        return Told(wanted, bookmark, since, writes)

    async def _read(self, wanted: Wanted, offsets: list[int]) -> list[Change]:
        """Return the document's changes at these offsets, in their order, as far as they are there still."""
        async with self._turns:
            try:
                found = await asyncio.to_thread(self._changes, wanted, sorted(offsets))
            except TimeoutError:
                raise SowlineError(
                    "not ready", f"Kafka did not tell the timeline within {READ_SECONDS_MAX:.0f} s; try again"
                ) from None
        return [found[offset] for offset in offsets if offset in found]

    def _changes(self, wanted: Wanted, offsets: list[int]) -> dict[int, Change]:
        """Read what is there of the document's changes at these offsets, which ascend."""
        found: dict[int, Change] = {}
        size = 0
        changes, number, key = wanted.topic.definition.changes, wanted.partition.number, wanted.sow_key
        for message in read_at(self._kafka, changes, number, offsets, READ_SECONDS_MAX):
            event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
            if isinstance(event, Change) and event.sow_key == key and event.writes is not None:
                found[message.offset() or 0] = event
                size += len(event.body or b"") + len(event.previous or b"") + len(event.text or b"")
            if size > self._bytes_max and len(found) > 1:
                raise SowlineError(
                    "result too large",
                    f"expected at most {self._bytes_max} bytes of a timeline; ask for fewer writes with limit",
                )
        return found


async def _offsets(walk: Iterator[Noted], wanted: Wanted, most: int | None) -> list[Noted]:
    """Return the next writes of a walk that may be asked for, up to `most`; others get turns in between."""
    found: list[Noted] = []
    reach = _reach(wanted)
    for number, noted in enumerate(walk, 1):
        if noted.offset in reach and _is_within(wanted, noted.time):
            found.append(noted)
        if len(found) == most:
            break
        if number % WALKED_AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


def _reach(wanted: Wanted) -> range:
    """Return the offsets outside of which nothing is asked for, by what is known of its places."""
    partition, span = wanted.partition, wanted.span
    begins = [
        partition.offset_for(position)
        if isinstance(start, dict) and (position := _position(start, wanted)) is not None
        else 0
        for start in span.starts
    ]
    end = _position(span.end, wanted) if isinstance(span.end, dict) else None
    return range(min(begins), partition.next_offset if end is None else partition.offset_behind(end))


def _is_within(wanted: Wanted, ms: int, position: Position | None = None) -> bool:
    """Tell whether a write of that log time is asked for; where its position is not known, whether it may be."""
    span = wanted.span
    begins = (_side(wanted, start, ms, position, unknown=1) for start in span.starts)
    if max(begins) < (0 if span.takes_start else 1):
        return False
    if span.end is None:
        return True
    return _side(wanted, span.end, ms, position, unknown=-1) <= (0 if span.takes_end else -1)


def _side(wanted: Wanted, point: Point, ms: int, position: Position | None, unknown: int) -> int:
    """Return on which side of a place a write is: -1 before it, 0 at it, 1 behind it."""
    if point == EPOCH:
        return 1
    if point == NOW:
        return -1
    if isinstance(point, Moment):
        at: tuple[int, ...] = (ms * 1000,)
        return (at > point) - (at < point)
    assert isinstance(point, dict)
    place = _position(point, wanted)
    assert place is not None, "it was checked"
    return unknown if position is None else (position > place) - (position < place)


def _write(wanted: Wanted, change: Change) -> bytes:
    """Return a write as it goes on the wire; docs/emodb.md describes the fields."""
    writes = change.writes
    assert writes is not None, "it is of a document"
    definition, partition = wanted.topic.definition, wanted.partition
    about: dict[str, Any] = {
        "bookmark": format_position(definition.log, partition.number, change.position),
        "timestamp": iso_time(change.time),
        "command": SOW_DELETE if change.op == DELETE else change.op,
        "version": writes.version,
        "signature": writes.signature,
        "change_id": writes.change_id,
        "tags": writes.tags,
        "outcome": change.outcome if change.outcome in NOT_APPLIED else APPLIED,
        "redundant": writes.redundant,
    }
    if change.text is not None:
        about["delta"] = change.text.decode()
    if change.reason is not None:
        about["reason"] = change.reason
    return orjson.dumps(about | {"previous": _body(change.previous), "data": _body(change.body)})


def _body(body: bytes | None) -> orjson.Fragment | None:
    return None if body is None else orjson.Fragment(body)
