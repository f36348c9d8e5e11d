"""When a partition's owner appends `expire` commands, and for which records. Pure: its caller has the clock.

An owner does not remove a record that is due. It appends a command to the log, which names the update that set the
due time (`guard`). When the command is applied, the record is removed if that is still its last update, and if the
log's time has reached the due time. So every replay of the log removes the same records, and an update that came
first wins.

The worker's clock may differ from the brokers'. The schedule learns by how much from commands that the log dates
before their records were due. A broker's clock may step back, and log time stands still until it has caught up.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from sowline.model.position import Position

IN_FLIGHT_MAX = 1000
PAUSE_MS = 20
"""How long to wait before the next portion while some of the last one are still on their way."""


class Due(NamedTuple):
    """A record that is due, in ms of log time, and the position of the update that set its expiration."""

    due: int
    key_text: str
    position: Position


class ExpirySchedule:
    """The commands of one partition that were appended and not applied yet."""

    def __init__(self, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        assert in_flight_max > 0, "a schedule without room would never remove a record"
        self._in_flight_max = in_flight_max
        self._in_flight: dict[tuple[str, Position], int] = {}
        self._ahead_ms = 0
        """How far this worker's clock is ahead of the broker's."""
        self._log_time = 0
        self._asked = 0

    def log_time(self, now: int) -> int:
        """Return the log's time at `now` (ms of this worker's clock), as far as it is known."""
        assert now >= 0, "a worker's clock is in ms since 1970"
        return max(self._log_time, now - self._ahead_ms)

    def next_portion(self, due: Iterable[Due], now: int) -> list[Due]:
        """Return the records to append a command for now, in the given order, and count them as pending.

        There are never more pending commands than the limit, and new ones only once half of the limit is free.
        """
        free = self._in_flight_max - len(self._in_flight)
        assert free >= 0, "no more commands are in flight than the limit"
        # Waits until half of the limit is free: otherwise each applied command would start a walk over the index for
        # one new record (test_portions_are_bounded).
        if free < (self._in_flight_max + 1) // 2 or (self._in_flight and 0 <= now - self._asked < PAUSE_MS):
            return []
        self._asked = now
        new = (one for one in due if (one.key_text, one.position) not in self._in_flight)
        portion = list(islice(new, free))
        self._in_flight.update({(one.key_text, one.position): one.due for one in portion})
        return portion

    def applied(self, key_text: str, guard: Position, append_time: int, now: int) -> None:
        """Note that a command was applied. One that was early shows how far this worker's clock is ahead."""
        due = self._in_flight.pop((key_text, guard), None)
        # The command was appended before the record was due, so the record stays: our clock is ahead of the log's.
        # Without this, the worker would send the same command in a loop while the clocks differ
        # (test_a_clock_that_is_ahead_is_learned_from_what_comes_too_early).
        if due is not None and append_time < due:
            self._ahead_ms = now - append_time

    def saw(self, log_time: int, now: int) -> None:
        """Take in the log time after a record. This worker's clock can be ahead by at most the record's age."""
        # While a broker's clock is behind, log time stands still and says nothing of the clocks. It would seem to go
        # on with ours, and a record due just after it would get one command after the other, all in vain
        # (test_nothing_is_asked_for_again_and_again_while_log_time_stands_still).
        if log_time > self._log_time:
            self._log_time = log_time
            self._ahead_ms = min(self._ahead_ms, now - log_time)
