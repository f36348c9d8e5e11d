"""The history of a topic: the previous states of its records, one for each record and interval. Pure.

Log time is divided into intervals of the topic's granularity; an interval includes its end, but not its start. For
each interval, the history keeps the state of each changed record before its first change. To get the records at the
end of an interval, take the current records, and restore each record that has changed since to its earliest state
after it.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from sowline.changes.change import Change
from sowline.config.topic_fields import HistoryDefinition
from sowline.model.bookmark import format_time
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position
from sowline_query_service.index.rows import NOTHING_RARE, UNKNOWN_OFFSET, UNKNOWN_TIME, Rare, Rows

STATE_BYTES = 112
"""Bytes of a past version in addition to its body; docs/benchmarks.md has the measurements."""

INTERVAL_BYTES = 48

SLACK_MIN = 1024
"""The number of empty entries at the front up to which they are not removed."""

SWEPT_AT_ONCE = 5000
"""States to remove in one step."""

_UNKNOWN = (0, UNKNOWN_OFFSET, 0, UNKNOWN_TIME)
Values = NDArray[np.int64]

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Former:
    """The previous states of records, oldest first, in columns. If a record has several, the earliest counts.

    A body is None if the record did not exist. `UNKNOWN_OFFSET` and `UNKNOWN_TIME` mean that it is unknown when the
    record had last changed.
    """

    keys: list[bytes]
    bodies: list[bytes | None]
    eras: Values
    offsets: Values
    nths: Values
    times: Values
    rare: dict[int, Rare]
    """The rare values of a state, by its index in the columns."""

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """The changes of a partition since a past time.

    `after` is its position at that time, `gained` the number of records that it has more now, and `former` the
    previous states.
    """

    after: Position
    gained: int
    former: Former


class PartitionHistory:
    """The history of one partition. Note the changes in order, each before the rows apply it."""

    def __init__(self, declared: HistoryDefinition, rows: Rows) -> None:
        self.granularity = max(1, declared.granularity)
        """The length of an interval, in ms."""
        self._window = declared.window
        self._rows = rows
        self._floor = 0
        """The number of an interval: before its end nothing is known. Interval n ends at n * granularity."""
        self._until = -1
        """The end of the newest interval, in ms."""
        self._is_open = False
        """Whether states of the newest interval are kept; not if the floor is at its end."""
        self._seen: set[bytes] = set()
        """The records that have a state in the newest interval."""
        self._gained = 0
        self._forget_all()

    def _forget_all(self) -> None:
        self._state_bytes = 0
        self._swept = 0
        """Entries at the front of the states' columns that are empty."""
        self._base = 0
        """The number of the first entry; numbers stay when entries move up."""
        self._keys: list[bytes] = []
        self._bodies: list[bytes | None] = []
        self._eras, self._offsets, self._nths, self._times = (array("q") for _ in range(4))
        self._rare: dict[int, Rare] = {}
        self._first = 0
        """Entries at the front of the intervals' columns that are void."""
        self._numbers, self._starts, self._gains = (array("q") for _ in range(3))
        self._after_eras, self._after_offsets, self._after_nths = (array("q") for _ in range(3))

    @property
    def nbytes(self) -> int:
        """Its estimated memory."""
        return self._state_bytes + INTERVAL_BYTES * (len(self._numbers) - self._first)

    @property
    def _live(self) -> int:
        """The number of the first state that belongs to an interval."""
        is_any = self._first < len(self._numbers)
        return self._starts[self._first] if is_any else self._base + len(self._keys)

    @property
    def states(self) -> int:
        """The number of past versions."""
        return self._base + len(self._keys) - self._live

    @property
    def floor(self) -> int:
        """The time before which nothing is known, in ms since 1970."""
        return self._floor * self.granularity

    @property
    def oldest(self) -> int | None:
        """The end of the oldest interval that is kept, in ms since 1970; None if there is none."""
        return self._numbers[self._first] * self.granularity if self._first < len(self._numbers) else None

    # changes

    def note(self, change: Change) -> None:
        """Add the next change."""
        if change.partition_time > self._until:
            self._open(change)
        key, previous = change.sow_key, change.previous
        if self._is_open and key not in self._seen:
            self._seen.add(key)
            self._keep(change)
        assert change.partition_time <= self._until, "a change is in the newest interval"
        self._gained += (change.body is not None) - (previous is not None)

    def _open(self, change: Change) -> None:
        self.advance(change.partition_time)
        number = -(-change.partition_time // self.granularity)
        assert not self._numbers or number > self._numbers[-1], "intervals follow each other"
        self._until = number * self.granularity
        self._is_open = True
        self._seen = set()
        self._numbers.append(number)
        self._starts.append(self._base + len(self._keys))
        self._gains.append(self._gained)
        era, offset, nth = change.after
        self._after_eras.append(era)
        self._after_offsets.append(offset)
        self._after_nths.append(nth)
        assert len(self._numbers) == len(self._starts) == len(self._gains) == len(self._after_nths), (
            "columns agree"
        )

    def _keep(self, change: Change) -> None:
        key, body, rows = change.sow_key, change.previous, self._rows
        rare = NOTHING_RARE if body is None else Rare(known=change.known_before)
        row = rows.numbers.get(key)
        held = NOTHING_RARE if row is None else rows.rare.get(row, NOTHING_RARE)
        # The row has the time and position of the previous state, if it still has that state. During a load the row
        # may be newer or missing; then both are unknown (test_what_is_not_known_is_left_out).
        if body is None or row is None or rows.bodies[row] != body or held.known != rare.known:
            era, offset, nth, time = _UNKNOWN
        else:
            # The key object of the row: each state would otherwise keep its own copy.
            key = rows.keys[row] or key
            era, offset, nth, time = rows.last_change(row)
            rare = held
        if rare != NOTHING_RARE:
            self._rare[self._base + len(self._keys)] = rare
        assert len(self._keys) == len(self._bodies) == len(self._times), "columns agree"
        self._keys.append(key)
        self._bodies.append(body)
        self._eras.append(era)
        self._offsets.append(offset)
        self._nths.append(nth)
        self._times.append(time)
        self._state_bytes += STATE_BYTES if body is None else STATE_BYTES + len(body)

    def advance(self, time: int) -> None:
        """Note the current log time; drop the intervals that are wholly before the window."""
        floor = (time - self._window) // self.granularity
        if floor > self._floor:
            self._floor = floor
            assert floor * self.granularity <= time, "the floor is in the past"
            while self._first < len(self._numbers) and self._numbers[self._first] <= floor:
                self._first += 1
            self._move_intervals_up()

    def restart(self, time: int) -> None:
        """Note that changes before this time are missing: earlier states are unknown."""
        # The states that are kept would restore records that the missing changes may have changed in between
        # (test_a_hole_is_the_end_of_the_past).
        self._floor = max(self._floor, -(-time // self.granularity))
        self._until = self._floor * self.granularity
        self._is_open = False
        if self._numbers:
            self._forget_all()

    def drop_oldest(self) -> int:
        """Drop the oldest interval, which must exist; return its number of states. `sweep` frees the memory."""
        assert self._first < len(self._numbers), "there is an interval to drop"
        before = self.states
        self._floor = self._numbers[self._first]
        self._first += 1
        self._is_open = self._is_open and self._first < len(self._numbers)
        assert self._swept <= self._live - self._base, "only states of dropped intervals are swept"
        self._move_intervals_up()
        return before - self.states

    def sweep(self) -> int:
        """Free up to `SWEPT_AT_ONCE` states of dropped intervals; return the number of bytes freed."""
        start = self._swept
        # In pieces: to free an interval of millions of states would hold up the changes that follow
        # (test_a_large_interval_goes_in_pieces).
        end = min(start + SWEPT_AT_ONCE, self._live - self._base)
        assert start <= end, "what is swept is not swept again"
        if start == end:
            return 0
        freed = STATE_BYTES * (end - start) + sum(len(body) for body in self._bodies[start:end] if body)
        self._state_bytes -= freed
        assert self._state_bytes >= 0, "an estimate of memory is never negative"
        # The entries stay, so that their numbers do; the bodies, which take most of the memory, go now.
        self._keys[start:end] = [b""] * (end - start)
        self._bodies[start:end] = [None] * (end - start)
        for number in range(self._base + start, self._base + end) if self._rare else ():
            self._rare.pop(number, None)
        self._swept = end
        self._move_states_up()
        return freed

    def _move_states_up(self) -> None:
        empty = self._swept
        # Only once half of the entries are empty: a list moves all its other entries for each deletion at its front.
        if empty > SLACK_MIN and 2 * empty > len(self._keys):
            del self._keys[:empty], self._bodies[:empty]
            for column in (self._eras, self._offsets, self._nths, self._times):
                del column[:empty]
            self._base += empty
            self._swept = 0

    def _move_intervals_up(self) -> None:
        void = self._first
        if void > SLACK_MIN and 2 * void > len(self._numbers):
            for column in (self._numbers, self._starts, self._gains):
                del column[:void]
            for column in (self._after_eras, self._after_offsets, self._after_nths):
                del column[:void]
            self._first = 0

    # queries

    def since(self, time: int) -> Since | None:
        """Return the changes since the last end of an interval at or before `time`; None if there are none.

        The time must not be before `floor`.
        """
        assert time >= self.floor, "nothing is known before the floor"
        at = bisect_right(self._numbers, time // self.granularity, self._first)
        if at == len(self._numbers):
            return None
        start = self._starts[at] - self._base
        shift = self._base + start
        assert start >= self._swept, "what is asked for is not swept yet"
        former = Former(
            self._keys[start:],
            self._bodies[start:],
            _values(self._eras, start),
            _values(self._offsets, start),
            _values(self._nths, start),
            _values(self._times, start),
            {number - shift: rare_row for number, rare_row in self._rare.items() if number >= shift},
        )
        after = Position(self._after_eras[at], self._after_offsets[at], self._after_nths[at])
        return Since(after, self._gained - self._gains[at], former)


class Histories:
    """The histories of all partitions, with one memory limit. Above it, the oldest intervals of all are dropped."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._all: list[PartitionHistory] = []
        self.dropped = 0
        """States that were dropped early, because of the memory limit."""

    def add(self, history: PartitionHistory) -> None:
        """Add the history of a partition."""
        self._all.append(history)

    def remove(self, history: PartitionHistory) -> None:
        """Remove the history of a partition."""
        self._all.remove(history)

    @property
    def nbytes(self) -> int:
        """The estimated memory of all histories."""
        return sum(history.nbytes for history in self._all)

    def keep_within(self) -> int:
        """Free dropped states, and drop the oldest ones above the limit; return how many were dropped early.

        The work is little more than that of the batch of changes before.
        """
        for history in self._all:
            history.sweep()
        over = self.nbytes - self._bytes_max
        if over <= 0:
            return 0
        # Some more than is over: otherwise, each following batch would have to drop states again.
        over += self._bytes_max // 1024
        for history in self._all:
            over -= _swept(history, over)
        ends = [(end, at) for at, history in enumerate(self._all) if (end := history.oldest) is not None]
        heapify(ends)
        dropped = 0
        while over > 0 and ends:
            _, at = ends[0]
            history = self._all[at]
            dropped += history.drop_oldest()
            over -= INTERVAL_BYTES
            over -= _swept(history, over)
            if (end := history.oldest) is None:
                heappop(ends)
            else:
                heapreplace(ends, (end, at))
        self.dropped += dropped
        return dropped


def _swept(history: PartitionHistory, wanted: int) -> int:
    """Sweep until it has freed the wanted number of bytes, or nothing is left; return the bytes freed."""
    freed = 0
    while freed < wanted and (some := history.sweep()):
        freed += some
    return freed


def joined(found: Sequence[Former]) -> Former:
    """Return the states of several partitions, one partition after the other."""
    if len(found) == 1:
        return found[0]
    starts = accumulate(map(len, found), initial=0)
    return Former(
        list(chain.from_iterable(each.keys for each in found)),
        list(chain.from_iterable(each.bodies for each in found)),
        _together([each.eras for each in found]),
        _together([each.offsets for each in found]),
        _together([each.nths for each in found]),
        _together([each.times for each in found]),
        {
            start + at: rare_row
            for start, each in zip(starts, found, strict=False)
            for at, rare_row in each.rare.items()
        },
    )


def _values(column: "array[int]", start: int) -> Values:
    # The slice is a copy: an array that a NumPy view shows can't grow.
    return np.frombuffer(column[start:], np.int64)


def _together(columns: list[Values]) -> Values:
    return np.concatenate([np.empty(0, np.int64), *columns])


def time_text(time: int) -> str:
    """Write a time, in ms since 1970, as bookmarks do."""
    return format_time(_EPOCH + timedelta(milliseconds=min(time, TIME_MAX)))
