"""The replica of a partition: loading, following, and going back."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import ChangesMissing
from sowline.changes.event import Event
from sowline.config.topic_fields import HistoryDefinition
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position, before_the_log
from sowline_query_service.index.rows import Rare, Rows
from sowline_query_service.replica.history import PartitionHistory
from sowline_query_service.replica.partition_replica import (
    INDEX_STEP,
    RUN_MIN,
    Head,
    PartitionReplica,
)
from sowline_query_service.replica.plain_run import MessageColumns, PlainRun
from sowline_query_service.replica.timeline import Timeline
from tests.panics import panic
from tests.unit.query_service.replica.loaded_replica import ROWS, change, held, placed, progress, replica_of

WRITES = Writes(1, "0" * 32, 0, 0, 0)


# loading


def test_the_definition_of_the_newest_progress_event_is_kept() -> None:
    """It is the one that the partition is made by. That of a stale owner does not count."""
    made = progress(2)._replace(definition="new")
    replica = replica_of(change(0), progress(0), change(1), made, progress(1)._replace(definition="old"))
    assert replica.owner_definition == (made.definition, made.limits)
    later = progress(3, 2)._replace(definition="newer")
    replica.apply(placed([later], 9))
    assert replica.owner_definition == (later.definition, later.limits)
    replica.begin_again()
    assert replica.owner_definition is None


def test_a_load_takes_nothing_late_from_an_ended_era() -> None:
    """An owner that did not know wrote it after the next era had begun; what is written again counts."""
    begun = progress(-1)._replace(position=Position(1, -1))
    again = replace(change(9, 3), op=AGAIN, emitted_in=1)
    replica = replica_of(change(5), begun, change(7), change(8, 2), again)
    assert held(replica) == {b"1": 5, b"3": 9}


def test_a_load_goes_by_what_was_reported_in_the_later_era() -> None:
    """Compaction may have taken the event with which an era began; what its owner has repaired counts still."""
    stale, again = change(7), replace(change(5), op=AGAIN, emitted_in=1)
    end = progress(-1)._replace(position=Position(1, 4))
    assert held(replica_of(stale, again, end)) == held(replica_of(again, stale, end)) == {b"1": 5}
    later = replace(change(2), position=Position(1, 2))
    assert held(replica_of(again, later, stale, end)) == {b"1": 2}


def test_a_load_takes_the_newest_of_each_key() -> None:
    """Of a compacted topic the newest event per key counts, by position, wherever it stands."""
    replica = replica_of(change(5, 1), change(9, 2), change(3, 1), change(7, 3))
    assert held(replica) == {b"1": 5, b"2": 9, b"3": 7}
    assert (replica.held, replica.time, replica.next_offset) == (Position(0, 9), 1009, 4)


def test_a_record_is_its_body_position_and_time() -> None:
    """What a query needs of a record is kept as it came."""
    replica = replica_of(change(5, body=b'{ "a": 1.0}', correlation="c"))
    rows = ROWS[replica]
    held = rows.capture(rows.all())
    assert (held.keys, held.bodies, held.position(0)) == ([b"1"], [b'{ "a": 1.0}'], Position(0, 5))
    assert (held.times.tolist(), held.partitions.tolist(), held.rare) == ([1005], [3], {0: Rare("c")})


def test_a_stale_event_does_not_bring_back_a_deleted_record() -> None:
    """A deletion counts like any other event of its key."""
    assert held(replica_of(change(5), change(6, body=None), change(5))) == {}
    assert held(replica_of(change(6, body=None), change(5), change(7))) == {b"1": 7}


def test_the_position_comes_from_the_newest_event_of_any_kind() -> None:
    """A progress event moves the position; an old one does not move it back."""
    assert replica_of(change(5), progress(8), progress(2)).held == Position(0, 8)


def test_an_empty_topic_is_the_position_before_the_log() -> None:
    """Nothing was ever written: the replica is true, and empty."""
    replica = replica_of()
    assert (replica.held, held(replica), replica.loading) == (before_the_log(), {}, False)


# following


def test_following_applies_what_is_new() -> None:
    """New changes are applied and returned; repeats are dropped."""
    replica = replica_of(change(5))
    new = [change(6, 2), change(7, 1, None)]
    assert replica.apply(placed([change(5), change(4), *new], 1)) == new
    assert (held(replica), replica.held, replica.next_offset) == ({b"2": 6}, Position(0, 7), 5)


@pytest.mark.parametrize("event", [change(7), progress(8, 7)])
def test_a_gap_is_an_error(event: Event) -> None:
    """Where something between never arrived, following ends; it never goes on."""
    with pytest.raises(
        ChangesMissing,
        match=r"expected what follows 5, got \d after 6|expected what follows 5, got 8 after 7",
    ):
        replica_of(change(5)).apply(placed([event]))


def test_following_goes_on_from_a_progress_event() -> None:
    """The change after a progress event comes after an older change: that is no gap."""
    replica = replica_of(change(5), progress(9, 5))
    assert len(replica.apply(placed([change(12, after=Position(0, 5))]))) == 1


def test_a_new_era_follows_the_old_one() -> None:
    """Offsets begin again; the era makes them newer."""
    replica = replica_of(change(5))
    first = Change(b"1", b"{}", None, Position(1, 0), Position(0, 5), "publish", 0)
    assert replica.apply(placed([first])) == [first]
    assert replica.held == Position(1, 0)
    assert replica.apply(placed([change(6)])) == []


# going back


def test_recent_changes_are_kept_for_those_who_come_back() -> None:
    """From any place that the ring reaches, the changes after it come in order, up to a limit."""
    replica = replica_of(change(5))
    replica.apply(placed([change(6), change(7), change(8)]))
    assert replica.recent(Position(0, 5), 10) == [change(6), change(7), change(8)]
    assert replica.recent(Position(0, 6), 1) == [change(7)]
    assert replica.recent(Position(0, 8), 10) == []


def test_the_ring_says_where_it_does_not_reach() -> None:
    """Before its first change it knows nothing, and says so."""
    replica = replica_of(change(5), ring=2)
    assert replica.recent(Position(0, 4), 10) is None
    replica.apply(placed([change(6), change(7), change(8)]))
    assert replica.recent(Position(0, 5), 10) is None
    assert replica.recent(Position(0, 6), 10) == [change(7), change(8)]


def test_a_position_between_changes_is_reached_too() -> None:
    """A position at which only a progress event stood, or within a log record's changes, is one to come back to."""
    replica = replica_of(change(5), progress(9, 5))
    many = [
        change(12, 1, nth=0, after=Position(0, 5), last=False),
        change(12, 2, nth=1),
        change(12, 3, nth=2),
    ]
    replica.apply(placed([*many, progress(20, 12)]))
    assert replica.recent(Position(0, 9), 10) == many
    assert replica.recent(Position(0, 12), 10) == many[1:]
    assert replica.recent(Position(0, 15), 10) == []


