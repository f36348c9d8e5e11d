"""Pages: windows on the sorted records of a topic, live."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import orjson

from sowline.changes.change import Change
from sowline.language.expressions.order import SortKey
from sowline.serving.cooperative import in_turns
from sowline.serving.sorting import in_sorting_thread, sorted_in_turns
from sowline.serving.window_memory import WindowMemory
from sowline.subscriptions.engine.page import ENTRY_BYTES, Event, Page, SortedSet, deliveries
from sowline.subscriptions.engine.prefix import SortedPrefix
from sowline.subscriptions.engine.shown import Due, ShownRecord, no_longer_shown
from sowline.subscriptions.engine.subscription import PUBLISH, ChangeView, Delivery
from sowline_query_service.index.rows import RowNumbers
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.query.grouping import CHECKED
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.topics.topic_state import TopicState


async def sorted_set(keyed: list[tuple[SortKey, ShownRecord]]) -> SortedSet[ShownRecord]:
    """Return a sorted set of these records; other tasks run in between."""
    in_order = await sorted_in_turns(keyed)
    return await in_sorting_thread(len(keyed), SortedSet, in_order)


class Refills(Protocol):
    """Finds the first records of a page's order."""

    @property
    def margin(self) -> int:
        """The number of records to hold after the last page, at first."""

    def begun(self, count: int) -> AbstractAsyncContextManager[Query]:
        """Wait for a turn, and return a query of the first `count` records, at the instant at which this returns."""


class Paged(LiveWindow):
    """A window on a sorted set, with a page for each viewer."""

    def __init__(self, topic: TopicState, selection: Selection, memory: WindowMemory, *more: int) -> None:
        super().__init__(topic, selection, memory, *more)
        self._order = selection.order
        self._set: SortedSet[ShownRecord] = SortedSet()

    @property
    def nbytes(self) -> int:
        """The estimated memory of the sorted set, in bytes."""
        return self._set.nbytes

    def _drop(self) -> None:
        self._set = SortedSet()

    def add(self, viewer: Viewer) -> None:
        """Make a viewer live, and open its window."""
        # A window counts its users. Opened twice for a viewer and closed once, it would be computed for every change
        # as long as the window is open.
        if viewer not in self._viewers:
            self._set.open(viewer.page)
        super().add(viewer)

    def remove(self, viewer: Viewer) -> None:
        """End live delivery to a viewer, and close its window."""
        if viewer in self._viewers:
            self._set.close(viewer.page)
        super().remove(viewer)

    def rank_of(self, sow_key: bytes) -> int | None:
        """Return the number of records before one in the order; None if it is not in the sorted set."""
        return self._set.rank_of(sow_key)

    def shown_to(self, viewer: Viewer) -> dict[bytes, ShownRecord]:
        """Return the records in the viewer's window."""
        return dict(self._set.between(viewer.page.skip, viewer.page.skip + viewer.page.top))

    def _shown_if(self, viewer: Viewer, were: dict[bytes, ShownRecord | None]) -> dict[bytes, ShownRecord]:
        """Return the records in the viewer's window if these records were as given; None means absent."""
        end = viewer.page.skip + viewer.page.top
        # Each of these records moves the window's end by at most one. With as many more records, the window is still
        # full after they are taken out (test_a_client_that_comes_back_is_sent_the_difference).
        near = [(key, of) for key, of in self._set.between(0, end + len(were)) if key not in were]
        near += [(key, of) for key, of in were.items() if of is not None]
        near.sort(key=lambda entry: self._key(entry[0], entry[1].body))
        return dict(near[viewer.page.skip : end])

    def _key(self, key: bytes, body: bytes) -> SortKey:
        return self._order.key(orjson.loads(body) if self._order.terms else {}, key)


