"""How far a replica is behind its log: compares sampled end offsets of the log with the position applied. Pure.

The measure is end to end: it covers the materializer's lag and the replica's. Open this module to find out what `lag`
and `lag_seconds` mean, and when they are not known.
"""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from sowline.model.position import Position, before_the_log
from sowline.wire.server_message import iso_time

SAMPLES_MAX = 256
"""Samples that a partition keeps while it is behind; beyond that, every second one is dropped."""


class Lag(NamedTuple):
    """The lag of a replica behind the log's end. None stands for unknown, never for 0.

    - `records`: the offsets between the position applied and the newest sampled end.
    - `seconds`: the time since the newest moment at which the log's end is known to be applied here.
    """

    records: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, lags: "Collection[Lag]") -> "Lag":
        """Return the lag of partitions together: the sum of their records, and the longest time."""
        records = [lag.records for lag in lags if lag.records is not None]
        seconds = [lag.seconds for lag in lags if lag.seconds is not None]
        return cls(
            sum(records) if len(records) == len(lags) else None,
            max(seconds, default=0.0) if len(seconds) == len(lags) else None,
        )


class OpenTransaction(NamedTuple):
    """A transaction in a log that was neither committed nor aborted: nothing from `offset` on can be applied.

    `written` is the time of its first record in ms; None while that is not known.
    """

    offset: int
    written: int | None = None

    def __str__(self) -> str:
        when = "" if self.written is None else f", written at {iso_time(self.written)}"
        return f"held since offset {self.offset}{when}"


class Reached(NamedTuple):
    """The position up to which a replica has applied every change, and Kafka's id of the log that it is of.

    The id is empty while it is not known.
    """

    position: Position
    log_id: str

    def is_of(self, log_id: str) -> bool:
        """Return whether it is a position in the log with this id; before any record, it is one in every log."""
        return self.position == before_the_log() or self.log_id == log_id


class LogEnd:
    """The sampled ends of one log partition. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._log_id = ""
        self._end: int | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self._applied_at: float | None = None
        self._hole = range(0)
        self._transaction: OpenTransaction | None = None

    def note(
        self,
        at: float,
        end: int,
        log_id: str,
        held: Reached,
        transaction: OpenTransaction | None = None,
    ) -> None:
        """Take a sample: the log ended before offset `end` at the time `at` or later.

        `held` is what the replica had reached at that time, and `log_id` Kafka's id of the log's topic. The end is
        that of all records, also after an open `transaction`.
        """
        self._transaction = transaction
        if self._log_id != log_id:
            self._forget()
        self._log_id = log_id
        # The log is shorter than what was applied of it: a broker lost its end. How much of its present content is
        # applied can't be seen from offsets.
        if held.is_of(log_id) and end <= held.position.offset:
            self._forget()
            return
        self._end = end
        # Equal ends share one entry with the newest time: an idle log needs no memory.
        if self._samples and self._samples[-1][1] == end:
            self._samples.pop()
        self._samples.append((at, end))
        if len(self._samples) > SAMPLES_MAX:
            self._thin()

    def _thin(self) -> None:
        """Drop every second sample but the newest: the time since can only be reported as longer than it is."""
        kept = list(self._samples)
        self._samples = deque([*kept[:-1:2], kept[-1]])

    def _forget(self) -> None:
        self._end = self._applied_at = None
        self._samples.clear()
        self._hole = range(0)

    def note_hole(self, start: int, end: int) -> None:
        """Note that the offsets from `start` up to, not including, `end` hold no record."""
        assert start <= end, "a hole ends after its start"
        # An aborted transaction after a committed one continues the known hole.
        continues = bool(self._hole) and self._hole.stop == start
        self._hole = range(self._hole.start if continues else start, end)

    def unapplied(self, held: Reached) -> range:
        """Return the offsets between the position and the newest end; empty if there are none, or if unknown."""
        end = self._end_for(held)
        return range(0) if end is None else range(self._next(held), max(self._next(held), end))

    def _end_for(self, held: Reached) -> int | None:
        # Offsets of another log mean nothing for this state: `applied up to 5,000, log replaced, end at 3` is not a
        # lag of 0. The materializer begins an era as soon as it has noticed (test_a_replaced_log_is_not_known).
        return self._end if held.is_of(self._log_id) else None

    def _next(self, held: Reached) -> int:
        # Markers of transactions take offsets and hold no record. Without this a log that ends with one would never
        # be applied to its end (test_offsets_without_records_are_no_lag).
        offset = held.position.offset + 1
        assert offset >= 0, "the offset after any position is one of the log"
        return self._hole.stop if offset in self._hole else offset

    def transaction(self, held: Reached) -> OpenTransaction | None:
        """Return the open transaction that a replica at this position waits for; None if there is none."""
        found = self._transaction
        waits = found is not None and held.is_of(self._log_id) and held.position.offset < found.offset
        return found if waits else None

    def lag(self, held: Reached, now: float) -> Lag:
        """Return how far a replica at this position is behind."""
        end = self._end_for(held)
        if end is None:
            return Lag()
        offset = self._next(held)
        while self._samples and self._samples[0][1] <= offset:
            self._applied_at = self._samples.popleft()[0]
        seconds = None if self._applied_at is None else max(0.0, now - self._applied_at)
        return Lag(max(0, end - offset), seconds)
