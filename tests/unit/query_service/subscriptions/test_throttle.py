"""Rates: when the next message may go."""

import time

import pytest

from sowline.subscriptions.live.throttle import Throttle
from sowline.wire.options import ReplayRate


class Clock:
    """A clock that tests move."""

    now = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def test_messages_go_evenly() -> None:
    """So many a second, whatever their size."""
    clock = Clock()
    throttle = Throttle(ReplayRate(10, "messages"), clock, time.time_ns)
    waits = []
    for _ in range(20):
        waits.append(throttle.take(1000, 0))
        clock.now += waits[-1]
    assert clock.now == pytest.approx(101.9)
    assert waits[0] == 0


def test_little_is_made_up_for() -> None:
    """After a quiet time there is no burst."""
    clock = Clock()
    throttle = Throttle(ReplayRate(100, "messages"), clock, time.time_ns)
    clock.now += 60
    waits = []
    for _ in range(50):
        waits.append(throttle.take(1, 0))
        clock.now += waits[-1]
    assert sum(wait == 0 for wait in waits) <= 12


def test_bytes_are_counted() -> None:
    """A large message makes the next one wait."""
    clock = Clock()
    throttle = Throttle(ReplayRate(1024, "bytes"), clock, time.time_ns)
    assert throttle.take(2048, 0) == 0
    assert throttle.take(10, 0) == pytest.approx(2.0)


def test_the_original_speed_times_so_many() -> None:
    """By the log's times, which the first message ties to the clock."""
    clock = Clock()
    throttle = Throttle(ReplayRate(2, "times"), clock, time.time_ns)
    assert throttle.take(1, 5000) == 0
    assert throttle.take(1, 9000) == pytest.approx(2.0)
    clock.now += 3
    assert throttle.take(1, 10000) == 0


def test_a_time_to_come_is_not_waited_for() -> None:
    """A producer's time may be centuries ahead: a replay waits at most as long as what has passed since."""
    now = time.time_ns() // 1_000_000
    throttle = Throttle(ReplayRate(1, "times"), lambda: 0.0, time.time_ns)
    assert throttle.take(1, now - 1000) == 0
    assert throttle.take(1, 2**62) < 3600
