"""Replacing a subscription in place: what its client holds, and what turns that into what it asks for now."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from msgspec import structs

from fanout.subscription import MATCH, OOF, Delivery, Sighting, entitled, is_told_before, left
from query_service.asking import Places, live_filter
from query_service.catch_up import changes_since
from query_service.part import Part
from query_service.query import Limits, Query, Selection
from query_service.roads import NO_ROWS
from query_service.rows import RowNumbers
from query_service.state import TopicState
from sowline.bookmark import format_bookmark
from sowline.change import Change
from sowline.kafka import KafkaConfig


@dataclass(frozen=True, slots=True)
class Held:
    """What the client of a subscription holds: the records that match, as of a place in each log.

    Unless `is_complete` it was sent those of them only that changed since it began.
    """

    topics: list[TopicState]
    selection: Selection
    places: Places
    is_complete: bool

    @property
    def is_certain(self) -> bool:
        """Whether it can be told: not of a snapshot with a limit, nor where a filter depends on the moment."""
        return self.selection.top_n is None and is_told_before(self.selection.filter)


class Leaving(NamedTuple):
    """A record that the client holds, and does not ask for any more."""

    topic: str
    sow_key: bytes
    delivery: Delivery


class Replacement(Query):
    """The records of one instant that a client asks for and does not hold; `leaving` are the others.

    `evaluate` it, then use it as any other query.
    """

    def __init__(
        self, held: Held, topics: list[TopicState], selection: Selection, limits: Limits, kafka: KafkaConfig
    ) -> None:
        super().__init__(topics, selection, limits)
        self._held = held
        self._before = Query(
            held.topics, Selection(held.selection.filter, sow_keys=held.selection.sow_keys), limits
        )
        self._kafka = kafka
        self._undo_max = limits.undo_max
        self._matching: dict[str, RowNumbers] = {}
        self._held_rows: dict[str, RowNumbers] = {}
        self.leaving: list[Leaving] = []

    @property
    def bookmark_before(self) -> str:
        """The place where the client stands."""
        return format_bookmark(self._held.places)

    async def evaluate(self) -> None:
        """Take the instant, and find out what differs at it.

        Raises `BookmarkExpired` where it can't be told what the client holds.
        """
        changes = await self._begin_together()
        changed = {
            topic.definition.name: _Changed.of(topic, found)
            for topic, found in zip(self._held.topics, changes, strict=True)
        }
        for part in self.parts:
            self._matching[part.name] = await _rows(super()._matches(part), part)
        for part in self._before.parts:
            rows = await _rows(self._before._matches(part), part)
            held = np.setdiff1d(rows, changed[part.name].rows)
            self._held_rows[part.name] = held
            self._unchanged_leave(part, np.setdiff1d(held, self._matching.get(part.name, NO_ROWS)))
        for topic in self._held.topics:
            self._changed_leave(topic, changed[topic.definition.name])

    async def _begin_together(self) -> list[list[tuple[int, Change]]]:
        """Take one instant for both queries; return what has changed since the place where the client stands."""
        held = self._held
        places = [(topic, held.places[topic.definition.log]) for topic in held.topics]
        while True:
            await self.prepare()
            await self._before.prepare()
            changes = await changes_since(self._kafka, places, self._undo_max)
            if self.is_prepared and self._before.is_prepared:
                self.begin_now()
                self._before.begin_now()
                return changes

    def _unchanged_leave(self, part: Part, rows: RowNumbers) -> None:
        captured = part.captured
        for at in np.searchsorted(captured.rows, rows).tolist():
            body = captured.bodies[at]
            said = Delivery(OOF, body, MATCH, body, captured.rare_of(at).known)
            self.leaving.append(Leaving(part.name, captured.keys[at], said))

    def _changed_leave(self, topic: TopicState, changed: "_Changed") -> None:
        before = live_filter(self._held.selection)
        now = live_filter(self._selection) if topic in self._topics else None
        for key, first in changed.first.items():
            last = changed.last[key]
            if not Sighting(first, topic.about).matched_before(before):
                continue
            if now is None or not Sighting(last, topic.about).matches_now(now):
                said = left(structs.replace(last, previous=first.previous))
                if (entitlement := self._held.selection.entitled.get(topic.definition.name)) is not None:
                    said = entitled(said, entitlement)
                self.leaving.append(Leaving(topic.definition.name, key, said))

    def _part(self, topic: TopicState) -> Part:
        return Part.of(topic, replace(self._selection, top_n=None, skip_n=0))

    async def _matches(self, part: Part) -> AsyncIterator[RowNumbers]:
        rows = self._matching[part.name]
        if self._held.selection.options.shows_like(self._selection.options):
            rows = np.setdiff1d(rows, self._held_rows.get(part.name, NO_ROWS))
        yield np.searchsorted(part.captured.rows, rows)


@dataclass(frozen=True, slots=True)
class _Changed:
    """The records of a topic that have changed: their first change and their last one, and where they are now."""

    first: dict[bytes, Change]
    last: dict[bytes, Change]
    rows: RowNumbers

    @classmethod
    def of(cls, topic: TopicState, changes: list[tuple[int, Change]]) -> "_Changed":
        """Take it at the instant of the last change."""
        first: dict[bytes, Change] = {}
        for _, change in changes:
            first.setdefault(change.sow_key, change)
        last = {change.sow_key: change for _, change in changes}
        return cls(first, last, np.sort(topic.rows.found(list(first))))


async def _rows(places: AsyncIterator[RowNumbers], part: Part) -> RowNumbers:
    """The rows, in order, of all these places."""
    found = [some async for some in places]
    return np.sort(part.captured.rows[np.concatenate(found)]) if found else NO_ROWS
