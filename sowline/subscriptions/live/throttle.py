"""The rate of a replay."""

from collections.abc import Callable

from sowline.wire.options import ReplayRate

BURST_SECONDS = 0.1
"""Seconds of unused rate that may be used at once."""


class Throttle:
    """Limits the rate of messages."""

    def __init__(self, rate: ReplayRate, clock: Callable[[], float], time_ns: Callable[[], int]) -> None:
        """Begin now. `clock` returns the seconds of a monotonic clock, `time_ns` the time since 1970."""
        assert rate.amount > 0, "a replay goes on"
        self._rate = rate
        self._clock, self._time_ns = clock, time_ns
        self._free = clock()
        self._first: tuple[float, int] | None = None

    def take(self, size_bytes: int, log_time: int) -> float:
        """Return the seconds to wait before a message with this size and log time in ms; count the message."""
        now = self._clock()
        if self._rate.unit == "times":
            # A producer's time may be centuries ahead, and a replay does not wait for the future
            # (test_a_time_to_come_is_not_waited_for).
            log_time = min(log_time, self._time_ns() // 1_000_000)
            began, first = self._first = self._first or (now, log_time)
            return max(0.0, began + (log_time - first) / 1000 / self._rate.amount - now)
        cost = size_bytes if self._rate.unit == "bytes" else 1
        # What a pause leaves unused is lost, except for a moment's worth: otherwise an hour's worth could come at
        # once.
        due = max(self._free, now - BURST_SECONDS)
        self._free = due + cost / self._rate.amount
        assert self._free >= due, "a message gives no time back"
        return max(0.0, due - now)