class PageWindow(Paged):
    """Pages of the records that match. It holds the first of them, and finds more by a query when few are left."""

    _set: SortedPrefix[ShownRecord]

    def __init__(
        self, topic: TopicState, selection: Selection, memory: WindowMemory, refills: Refills
    ) -> None:
        super().__init__(topic, selection, memory)
        self._refills = refills
        self._margin = refills.margin
        """The number of records to hold after the last page."""
        self._kept: Counter[int] = Counter()
        """The numbers of records that are kept in reach, besides those of live pages."""
        self._set = SortedPrefix()
        self._loaded: SortedPrefix[ShownRecord] = SortedPrefix()

    @property
    def matches(self) -> int:
        """The number of records that match."""
        return self._set.matches

    def _drop(self) -> None:
        self._set = self._loaded = SortedPrefix()

    # the records that it holds

    async def _load(self, query: Query) -> None:
        keyed: list[tuple[SortKey, ShownRecord]] = []
        async for topic_slice, indices in query.found():
            for start in range(0, len(indices), CHECKED):
                some = indices[start : start + CHECKED]
                keyed += await in_turns(self._keyed(topic_slice, some), query.work)
                self.bytes.note(self.nbytes + len(keyed) * ENTRY_BYTES)
        in_order = await sorted_in_turns(keyed)
        self._loaded = await in_sorting_thread(len(keyed), SortedPrefix, in_order, query.result.matches)

    def _keyed(self, topic_slice: TopicSlice, indices: RowNumbers) -> Iterator[tuple[SortKey, ShownRecord]]:
        captured = topic_slice.captured
        for at in indices.tolist():
            key, body = captured.keys[at], captured.bodies[at]
            era, offset, nth = captured.position(at)
            known, partition = captured.rare_of(at).known, int(captured.partitions[at])
            shown = ShownRecord(body, int(captured.times[at]), partition, (era, offset, nth), known)
            yield self._key(key, body), shown

    def _follow(self, changes: Iterable[tuple[int, ChangeView]]) -> None:
        loaded, self._loaded = self._loaded, SortedPrefix()
        for partition, seen in changes:
            self._put(loaded, partition, seen)
        # A page that has ended while the query waited for its turn was no longer reckoned with: what is held now may
        # reach further.
        if loaded.reaches(len(self._set)):
            for viewer in self._viewers:
                loaded.open(viewer.page)
            self._set = loaded
            assert {one.page for one in self._viewers} == self._set.pages, "the pages of viewers are open"

    def reaches(self, end: int) -> bool:
        """Whether it holds the first `end` records, or all if they are fewer."""
        return self._set.reaches(end)

    @asynccontextmanager
    async def reaching(self, end: int) -> AsyncIterator[None]:
        """Wait until it holds the first `end` records; keep them within the block. Raise the error of the window."""
        self._kept[end] += 1
        try:
            while not self._set.reaches(end):
                self._refill()
                assert self.filling is not None, "a page that runs short is being filled"
                await asyncio.shield(self.filling)
                if self.failed is not None:
                    raise self.failed
            yield
        finally:
            assert self._kept[end] > 0, "what is kept in reach is counted"
            self._kept -= Counter({end: 1})

    @property
    def _wanted(self) -> int:
        """The number of records that must be in reach."""
        return max(self._set.end, *self._kept, 0)

    def settle(self) -> int:
        """After a batch of changes, drop records far beyond the last page, or begin to look for more."""
        if self._is_filled and self.failed is None:
            if len(self._set) > self._wanted + 2 * self._margin:
                self._set.cut(self._wanted + self._margin)
            elif not self._set.reaches(self._wanted + self._margin // 4):
                self._run_short()
        return super().settle()

    @property
    def _is_searching(self) -> bool:
        return self.filling is not None and not self.filling.done()

    def _run_short(self) -> None:
        """Look for more records, and for twice as many after the last page."""
        # Records that leave from the front, like the oldest of a queue, use up any margin. Each query looks at all
        # that match. Because the margin doubles, all records of a queue are looked at a few times, not once a record.
        if not self._is_searching:
            assert self._margin > 0, "some records are held after the last page"
            self._margin *= 2
            self._refill()

    def _refill(self) -> None:
        """Look for the first records, unless that is being done. Pages stay live while the held records suffice."""
        if not self._is_searching:
            self.filling = asyncio.get_running_loop().create_task(self._fill_again())

    async def _fill_again(self) -> None:
        with self._failing():
            async with self._refills.begun(self._wanted + self._margin) as query:
                self._pending = []
                await self.fill(query)

    # its changes

    def _take(self, partition: int, seen: ChangeView) -> list[tuple[Viewer, Due]]:
        if self._viewers and not self._set.reaches(self._set.end + 1):
            # If the change takes a record away, the one that moves up into the page is not known. The client holds
            # the page before the change, and is sent the difference when more records are found
            # (test_a_page_that_runs_short_goes_on).
            for viewer in [one for one in self._viewers if not self._set.reaches(one.page.end + 1)]:
                self.fall_behind(viewer, self.topic.positions | {partition: seen.after})
            self._run_short()
        events = self._put(self._set, partition, seen)
        if not events:
            return []
        return [
            (viewer, deliveries(events[viewer.page], seen.change, viewer.oof))
            for viewer in self._viewers
            if viewer.page in events
        ]

    def _put(
        self, records: SortedPrefix[ShownRecord], partition: int, seen: ChangeView
    ) -> dict[Page, list[Event[ShownRecord]]]:
        """Apply a change to the records; return what it means to the pages that are open."""
        change, now = seen.change, None
        if seen.now is not None and seen.matches_now(self._filter):
            assert change.body is not None, "what matches now is there"
            shown = ShownRecord(change.body, change.time, partition, change.position, change.known)
            now = self._order.key(seen.now, change.sow_key), shown
        return records.change(change.sow_key, now, lambda: seen.matched_before(self._filter))

    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, ShownRecord]:
        return self._shown_if(viewer, {key: self._before(change) for key, change in undone.items()})

    def _before(self, change: Change) -> ShownRecord | None:
        """Return the record before the change; None if it did not match."""
        if change.previous is None or not ChangeView(change, self.topic.metadata).matched_before(
            self._filter
        ):
            return None
        return ShownRecord(change.previous, 0, known=change.known_before)

    def _relayed(self, key: bytes, delivery: Delivery) -> bytes:
        shown = self._set.held(key) if delivery.command == PUBLISH else None
        return super()._relayed(key, delivery) if shown is None else shown.relayed()

    def _left(self, key: bytes, body: bytes) -> Delivery:
        return no_longer_shown(body, self.topic.rows.body(key), self.topic.rows.known(key))