def test_the_index_leads_to_where_a_position_was_written() -> None:
    """Before the offset it gives, nothing newer than the position was written; and it is not far off."""
    count = 5 * INDEX_STEP
    events = [change(2 * n, after=Position(0, 2 * n - 2)) for n in range(count)]
    replica = PartitionReplica(0, Rows(), 10)
    replica.load(placed(events[: count // 2], 100))
    replica.loaded()
    replica.apply(placed(events[count // 2 :], 100 + count // 2))
    for offset in (-1, 0, 1, 777, 2 * INDEX_STEP, 2 * count - 2, 9 * count):
        start = replica.offset_for(Position(0, offset)) - 100
        newer = next((at for at, event in enumerate(events) if event.position.offset > offset), count)
        assert max(0, newer - INDEX_STEP - 1) <= start <= newer


def test_the_index_is_not_led_astray_by_stale_events() -> None:
    """An old event that was written late gives no entry."""
    replica = PartitionReplica(0, Rows(), 10)
    replica.load(placed([change(500), *(change(n) for n in range(2 * INDEX_STEP))]))
    assert [replica.offset_for(Position(0, offset)) for offset in (400, 498, 499)] == [0, 0, 0]


def test_without_events_the_index_leads_to_the_end() -> None:
    """An empty topic has nothing to go back to."""
    assert replica_of().offset_for(Position(0, 5)) == 0


# the past


def past_of(*events: Event, follow: Sequence[Event] = ()) -> tuple[int, list[bytes]]:
    """Return from which offset on a replica's past can be told, and the records that have changed since, in order."""
    rows = Rows()
    history = PartitionHistory(HistoryDefinition(window="1h"), rows)  # type: ignore[arg-type]
    replica = PartitionReplica(3, rows, 100, history=history)
    replica.load(placed(events))
    replica.loaded()
    replica.apply(placed(follow, len(events)))
    since = history.since(history.floor)
    return max(-1, history.floor - 1000), [] if since is None else since.former.keys


def test_what_is_loaded_and_what_is_followed_is_the_past() -> None:
    """Each change, once, whenever it comes."""
    loaded, followed = (
        (change(0, 1), change(1, 2)),
        (change(2, 1), progress(3, 2), change(4, 2, after=Position(0, 2))),
    )
    expected = (-1, [b"1", b"2", b"1", b"2"])
    assert past_of(*loaded, follow=followed) == expected
    assert past_of(*loaded, *loaded, *followed) == expected


@pytest.mark.parametrize(
    "event",
    [change(5, 7), progress(5, 4), change(5, 1, op=AGAIN, after=Position(0, 5))],
    ids=["change", "progress", "again"],
)
def test_the_past_begins_where_nothing_is_missing(event: Event) -> None:
    """At the newest event that comes after something that is not there."""
    assert past_of(change(0, 1), change(1, 2), event) == (5, [])
    assert past_of(change(0, 1), event, change(6, 2, after=event.after)) == (5, [b"2"])


def test_what_is_written_again_is_not_the_past() -> None:
    """A repeat changes nothing, and hides no hole."""
    again = change(1, 1, op=AGAIN, after=Position(0, 1))
    first = change(1, 1, after=before_the_log())
    assert past_of(first, change(2, 2), again, change(3, 2)) == (-1, [b"1", b"2", b"2"])
    assert past_of(first, again, change(3, 2)) == (3, [])


# positions and offsets


@pytest.mark.parametrize("offset", [0, 1, INDEX_STEP - 1, INDEX_STEP, INDEX_STEP + 1, 2 * INDEX_STEP + 100])
def test_positions_lie_between_their_offsets(offset: int) -> None:
    """Nothing newer is before the one, and nothing that is not newer from the other on."""
    count = 2 * INDEX_STEP + 101
    replica = replica_of(*(change(number) for number in range(count)))
    position = Position(0, offset)
    assert offset - INDEX_STEP <= replica.offset_for(position) <= min(offset + 1, count)
    assert offset + 1 <= replica.offset_behind(position) <= min(offset + INDEX_STEP, count)


# snapshots


def test_a_snapshot_has_the_state_of_a_partition() -> None:
    """A replica that begins with it follows from there. While nothing is known, there is none."""
    assert replica_of().head is None
    reported = progress(7, 6)._replace(log_id="log", reflected={1: Position(0, 3)}, taken={1: "orders:0@3"})
    replica = replica_of(change(5), change(6), reported)
    assert replica.head is not None
    restored = PartitionReplica(3, Rows(), 100)
    restored.restore(replica.head, replica.index)
    assert (restored.is_restored, restored.head, restored.index) == (True, replica.head, replica.index)
    assert (restored.reflected, restored.taken) == ({1: Position(0, 3)}, {1: "orders:0@3"})
    restored.load(placed([change(8, 2, after=Position(0, 6))], 3))
    assert (restored.held, restored.changed_time) == (Position(0, 8), 1008)


def test_a_time_that_is_none_is_not_restored() -> None:
    """Version 0.1 let a producer's time move log time beyond the year 9999."""
    replica = PartitionReplica(3, Rows(), 100)
    replica.restore(Head(Position(0, 5), 6, 10**17, 10**17), [])
    assert (replica.time, replica.changed_time) == (0, 0)


def test_a_replica_begins_again_with_nothing() -> None:
    """Its records are gone, and so is all that it knew of the changes topic."""
    replica = replica_of(change(5), progress(6, 5)._replace(log_id="log", reflected={0: Position(0, 1)}))
    replica.apply(placed([change(7, 2, after=Position(0, 5))], 2))
    replica.begin_again()
    assert (held(replica), replica.position, replica.log_id, replica.next_offset) == ({}, None, "", 0)
    assert (replica.time, replica.changed_time, replica.changes_applied) == (0, 0, 0)
    assert (replica.reflected, replica.taken, replica.index, replica.ring.oldest) == ({}, {}, [], None)


# the log


def test_the_log_is_the_one_that_the_era_applies() -> None:
    """A progress event of the era names it; in a new era it is not known until one does."""
    replica = replica_of(change(5), progress(6, 5)._replace(log_id="first"))
    assert replica.reached == (Position(0, 6), "first")
    replica.apply(placed([replace(change(0), position=Position(1, 0), after=Position(0, 5))], 2))
    assert replica.reached == (Position(1, 0), "")
    replica.apply(placed([progress(9)._replace(position=Position(0, 9), log_id="first")], 3))
    assert replica.log_id == ""


def test_a_log_that_no_event_has_named_is_taken_from_kafka() -> None:
    """One that an event has named stays."""
    replica = replica_of(change(5))
    replica.take_log("log")
    replica.take_log("another")
    assert replica.log_id == "log"


# the ring, and the timeline of documents


def test_the_ring_has_the_changes_of_a_record() -> None:
    """The newest first; and its oldest change of all."""
    replica = replica_of(change(5))
    assert replica.ring.oldest is None
    replica.apply(placed([change(6), change(7, 2), change(8)], 1))
    assert [one.position.offset for one in replica.ring.newest_first(b"1")] == [8, 6]
    assert replica.ring.oldest == change(6)


def test_a_view_is_reflected_up_to_its_newest_change() -> None:
    """With joins, also what its owner had taken by then."""
    reflects = (1, Position(0, 3))
    replica = replica_of(change(5, reflects=reflects, taken="orders:0@3"))
    assert (replica.reflected, replica.taken) == ({1: Position(0, 3)}, {1: "orders:0@3"})
    replica.apply(placed([change(6, reflects=(1, Position(0, 4)))], 1))
    assert (replica.reflected, replica.taken) == ({1: Position(0, 4)}, {1: "orders:0@3"})


def test_writes_of_documents_are_noted_where_they_stand() -> None:
    """Those that are loaded and those that are followed; a progress event moves the time on."""
    timeline = Timeline(1000)
    replica = PartitionReplica(3, Rows(), 100, timeline=timeline)
    writes: dict[str, Any] = {"op": "delta", "writes": WRITES}
    replica.load(placed([change(5, **writes), change(6, **writes), change(5, **writes)], 50))
    replica.loaded()
    replica.apply(placed([change(7, **writes), progress(9, 7)], 53))
    assert [write.offset for write in timeline.newest_first(b"1")] == [53, 51, 50]
    assert timeline.floor == 1009 - 1000


# loads by the native core


class PlainChanges:
    """Plain changes that a native core has read, and how it loads them."""

    def __init__(self, changes: Sequence[Change], load: Any) -> None:
        self.highest = max(one.position for one in changes)
        self.load = load
        self._count = len(changes)

    def __len__(self) -> int:
        return self._count

    def rows(self, numbers: object) -> bytes:
        """Return that no key has a row."""
        return np.full(self._count, -1, np.int64).tobytes()


def run_of(changes: Sequence[Change], load: Any, start: int = 0) -> PlainRun:
    """Return changes as a run, from an offset of the changes topic on."""
    messages = MessageColumns(
        ["orders.changes"] * len(changes),
        [3] * len(changes),
        list(range(start, start + len(changes))),
        [one.sow_key for one in changes],
        [one.body for one in changes],
        [one.headers() for one in changes],
    )
    return PlainRun(messages, 0, PlainChanges(changes, load))


NOTHING_WRITTEN = SimpleNamespace(
    **dict.fromkeys(("rows", "eras", "offsets", "nths", "times", "made", "digests"), b"")
)
LONG_RUN = [change(number, number % 3) for number in range(RUN_MIN)]


def test_a_run_is_loaded_by_the_native_core() -> None:
    """The replica takes the state that it returns: position, era, times, and the entries of the index."""
    after = SimpleNamespace(
        era=0, position=(0, 7, 0), times=(1007, 1006), since_indexed=4, entries=[((0, 2, 0), 12)]
    )
    replica = PartitionReplica(3, Rows(), 100)
    replica.load([run_of(LONG_RUN, lambda *given: (after, NOTHING_WRITTEN), 10)])
    assert (replica.held, replica.time, replica.changed_time) == (Position(0, 7), 1007, 1006)
    assert (replica.index, replica.next_offset) == ([(Position(0, 2), 12)], 18)
    assert not replica.native_has_failed


def test_a_run_may_move_nothing() -> None:
    """All of its changes are old: only the offset moves."""
    after = SimpleNamespace(era=None, position=None, times=None, since_indexed=8, entries=[])
    replica = PartitionReplica(3, Rows(), 100)
    replica.load(placed([change(50)]))
    replica.load([run_of(LONG_RUN, lambda *given: (after, NOTHING_WRITTEN), 10)])
    assert (replica.held, replica.time, replica.next_offset) == (Position(0, 50), 1050, 18)


def test_the_native_core_gets_the_state_of_the_load() -> None:
    """It decides by it which changes are newer, and when the index gets its next entry."""
    asked: list[Any] = []
    after = SimpleNamespace(era=None, position=None, times=None, since_indexed=8, entries=[])

    def load(tables: Any, found: Any, before: Any, index_step: int) -> Any:
        asked.append((before.era, before.position, before.since_indexed, index_step))
        return after, NOTHING_WRITTEN

    replica = PartitionReplica(3, Rows(), 100)
    replica.load([*placed([change(50), change(51)]), run_of(LONG_RUN, load, 10)])
    assert asked == [(0, Position(0, 51), 1, INDEX_STEP)]


def test_after_a_panic_python_loads_all_runs() -> None:
    """This one, which the native core has not begun to write, and those that follow."""
    rows = Rows()
    replica = PartitionReplica(3, rows, 100)
    ROWS[replica] = rows
    replica.load([run_of(LONG_RUN, panic)])
    assert replica.native_has_failed
    replica.load([run_of([change(20 + n, 7) for n in range(RUN_MIN)], None, RUN_MIN)])
    assert held(replica) == {b"0": 6, b"1": 7, b"2": 5, b"7": 27}
    assert replica.next_offset == 2 * RUN_MIN


def test_a_short_run_is_loaded_by_python() -> None:
    """A call of the native core costs more than it spares."""
    replica = PartitionReplica(3, Rows(), 100)
    replica.load([run_of(LONG_RUN[: RUN_MIN - 1], None)])
    assert replica.held == Position(0, RUN_MIN - 2)


def test_another_error_of_a_load_is_raised() -> None:
    """It is no panic."""

    def refuse(*given: object) -> None:
        raise TypeError("expected a dict")

    with pytest.raises(TypeError, match="expected a dict"):
        PartitionReplica(3, Rows(), 100).load([run_of(LONG_RUN, refuse)])
