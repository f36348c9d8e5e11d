"""The part of a query that lies in one topic: its records of the query's instant, and what is known of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from query_service.roads import Road
from query_service.rows import Captured, RowNumbers
from sowline.filter import Filter
from sowline.filter.about import About
from sowline.order import Order

if TYPE_CHECKING:
    from query_service.state import TopicState


@dataclass(slots=True, eq=False)
class Part:
    """Records of one topic at one instant. Places are their numbers in `captured`."""

    name: str
    log: str
    about: About
    road: Road
    records: int
    """How many records there were to compare."""
    captured: Captured
    decided: RowNumbers
    """The places of records that match."""
    checks: list[tuple[RowNumbers, Filter]]
    """Places of further records, and the filter that has to be asked of them."""
    ranks: list[NDArray[np.float64]] | None
    """By place: for each term of the order a number to sort by; None where bodies have to be read for that."""

    @classmethod
    def of(cls, topic: "TopicState", filter: Filter, sow_keys: tuple[bytes, ...], order: Order) -> "Part":
        """Take the records in question as they are at this instant."""
        road = topic.indexes.road(filter, sow_keys)
        rows = np.sort(road.rows)
        return cls(
            name=topic.definition.name,
            log=topic.definition.log,
            about=topic.about,
            road=road,
            records=len(topic.rows.found(sow_keys)) if sow_keys else len(topic.rows),
            captured=topic.rows.capture(rows),
            decided=_places(rows, road.decided),
            checks=[(_places(rows, asked), filter) for asked, filter in road.checks],
            ranks=topic.indexes.ranks(order, rows),
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
        captured = self.captured
        read_at = float(captured.read_at[at])
        return self.about._replace(
            sow_key=captured.keys[at].decode(),
            size=len(captured.bodies[at]),
            updated=int(captured.times[at]) / 1000,
            correlation=captured.correlations.get(int(captured.rows[at])),
            last_read=read_at or None,
        )

    def explained(self) -> dict[str, Any]:
        """Say which road was taken: its index, what that answered, and how many records were read for the rest."""
        road = self.road
        said = {"topic": self.name, "road": road.name, "index": road.index, "indexed": road.indexed}
        counts = {"records": self.records, "candidates": len(self.captured)}
        read = {"read": sum(len(places) for places, _ in self.checks)}
        return {
            name: value for name, value in (said | counts | read | {"note": road.note}).items() if value != ""
        }


def _places(rows: RowNumbers, some: RowNumbers) -> RowNumbers:
    if len(some) == len(rows):
        return np.arange(len(rows), dtype=np.int64)
    return np.searchsorted(rows, some).astype(np.int64)
