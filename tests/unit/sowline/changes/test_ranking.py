"""Which event of a key counts in a load."""

import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.changes.ranking import NewestEvents, RelativeAge
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


def held_after(events: list[Event]) -> dict[bytes, Position]:
    """Return the positions of the records that a load of the events leaves."""
    newest, held = NewestEvents(), dict[bytes, Position]()
    for event in events:
        newest.saw(event)
        if not isinstance(event, Change):
            continue
        if newest.relative_age(event, held.get(event.sow_key)) is RelativeAge.NEWER:
            if event.body is None:
                held.pop(event.sow_key, None)
            else:
                held[event.sow_key] = event.position
            newest.keep(event, is_stored=event.body is not None)
    return held


TRUE = Position(0, 50)
BEGIN: list[Event] = [progress(at(-1), at(-1)), change(TRUE, at(-1)), progress(Position(1, 9), TRUE)]
STALE = change(Position(0, 107), TRUE)
REPAIR = replace(change(TRUE, TRUE), op=AGAIN, emitted_in=1)
NO_RECORD = replace(REPAIR, body=None, position=Position(1, -1), after=Position(1, -1), emitted_in=None)


@pytest.mark.parametrize(
    ("stale", "repair", "held"),
    [
        (STALE, REPAIR, {b"1": TRUE}),
        (replace(STALE, body=None), REPAIR, {b"1": TRUE}),
        (replace(STALE, sow_key=b"2"), replace(NO_RECORD, sow_key=b"2"), {b"1": TRUE}),
    ],
    ids=["updated", "deleted", "inserted"],
)
def test_a_stalled_owner_of_an_ended_era(stale: Change, repair: Change, held: dict[bytes, Position]) -> None:
    """What it writes after a later era has begun does not count, before the repair and after it, compacted or not."""
    assert held_after([*BEGIN, stale]) == held
    assert held_after([*BEGIN, stale, repair]) == held
    assert held_after([*BEGIN[:2], stale, repair, BEGIN[2]]) == held
    if repair.emitted_in is not None:
        assert held_after([*BEGIN[:2], repair, stale]) == held


def test_a_deletion_of_a_later_era_outranks_a_higher_position() -> None:
    """A load keeps the rank of a deletion, though the reader has nothing left whose position could tell it."""
    gone = replace(change(Position(1, 3), TRUE), body=None)
    assert held_after([change(TRUE, at(-1)), gone, replace(change(at(70), TRUE), emitted_in=0)]) == {}
    assert (
        held_after([change(at(7), at(6)), replace(change(at(8), at(7)), body=None), change(at(7), at(6))])
        == {}
    )


def test_an_event_that_comes_again_is_no_newer() -> None:
    """Nor one before the event that the reader holds; after the load, only what it holds counts."""
    newest, gone = NewestEvents(), replace(change(at(8), at(7)), body=None)
    newest.saw(gone)
    newest.keep(gone, is_stored=False)
    ages = [newest.relative_age(change(at(n), at(n - 1)), None) for n in (7, 8, 9)]
    assert ages == [RelativeAge.OLDER, RelativeAge.EQUAL, RelativeAge.NEWER]
    newest.clear()
    assert newest.relative_age(change(at(7), at(6)), None) is RelativeAge.NEWER
