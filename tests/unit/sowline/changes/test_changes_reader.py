"""Reading a changes partition: what a reader does with an event, and its phases."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import (
    NEXT,
    ChangesMissing,
    ChangesReader,
    Phase,
    Verdict,
    incomplete,
    takes,
    verdict,
)
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.model.position import Position, before_the_log


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
    event = make(position, after)
    assert verdict(event, HELD) is expected
    if expected is Verdict.GAP:
        with pytest.raises(ChangesMissing, match="expected what follows 1/10, got "):
            takes(event, HELD)
    else:
        assert takes(event, HELD) is (expected is Verdict.TAKE)


@pytest.mark.parametrize(
    ("position", "after", "expected"),
    [
        (Position(2, 0), Position(2, -1), Verdict.TAKE),
        (Position(2, 7), Position(2, -1), Verdict.TAKE),
        (Position(2, 7), Position(2, 6), Verdict.GAP),
        (Position(2, 7), Position(1, 6), Verdict.GAP),
    ],
)
def test_a_log_begins_in_a_later_era(position: Position, after: Position, expected: Verdict) -> None:
    """What follows from the start takes its first event. What holds a change of the deleted log has a gap."""
    first = change(position, after)
    assert verdict(first, before_the_log()) is expected
    assert verdict(first, Position(0, 0)) is verdict(first, Position(1, 3)) is Verdict.GAP
    assert verdict(progress(Position(2, -1), Position(2, -1)), before_the_log()) is Verdict.TAKE
    # A deletion that the owner repairs tells nothing of the changes before it.
    repaired = replace(change(Position(2, -1), Position(2, -1)), op=AGAIN)
    assert verdict(repaired, before_the_log()) is Verdict.GAP


def at(offset: int) -> Position:
    """Return a place."""
    return Position(0, offset)


def again(offset: int) -> Change:
    """Return an event that was written again."""
    return replace(change(at(offset), at(offset)), op=AGAIN)


def loading(**given: bool) -> ChangesReader:
    """Return a load of 3 offsets, begun at second 0, of a topic whose compaction lag is 10 seconds."""
    load = ChangesReader("", 10, **given)
    load.aim(3, 0)
    return load


def test_a_load_is_complete_at_its_target() -> None:
    """It has read up to the target, nothing is left out, and compaction had no time to interfere."""
    load = loading()
    load.saw([progress(at(0), at(0))])
    load.read_up_to(2)
    assert load.look(1) is Phase.LOADING
    load.read_up_to(3)
    assert load.look(5) is Phase.COMPLETE
    assert load.look(6) is Phase.AIMING
    load.aim(4, 6)
    assert load.look(6) is Phase.LOADING


def test_a_load_at_the_end_needs_no_target() -> None:
    """Holes may precede the end. What arrives later ends that: compaction may have been at work since."""
    load = loading()
    load.saw([progress(at(0), at(0))])
    load.at_end(3)
    assert load.look(1000) is Phase.COMPLETE
    load.read_up_to(5)
    assert load.look(1000) is Phase.AIMING


def test_a_load_of_an_empty_or_unfilled_partition_is_incomplete() -> None:
    """A reader that starts during a refill would take a part for the whole."""
    load = loading()
    load.at_end(0)
    assert load.look(0) is Phase.INCOMPLETE
    load.saw([again(7), again(3)])
    load.read_up_to(3)
    assert load.look(0) is Phase.INCOMPLETE
    load.saw([progress(at(7), at(7))])
    assert load.look(0) is Phase.COMPLETE


def test_a_topic_without_a_sow_has_nothing_to_complete() -> None:
    """Its changes are deleted by age, progress events too."""
    load = loading(has_sow=False)
    load.at_end(0)
    assert load.look(0) is Phase.COMPLETE


def test_the_sentence_for_an_incomplete_load() -> None:
    """It names the partitions, what may be the cause, and what to do."""
    assert incomplete("orders.changes", [3, 1]) == (
        "waiting for orders.changes [1, 3]: it is empty, or its owner is still filling it again. Start a"
        " materializer if none is running"
    )


def test_a_snapshot_that_is_followed_for_too_long() -> None:
    """Compaction may have removed a deletion since: only a load from the start has every record."""
    load = loading()
    load.begin_with_snapshot(1)
    assert (load.look(5), load.is_whole) == (Phase.LOADING, True)
    assert load.look(6) is Phase.MISSING


def test_a_load_that_has_to_reach_a_position() -> None:
    """What a fanout has written was made from changes that the load does not have yet."""
    load = loading()
    load.required_position = at(4)
    assert load.take(progress(at(0), at(-1)), 0) is Verdict.LOAD
    load.at_end(3)
    assert load.look(1) is Phase.INCOMPLETE
    assert load.take(change(at(4), at(0)), 3) is Verdict.LOAD
    assert load.look(1) is Phase.COMPLETE


def test_a_load_is_followed_from_its_newest_position() -> None:
    """Events of the load are no repeats for it; what comes next has to continue it."""
    reader = loading()
    events: list[Event] = [progress(at(-1), at(-1)), change(at(3), at(-1)), change(at(1), at(-1))]
    assert [reader.take(event, offset) for offset, event in enumerate(events)] == [Verdict.LOAD] * 3
    assert reader.look(1) is Phase.COMPLETE
    reader.follow()
    assert not reader.is_loading
    assert [reader.take(change(at(n), at(n - 1)), 3 + n) for n in (2, 4, 4)] == [
        Verdict.DROP,
        Verdict.TAKE,
        Verdict.DROP,
    ]
    assert (reader.position, reader.next_offset) == (at(4), 8)
    with pytest.raises(ChangesMissing):
        reader.take(change(at(6), at(5)), 8)
    assert reader.phase is Phase.MISSING


def test_the_word_of_an_owner_that_knows_another_topic_counts_nothing() -> None:
    """Neither while it loads nor while it follows."""
    other = progress(at(9), at(0))._replace(changes_id="old")
    reader = ChangesReader("new", 10)
    reader.aim(1, 0)
    assert (reader.take(other, 0), reader.look(1)) == (Verdict.DROP, Phase.INCOMPLETE)
    follower = ChangesReader.after(at(1), 5, "new")
    assert (follower.take(other, 5), follower.position) == (Verdict.DROP, at(1))


@pytest.mark.parametrize("phase", Phase)
def test_a_topic_that_is_replaced_is_noticed_in_each_phase(phase: Phase) -> None:
    """Its id is another one; the offset at which it begins may be another one in the same topic."""
    reader = ChangesReader("this@4", 10)
    assert (reader.topic_id, reader.next_offset) == ("this", 4)
    reader.phase = phase
    reader.note_topic("this")
    assert reader.phase is phase
    reader.note_topic("another")
    assert reader.phase is Phase.REPLACED


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("following", Phase)
def test_a_phase_follows_those_in_the_table_only(phase: Phase, following: Phase) -> None:
    """A reader that is to load again is a new one."""
    reader = ChangesReader("", 10)
    reader.phase = phase
    if following is phase or following in NEXT[phase]:
        reader._enter(following)
        assert reader.phase is following
    else:
        with pytest.raises(AssertionError, match="does not come after"):
            reader._enter(following)
