"""Reading a changes partition: which events a follower takes, which a load counts, and when a load is complete."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change, Event, Progress
from sowline.changes.changes_loader import (
    LoadProgress,
    NewestEvents,
    Phase,
    RelativeAge,
    Verdict,
    Wholeness,
    incomplete,
    is_of,
    verdict,
)
from sowline.model.position import Position


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
    make: Callable[[Position, Position], Event], position: Position, after: Position, expected: Verdict
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


def loading(**given: bool) -> LoadProgress:
    """Return a load of 3 offsets, begun at second 0, of a topic whose compaction lag is 10 seconds."""
    load = LoadProgress("", 10, **given)
    load.aim(3, 0)
    return load


def test_a_load_is_complete_at_its_target() -> None:
    """It has read up to the target, nothing is left out, and compaction had no time to interfere."""
    load = loading()
    load.saw([progress(at(0), at(0))])
    load.read_up_to(2)
    assert load.phase(1) is Phase.READING
    load.read_up_to(3)
    assert load.phase(5) is Phase.COMPLETE
    assert load.phase(6) is Phase.LATE
    load.aim(4, 6)
    assert load.phase(6) is Phase.READING


def test_a_load_at_the_end_is_never_late() -> None:
    """Holes may precede the end. What arrives later ends that: compaction may have been at work since."""
    load = loading()
    load.saw([progress(at(0), at(0))])
    load.at_end(3)
    assert load.phase(1000) is Phase.COMPLETE
    load.read_up_to(5)
    assert load.phase(1000) is Phase.LATE


def test_a_load_of_an_empty_or_unfilled_partition_is_incomplete() -> None:
    """A reader that starts during a refill would take a part for the whole."""
    load = loading()
    load.at_end(0)
    assert load.phase(0) is Phase.INCOMPLETE
    load.saw([again(7), again(3)])
    load.read_up_to(3)
    assert load.phase(0) is Phase.INCOMPLETE
    load.saw([progress(at(7), at(7))])
    assert load.phase(0) is Phase.COMPLETE


def test_a_topic_without_a_sow_has_nothing_to_complete() -> None:
    """Its changes are deleted by age, progress events too."""
    load = loading(has_sow=False)
    load.at_end(0)
    assert load.phase(0) is Phase.COMPLETE


def test_the_sentence_for_an_incomplete_load() -> None:
    """It names the partitions, what may be the cause, and what to do."""
    assert incomplete("orders.changes", [3, 1]) == (
        "waiting for orders.changes [1, 3]: it is empty, or its owner is still filling it again. Start a"
        " materializer if none is running"
    )
