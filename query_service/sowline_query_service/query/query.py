"""A query: the records that match at one instant, in the requested order and number."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from sowline.errors import SowlineError
from sowline.language.emodb.writes import intrinsics_json
from sowline.language.filter import Filter
from sowline.model.bookmark import Positions, format_bookmark
from sowline.serving.cooperative import TURN_RECORDS_MAX, StepSize, wait_next_turn
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.result import QueryLimits, Result
from sowline.wire.server_message import sow_record, sow_records, with_ranks
from sowline_query_service.index.rows import UNKNOWN_TIME, RowNumbers
from sowline_query_service.query.ordering import Found, in_order, sampled, within
from sowline_query_service.query.past import as_they_were, slice_at
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.query.unknown_fields import warnings_of
from sowline_query_service.topics.topic_state import Past, TopicState, lag_seconds

RangeOf = Callable[[Sequence[Sequence[Any]]], Awaitable[tuple[int, int]]]
"""Takes, for each sample, its topic, its SOW key and its sort values; returns the range of the records to send."""

PORTION_BYTES = 1 << 20
"""Bytes of bodies to write at once; a single larger record is written alone."""


class Query:
    """One run over one topic or several: `begin` it once, then iterate over `records` once.

    With `at`, a time in ms since 1970, it finds the records of that time, rounded down to each topic's granularity. A
    future time means the current records. With `at`, all topics must have a history, and taking the instant may raise
    `history expired`.
    """

    def __init__(
        self, topics: Sequence[TopicState], selection: Selection, limits: QueryLimits, at: int | None = None
    ) -> None:
        self.positions: dict[str, Positions] = {}
        """The positions of the query's instant or of the past time, by log."""
        self.topic_slices: list[TopicSlice] = []
        self.result = Result()
        self._topics = topics
        self._selection = selection
        self._limits = limits
        self._at = at
        self._pasts: dict[str, Past] = {}
        """The records to restore so that the topic slices are those of the past time, by topic."""
        self._pace = StepSize()
        self._worked = 0.0
        self.range_of: RangeOf | None = None
        """Set for a deep page: it sends the samples, and waits for the range of records that the gateway fetches."""

    @property
    def bookmark(self) -> str:
        """The instant of the query."""
        return format_bookmark(self.positions)

    def begin_now(self) -> bool:
        """Take the instant now, if all indexes are ready; return whether it was taken."""
        if not self.topic_slices and self.is_prepared:
            began = time.monotonic()
            # Nothing is awaited in here: the positions and the records of all topics are of one instant
            # (test_a_query_is_of_one_instant).
            self.positions = {topic.definition.log: topic.positions for topic in self._topics}
            self.result.lag_seconds = lag_seconds(self._topics)
            if self._at is not None:
                self._take_past(self._at)
                # The past does not move on, so it lags behind nothing.
                self.result.lag_seconds = None
            self.topic_slices = [self._slice_of(topic) for topic in self._topics]
            self.result.topic_matches = self._compared()
            self.result.warnings = warnings_of(self._topics, self._selection)
            # An index of a mistyped field would take time at each change (test_a_mistyped_field_leaves_no_index).
            for topic in self._topics if self.result.warnings else ():
                topic.indexes.drop_mistyped(self._selection.filter, self._selection.order)
            self.work(time.monotonic() - began)
        return bool(self.topic_slices)

    def _take_past(self, at: int) -> None:
        self._pasts = {topic.definition.name: topic.past(at) for topic in self._topics}
        self.positions |= {
            topic.definition.log: self._pasts[topic.definition.name].positions for topic in self._topics
        }

    def _slice_of(self, topic: TopicState) -> TopicSlice:
        past = self._pasts.get(topic.definition.name)
        return (
            TopicSlice.of(topic, self._selection) if past is None else slice_at(topic, self._selection, past)
        )

    async def _settle(self) -> None:
        """Turn the topic slices into those of the past time, unless that was done before."""
        while self._pasts:
            name, past = self._pasts.popitem()
            (at,) = (at for at, topic_slice in enumerate(self.topic_slices) if topic_slice.name == name)
            self.topic_slices[at : at + 1] = await as_they_were(
                self.topic_slices[at], past, self._selection.filter, self.work
            )
        self.result.topic_matches = self._compared()

    def _compared(self) -> int:
        """Return the number of records that the query compares."""
        # If the user may not see all records, report the number of requested SOW keys instead. The number of records
        # found would reveal which hidden ones exist.
        keys = self._selection.sow_keys
        return (
            len(keys)
            if keys and self._selection.hides
            else sum(topic_slice.records for topic_slice in self.topic_slices)
        )

    @property
    def is_prepared(self) -> bool:
        """Whether all indexes that the query needs are ready."""
        select = self._selection
        if select.sow_keys:
            return True
        return all(topic.indexes.at_hand(select.filter, select.order) for topic in self._topics)

    async def prepare(self) -> None:
        """Make the missing indexes. When the last one is ready, another may have become outdated."""
        for topic in self._topics if not self.is_prepared else ():
            await topic.indexes.build(self._selection.filter, self._selection.order, self.work)

    async def wait_for_replica(self) -> None:
        """Wait until the replica has the records of the query. This takes no turn: do it before the query's turn."""

    async def begin(self) -> None:
        """Take the instant as soon as all indexes are ready; it is the instant at which this returns."""
        if not self.topic_slices:
            # Many may begin together: when a client leaves, or makes way for others. Each captures all records of its
            # topic, and if they did so in one turn of the loop, every other task would wait for all of them.
            await wait_next_turn()
        while not self.begin_now():
            await self.prepare()

    @property
    def _is_merged(self) -> bool:
        """Whether a gateway merges the records with those of other query services, in their order."""
        return self._selection.merges and self._selection.is_ordered

    async def records(self) -> AsyncIterator[RecordPortion]:
        """Yield records in the form that is sent, in portions of one topic; other tasks run in between.

        Raise `result too large` or `query too long` if a limit is exceeded.
        """
        rank = self._selection.skip_n
        async for topic_slice, indices in self.found():
            for portion, bodies in _portions(topic_slice, indices):
                began = time.monotonic()
                ordering = self._ordering(topic_slice, portion, bodies) if self._is_merged else None
                written = self._written(topic_slice, portion, bodies)
                if self._selection.options.rank:
                    written = with_ranks(written, rank)
                    rank += len(written)
                self.work(time.monotonic() - began)
                yield RecordPortion(topic_slice.name, written, ordering)
                await wait_next_turn()

    async def explain(self) -> list[dict[str, Any]]:
        """Run the query without returning its records; report the access path in each topic, and the counts."""
        await self.begin()
        await self._settle()
        explained = []
        for topic_slice in self.topic_slices:
            before = self.result.matches
            async for _ in self.matches_in(topic_slice):
                pass
            matches = self.result.matches - before
            found = topic_slice.explained(counts=not self._selection.hides)
            if self._selection.hides and self._selection.readable is not None:
                # The filter of an entitlement may use fields that the user may not read.
                found = {name: found[name] for name in ("topic", "access_path")}
            explained.append(found | {"matches": matches})
        return explained

    async def matches(self) -> AsyncIterator[tuple[TopicSlice, RowNumbers]]:
        """Yield the records that match as indices in their topic slices, in no order."""
        await self._settle()
        for topic_slice in self.topic_slices:
            async for indices in self.matches_in(topic_slice):
                yield topic_slice, indices

    async def found(self) -> AsyncIterator[tuple[TopicSlice, RowNumbers]]:
        """Yield the requested records as indices in their topic slices, in the requested order if there is one."""
        async for topic_slice, indices in self._ordered() if self._selection.is_ordered else self.matches():
            yield topic_slice, indices

    async def _ordered(self) -> AsyncIterator[tuple[TopicSlice, RowNumbers]]:
        await self._settle()
        found = []
        for topic_slice in self.topic_slices:
            chunks = [indices async for indices in self.matches_in(topic_slice)]
            found.append((topic_slice, np.concatenate([np.empty(0, np.int64), *chunks])))
        if len(found) > 1:
            found = [run for one in found for run in await self._foremost(*one)]
        for run in await self._page(found):
            yield run

    async def _page(self, found: Found) -> Found:
        """Return the requested records in their order, or those of a deep page that the gateway fetches."""
        select = self._selection
        if self.range_of is None:
            return await in_order(found, select.order, select.skip_n, select.end)
        runs = await in_order(found, select.order, 0, select.end)
        return within(runs, *await self.range_of(await self._samples(runs)))

    async def _samples(self, runs: Found) -> list[list[Any]]:
        """Return the topic and the ordering of each sample of the skipped records; other tasks run in between."""
        select, samples = self._selection, list[list[Any]]()
        for topic_slice, indices in sampled(within(runs, 0, select.skip_n), select.sample_n):
            for portion, bodies in _portions(topic_slice, indices):
                began = time.monotonic()
                ordering = self._ordering(topic_slice, portion, bodies)
                samples += ([topic_slice.name, *one] for one in ordering)
                self.work(time.monotonic() - began)
                await wait_next_turn()
        return samples

    async def _foremost(self, topic_slice: TopicSlice, indices: RowNumbers) -> Found:
        """Leave out records of one topic slice whose ranks show that they are not among the first of all."""
        end = self._selection.end
        if topic_slice.ranks is None or end is None or len(indices) <= end:
            return [(topic_slice, indices)] if len(indices) else []
        return await in_order([(topic_slice, indices)], self._selection.order, 0, end)

    async def matches_in(self, topic_slice: TopicSlice) -> AsyncIterator[RowNumbers]:
        """Yield the indices of the records that match."""
        self.result.matches += topic_slice.matches
        if len(topic_slice.decided):
            yield topic_slice.decided
        for indices, filter in topic_slice.checks:
            for start in range(0, len(indices), TURN_RECORDS_MAX):
                found = await self._holding(topic_slice, filter, indices[start : start + TURN_RECORDS_MAX])
                self.result.matches += len(found)
                if len(found):
                    yield found

    async def _holding(self, topic_slice: TopicSlice, filter: Filter, indices: RowNumbers) -> RowNumbers:
        """Return the indices of records that match the filter; other tasks run in between."""
        found, start = [], 0
        while start < len(indices):
            began = time.monotonic()
            end = start + self._pace.records
            found.append(topic_slice.holding(filter, indices[start:end]))
            start = end
            seconds = time.monotonic() - began
            self._pace.note(seconds)
            self.work(seconds)
            await wait_next_turn()
        return np.concatenate(found)

    def _ordering(
        self, topic_slice: TopicSlice, indices: RowNumbers, bodies: Sequence[bytes]
    ) -> list[list[Any]]:
        """Return the SOW keys and the values of the order, by which a gateway merges the records."""
        order = self._selection.order
        keys = [topic_slice.captured.keys[at].decode() for at in indices.tolist()]
        if not order.terms:
            return [[key] for key in keys]
        return [[key, *order.values(orjson.loads(body))] for key, body in zip(keys, bodies, strict=True)]

    def _written(self, topic_slice: TopicSlice, indices: RowNumbers, bodies: list[bytes]) -> list[bytes]:
        """Return the records in the form that is sent, and count them."""
        captured, options = topic_slice.captured, self._selection.options
        if options.select is not None:
            bodies = [options.select.apply(body) for body in bodies]
        keys, updated_at = [captured.keys[at] for at in indices.tolist()], captured.locations(indices)
        known = [location for location in updated_at if location is not None]
        if options.no_sowkey or options.timestamp or options.intrinsics or len(known) < len(updated_at):
            times = captured.times[indices].tolist()
            log, intrinsics = topic_slice.log.encode(), self._intrinsics(topic_slice, indices)
            written = [
                sow_record(
                    None if options.no_sowkey else key,
                    None if at is None else b"%b:%b" % (log, at),
                    body,
                    time if options.timestamp and time != UNKNOWN_TIME else None,
                    document,
                )
                for key, at, body, time, document in zip(
                    keys, updated_at, bodies, times, intrinsics, strict=True
                )
            ]
        else:
            written = sow_records(topic_slice.log, keys, known, bodies)
        topic_slice.note_reading(indices)
        self.result.count(len(written), sum(map(len, written)), captured.hash(indices))
        self._limits.check(self.result)
        return written

    def _intrinsics(self, topic_slice: TopicSlice, indices: RowNumbers) -> Iterable[bytes | None]:
        """Return the intrinsics of each document as JSON; None for each if they are not requested."""
        if not self._selection.options.intrinsics:
            return [None] * len(indices)
        known = (topic_slice.captured.rare_of(at).known for at in indices.tolist())
        return (
            None if one is None else intrinsics_json(topic_slice.name, one, deleted=False) for one in known
        )

    def work(self, seconds: float) -> None:
        """Count the time that the query has taken; raise `query too long`."""
        self._worked += seconds
        if self._worked > self._limits.seconds_max:
            raise SowlineError(
                "query too long",
                f"expected at most {self._limits.seconds_max:g} seconds of work, got more; narrow the filter",
            )


def _portions(topic_slice: TopicSlice, indices: RowNumbers) -> Iterator[tuple[RowNumbers, list[bytes]]]:
    """Yield the indices in portions to write at once, each with its bodies."""
    held = topic_slice.captured.bodies
    for start in range(0, len(indices), TURN_RECORDS_MAX):
        some = indices[start : start + TURN_RECORDS_MAX]
        bodies = [held[at] for at in some.tolist()]
        if sum(map(len, bodies)) <= PORTION_BYTES:
            yield some, bodies
            continue
        ends = np.cumsum(list(map(len, bodies))) // PORTION_BYTES
        for portion in np.split(some, np.flatnonzero(np.diff(ends)) + 1):
            yield portion, [held[at] for at in portion.tolist()]
