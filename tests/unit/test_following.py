"""Following: which events are new, which are repeats, and where one is missing."""

import pytest

from sowline.change import Change, Event, Progress
from sowline.following import Verdict, verdict
from sowline.position import Position


def change(position: Position, after: Position) -> Change:
    """Return a change at a place."""
    return Change(b"1", b"{}", None, position, after, "publish", 0)


def progress(position: Position, after: Position) -> Progress:
    """Return a progress event at a place."""
    return Progress(position, after, 0, {}, "", "", 0, {})


HELD = Position(1, 10)


@pytest.mark.parametrize("make", [change, progress])
@pytest.mark.parametrize(
    ("position", "after", "expected"),
    [
        (Position(1, 11), Position(1, 10), Verdict.TAKE),
        (Position(1, 10, 1), Position(1, 10), Verdict.TAKE),
        (Position(1, 50), Position(1, 3), Verdict.TAKE),
        (Position(1, 10), Position(1, 9), Verdict.DROP),
        (Position(1, 9), Position(1, 8), Verdict.DROP),
        (Position(0, 99), Position(0, 98), Verdict.DROP),
        (Position(1, 12), Position(1, 11), Verdict.GAP),
        (Position(1, 11, 1), Position(1, 11), Verdict.GAP),
        (Position(2, 0), Position(1, 10), Verdict.TAKE),
        (Position(2, 0), Position(1, 11), Verdict.GAP),
        (Position(2, 5), Position(2, 4), Verdict.GAP),
    ],
)
def test_the_verdict_on_an_event(
    make: type[Event], position: Position, after: Position, expected: Verdict
) -> None:
    """Newer than what is held, after something that is held: take it; not newer: drop it; else there is a gap."""
    assert verdict(make(position, after), HELD) is expected
