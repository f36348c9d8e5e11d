"""The feed: facts written as slices, one CSV file after another, into the directory that the pipeline watches."""

import asyncio
import csv
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from examples.flights.data import LATE, Fact, line_of

SLICE_S = 0.5
"""Real seconds between two slices, if the feed runs at a speed."""
MAX_INTERVAL_S = 24 * 3600
"""Simulated seconds in a slice if the feed runs as fast as it can."""
ROOM_S = 0.02
"""Real seconds between two checks for room for another slice."""


class Slice(NamedTuple):
    """The facts of one simulated interval, and the moment at which it ends (seconds since 1970)."""

    until: int
    facts: Sequence[Fact]


def interval_s(speed: float | None) -> int:
    """Return how many simulated seconds one slice holds at a speed; None is as fast as possible."""
    return MAX_INTERVAL_S if speed is None else max(1, round(speed * SLICE_S))


def slices(facts: Sequence[Fact], interval: int) -> Iterator[Slice]:
    """Cut a feed in order of time into intervals of that many simulated seconds, empty ones left out."""
    for number, group in groupby(facts, key=lambda fact: fact.moment // interval):
        yield Slice((number + 1) * interval, list(group))


class SliceWriter:
    """Writes slices as `000001.csv`, `000002.csv`, … so that a reader of the directory sees them in order.

    A slice appears whole (written under another name, then renamed), and its modification time is at least a
    millisecond after the one before, because Spark takes files in the order of these times.
    """

    def __init__(self, directory: Path) -> None:
        if directory.exists() and any(directory.glob("*.csv")):
            raise FileExistsError(f"expected a directory without slices to begin a feed in, got {directory}")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._written = 0
        self._mtime_ms = 0

    def write(self, facts: Sequence[Fact]) -> Path:
        """Write the next slice and return where it is."""
        self._written += 1
        self._mtime_ms = max(self._mtime_ms + 1, time.time_ns() // 1_000_000)
        path = self._directory / f"{self._written:06}.csv"
        # Spark leaves out names that begin with a dot.
        unfinished = self._directory / f".{path.name}"
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(map(line_of, facts))
        os.utime(unfinished, ns=(self._mtime_ms * 1_000_000, self._mtime_ms * 1_000_000))
        return unfinished.rename(path)


def due_s(until: int, start: int, speed: float | None) -> float:
    """Return how many real seconds after its start the feed has to have reached a simulated moment."""
    return 0.0 if speed is None else (until - start) / speed


class Feed:
    """Writes a feed slice by slice, at a speed or (None) as fast as the pipeline takes it.

    `fed` is how many facts have been written, `clock` the simulated moment up to which, `reached` the moment of the
    newest fact of each kind among them. `speed` is in simulated seconds per second.
    """

    def __init__(self, facts: Sequence[Fact], writer: SliceWriter, speed: float | None) -> None:
        assert facts, "a feed has facts"
        self.facts = facts
        self.fed = 0
        self.clock = facts[0].moment
        self.reached: dict[str, int] = {}
        self._writer = writer
        self.speed = speed

    def begin(self) -> None:
        """Feed at once what was known before the first flight is late: a board has no use for those hours."""
        first = next((fact.moment for fact in self.facts if fact.kind == LATE), self.clock)
        known = [fact for fact in self.facts if fact.moment < first]
        if known and not self.fed:
            self._write(known)
            self.clock = first

    async def run(self, stop: asyncio.Event, has_room: Callable[[], bool]) -> None:
        """Write slices until the feed ends or, after the first, `stop` is set; waits while there is no room."""
        interval = interval_s(self.speed)
        start = self.clock // interval * interval
        began = time.monotonic()
        for part in slices(self.facts[self.fed :], interval):
            await _sleep(stop, began + due_s(part.until, start, self.speed) - time.monotonic())
            waited = time.monotonic()
            while not (has_room() or stop.is_set()):
                await _sleep(stop, ROOM_S)
            # Otherwise it would catch up afterwards, faster than its speed.
            began += time.monotonic() - waited
            if stop.is_set() and self.fed:
                return
            self._write(part.facts)
            self.clock = part.until

    def _write(self, facts: Sequence[Fact]) -> None:
        self._writer.write(facts)
        self.fed += len(facts)
        self.reached |= {fact.kind: fact.moment for fact in facts}


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, but no longer than until `stop` is set; lets others run in any case."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), max(seconds, 0.001))
