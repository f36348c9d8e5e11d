"""Pages: windows on the sorted records of a topic, live."""

import asyncio
from collections.abc import Iterator

import orjson

from fanout.page import SortedSet, deliveries
from fanout.subscription import MATCH, OOF, Delivery, Sighting
from query_service.ordering import in_thread_if_large
from query_service.part import Part
from query_service.query import CHUNK, Query, Selection
from query_service.rows import RowNumbers
from query_service.state import TopicState
from query_service.views import Due, Shown, View, Viewer
from sowline.change import DELETED, Change
from sowline.order import SortKey


class PageView(View):
    """A sorted set of the records that match, with a window for each page."""

    def __init__(self, topic: TopicState, selection: Selection) -> None:
        super().__init__(topic, selection)
        self._order = selection.order
        self._set: SortedSet[Shown] = SortedSet()

    def add(self, viewer: Viewer) -> None:
        """Open the viewer's window."""
        if viewer not in self._viewers:
            self._set.open(viewer.window)
        super().add(viewer)

    def remove(self, viewer: Viewer) -> None:
        """Close the viewer's window."""
        if viewer in self._viewers:
            self._set.close(viewer.window)
        super().remove(viewer)

    @property
    def matches(self) -> int:
        """How many records match."""
        return len(self._set)

    async def _load(self, query: Query) -> None:
        keyed: list[tuple[SortKey, Shown]] = []
        async for part, places in query.matches():
            for start in range(0, len(places), CHUNK):
                keyed += self._keyed(part, places[start : start + CHUNK])
                await asyncio.sleep(0)
        self._set = await in_thread_if_large(SortedSet, len(keyed), keyed)

    def _keyed(self, part: Part, places: RowNumbers) -> Iterator[tuple[SortKey, Shown]]:
        captured = part.captured
        for at in places.tolist():
            key, body = captured.keys[at], captured.bodies[at]
            document = orjson.loads(body) if self._order.terms else {}
            place = int(captured.partitions[at]), captured.position(at)
            yield self._order.key(document, key), Shown(body, int(captured.times[at]), *place)

    def _take(self, partition: int, seen: Sighting) -> list[tuple[Viewer, Due]]:
        change = seen.change
        if seen.now is not None and seen.matches_now(self._filter):
            assert change.body is not None
            shown = Shown(change.body, change.time, partition, change.position)
            events = self._set.put(self._order.key(seen.now, change.sow_key), shown)
        else:
            events = self._set.remove(change.sow_key)
        if not events:
            return []
        return [
            (viewer, deliveries(events[viewer.window], change, viewer.options.oof))
            for viewer in self._viewers
            if viewer.window in events
        ]

    def shown_to(self, viewer: Viewer) -> dict[bytes, Shown]:
        """The records of its window."""
        return dict(self._set.between(viewer.window.skip, viewer.window.skip + viewer.window.top))

    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, Shown]:
        end = viewer.window.skip + viewer.window.top
        near = self._set.between(0, end + len(undone))
        records = [(key, shown) for key, shown in near if key not in undone]
        records += [
            (key, Shown(change.previous, 0))
            for key, change in undone.items()
            if change.previous is not None and Sighting(change, self.topic.about).matched_before(self._filter)
        ]
        records.sort(key=lambda record: self._order.key(orjson.loads(record[1].body), record[0]))
        return dict(records[viewer.window.skip : end])

    def _left(self, key: bytes, body: bytes) -> Delivery:
        present = self.topic.rows.body(key)
        return Delivery(OOF, body, DELETED) if present is None else Delivery(OOF, present, MATCH)
