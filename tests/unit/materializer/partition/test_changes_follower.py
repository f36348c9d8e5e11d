"""What a follower of the changes takes, and where it asks to be loaded again."""

from typing import Any

import pytest

from sowline.changes.change import AGAIN, RESET, Change
from sowline.changes.changes_reader import ChangesMissing
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Origin
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.store.integrity import survey
from tests.memory_store import MemoryStore
from tests.property.world import dump
from tests.unit.materializer.standby.followed import DEFINITION, change, progress


def follower(*events: Event) -> tuple[MemoryStore, ChangesFollower]:
    """Return a follower that began with nothing and has taken these in, each in a portion of its own."""
    store = MemoryStore()
    follower = ChangesFollower(DEFINITION, store, Checkpoint(definition=DEFINITION.digest, log_id="log"), [])
    for offset, event in enumerate(events, 1):
        follower.follow([event], offset)
    return store, follower


def test_each_portion_is_a_state_to_go_on_from() -> None:
    """Records, their tally and the head with its place in the changes are written together."""
    store, one = follower(progress(-1), change(0), change(1, b"2"), change(2, body=None), progress(5))
    assert set(dump(store, 0, 0)) == {b"2"}
    assert survey(store).checksum == store.checksum()
    assert Checkpoint.decode(store.checkpoint() or b"") == one.checkpoint
    assert (one.checkpoint.position, one.checkpoint.last_change) == (Position(0, 5), Position(0, 2))
    assert (
        one.checkpoint.time,
        one.checkpoint.records,
        one.checkpoint.changes_end,
        one.checkpoint.next_offset,
    ) == (105, 1, 5, 6)


def test_what_progress_events_tell_is_kept() -> None:
    """Limits, origins and the log come from them; the origins of an era that has ended are forgotten."""
    fields: dict[str, Any] = {"origins": {3: 7}, "limits": Limits(records_max=9), "numbers_since": 4}
    _, one = follower(progress(1, **fields), change(2, origin=Origin(3, 8)), change(3, origin=Origin(2, 1)))
    assert (one.checkpoint.origins, one.checkpoint.limits.records_max, one.checkpoint.numbers_since) == (
        {3: 8, 2: 1},
        9,
        4,
    )
    one.follow([progress(-1, 1, Position(0, 3), log_id="other")], 4)
    assert (one.checkpoint.origins, one.checkpoint.log_id, one.checkpoint.position) == (
        {},
        "other",
        Position(1, -1),
    )


def test_the_word_of_an_owner_that_knows_another_topic_counts_nothing() -> None:
    """But compaction would keep it, so the true one is to be written again."""
    follower = ChangesFollower(
        DEFINITION, MemoryStore(), Checkpoint(definition=DEFINITION.digest, changes_id="this"), []
    )
    follower.follow([progress(2, changes_id="this"), progress(9, changes_id="old")], 2)
    assert (follower.checkpoint.position, follower.checkpoint.stale_keys) == (Position(0, 2), {PROGRESS_KEY})


def test_a_log_record_cut_short_is_next_again() -> None:
    """A worker that takes over within the changes of one log record reads that record again."""
    _, one = follower(change(0, last=False))
    assert (one.checkpoint.complete, one.checkpoint.next_offset) == (False, 0)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (change(9), "expected what follows 3"),
        (progress(9, after=Position(0, 8)), "expected what follows 3"),
        (change(4, body=None, after=Position(0, 1), op=RESET), "was reset and begins without its records"),
        (change(0, era=1, after=Position(0, 1)), "begin of an era"),
        (change(4, after=Position(0, 4), op=AGAIN), "expected what follows 3"),
        (change(1, b"9", op=AGAIN), "as new as"),
        (change(3, op=AGAIN), "as new as"),
    ],
)
def test_in_doubt_there_is_a_gap(event: Change | Progress, why: str) -> None:
    """What can't be the next step of this state, or tells more of a record than it has, changes nothing."""
    store, one = follower(progress(-1), change(0), change(1, b"2", body=b'{"id":2}'), progress(3))
    before = one.checkpoint, dump(store, 0, 0)
    with pytest.raises(ChangesMissing, match=why):
        one.follow([event], 9)
    assert (one.checkpoint, dump(store, 0, 0)) == before


@pytest.mark.parametrize(
    ("late", "stale_keys"),
    [
        ([change(0)], {b"1"}),
        ([change(0), change(2)], set()),
        ([change(0), change(2, op=AGAIN)], set()),
        ([change(1, b"2", None)], {b"2"}),
        ([change(1, b"2", None), change(2, b"2", None, op=AGAIN)], set()),
        ([progress(1)], {PROGRESS_KEY}),
        ([progress(1), progress(2)], set()),
    ],
)
def test_what_compaction_may_keep_wrongly_is_noted(late: list[Event], stale_keys: set[bytes]) -> None:
    """Keys whose last event is not their newest, until they are written again."""
    store, one = follower(progress(-1), change(0), change(1, b"2", None), change(2))
    before = dump(store, 0, 0)
    for offset, event in enumerate(late, 5):
        one.follow([event], offset)
    assert one.checkpoint.stale_keys == stale_keys
    assert dump(store, 0, 0) == before


def test_what_comes_late_from_an_ended_era_is_to_be_written_again() -> None:
    """Even a record's newest event: a loader drops it, for it stands behind the next era's begin."""
    _, one = follower(progress(-1), change(0), progress(-1, 1, Position(0, 0)))
    one.follow([change(0)], 5)
    assert one.checkpoint.stale_keys == {b"1"}
    one.follow([change(0, op=AGAIN, emitted_in=1)], 6)
    assert one.checkpoint.stale_keys == set()


def test_deleted_records_are_remembered_for_the_window() -> None:
    """A copy forgets them when its owner does, however long it stays a copy."""
    numbers = {"p": (1, 0, 101)}
    gone = change(1, body=None, numbers=numbers)
    store, one = follower(progress(-1), change(0, numbers=numbers), gone)
    one.follow([progress(50, limits=DEFINITION.limits)], 4)
    assert set(dump(store, 0, 0)) == {b"1"} == {key for key, _ in store.scan()}
    one.follow([progress(52, limits=DEFINITION.limits)], 5)
    assert list(store.scan()) == []
    assert store.checksum() == survey(store).checksum
