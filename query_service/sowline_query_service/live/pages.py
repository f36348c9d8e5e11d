"""Pages: windows on the sorted records of a topic, live."""

from collections.abc import Iterator

import orjson

from sowline.changes.change import Change
from sowline.language.expressions.order import SortKey
from sowline.serving.cooperative import in_turns
from sowline.serving.sorting import in_sorting_thread, sorted_in_turns
from sowline.serving.window_memory import WindowMemory
from sowline.subscriptions.engine.page import ENTRY_BYTES, SortedSet, deliveries
from sowline.subscriptions.engine.shown import Due, ShownRecord, no_longer_shown
from sowline.subscriptions.engine.subscription import PUBLISH, ChangeView, Delivery
from sowline_query_service.index.rows import RowNumbers
from sowline_query_service.live.window import LiveWindow, Viewer
from sowline_query_service.query.grouping import CHECKED
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.topics.topic_state import TopicState


async def sorted_set(keyed: list[tuple[SortKey, ShownRecord]]) -> SortedSet[ShownRecord]:
    """Return a sorted set of these records; other tasks run in between."""
    in_order = await sorted_in_turns(keyed)
    return await in_sorting_thread(len(keyed), SortedSet, in_order)


class Paged(LiveWindow):
    """A window on a sorted set, with a page for each viewer."""

    def __init__(self, topic: TopicState, selection: Selection, memory: WindowMemory, *more: int) -> None:
        super().__init__(topic, selection, memory, *more)
        self._order = selection.order
        self._set: SortedSet[ShownRecord] = SortedSet()

    def measure(self) -> int:
        """Return the estimated memory of the sorted set, in bytes."""
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

    def shown_to(self, viewer: Viewer) -> dict[bytes, ShownRecord]:
        """Return the records in the viewer's window."""
        return dict(self._set.between(viewer.page.skip, viewer.page.skip + viewer.page.top))

    def _shown_if(self, viewer: Viewer, were: dict[bytes, ShownRecord | None]) -> dict[bytes, ShownRecord]:
        """Return the records in the viewer's window if these records were as given; None means absent."""
        end = viewer.page.skip + viewer.page.top
        # Each of these records moves the window's end by at most one. With so many more records, the window is still
        # full after they are taken out (test_a_client_that_comes_back_is_sent_the_difference).
        near = [(key, of) for key, of in self._set.between(0, end + len(were)) if key not in were]
        near += [(key, of) for key, of in were.items() if of is not None]
        near.sort(key=lambda entry: self._key(entry[0], entry[1].body))
        return dict(near[viewer.page.skip : end])

    def _key(self, key: bytes, body: bytes) -> SortKey:
        return self._order.key(orjson.loads(body) if self._order.terms else {}, key)


class PageWindow(Paged):
    """A page of the records that match."""

    @property
    def matches(self) -> int:
        """The number of records that match."""
        return len(self._set)

    async def _load(self, query: Query) -> None:
        keyed: list[tuple[SortKey, ShownRecord]] = []
        async for topic_slice, indices in query.matches():
            for start in range(0, len(indices), CHECKED):
                some = indices[start : start + CHECKED]
                keyed += await in_turns(self._keyed(topic_slice, some), query.work)
                self.bytes.note(len(keyed) * ENTRY_BYTES)
        self._set = await sorted_set(keyed)

    def _keyed(self, topic_slice: TopicSlice, indices: RowNumbers) -> Iterator[tuple[SortKey, ShownRecord]]:
        captured = topic_slice.captured
        for at in indices.tolist():
            key, body = captured.keys[at], captured.bodies[at]
            era, offset, nth = captured.position(at)
            known, partition = captured.rare_of(at).known, int(captured.partitions[at])
            shown = ShownRecord(body, int(captured.times[at]), partition, (era, offset, nth), known)
            yield self._key(key, body), shown

    def _take(self, partition: int, seen: ChangeView) -> list[tuple[Viewer, Due]]:
        change = seen.change
        if seen.now is not None and seen.matches_now(self._filter):
            assert change.body is not None
            shown = ShownRecord(change.body, change.time, partition, change.position, change.known)
            events = self._set.put(self._order.key(seen.now, change.sow_key), shown)
        else:
            events = self._set.remove(change.sow_key)
        if not events:
            return []
        return [
            (viewer, deliveries(events[viewer.page], change, viewer.oof))
            for viewer in self._viewers
            if viewer.page in events
        ]

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
