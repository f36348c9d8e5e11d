"""Records as they were at a past time: those that have not changed since, and the former states of the others.

What is put together is of one instant. To put it together takes as long as it takes: others get turns meanwhile.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from query_service.history import Former
from query_service.pace import Spend, in_steps
from query_service.part import Part
from query_service.roads import HISTORY, KEYS, NO_ROWS, Road
from query_service.rows import Captured
from query_service.state import Past, TopicState
from sowline.filter import ALL, Filter

if TYPE_CHECKING:
    from query_service.query import Selection

STEP = 2000
"""Records looked at before others get a turn."""

AT_ONCE = 20_000
"""So many former states are compared with the records without a pause."""


def part_of(topic: TopicState, selection: "Selection", past: Past) -> Part:
    """Return the records of now that are to be made those of a past time; both are of the same instant.

    Where only the first few are asked for, they are without those that have changed, if these can be told at once:
    then few have to be taken.
    """
    if selection.top_n is not None and len(past.former) <= AT_ONCE:
        return Part.of(topic, selection, without=topic.rows.found(past.former.keys))
    return Part.of(topic, replace(selection, top_n=None, skip_n=0))


async def as_they_were(part: Part, past: Past, filter: Filter, spend: Spend) -> list[Part]:
    """Return the parts of a topic at a past time: together they are of the records that were there then.

    The given part is what `part_of` has returned.
    """
    changed: dict[bytes, int] = {}
    keys = part.road.keys
    await in_steps(_find_earliest(past.former, None if keys is None else frozenset(keys), changed), spend)
    unchanged = np.ones(len(part.captured), np.bool_)
    await in_steps(_compare(part.captured.keys, changed, unchanged), spend)
    there = _There(past)
    await in_steps(there.gather(changed), spend)
    records = int(unchanged.sum()) if part.road.name == KEYS else past.records - len(there.keys)
    return [_only(part, unchanged, records), _former(part, there.captured(), filter)]


def _find_earliest(former: Former, asked: frozenset[bytes] | None, found: dict[bytes, int]) -> Iterator[None]:
    """Find the place of the earliest state of each record, or of each that is asked for."""
    for end in range(len(former), 0, -STEP):
        start = max(0, end - STEP)
        states = zip(reversed(former.keys[start:end]), range(end - 1, start - 1, -1), strict=True)
        found.update(states if asked is None else (state for state in states if state[0] in asked))
        yield


def _compare(keys: list[bytes], changed: dict[bytes, int], unchanged: NDArray[np.bool_]) -> Iterator[None]:
    """Find out which of the records have not changed."""
    for start in range(0, len(keys) if changed else 0, STEP):
        some = keys[start : start + STEP]
        unchanged[start : start + len(some)] = ~np.fromiter(
            map(changed.__contains__, some), np.bool_, len(some)
        )
        yield


class _There:
    """Of former states, those that are of records which were there."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.keys: list[bytes] = []
        self._bodies: list[bytes] = []
        self._places: list[int] = []

    def gather(self, earliest: dict[bytes, int]) -> Iterator[None]:
        """Take those at these places."""
        entries, bodies = iter(earliest.items()), self._past.former.bodies
        while some := list(islice(entries, STEP)):
            for key, at in some:
                if (body := bodies[at]) is not None:
                    self.keys.append(key)
                    self._bodies.append(body)
                    self._places.append(at)
            yield

    def captured(self) -> Captured:
        """Return them as records of an instant."""
        former, places = self._past.former, np.array(self._places, np.int64)
        rows = np.arange(len(places), dtype=np.int64)
        said = former.rare
        return Captured(
            rows=rows,
            keys=self.keys,
            bodies=self._bodies,
            partitions=self._past.partitions[places],
            eras=former.eras[places],
            offsets=former.offsets[places],
            nths=former.nths[places].astype(np.int32),
            times=former.times[places],
            read_at=np.zeros(len(places)),
            digests=None,
            rare={n: said[at] for n, at in enumerate(self._places) if at in said} if said else {},
        )


def _only(part: Part, kept: NDArray[np.bool_], records: int) -> Part:
    """Return the part without the records that are not kept."""
    decided = part.decided[kept[part.decided]]
    checks = [(places[kept[places]], filter) for places, filter in part.checks]
    matches = part.matches - len(part.decided) + len(decided)
    return replace(part, records=records, matches=matches, decided=decided, checks=checks, is_past=True)


def _former(part: Part, captured: Captured, filter: Filter) -> Part:
    """Return the part of records that are not as they were: every one of them is asked."""
    places = captured.rows
    decided, checks = (places, []) if filter == ALL else (NO_ROWS, [(places, filter)])
    return replace(
        part,
        road=Road(HISTORY),
        records=len(places),
        matches=len(decided),
        captured=captured,
        decided=decided,
        checks=checks,
        ranks=None,
        is_past=True,
    )
