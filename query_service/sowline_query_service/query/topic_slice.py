"""The part of a query in one topic: its records at the query's instant, and which of them are known to match."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sowline.language.filter import Filter
from sowline.language.filter.metadata import Metadata
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import conjunction
from sowline_query_service.index.access_path import AccessPath
from sowline_query_service.index.ranks import Sorting
from sowline_query_service.index.rows import Captured, RowNumbers, Rows
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


@dataclass(slots=True, eq=False)
class TopicSlice:
    """Records of one topic at one instant. Indices refer to `captured`."""

    name: str
    log: str
    metadata: Metadata
    rows: Rows
    """The rows of the topic, which continue to change; the captured records do not."""
    access_path: AccessPath
    records: int
    """The number of records that the query compares."""
    matches: int
    """The number of records that are known to match."""
    captured: Captured
    decided: RowNumbers
    """The indices of records that are known to match: all of them, or the first requested ones."""
    checks: list[tuple[RowNumbers, Filter]]
    """Indices of further records, each with the filter that decides about them."""
    ranks: list[NDArray[np.float64]] | None
    """For each term of the order, numbers to sort by, in the order of the indices; None if bodies must be read."""
    is_past: bool = False
    """Whether the instant is in the past; then reading does not count as reading the current records."""

    @classmethod
    def of(
        cls, topic: "TopicState", selection: "Selection", without: RowNumbers | None = None
    ) -> "TopicSlice":
        """Capture the records that may match at this instant, except those in the rows `without`."""
        access_path = topic.indexes.access_path(selection.filter, selection.sow_keys)
        if without is not None:
            access_path = access_path.without(without, topic.rows.end)
        count = len(access_path.decided) + sum(len(asked) for asked, _ in access_path.checks)
        sorting = topic.indexes.sorting(selection.order, count)
        decided = _first(access_path, sorting, selection.end)
        found = np.concatenate([decided, *(asked for asked, _ in access_path.checks)])
        # Most paths find rows in order. A stable sort of 200,000 takes 0.15 ms then, any other 9.
        rows = np.sort(found, kind="stable")
        return cls(
            name=topic.definition.name,
            log=topic.definition.log,
            metadata=topic.metadata,
            rows=topic.rows,
            access_path=access_path,
            records=len(topic.rows.found(selection.sow_keys)) if selection.sow_keys else len(topic.rows),
            matches=len(access_path.decided),
            captured=topic.rows.capture(rows),
            decided=_indices(rows, decided),
            checks=[(_indices(rows, asked), filter) for asked, filter in access_path.checks],
            ranks=sorting.of(rows) if sorting is not None and sorting.can_tell(rows) else None,
        )

    def holding(self, filter: Filter, indices: RowNumbers) -> RowNumbers:
        """Return the indices whose records match the filter."""
        bodies, loads = self.captured.bodies, orjson.loads
        if filter.needs_about:
            matches = filter.matches_about
            kept = [at for at in indices.tolist() if matches(loads(bodies[at]), self.facts(at))]
        else:
            test = filter.matches
            kept = [at for at in indices.tolist() if test(loads(bodies[at]))]
        return np.array(kept, np.int64)

    def facts(self, at: int) -> Metadata:
        """Return the metadata of a record that a filter may use besides the body."""
        return self.captured.facts(at, self.metadata)

    def note_reading(self, indices: RowNumbers) -> None:
        """Note that the records were read now."""
        # A query of the past reads former states, not the current records (test_a_query_of_the_past_is_no_reading).
        if not self.is_past:
            assert self.captured.digests is not None
            self.rows.read(self.captured.rows[indices], self.captured.digests[indices], time.time())

    def explained(self, *, counts: bool = True) -> dict[str, Any]:
        """Report the access path: its index, what the index decided, and how many records were read."""
        access_path = self.access_path
        indexed = text_of(conjunction(access_path.indexed)) if access_path.indexed else ""
        explained: dict[str, Any] = {
            "topic": self.name,
            "access_path": access_path.name,
            "index": access_path.index,
            "indexed": indexed,
        }
        if counts:
            asked = sum(len(indices) for indices, _ in self.checks)
            explained |= {"records": self.records, "candidates": self.matches + asked, "read": asked}
        return {
            name: value for name, value in (explained | {"note": access_path.note}).items() if value != ""
        }


def _first(access_path: AccessPath, sorting: Sorting | None, end: int | None) -> RowNumbers:
    """Return the matching rows that contain the first ones; all of them if more rows may match."""
    rows = access_path.decided
    # Any row that the filter still has to check may belong among the first ones.
    if end is None or access_path.checks:
        return rows
    if end == 0:
        return rows[:0]
    return sorting.first(rows, end) if sorting is not None and sorting.can_tell(rows) else rows


def _indices(rows: RowNumbers, some: RowNumbers) -> RowNumbers:
    if len(some) == len(rows):
        return np.arange(len(rows), dtype=np.int64)
    return np.searchsorted(rows, some).astype(np.int64)
