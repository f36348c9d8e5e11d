"""Following: which events are new, which are repeats, and where one is missing."""

import pytest
from msgspec.structs import replace

from sowline.change import AGAIN, Change, Event, Progress
from sowline.following import Verdict, Wholeness, verdict
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


def at(offset: int) -> Position:
    """Return a place."""
    return Position(0, offset)


def again(offset: int) -> Change:
    """Return an event that was written again."""
    return replace(change(at(offset), at(offset)), op=AGAIN)


@pytest.mark.parametrize(
    ("events", "is_whole"),
    [
        ([], False),
        ([change(at(3), at(2))], False),
        ([progress(at(-1), at(-1)), change(at(3), at(2))], True),
        ([again(7), again(3)], False),
        ([again(7), again(3), progress(at(7), at(7))], True),
        ([progress(at(-1), at(-1)), change(at(3), at(2)), again(3)], True),
        ([progress(at(-1), at(-1)), change(at(3), at(2)), again(5)], False),
        ([progress(at(-1), at(-1)), change(at(3), at(2)), again(5), progress(at(3), at(3))], False),
        ([progress(at(-1), at(-1)), again(5), again(4), progress(at(6), at(5)), change(at(7), at(5))], True),
    ],
)
def test_a_load_is_whole(events: list[Event], is_whole: bool) -> None:
    """Where records that are newer than all before are being written again, their last word is missing."""
    for size in (1, len(events) or 1):
        wholeness = Wholeness()
        for start in range(0, len(events), size):
            wholeness.saw(events[start : start + size])
        assert wholeness.is_whole is is_whole


def test_a_gap_that_compaction_has_not_made() -> None:
    """An owner of before goes on in a topic that was made again: what it wrote there is a part."""
    events, rewritten = [progress(at(-1), at(-1)), change(at(3), at(2))], [again(1), progress(at(3), at(3))]
    wholeness = Wholeness()
    wholeness.saw(events, (0, 1))
    assert not wholeness.is_whole
    wholeness.saw(rewritten, (2, 3))
    assert wholeness.is_whole
    for offsets in (0, 5), (4, 5):
        compacted = Wholeness()
        compacted.saw(events, offsets)
        assert compacted.is_whole


def test_the_word_of_an_owner_that_knows_another_topic() -> None:
    """It goes on where it was, though what was before that is gone; it will notice, and write all again."""
    wholeness = Wholeness("new")
    wholeness.saw([change(at(8), at(7)), progress(at(9), at(8))._replace(changes_id="old")])
    assert not wholeness.is_whole
    wholeness.saw([again(8), progress(at(9), at(8))._replace(changes_id="new")])
    assert wholeness.is_whole
