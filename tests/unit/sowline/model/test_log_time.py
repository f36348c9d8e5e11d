"""Whose time moves log time, and which times a record may have."""

import pytest

from sowline.model.log_time import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIME_TYPE,
    TIME_MAX,
    is_time,
    known_log_time,
    times_after,
)

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("time", "time_type", "expected"),
    [
        (7, LOG_APPEND_TIME, (7, 7)),
        (3, LOG_APPEND_TIME, (5, 5)),
        (7, CREATE_TIME, (5, 7)),
        (3, CREATE_TIME, (5, 5)),
        (TIME_MAX, CREATE_TIME, (5, TIME_MAX)),
        (TIME_MAX + 1, CREATE_TIME, (5, 5)),
        (INT64_MAX, LOG_APPEND_TIME, (5, 5)),
        (-1, NO_TIME_TYPE, (5, 5)),
    ],
)
def test_only_the_brokers_time_moves_log_time(time: int, time_type: int, expected: tuple[int, int]) -> None:
    """Log time does not run back, and a time that is none moves nothing."""
    assert times_after(5, time, time_type) == expected


def test_the_year_9999_is_the_last() -> None:
    """Times from 1970 on are times; of a stored one beyond, nothing is known."""
    assert [is_time(time) for time in (-1, 0, TIME_MAX, TIME_MAX + 1)] == [False, True, True, False]
    assert (known_log_time(8), known_log_time(TIME_MAX + 1)) == (8, 0)
