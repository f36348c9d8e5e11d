"""A query: the records of one consistent instant that match, in the order and number that was asked for."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from query_service.ordering import Found, in_order
from query_service.pace import CHUNK, Pace
from query_service.part import Part
from query_service.past import as_they_were, part_of
from query_service.rows import UNKNOWN_TIME, RowNumbers
from query_service.state import Past, TopicState
from sowline.bookmark import Positions, format_bookmark
from sowline.document.writes import intrinsics_json
from sowline.errors import SowlineError
from sowline.filter import ALL, Filter
from sowline.options import Options
from sowline.order import Order
from sowline.wire import sow_record, sow_records

PORTION_BYTES = 1 << 20
"""Of bodies that are written before the next are; a portion of one record may be larger."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records, in which order, how many of them, and in what form."""

    filter: Filter = ALL
    options: Options = field(default_factory=Options)
    order: Order = field(default_factory=Order)
    top_n: int | None = None
    skip_n: int = 0
    sow_keys: tuple[bytes, ...] = ()
    entitled: Mapping[str, Filter] = field(default_factory=dict)
    """By topic: what its records must match to be seen, which `filter` asks for already; others may all be."""
    hides: bool = False
    """Whether some records may not be seen: then it is not told what was looked at to find those that may."""

    @property
    def is_ordered(self) -> bool:
        """Whether the order matters; the first so many are those by SOW key where no order is given."""
        return bool(self.order.terms) or self.top_n is not None

    @property
    def end(self) -> int | None:
        """The number in the order before which the last record stands."""
        return None if self.top_n is None else self.skip_n + self.top_n


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may cost: records and bytes returned, and seconds of work."""

    records_max: int = 10_000_000
    bytes_max: int = 1 << 40
    seconds_max: float = 3600.0
    groups_max: int = 100_000
    undo_max: int = 20_000
    """Changes that may be undone to find out what a page or a group showed at a bookmark."""

    def check(self, result: "Result") -> None:
        """Raise `result too large` if more is returned than may be."""
        if result.returned > self.records_max:
            raise SowlineError(
                "result too large",
                f"expected at most {self.records_max} records; make the filter narrower, or ask for top_n",
            )
        if result.bytes > self.bytes_max:
            raise SowlineError(
                "result too large",
                f"expected at most {self.bytes_max} bytes; make the filter narrower, or select fewer fields",
            )


@dataclass(slots=True)
class Result:
    """What a query has found; `hash` is the XOR of the 8-byte BLAKE2b of the SOW key of each record returned."""

    topic_matches: int = 0
    matches: int = 0
    returned: int = 0
    bytes: int = 0
    hash: int = 0

    def count(self, records: int, size: int, hash: int) -> None:
        """Note that so many records more are returned."""
        self.returned += records
        self.bytes += size
        self.hash ^= hash

    @property
    def stats(self) -> dict[str, int]:
        """The counts of a `stats` acknowledgement."""
        return {
            "topic_matches": self.topic_matches,
            "matches": self.matches,
            "records_returned": self.returned,
            "records_deleted": 0,
        }


class Query:
    """One run over one topic or several: `begin` it once, then iterate over `records` once.

    With `at`, a time in ms since 1970, it is of the records as they were then, rounded down to each topic's
    granularity; a time to come is now. All topics have a history then, and to take the instant may raise `history
    expired`.
    """

    def __init__(
        self, topics: Sequence[TopicState], selection: Selection, limits: Limits, at: int | None = None
    ) -> None:
        self.positions: dict[str, Positions] = {}
        """By log: the instant of the query, or where each partition stood at the past time."""
        self.parts: list[Part] = []
        self.result = Result()
        self._topics = topics
        self._selection = selection
        self._limits = limits
        self._at = at
        self._pasts: dict[str, Past] = {}
        """By topic: what is yet to be put back for the parts to be of the past time."""
        self._pace = Pace()
        self._worked = 0.0

    @property
    def bookmark(self) -> str:
        """The instant of the query."""
        return format_bookmark(self.positions)

    def begin_now(self) -> bool:
        """Take the instant now, if all indexes are at hand; tell whether they are."""
        if not self.parts and self.is_prepared:
            began = time.monotonic()
            self.positions = {topic.definition.log: topic.positions for topic in self._topics}
            if self._at is not None:
                self._take_past(self._at)
            self.parts = [self._part(topic) for topic in self._topics]
            self.result.topic_matches = self._compared()
            self.work(time.monotonic() - began)
        return bool(self.parts)

    def _take_past(self, at: int) -> None:
        self._pasts = {topic.definition.name: topic.past(at) for topic in self._topics}
        self.positions |= {
            topic.definition.log: self._pasts[topic.definition.name].positions for topic in self._topics
        }

    def _part(self, topic: TopicState) -> Part:
        past = self._pasts.get(topic.definition.name)
        return Part.of(topic, self._selection) if past is None else part_of(topic, self._selection, past)

    async def _settle(self) -> None:
        """Make the parts those of the past time, where that is still to be done."""
        while self._pasts:
            name, past = self._pasts.popitem()
            (at,) = (at for at, part in enumerate(self.parts) if part.name == name)
            self.parts[at : at + 1] = await as_they_were(
                self.parts[at], past, self._selection.filter, self.work
            )
        self.result.topic_matches = self._compared()

    def _compared(self) -> int:
        """How many records there were to compare; of SOW keys that may be of hidden ones, how many there are."""
        keys = self._selection.sow_keys
        return len(keys) if keys and self._selection.hides else sum(part.records for part in self.parts)

    @property
    def is_prepared(self) -> bool:
        """Whether all indexes are at hand."""
        select = self._selection
        if select.sow_keys:
            return True
        return all(topic.indexes.at_hand(select.filter, select.order) for topic in self._topics)

    async def prepare(self) -> None:
        """Make the indexes that are not at hand; some may be no longer when all are made."""
        for topic in self._topics if not self.is_prepared else ():
            await topic.indexes.build(self._selection.filter, self._selection.order, self.work)

    async def begin(self) -> None:
        """Take the instant as soon as all indexes are at hand: it is that at which this returns."""
        while not self.begin_now():
            await self.prepare()

    async def records(self) -> AsyncIterator[tuple[str, list[bytes]]]:
        """Yield records as they go on the wire, some of one topic at a time; others get turns in between.

        Raises `result too large` and `query too long` where a limit is met.
        """
        async for part, places in self._ordered() if self._selection.is_ordered else self.matches():
            for portion, bodies in _portions(part, places):
                began = time.monotonic()
                written = self._written(part, portion, bodies)
                self.work(time.monotonic() - began)
                yield part.name, written
                await asyncio.sleep(0)

    async def explained(self) -> list[dict[str, Any]]:
        """Run the query without returning its records; say of each topic which road it took, and the counts."""
        await self.begin()
        await self._settle()
        explained = []
        for part in self.parts:
            before = self.result.matches
            async for _ in self._matches(part):
                pass
            matches = self.result.matches - before
            explained.append(part.explained(counts=not self._selection.hides) | {"matches": matches})
        return explained

    async def matches(self) -> AsyncIterator[tuple[Part, RowNumbers]]:
        """Yield the records that match as places in their parts, in no order."""
        await self._settle()
        for part in self.parts:
            async for places in self._matches(part):
                yield part, places

    async def _ordered(self) -> AsyncIterator[tuple[Part, RowNumbers]]:
        await self._settle()
        found = []
        for part in self.parts:
            chunks = [places async for places in self._matches(part)]
            found.append((part, np.concatenate([np.empty(0, np.int64), *chunks])))
        select = self._selection
        if len(found) > 1:
            found = [run for one in found for run in await self._foremost(*one)]
        for part, places in await in_order(found, select.order, select.skip_n, select.end):
            yield part, places

    async def _foremost(self, part: Part, places: RowNumbers) -> Found:
        """Of one part's records, leave out those that its ranks show not to be among the first of all parts."""
        end = self._selection.end
        if part.ranks is None or end is None or len(places) <= end:
            return [(part, places)] if len(places) else []
        return await in_order([(part, places)], self._selection.order, 0, end)

    async def _matches(self, part: Part) -> AsyncIterator[RowNumbers]:
        """Yield the places of the records that match."""
        self.result.matches += part.matches
        if len(part.decided):
            yield part.decided
        for places, filter in part.checks:
            for start in range(0, len(places), CHUNK):
                found = await self._holding(part, filter, places[start : start + CHUNK])
                self.result.matches += len(found)
                if len(found):
                    yield found

    async def _holding(self, part: Part, filter: Filter, places: RowNumbers) -> RowNumbers:
        """Ask the filter of the records in those places, at the query's pace."""
        found, start = [], 0
        while start < len(places):
            began = time.monotonic()
            end = start + self._pace.records
            found.append(part.holding(filter, places[start:end]))
            start = end
            seconds = time.monotonic() - began
            self._pace.note(seconds)
            self.work(seconds)
            await asyncio.sleep(0)
        return np.concatenate(found)

    def _written(self, part: Part, places: RowNumbers, bodies: list[bytes]) -> list[bytes]:
        """The records as they go on the wire, counted."""
        captured, options = part.captured, self._selection.options
        if options.select is not None:
            bodies = [options.select.apply(body) for body in bodies]
        keys, updated_at = [captured.keys[at] for at in places.tolist()], captured.places(places)
        known = [place for place in updated_at if place is not None]
        if options.no_sowkey or options.timestamp or options.intrinsics or len(known) < len(updated_at):
            times = captured.times[places].tolist()
            log, accounts = part.log.encode(), self._accounts(part, places)
            written = [
                sow_record(
                    None if options.no_sowkey else key,
                    None if at is None else b"%b:%b" % (log, at),
                    body,
                    time if options.timestamp and time != UNKNOWN_TIME else None,
                    account,
                )
                for key, at, body, time, account in zip(
                    keys, updated_at, bodies, times, accounts, strict=True
                )
            ]
        else:
            written = sow_records(part.log, zip(keys, known, bodies, strict=True))
        part.note_reading(places)
        self.result.count(len(written), sum(map(len, written)), captured.hash(places))
        self._limits.check(self.result)
        return written

    def _accounts(self, part: Part, places: RowNumbers) -> Iterable[bytes | None]:
        """The intrinsics of documents as JSON; None for each where they are not asked for."""
        if not self._selection.options.intrinsics:
            return [None] * len(places)
        known = (part.captured.rare_of(at).known for at in places.tolist())
        return (None if one is None else intrinsics_json(part.name, one, deleted=False) for one in known)

    def work(self, seconds: float) -> None:
        """Count time that the query has cost; raises `query too long`."""
        self._worked += seconds
        if self._worked > self._limits.seconds_max:
            raise SowlineError(
                "query too long",
                f"expected at most {self._limits.seconds_max:g} seconds of work; make the filter narrower",
            )


def _portions(part: Part, places: RowNumbers) -> Iterator[tuple[RowNumbers, list[bytes]]]:
    """Yield the places in turn, so many as are to be written at once, and the bodies there."""
    held = part.captured.bodies
    for start in range(0, len(places), CHUNK):
        some = places[start : start + CHUNK]
        bodies = [held[at] for at in some.tolist()]
        if sum(map(len, bodies)) <= PORTION_BYTES:
            yield some, bodies
            continue
        ends = np.cumsum(list(map(len, bodies))) // PORTION_BYTES
        for portion in np.split(some, np.flatnonzero(np.diff(ends)) + 1):
            yield portion, [held[at] for at in portion.tolist()]
