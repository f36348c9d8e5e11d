"""Answers requests for a record's timeline: finds the writes, reads them from Kafka, and encodes them.

A timeline has the writes up to the replica's position at the instant of the request. For documents an index in memory
has the offset of each write; writes that compaction has removed since are left out. For other records the newest
changes are searched: first those in memory, then the changes topic backwards, up to a bound of work. The answer's
`since` says from when on none is missing.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Message

from sowline.changes.change import AGAIN, DELETE, Change
from sowline.commands.command import DEFINE, SOW_DELETE
from sowline.config.kafka_options import KafkaConfig
from sowline.errors import SowlineError
from sowline.kafka.clients import read_at
from sowline.kafka.messages import event_of
from sowline.kafka.read_back import SECONDS_MAX as READ_BACK_SECONDS_MAX
from sowline.kafka.read_back import read_newest
from sowline.language.emodb.fold import FoldOutcome
from sowline.model.body import trimmed_json
from sowline.model.bookmark import EPOCH, NOW, Positions, format_position
from sowline.model.bookmark_range import BookmarkRange, Moment, Point
from sowline.model.key import partition_of
from sowline.model.position import Position, invalid_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.refusal import no_sow
from sowline.wire.request import ReadTimeline
from sowline.wire.server_message import iso_time
from sowline_query_service.query.read_request import one_topic
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.timeline import Noted
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

READS_AT_ONCE = 2
"""Timelines to read from Kafka at the same time; others wait."""

BYTES_MAX = 64 << 20
"""Limit of the bytes of the documents in an answer with several writes: the whole answer is in memory."""

READ_SECONDS_MAX = 30.0
WALKED_AT_ONCE = 5000
"""Writes to check before other tasks of the event loop run."""

APPLIED = FoldOutcome.APPLIED.value
NOT_APPLIED = (FoldOutcome.NOOP.value, FoldOutcome.CONDITION_FALSE.value)


@dataclass(frozen=True, slots=True)
class TimelineRequest:
    """The requested writes: the document, the range, their number, and their order."""

    topic: TopicState
    key: str
    bookmark_range: BookmarkRange
    writes_max: int
    newest_first: bool

    @property
    def sow_key(self) -> bytes:
        """The document's SOW key."""
        return self.topic.definition.key_rule.sow_key(self.key)

    @property
    def partition(self) -> PartitionReplica:
        """The partition of the document."""
        return self.topic.partitions[partition_of(self.key, self.topic.definition.partitions)]

    @property
    def awaited(self) -> Positions:
        """The newest position that the request names, which the replica must have reached; empty if it names none."""
        points = (*self.bookmark_range.starts, self.bookmark_range.end)
        positions = [_position(point, self) for point in points if isinstance(point, dict)]
        newest = max(
            (named for named in positions if named is not None),
            default=None,
        )
        return {} if newest is None else {self.partition.number: newest}


@dataclass(frozen=True, slots=True)
class TimelineAnswer:
    """A timeline: its encoded writes, the replica's bookmark, and the time from which it is complete."""

    wanted: TimelineRequest
    bookmark: str
    since: int
    """A time in ms since 1970; earlier writes may be missing."""
    writes: list[bytes]

    @property
    def sow_key(self) -> bytes:
        """The SOW key of the document."""
        return self.wanted.sow_key

    @property
    def answer(self) -> bytes:
        """The whole answer as one JSON object."""
        wanted = self.wanted
        fields = {
            "topic": wanted.topic.definition.name,
            "key": wanted.key,
            "sow_key": wanted.sow_key.decode(),
        }
        prefix = orjson.dumps({**fields, "bookmark": self.bookmark, "since": iso_time(self.since)})
        return b'%s,"writes":[%s]}' % (prefix[:-1], b",".join(self.writes))


def timeline_request_of(state: ServedTopics, request: ReadTimeline, rights: Rights) -> TimelineRequest:
    """Return the request for a timeline; raise if it is invalid."""
    topic = one_topic(state, request.topic, rights.read)
    rights.read.require_whole(topic.definition.name, "a timeline shows past versions")
    if not topic.definition.has_sow:
        raise no_sow(topic.definition.name)
    if not request.key:
        raise SowlineError("key missing", "expected the key of a record, got none")
    topic.require(request.key)
    bookmark_range = request.bookmark_range
    wanted = TimelineRequest(topic, request.key, bookmark_range, request.limit, request.reversed)
    for point in (*bookmark_range.starts, bookmark_range.end):
        _check(point, wanted)
    return wanted


def _check(point: Point | None, wanted: TimelineRequest) -> None:
    if isinstance(point, dict) and _position(point, wanted) is None:
        log, number = wanted.topic.definition.log, wanted.partition.number
        raise invalid_bookmark(f"expected a position in partition {number} of {log}, where the document is")


def _position(positions: dict[str, Positions], wanted: TimelineRequest) -> Position | None:
    return positions.get(wanted.topic.definition.log, {}).get(wanted.partition.number)


