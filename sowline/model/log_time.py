"""Times of log records, in ms since 1970. Pure.

Kafka marks the time of each record as its own (`LogAppendTime`) or as the producer's (`CreateTime`). The mark is a
part of the record, so every replay reads the same one. **Log time** is the newest of Kafka's own times. A producer's
time may be anything, so it is only the time of its record: it never moves log time.
"""

from typing import Final

NO_TIME_TYPE: Final = 0
"""Kafka's mark of a record without a time."""

CREATE_TIME: Final = 1
"""Kafka's mark of a time that the producer gave."""

LOG_APPEND_TIME: Final = 2
"""Kafka's mark of a time that the broker gave."""

TIME_MAX: Final = 253_402_300_799_999
"""The last ms of the year 9999. Most languages and file formats have no later date."""


def is_time(time: int) -> bool:
    """Return whether a record may have this time: one from 1970 to the year 9999."""
    return 0 <= time <= TIME_MAX


def known_log_time(time: int) -> int:
    """Return a stored log time, or 0 if it is no valid time.

    Version 0.1 let any producer's time move log time, also beyond the year 9999.
    """
    return time if is_time(time) else 0


def times_after(log_time: int, time: int, time_type: int) -> tuple[int, int]:
    """Return the log time after a record, and the time of the record: log time, or its producer's if that is later.

    `time` and `time_type` are what Kafka has for the record, `log_time` is the log time before it.
    """
    if not is_time(time):
        return log_time, log_time
    # A new leader's clock may be behind the previous one's. Log time must not run back, or numbers that have left the
    # repeat window would count again (test_time_is_the_logs).
    own = max(log_time, time)
    # A producer sends microseconds as ms. If they moved log time, it would stay tens of thousands of years ahead: no
    # record would be due, and no number would leave its window (test_a_producers_time_moves_nothing).
    return (own if time_type == LOG_APPEND_TIME else log_time), own
