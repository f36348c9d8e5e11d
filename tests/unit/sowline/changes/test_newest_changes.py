"""The newest change of each key, of all that a load reads."""

import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.newest_changes import NewestChanges
from sowline.changes.progress import Progress
from sowline.model.position import Position


def change(key: bytes, offset: int, body: bytes | None = b"{}", era: int = 0) -> Change:
    """Return a change of a record, or its deletion."""
    op = "delete" if body is None else "publish"
    return Change(key, body, None, Position(era, offset), Position(era, offset - 1), op, 0)


def progress(era: int, offset: int) -> Progress:
    """Return a progress event of an era."""
    return Progress(Position(era, offset), Position(era, offset), offset, {}, "", "", 0, {})


@pytest.mark.parametrize(
    ("events", "live"),
    [
        ([change(b"1", 1), change(b"2", 2), change(b"1", 3)], {b"1": 3, b"2": 2}),
        ([change(b"1", 3), change(b"1", 1)], {b"1": 3}),
        ([change(b"1", 1), change(b"1", 2, None)], {}),
        ([change(b"1", 2, None), change(b"1", 1)], {}),
        ([change(b"1", 1), progress(1, 9), change(b"1", 50)], {b"1": 1}),
    ],
    ids=["update", "late copy", "deletion", "late copy of a deleted record", "ended era"],
)
def test_the_change_of_the_highest_rank_counts(events: list[Event], live: dict[bytes, int]) -> None:
    """In whatever order the events arrive; what the owner of an ended era writes late does not count."""
    newest = NewestChanges()
    for event in events:
        newest.take(event)
    assert {one.sow_key: one.position.offset for one in newest.live()} == live


def test_deletions_are_kept_but_not_live() -> None:
    """A reader can tell a record that was deleted from one that it has never seen."""
    newest = NewestChanges()
    newest.take(change(b"1", 1, None))
    assert set(newest.newest.values()) == {change(b"1", 1, None)}
    assert list(newest.live()) == []
