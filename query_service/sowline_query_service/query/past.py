"""Records as they were at a past time: those that have not changed since, and the former states of the others.

The result is of one instant. Computing it may take long; other tasks run in between.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sowline.language.filter import ALL, Filter
from sowline.serving.cooperative import Spend, in_steps
from sowline_query_service.index.access_path import HISTORY, KEYS, NO_ROWS, AccessPath
from sowline_query_service.index.rows import Captured
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.replica.history import Former
from sowline_query_service.topics.topic_state import Past, TopicState

STEP = 2000
"""Records to check before other tasks run."""

AT_ONCE = 20_000
"""The number of former states up to which they are compared with the records in one step."""


def slice_at(topic: TopicState, selection: "Selection", past: Past) -> TopicSlice:
    """Return the current records that `as_they_were` turns into those of a past time; both are of one instant.

    If only the first few records are requested, and the changed ones are known at once, leave the changed ones out.
    Then only a few current records are needed.
    """
    if selection.top_n is not None and len(past.former) <= AT_ONCE:
        return TopicSlice.of(topic, selection, without=topic.rows.found(past.former.keys))
    # All of them: the first few current records may all have changed since, and others then come first
    # (test_an_order_by_ranks_reads_few_bodies).
    return TopicSlice.of(topic, replace(selection, top_n=None, skip_n=0))


async def as_they_were(topic_slice: TopicSlice, past: Past, filter: Filter, spend: Spend) -> list[TopicSlice]:
    """Return the topic slices that together have the records of a past time.

    `topic_slice` is the result of `slice_at`.
    """
    changed: dict[bytes, int] = {}
    # Only for these records: the former states of all others would match, too
    # (test_a_key_leads_to_its_record_alone).
    keys = topic_slice.access_path.keys
    await in_steps(_find_earliest(past.former, None if keys is None else frozenset(keys), changed), spend)
    unchanged = np.ones(len(topic_slice.captured), np.bool_)
    await in_steps(_compare(topic_slice.captured.keys, changed, unchanged), spend)
    there = _There(past)
    await in_steps(there.gather(changed), spend)
    records = int(unchanged.sum()) if topic_slice.access_path.name == KEYS else past.records - len(there.keys)
    return [_only(topic_slice, unchanged, records), _former(topic_slice, there.captured(), filter)]


def _find_earliest(former: Former, asked: frozenset[bytes] | None, found: dict[bytes, int]) -> Iterator[None]:
    """Find the index of the earliest state of each record, or of each requested record."""
    # Backwards: of several states of a record, the one that is found last is the earliest.
    for end in range(len(former), 0, -STEP):
        start = max(0, end - STEP)
        states = zip(reversed(former.keys[start:end]), range(end - 1, start - 1, -1), strict=True)
        found.update(states if asked is None else (state for state in states if state[0] in asked))
        yield


def _compare(keys: list[bytes], changed: dict[bytes, int], unchanged: NDArray[np.bool_]) -> Iterator[None]:
    """Determine which of the records have not changed."""
    for start in range(0, len(keys) if changed else 0, STEP):
        some = keys[start : start + STEP]
        unchanged[start : start + len(some)] = ~np.fromiter(
            map(changed.__contains__, some), np.bool_, len(some)
        )
        yield


class _There:
    """The former states in which the record existed."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.keys: list[bytes] = []
        self._bodies: list[bytes] = []
        self._indices: list[int] = []

    def gather(self, earliest: dict[bytes, int]) -> Iterator[None]:
        """Take the states at these indices, except those without a record."""
        entries, bodies = iter(earliest.items()), self._past.former.bodies
        while some := list(islice(entries, STEP)):
            for key, at in some:
                if (body := bodies[at]) is not None:
                    self.keys.append(key)
                    self._bodies.append(body)
                    self._indices.append(at)
            yield

    def captured(self) -> Captured:
        """Return the states as records of one instant."""
        former, indices = self._past.former, np.array(self._indices, np.int64)
        rows = np.arange(len(indices), dtype=np.int64)
        rare_rows = former.rare
        return Captured(
            rows=rows,
            keys=self.keys,
            bodies=self._bodies,
            partitions=self._past.partitions[indices],
            eras=former.eras[indices],
            offsets=former.offsets[indices],
            nths=former.nths[indices].astype(np.int32),
            times=former.times[indices],
            read_at=np.zeros(len(indices)),
            digests=None,
            rare={n: rare_rows[at] for n, at in enumerate(self._indices) if at in rare_rows},
        )


def _only(topic_slice: TopicSlice, kept: NDArray[np.bool_], records: int) -> TopicSlice:
    """Return the part without the records that are not kept."""
    decided = topic_slice.decided[kept[topic_slice.decided]]
    checks = [(indices[kept[indices]], filter) for indices, filter in topic_slice.checks]
    matches = topic_slice.matches - len(topic_slice.decided) + len(decided)
    return replace(
        topic_slice, records=records, matches=matches, decided=decided, checks=checks, is_past=True
    )


def _former(topic_slice: TopicSlice, captured: Captured, filter: Filter) -> TopicSlice:
    """Return the part with the former states of changed records; the filter decides about each of them."""
    indices = captured.rows
    decided, checks = (indices, []) if filter == ALL else (NO_ROWS, [(indices, filter)])
    return replace(
        topic_slice,
        access_path=AccessPath(HISTORY),
        records=len(indices),
        matches=len(decided),
        captured=captured,
        decided=decided,
        checks=checks,
        ranks=None,
        is_past=True,
    )
