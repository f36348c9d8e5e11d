"""What names a past state."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sowline.errors import SowlineError
from sowline.model.position import Position, before_the_log
from sowline.spark.moment import read_moment

TEN = 1_795_256_100_000
"""2026-11-21 10:15:00 UTC in ms."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("orders:0@7,1@1/9.2", {0: Position(0, 7), 1: Position(1, 9, 2)}),
        ("epoch", {0: before_the_log(), 1: before_the_log()}),
        ("now", None),
        ("2026-11-21T10:15:00Z", TEN),
        ("2026-11-21 11:15:00.250+01:00", TEN + 250),
        ("20261121T101500Z", TEN),
        ("20261121T101500.5Z", TEN + 500),
        ("20261121T101500.123456Z", TEN + 123),
        (datetime(2026, 11, 21, 10, 15, tzinfo=UTC), TEN),
        (datetime(2026, 11, 21, 11, 15, tzinfo=timezone(timedelta(hours=1))), TEN),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), 0),
    ],
)
def test_moments(given: str | datetime, expected: object) -> None:
    """A bookmark of all partitions, `epoch`, `now`, or a time: then it is cut to milliseconds, and to 1970."""
    assert read_moment(given, "orders", 2) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("yesterday", "got 'yesterday'"),
        ("orders", "got 'orders'"),
        ("", "got ''"),
        ("2026-11-21T10:15:00", "without a zone"),
        (datetime(2026, 11, 21), "without a zone"),
        ("trades:0@1,1@1", "of orders, got one of trades"),
        ("orders:0@1,1@1;trades:0@1", "got one of orders, trades"),
        ("orders:0@1", "got none in 1"),
        ("orders:0@1,1@1,2@1", "a partition of orders below 2, got 2"),
        ("orders:0@x,1@1", "'x'"),
    ],
)
def test_what_is_none(given: str | datetime, message: str) -> None:
    """Anything else is an invalid bookmark, and the error says what came."""
    with pytest.raises(SowlineError, match=message) as error:
        read_moment(given, "orders", 2)
    assert error.value.reason == "invalid bookmark"
