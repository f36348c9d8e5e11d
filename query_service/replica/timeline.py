"""An index of the writes to documents in the changes topic, for as long as a topic's `history_ttl`. Pure.

A timeline keeps, in the order of the log, the offset and log time of each write and a link to the document's previous
write. It reads the write itself from Kafka on request. Writes older than `history_ttl` by the partition's log time
are dropped, a few with each new write. A load notes what compaction has left.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from sowline.protocol.change import AGAIN, Change

WRITE_BYTES = 40
"""Bytes of a write in memory; docs/emodb.md has the measurements."""

DOCUMENT_BYTES = 130
"""Bytes of a document in addition to its writes."""

PRUNED_A_STEP = 8
"""At most so many writes are dropped when log time advances: no batch causes a pause, and more are dropped than
added."""

SLACK_MIN = 1024
"""So many writes at the front may be gone before those behind them move up."""

DROPPED_AT_ONCE = 1000


class Noted(NamedTuple):
    """The offset of a write in the changes topic, and its log time in ms since 1970."""

    offset: int
    time: int


class Timeline:
    """The writes to the documents of one partition. Changes are noted in the order of their positions, each once."""

    def __init__(self, ttl: int) -> None:
        self._ttl = ttl
        self.floor = 0
        """The log time, in ms since 1970, before which writes are not kept."""
        self._last: dict[bytes, int] = {}
        """By SOW key, the number of the document's last write that is kept."""
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

    # what happens

    def note(self, offset: int, change: Change) -> None:
        """Take in the next change; of one that starts again without the document, nothing before it is kept."""
        self.advance(change.time)
        if change.op == AGAIN:
            return
        if change.writes is None:
            self._last.pop(change.sow_key, None)
            return
        number, key = self._base + len(self._keys), change.sow_key
        before = self._last.get(key)
        if before is not None:
            key = self._keys[before - self._base]
        self._keys.append(key)
        self._offsets.append(offset)
        self._times.append(change.time)
        self._backs.append(0 if before is None else number - before)
        self._last[key] = number

    def advance(self, time: int) -> None:
        """Note that log time has come so far."""
        self.floor = max(self.floor, time - self._ttl)
        for _ in range(PRUNED_A_STEP):
            oldest = self.oldest
            if oldest is None or oldest >= self.floor:
                break
            self._drop()
        self._move_up()

    def drop_oldest(self, most: int) -> int:
        """Let the oldest writes go before their time, those of one time together; return how many those are."""
        before = self.writes
        while before - self.writes < most and (oldest := self.oldest) is not None:
            self.floor = max(self.floor, oldest + 1)
            while (next_oldest := self.oldest) is not None and next_oldest < self.floor:
                self._drop()
        self._move_up()
        return before - self.writes

    def _drop(self) -> None:
        key = self._keys[self._dropped]
        if self._last.get(key) == self._base + self._dropped:
            del self._last[key]
        self._dropped += 1

    def _move_up(self) -> None:
        dropped = self._dropped
        if dropped > SLACK_MIN and 4 * dropped > len(self._keys):
            del self._keys[:dropped]
            for column in (self._offsets, self._times, self._backs):
                del column[:dropped]
            self._base += dropped
            self._dropped = 0

    # what was

    def newest_first(self, key: bytes) -> Iterator[Noted]:
        """Return the writes to a document up to now, newest first, though more may come meanwhile."""
        return self._back_from(self._last.get(key))

    def _back_from(self, number: int | None) -> Iterator[Noted]:
        while number is not None:
            at = number - self._base
            if at < self._dropped or self._times[at] < self.floor:
                return
            back = self._backs[at]
            yield Noted(self._offsets[at], self._times[at])
            number = number - back if back else None


class Timelines:
    """The timelines of all partitions, within one limit: beyond it the oldest writes go, whosever they are."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._all: list[Timeline] = []
        self.dropped = 0
        """Writes that were dropped before their time, because the memory did not suffice."""

    def add(self, timeline: Timeline) -> None:
        """Count what it takes."""
        self._all.append(timeline)

    @property
    def nbytes(self) -> int:
        """The estimated memory of all timelines."""
        return sum(timeline.nbytes for timeline in self._all)

    def keep_within(self) -> int:
        """Drop the writes beyond the limit; return their number."""
        before = self.dropped
        while self.nbytes > self._bytes_max:
            oldest = min(
                (one for one in self._all if one.writes), key=lambda one: one.oldest or 0, default=None
            )
            if oldest is None:
                break
            self.dropped += oldest.drop_oldest(DROPPED_AT_ONCE)
        return self.dropped - before
