"""How far long work is, on a terminal."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sowline.cli import progress as progress_line
from sowline.cli.progress import ProgressLine, reported_if_slow


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that tellers look at."""
    clock = Clock()
    monkeypatch.setattr(progress_line, "time", clock)
    return clock


def test_a_terminal_gets_progress_each_second(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not before the first second is over, and of how much where that is known."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    tell = ProgressLine()
    for clock.now in (0.5, 1.0, 1.9, 2.1):
        tell("published", 1000 + int(10 * clock.now))
    clock.now = 4.0
    tell("applied", 7, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "published: 1,010",
        "published: 1,021",
        "applied: 7 of 1,000",
    ]


def test_other_streams_get_no_progress(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A log or a pipe gets no such lines."""
    tell = ProgressLine()
    clock.now = 10.0
    tell("published", 1)
    assert capsys.readouterr().err == ""


class Timer:
    """A timer whose time comes when a test says so."""

    made: list["Timer"]
    daemon = False

    def __init__(self, seconds: float, function: Any, given: Any, named: Any) -> None:
        self._call: Callable[[], object] = lambda: function(*given, **named)
        self.state = "made"
        self.made.append(self)

    def start(self) -> None:
        """Begin."""
        self.state = "started"

    def cancel(self) -> None:
        """End."""
        self.state = "cancelled"

    def ring(self) -> None:
        """Do what it was made for, if it runs."""
        if self.state == "started":
            self._call()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    """The timers that were made."""
    Timer.made = []
    monkeypatch.setattr(threading, "Timer", Timer)
    return Timer.made


@pytest.mark.parametrize(("is_terminal", "expected"), [(True, "waiting for it …\n"), (False, "")])
def test_a_long_wait_is_reported_on_a_terminal(
    timers: list[Timer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    expected: str,
) -> None:
    """Once it has begun, and only there; a wait that is over is not reported."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with reported_if_slow("waiting for it") as begin:
        timers[0].ring()
        assert capsys.readouterr().err == ""
        begin()
        timers[0].ring()
        assert capsys.readouterr().err == expected
    assert timers[0].state == "cancelled"
    timers[0].ring()
    assert capsys.readouterr().err == ""
