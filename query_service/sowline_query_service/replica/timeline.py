"""An index of the writes to documents in the changes topic, for as long as a topic's `history_ttl`. Pure.

A timeline keeps, in the order of the log, the offset and log time of each write and a link to the document's previous
write. It reads the write itself from Kafka on request. Writes older than `history_ttl` by the partition's log time
are dropped, a few with each new write. A load notes what compaction has left.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from sowline.changes.change import AGAIN, Change
from sowline.commands.command import DEFINE

WRITE_BYTES = 40
"""Bytes of a write in memory; docs/emodb.md has the measurements."""

DOCUMENT_BYTES = 130
"""Bytes of a document in addition to its writes."""

PRUNED_A_STEP = 8
"""Writes to drop at most when log time advances: few enough to cause no pause, but more than one is added."""

SLACK_MIN = 1024
"""The number of dropped writes at the front up to which they are not removed."""

DROPPED_AT_ONCE = 1000


class Noted(NamedTuple):
    """The offset of a write in the changes topic, and its log time in ms since 1970."""

    offset: int
    time: int


class Timeline:
    """The writes to the documents of one partition. Note the changes in the order of their positions, each once."""

    def __init__(self, ttl_ms: int) -> None:
        self.ttl_ms = ttl_ms
        """How long a write is kept, in log time."""
        self.floor = 0
        """The log time, in ms since 1970, before which writes are not kept."""
        self._last: dict[bytes, int] = {}
        """The number of the newest write to each document, by SOW key."""
        self._base = 0
        """The number of the first entry of the columns; numbers stay when entries move up."""
        self._dropped = 0
        """Entries at the front that were dropped."""
        self._keys: list[bytes] = []
        self._offsets, self._times = array("q"), array("q")
        self._backs = array("I")
        """The distance, in entries, to the document's previous write; 0 if there is none."""

    @property
    def writes(self) -> int:
        """The number of writes."""
        return len(self._keys) - self._dropped

    @property
    def nbytes(self) -> int:
        """Its estimated memory."""
        return self.writes * WRITE_BYTES + len(self._last) * DOCUMENT_BYTES

    @property
    def oldest(self) -> int | None:
        """The log time of the oldest write that is kept, in ms since 1970; None if there is none."""
        return self._times[self._dropped] if self.writes else None

    # changes

    def note(self, offset: int, change: Change) -> None:
        """Add the next change; one that has no writes starts the document's timeline again."""
        self.advance(change.partition_time)
        # Another template is no write (test_a_template_is_not_in_the_timeline).
        if change.op in (AGAIN, DEFINE):
            return
        if change.writes is None:
            self._last.pop(change.sow_key, None)
            return
        number, key = self._base + len(self._keys), change.sow_key
        before = self._last.get(key)
        # All writes to a document share one key object.
        if before is not None:
            key = self._keys[before - self._base]
        self._keys.append(key)
        self._offsets.append(offset)
        self._times.append(change.replay_time)
        self._backs.append(0 if before is None else number - before)
        assert len(self._keys) == len(self._offsets) == len(self._times) == len(self._backs), "columns agree"
        self._last[key] = number

    def advance(self, time: int) -> None:
        """Note the current log time; drop some of the writes that are too old."""
        self.floor = max(self.floor, time - self.ttl_ms)
        for _ in range(PRUNED_A_STEP):
            oldest = self.oldest
            if oldest is None or oldest >= self.floor:
                break
            self._drop()
        self._move_up()

    def drop_oldest(self, most: int) -> int:
        """Drop at least `most` of the oldest writes early, if it has that many; return how many were dropped."""
        # Writes of one time are dropped together: `floor` is a time, before which writes may be missing.
        assert most > 0, "there is something to drop"
        before = self.writes
        while before - self.writes < most and (oldest := self.oldest) is not None:
            self.floor = max(self.floor, oldest + 1)
            while (next_oldest := self.oldest) is not None and next_oldest < self.floor:
                self._drop()
        self._move_up()
        return before - self.writes

    def _drop(self) -> None:
        assert self.writes > 0, "there is a write to drop"
        key = self._keys[self._dropped]
        if self._last.get(key) == self._base + self._dropped:
            del self._last[key]
        self._dropped += 1

    def _move_up(self) -> None:
        dropped = self._dropped
        # Only once a quarter of the entries is dropped: a list moves all its other entries for each deletion at its
        # front.
        if dropped > SLACK_MIN and 4 * dropped > len(self._keys):
            del self._keys[:dropped]
            for column in (self._offsets, self._times, self._backs):
                del column[:dropped]
            self._base += dropped
            self._dropped = 0
            assert len(self._keys) == len(self._offsets) == len(self._times) == len(self._backs), (
                "columns agree"
            )

    # queries

    def newest_first(self, key: bytes) -> Iterator[Noted]:
        """Return the writes to a document up to now, newest first; writes during the iteration do not appear."""
        return self._back_from(self._last.get(key))

    def _back_from(self, number: int | None) -> Iterator[Noted]:
        while number is not None:
            at = number - self._base
            # Between two steps of the iteration, writes may have been dropped (test_who_walks_is_not_disturbed).
            if at < self._dropped or self._times[at] < self.floor:
                return
            back = self._backs[at]
            yield Noted(self._offsets[at], self._times[at])
            number = number - back if back else None


class Timelines:
    """The timelines of all partitions, with one memory limit. Above it, the oldest writes of all are dropped."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._all: list[Timeline] = []
        self.dropped = 0
        """Writes that were dropped early, because of the memory limit."""

    def add(self, timeline: Timeline) -> None:
        """Add the timeline of a partition."""
        self._all.append(timeline)

    def remove(self, timeline: Timeline) -> None:
        """Remove the timeline of a partition."""
        self._all.remove(timeline)

    @property
    def nbytes(self) -> int:
        """The estimated memory of all timelines."""
        return sum(timeline.nbytes for timeline in self._all)

    def keep_within(self) -> int:
        """Drop the oldest writes above the limit; return their number."""
        before = self.dropped
        while self.nbytes > self._bytes_max:
            oldest = min(
                (one for one in self._all if one.writes), key=lambda one: one.oldest or 0, default=None
            )
            if oldest is None:
                break
            self.dropped += oldest.drop_oldest(DROPPED_AT_ONCE)
        return self.dropped - before
