"""How far long work is, on a terminal."""

import sys

import pytest

from sowline.cli import progress as progress_line
from sowline.cli.progress import ProgressLine


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
