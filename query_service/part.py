"""The part of a query that lies in one topic: its records of the query's instant, and what is known of them."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from query_service.index.ranks import Sorting
from query_service.roads import Road
from query_service.rows import Captured, RowNumbers, Rows
from sowline.filter import Filter
from sowline.filter.about import About
from sowline.filter.printer import text_of
from sowline.filter.tree import conjunction

if TYPE_CHECKING:
    from query_service.query import Selection
    from query_service.state import TopicState


@dataclass(slots=True, eq=False)
class Part:
    """Records of one topic at one instant. Places are their numbers in `captured`."""

    name: str
    log: str
    about: About
    rows: Rows
    """The topic's; they go on, this part stays."""
    road: Road
    records: int
    """How many records there were to compare."""
    matches: int
    """How many of them are known to match."""
    captured: Captured
    decided: RowNumbers
    """The places of records that match: of those known to match all, or the first that are asked for."""
    checks: list[tuple[RowNumbers, Filter]]
    """Places of further records, and the filter that has to be asked of them."""
    ranks: list[NDArray[np.float64]] | None
    """By place: for each term of the order a number to sort by; None where bodies have to be read for that."""
    is_past: bool = False
    """Whether the instant is a past one: then nobody has read the records as they are."""

    @classmethod
    def of(cls, topic: "TopicState", selection: "Selection", without: RowNumbers | None = None) -> "Part":
        """Take the records in question as they are at this instant, but for those in the rows `without`."""
        road = topic.indexes.road(selection.filter, selection.sow_keys)
        if without is not None:
            road = road.without(without, topic.rows.end)
        count = len(road.decided) + sum(len(asked) for asked, _ in road.checks)
        sorting = topic.indexes.sorting(selection.order, count)
        decided = _first(road, sorting, selection.end)
        rows = np.sort(np.concatenate([decided, *(asked for asked, _ in road.checks)]))
        return cls(
            name=topic.definition.name,
            log=topic.definition.log,
            about=topic.about,
            rows=topic.rows,
            road=road,
            records=len(topic.rows.found(selection.sow_keys)) if selection.sow_keys else len(topic.rows),
            matches=len(road.decided),
            captured=topic.rows.capture(rows),
            decided=_places(rows, decided),
            checks=[(_places(rows, asked), filter) for asked, filter in road.checks],
            ranks=sorting.of(rows) if sorting is not None and sorting.can_tell(rows) else None,
        )

    def holding(self, filter: Filter, places: RowNumbers) -> RowNumbers:
        """Ask the filter of the records in those places; return the places of those that match."""
        bodies, loads = self.captured.bodies, orjson.loads
        if filter.needs_about:
            matches = filter.matches_about
            kept = [at for at in places.tolist() if matches(loads(bodies[at]), self.facts(at))]
        else:
            test = filter.matches
            kept = [at for at in places.tolist() if test(loads(bodies[at]))]
        return np.array(kept, np.int64)

    def facts(self, at: int) -> About:
        """What a filter may ask of the record itself, beside its body."""
        return self.captured.facts(at, self.about)

    def note_reading(self, places: RowNumbers) -> None:
        """Note that the records are read now."""
        if not self.is_past:
            assert self.captured.digests is not None
            self.rows.read(self.captured.rows[places], self.captured.digests[places], time.time())

    def explained(self, *, counts: bool = True) -> dict[str, Any]:
        """Say which road was taken: its index, what that answered, and how many records were read for the rest."""
        road = self.road
        indexed = text_of(conjunction(road.indexed)) if road.indexed else ""
        said: dict[str, Any] = {
            "topic": self.name,
            "road": road.name,
            "index": road.index,
            "indexed": indexed,
        }
        if counts:
            asked = sum(len(places) for places, _ in self.checks)
            said |= {"records": self.records, "candidates": self.matches + asked, "read": asked}
        return {name: value for name, value in (said | {"note": road.note}).items() if value != ""}


def _first(road: Road, sorting: Sorting | None, end: int | None) -> RowNumbers:
    """Of the rows known to match, those among which the first are; where more may match, or it can't be told, all."""
    rows = road.decided
    if end is None or road.checks:
        return rows
    if end == 0:
        return rows[:0]
    return sorting.first(rows, end) if sorting is not None and sorting.can_tell(rows) else rows


def _places(rows: RowNumbers, some: RowNumbers) -> RowNumbers:
    if len(some) == len(rows):
        return np.arange(len(rows), dtype=np.int64)
    return np.searchsorted(rows, some).astype(np.int64)