class TimelineReader:
    """Reads timelines, a few at a time; `bytes_max` limits the bytes of an answer."""

    def __init__(self, kafka: KafkaConfig, bytes_max: int) -> None:
        self._kafka = kafka
        self._bytes_max = min(bytes_max, BYTES_MAX)
        self._turns = asyncio.Semaphore(READS_AT_ONCE)

    async def read(self, wanted: TimelineRequest) -> TimelineAnswer:
        """Return a timeline at this instant; raise `result too large`, or `not ready` if Kafka does not answer."""
        topic, partition = wanted.topic, wanted.partition
        timeline = partition.timeline
        if timeline is None:
            return await self._search(wanted)
        # Taken before anything is awaited: the answer has the writes up to this bookmark, and no later ones.
        walk = timeline.newest_first(wanted.sow_key)
        bookmark = topic.bookmark(topic.positions)
        now = int(time.time() * 1000)
        since = max(timeline.floor, now - topic.definition.declared.history_ttl)
        if not wanted.newest_first:
            # The newest write comes first, so the oldest ones are known only after a walk over all.
            walk = iter(reversed(await _offsets(walk, wanted, None)))
        writes: list[bytes] = []
        while len(writes) < wanted.writes_max:
            offsets = await _offsets(walk, wanted, wanted.writes_max - len(writes))
            if not offsets:
                break
            changes = await self._read(wanted, [noted.offset for noted in offsets])
            writes += [
                _write(wanted, change)
                for change in changes
                if _is_within(wanted, change.replay_time, change.position)
            ]
        return TimelineAnswer(wanted, bookmark, since, writes)

    async def _search(self, wanted: TimelineRequest) -> TimelineAnswer:
        """Return the newest changes of a record that has no timeline in memory."""
        topic, partition = wanted.topic, wanted.partition
        bookmark = topic.bookmark(topic.positions)
        now = int(time.time() * 1000)
        found = [
            change for change in partition.ring.newest_first(wanted.sow_key) if _is_wanted(wanted, change)
        ]
        since = now - topic.definition.kafka.change_window_ms
        del found[wanted.writes_max :]
        if len(found) < wanted.writes_max:
            oldest = partition.ring.oldest
            end = partition.next_offset if oldest is None else partition.offset_behind(oldest.position)
            async with self._turns:
                try:
                    older, searched_since = await asyncio.to_thread(
                        self._older, wanted, end, oldest, wanted.writes_max - len(found)
                    )
                except TimeoutError:
                    raise _not_delivered(READ_BACK_SECONDS_MAX) from None
            found += older
            since = since if searched_since is None else searched_since
        # The search has ended at the limit, so nothing is known of the time before the oldest write that it found.
        if len(found) == wanted.writes_max:
            since = found[-1].replay_time
        since = min([since, *(change.replay_time for change in found)])
        writes = [_write(wanted, change) for change in found]
        return TimelineAnswer(wanted, bookmark, since, writes if wanted.newest_first else writes[::-1])

    def _older(
        self, wanted: TimelineRequest, end: int, before: Change | None, writes_max: int
    ) -> tuple[list[Change], int | None]:
        """Return the record's newest changes in the changes topic before `before`, and since when none is missing.

        That time is None if everything that the changes topic has was examined.
        """
        key, changes = wanted.sow_key, []

        def wants(message: Message) -> bool:
            if message.key() != key:
                return False
            event = event_of(message)
            if not isinstance(event, Change) or not _is_wanted(wanted, event):
                return False
            # `end` is rounded up to an entry of the index: changes from `before` on were found in memory already.
            if before is not None and event.position >= before.position:
                return False
            changes.append(event)
            return True

        number = wanted.partition.number
        searched = read_newest(
            self._kafka, wanted.topic.definition.changes, number, writes_max, wants, end=end
        )
        return changes, None if searched.is_complete else searched.oldest_time

    async def _read(self, wanted: TimelineRequest, offsets: list[int]) -> list[Change]:
        """Return the document's changes at these offsets, in their order, without those that Kafka has removed."""
        async with self._turns:
            try:
                found = await asyncio.to_thread(self._changes, wanted, sorted(offsets))
            except TimeoutError:
                raise _not_delivered(READ_SECONDS_MAX) from None
        return [found[offset] for offset in offsets if offset in found]

    def _changes(self, wanted: TimelineRequest, offsets: list[int]) -> dict[int, Change]:
        """Read the document's changes at these ascending offsets, as far as the topic still has them."""
        found: dict[int, Change] = {}
        size = 0
        changes, number, key = wanted.topic.definition.changes, wanted.partition.number, wanted.sow_key
        for message in read_at(self._kafka, changes, number, offsets, READ_SECONDS_MAX):
            event = event_of(message)
            # If the topic was replaced since the offset was noted, another event may have it.
            if isinstance(event, Change) and event.sow_key == key and event.writes is not None:
                found[message.offset() or 0] = event
                size += len(event.body or b"") + len(event.previous or b"") + len(event.text or b"")
            # One write is sent whatever its size: no smaller request could get it.
            if size > self._bytes_max and len(found) > 1:
                raise SowlineError(
                    "result too large",
                    f"expected at most {self._bytes_max} bytes of a timeline, got more; ask for fewer writes with"
                    f" limit",
                )
        return found


