"""Where each write to a document is told: what is kept, for how long, and within which limit."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import AGAIN, RESET, Change
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica import timeline as module
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.replica.timeline import (
    DOCUMENT_BYTES,
    PRUNED_A_STEP,
    WRITE_BYTES,
    Noted,
    Timeline,
    Timelines,
)

TTL = 100
ROOM = DOCUMENT_BYTES + 18 * WRITE_BYTES
ACCOUNT = Writes(1, "0" * 32, 0, 0, 0)


def change(time: int, key: bytes = b"a", op: str = "delta", writes: Writes | None = ACCOUNT) -> Change:
    """Return a write to a document."""
    return Change(key, b"{}", None, Position(0, time), Position(0, time - 1), op, time, writes=writes)


def noted(timeline: Timeline, key: bytes = b"a") -> list[int]:
    """Return the offsets of a document's writes, newest first."""
    return [write.offset for write in timeline.newest_first(key)]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("note"), st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 60)),
        st.tuples(st.just("advance"), st.none(), st.integers(-60, 60)),
        st.tuples(st.just("drop"), st.none(), st.integers(1, 4)),
        st.tuples(st.just("begin again"), st.sampled_from([b"a", b"b"]), st.just(1)),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([0, 1, 30, 1000]))
def test_it_keeps_what_a_list_would(steps: list[tuple[str, bytes | None, int]], ttl: int) -> None:
    """Of each document all writes that are young enough, whatever comes, goes and moves up meanwhile."""
    with patch.object(module, "SLACK_MIN", 2):
        timeline, time = Timeline(ttl), 0
        kept: dict[bytes, list[Noted]] = {b"a": [], b"b": [], b"c": []}
        for offset, (what, key, number) in enumerate(steps):
            if what == "note" and key is not None:
                time += number
                timeline.note(offset, change(time, key))
                kept[key].insert(0, Noted(offset, time))
            elif what == "begin again" and key is not None:
                timeline.note(offset, change(time, key, RESET, None))
                kept[key] = []
            elif what == "advance":
                timeline.advance(time + number)
                time = max(time, time + number)
            else:
                timeline.drop_oldest(number)
            kept = {
                key: [one for one in writes if one.time >= timeline.floor] for key, writes in kept.items()
            }
            assert {key: list(timeline.newest_first(key)) for key in kept} == kept
            assert timeline.writes >= sum(map(len, kept.values()))
        assert timeline.floor >= time - ttl
        for _ in steps:
            timeline.advance(10**6)
        assert timeline.nbytes == 0


def test_what_is_too_old_goes_from_memory_by_and_by() -> None:
    """A few with each that comes, and at once nobody is told of them."""
    timeline = Timeline(TTL)
    for time in range(50):
        timeline.note(time, change(time))
    timeline.advance(1000)
    assert noted(timeline) == []
    assert timeline.writes == 50 - PRUNED_A_STEP
    for _ in range(6):
        timeline.advance(1000)
    assert (timeline.writes, timeline.nbytes, timeline.oldest) == (0, 0, None)


def test_an_event_that_is_written_again_is_no_write() -> None:
    """It stands for a write that was told before."""
    timeline = Timeline(TTL)
    timeline.note(5, change(10))
    timeline.note(6, change(11, op=AGAIN))
    assert noted(timeline) == [5]


def test_who_walks_is_not_disturbed() -> None:
    """What comes and goes meanwhile ends the walk early at the most."""
    with patch.object(module, "SLACK_MIN", 2):
        timeline = Timeline(TTL)
        for time in range(20):
            timeline.note(time, change(time))
        walk = timeline.newest_first(b"a")
        first = [next(walk).offset for _ in range(3)]
        for _ in range(10):
            timeline.note(500, change(107))
        assert (first, [write.offset for write in walk]) == ([19, 18, 17], list(range(16, 6, -1)))


def test_beyond_the_limit_the_oldest_go_whosever_they_are() -> None:
    """And it is told from when on there is every write."""
    timelines, one, other = Timelines(ROOM), Timeline(TTL), Timeline(TTL)
    timelines.add(one)
    timelines.add(other)
    for time in range(10):
        one.note(time, change(time))
    assert timelines.keep_within() == 0
    for time in range(10, 30):
        other.note(time, change(time))
    with patch.object(module, "DROPPED_AT_ONCE", 1):
        gone = timelines.keep_within()
    assert timelines.nbytes <= ROOM
    assert gone == timelines.dropped == 30 - one.writes - other.writes
    assert (one.writes, other.oldest) == (0, 12)
    assert (one.floor, other.floor) == (10, 12)
    assert timelines.keep_within() == 0


def test_a_repeat_is_noted_once_and_a_dead_owner_not_at_all() -> None:
    """While loading and while following: what a document's state does not count, its timeline does not tell."""
    replica = PartitionReplica(0, Rows(), 100, timeline=(timeline := Timeline(TTL)))
    later = replace(change(0), position=Position(1, 4), after=Position(0, 2))
    replica.load(placed(change(1), change(2), change(1), change(2), later, change(3)))
    replica.loaded()
    assert noted(timeline) == [4, 1, 0]
    next_one = replace(change(5), position=Position(1, 5), after=Position(1, 4))
    replica.apply(placed(later, next_one, later, start=6))
    assert noted(timeline) == [7, 4, 1, 0]


def placed(*changes: Change, start: int = 0) -> list[EventAtOffset]:
    """Return the changes at offsets that follow each other."""
    return [EventAtOffset(offset, change) for offset, change in enumerate(changes, start)]
