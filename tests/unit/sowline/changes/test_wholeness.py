"""Whether the events of a load include every record."""

import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.changes.wholeness import Wholeness, is_of
from sowline.model.position import Position


def change(position: Position, after: Position) -> Change:
    """Return a change at a place."""
    return Change(b"1", b"{}", None, position, after, "publish", 0)


def progress(position: Position, after: Position) -> Progress:
    """Return a progress event at a place."""
    return Progress(position, after, 0, {}, "", "", 0, {})


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
    """A previous owner goes on in a topic that was made again: what it wrote there is a part."""
    events: list[Event] = [progress(at(-1), at(-1)), change(at(3), at(2))]
    rewritten: list[Event] = [again(1), progress(at(3), at(3))]
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


def test_a_topic_that_lost_its_head_is_not_whole() -> None:
    """What its owner has reported before it noticed proves nothing; once it has written all again, it says so."""
    wholeness = Wholeness("id@5")
    unaware = progress(at(9), at(8))._replace(changes_id="id")
    for known in (unaware, unaware._replace(changes_id=""), unaware._replace(changes_id="id@4")):
        wholeness.saw([change(at(8), at(7)), known], (5, 6))
        assert not wholeness.is_whole
    wholeness.saw([again(8), progress(at(9), at(8))._replace(changes_id="id@5")], (7, 8))
    assert wholeness.is_whole
    longer = Wholeness("id@3")
    longer.saw([progress(at(9), at(8))._replace(changes_id="id@5")], (7,))
    assert longer.is_whole


def test_what_an_owner_has_written_before_counts_of_the_same_topic() -> None:
    """Followers take its positions, though a part of the topic was deleted since."""
    events = [progress(at(9), at(8))._replace(changes_id=id) for id in ("id", "id@5", "other", "other@5")]
    for reader in ("id", "id@5"):
        assert [is_of(event, reader) for event in events] == [True, True, False, False]


class PlainRun:
    """Changes that are not written again, as the native core has them."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = offsets

    def follow(self, state: tuple[Position, int, bool]) -> tuple[Position | None, int, bool]:
        """Return the state after these changes."""
        _, due, is_refilling = state
        return (
            (at(self._offsets[-1]), self._offsets[-1] + 1, is_refilling)
            if self._offsets
            else (None, due, is_refilling)
        )


def test_many_plain_changes_are_taken_at_once() -> None:
    """The state after them is that of their last one; without any it stays."""
    wholeness = Wholeness()
    assert not wholeness.has_position
    wholeness.saw([progress(at(-1), at(-1))])
    wholeness.saw_plain(PlainRun(3, 4))
    assert (wholeness.has_position, wholeness.state) == (True, (at(4), 5, False))
    wholeness.saw_plain(PlainRun())
    assert wholeness.state == (at(4), 5, False)
    assert wholeness.is_whole