def _not_delivered(seconds: float) -> SowlineError:
    return SowlineError("not ready", f"Kafka did not deliver the timeline within {seconds:.0f} s; try again")


def _is_wanted(wanted: TimelineRequest, change: Change) -> bool:
    """Whether a change is a write in the requested range."""
    # A repair writes an old event again: it is no write (test_an_event_that_is_written_again_is_no_write). Nor is
    # another template (test_a_template_is_not_in_the_timeline).
    return change.op not in (AGAIN, DEFINE) and _is_within(wanted, change.replay_time, change.position)


async def _offsets(walk: Iterator[Noted], wanted: TimelineRequest, most: int | None) -> list[Noted]:
    """Return the next writes that may be in the range, up to `most`; other tasks run in between."""
    found: list[Noted] = []
    for _ in _walked(walk, wanted, most, found):
        await asyncio.sleep(0)
    return found


def _walked(
    walk: Iterator[Noted], wanted: TimelineRequest, most: int | None, found: list[Noted]
) -> Iterator[None]:
    """Add the next writes that may be in the range, up to `most`; yield after each step of the walk."""
    offset_range = _offset_range(wanted)
    for number, noted in enumerate(walk, 1):
        if noted.offset in offset_range and _is_within(wanted, noted.time):
            found.append(noted)
        if len(found) == most:
            return
        if number % WALKED_AT_ONCE == 0:
            yield


def _offset_range(wanted: TimelineRequest) -> range:
    """Return the range of offsets that contains all requested writes, from the positions that the request names."""
    partition, bookmark_range = wanted.partition, wanted.bookmark_range
    begins = [
        partition.offset_for(position)
        if isinstance(start, dict) and (position := _position(start, wanted)) is not None
        else 0
        for start in bookmark_range.starts
    ]
    end = _position(bookmark_range.end, wanted) if isinstance(bookmark_range.end, dict) else None
    return range(min(begins), partition.next_offset if end is None else partition.offset_behind(end))


def _is_within(wanted: TimelineRequest, ms: int, position: Position | None = None) -> bool:
    """Return whether a write is in the requested range; if its position is unknown, whether it may be."""
    bookmark_range = wanted.bookmark_range
    # A noted write has no position. It counts as inside here, is read, and is then judged by its position
    # (test_what_is_asked_for_is_sent).
    begins = (_side(wanted, start, ms, position, unknown=1) for start in bookmark_range.starts)
    if max(begins) < (0 if bookmark_range.takes_start else 1):
        return False
    if bookmark_range.end is None:
        return True
    return _side(wanted, bookmark_range.end, ms, position, unknown=-1) <= (
        0 if bookmark_range.takes_end else -1
    )


def _side(wanted: TimelineRequest, point: Point, ms: int, position: Position | None, unknown: int) -> int:
    """Compare a write with a point: -1 if it is before the point, 0 if at it, 1 if after it."""
    if point == EPOCH:
        return 1
    if point == NOW:
        return -1
    if isinstance(point, Moment):
        at: tuple[int, ...] = (ms * 1000,)
        return (at > point) - (at < point)
    assert isinstance(point, dict)
    named = _position(point, wanted)
    assert named is not None, "it was checked"
    return unknown if position is None else (position > named) - (position < named)


def _write(wanted: TimelineRequest, change: Change) -> bytes:
    """Return an encoded write; docs/emodb.md describes the fields."""
    definition, partition = wanted.topic.definition, wanted.partition
    fields: dict[str, Any] = {
        "bookmark": format_position(definition.log, partition.number, change.position),
        "timestamp": iso_time(change.time),
        "command": SOW_DELETE if change.op == DELETE else change.op,
    }
    if (writes := change.writes) is not None:
        fields |= {
            "version": writes.version,
            "signature": writes.signature,
            "change_id": writes.change_id,
            "tags": writes.tags,
            "outcome": change.outcome if change.outcome in NOT_APPLIED else APPLIED,
            "redundant": writes.redundant,
        }
    if (publisher := _publisher_of(change)) is not None:
        fields["publisher"] = publisher
    if change.correlation is not None:
        fields["correlation_id"] = change.correlation
    if change.text is not None:
        fields["delta"] = change.text.decode()
    if change.reason is not None:
        fields["reason"] = change.reason
    return trimmed_json(fields | {"previous": _body(change.previous), "data": _body(change.body)})


def _publisher_of(change: Change) -> str | None:
    """Return the publisher that made a change; None if it gave no name, or another one wrote at the same time."""
    # A change has the newest sequence of each publisher of the record, with its log time. The writer's is of now.
    now = change.time if change.log_time is None else change.log_time
    names = [name for name, (_, _, written) in (change.numbers or {}).items() if written == now]
    return names[0] if len(names) == 1 else None


def _body(body: bytes | None) -> orjson.Fragment | None:
    return None if body is None else orjson.Fragment(body)
