"""Emptying: a transient topic begins again, whatever happens on the way, and each follower sees its records go."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sowline.changes.change import RESET, Change
from sowline.commands.command import Headers
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.property.world import World, changes_of, dump

TRANSIENT = define_topic(name="orders", key="/id", durability="transient", recovery_point="now")
NUMBER: Headers = [("sow.publisher", b"p"), ("sow.sequence", b"5")]


@pytest.fixture
def world() -> Iterator[World]:
    """A world with three live records, one of them with a number, and one that is gone and remembered."""
    world = World(TRANSIENT)
    with ExitStack() as stack:
        for entered in world.patched():
            stack.enter_context(entered)
        for number in range(4):
            world.write(0, b'{"id":%d}' % number, None, NUMBER if number in (1, 2) else [])
        world.write(0, None, b"2", [])
        world.drain()
        yield world


def texts(world: World) -> set[str]:
    """Return the key texts of the live records."""
    return {record.key_text for record in dump(world.store(0), 0, 0).values() if record.body is not None}


def follow(world: World) -> tuple[set[bytes], Position]:
    """Return what a replica holds that has followed all of the changes from the first on, and where it stands."""
    rows = Rows()
    replica = PartitionReplica(0, rows, ring_changes_max=5)
    replica.loaded()
    replica.apply([EventAtOffset(message.at, message.event) for message in world.changes[0].history])
    return set(rows.numbers), replica.held


def resets(world: World) -> list[Change]:
    """Return the changes with which records ended."""
    return [event for _, event in changes_of(world.changes[0].history) if event.op == RESET]


def check(world: World, expected: set[str], era: int) -> None:
    """Every recovery source gives the same records in the same era; a follower holds as many, at the same one."""
    for lose in (False, True):
        world.crash(0)
        if lose:
            world.disk.clear()
        partition = world.owner(0)
        assert texts(world) == expected
        assert (partition.checkpoint.records, partition.checkpoint.position.era) == (len(expected), era)
        keys, held = follow(world)
        assert (len(keys), held) == (len(expected), partition.checkpoint.position)


def test_an_empty_base_begins_an_era(world: World) -> None:
    """The records' ends are changes of the new era, before its first log record; then the log goes on."""
    last = world.owner(0).checkpoint.last_change
    world.start_empty(0, 5)
    ends = resets(world)
    assert [change.position for change in ends] == [Position(1, 4), Position(1, 4, 1), Position(1, 4, 2)]
    assert [change.after for change in ends] == [last, Position(1, 4), Position(1, 4, 1)]
    assert [change.last for change in ends] == [False, False, True]
    assert {(change.body, change.reason) for change in ends} == {(None, "deleted")}
    assert sorted(change.previous or b"" for change in ends) == [b'{"id":0}', b'{"id":1}', b'{"id":3}']
    assert world.owner(0).checkpoint.next_offset == 5
    check(world, set(), 1)
    world.write(0, b'{"id":9}', None, [])
    world.drain()
    check(world, {"9"}, 1)


def test_a_time_may_lie_in_the_log(world: World) -> None:
    """From there on the log is applied once more."""
    world.start_empty(0, 3)
    world.drain()
    check(world, {"3"}, 1)


def test_nothing_is_a_repeat_of_what_was_before(world: World) -> None:
    """Numbers of the old base don't count, those of the new one do, within the same instant too."""
    world.start_empty(0, 5)
    for _ in range(2):
        world.write(0, b'{"id":1}', None, NUMBER)
        world.write(0, b'{"id":2}', None, NUMBER)
    world.drain()
    check(world, {"1", "2"}, 1)
    changes = [event for _, event in changes_of(world.changes[0].history)]
    assert [change.op for change in changes if change.position.era].count("publish") == 2


def test_an_empty_topic_begins_again_without_records(world: World) -> None:
    """Only the progress event says that there is another era."""
    world.write(0, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")])
    world.drain()
    world.start_empty(0, 6)
    assert resets(world) == []
    check(world, set(), 1)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_what_was_begun_is_finished(world: World, cut: int, lost: bool) -> None:
    """By the next owner, with its disk or without: no record's end is missing or told twice."""
    world.start_empty(0, 5, cut=cut)
    if lost:
        world.disk.clear()
    check(world, set() if cut else {"0", "1", "3"}, 1 if cut else 0)
    positions = [change.position for change in resets(world)]
    assert positions == [Position(1, 4, nth) for nth in range(3)] * bool(cut)
    assert [change.last for change in resets(world)] == [False, False, True] * bool(cut)
    world.write(0, b'{"id":9}', None, [])
    world.drain()
    assert "9" in texts(world)


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_service_that_starts_again_begins_another_era(world: World, cut: int) -> None:
    """What was begun is finished first, so that nobody waits for the rest of it."""
    world.start_empty(0, 5, cut=cut)
    world.write(0, b'{"id":7}', None, [])
    world.start_empty(0, 6)
    check(world, set(), 2 if cut else 1)
    assert [change.last for change in resets(world)] == [False, False, True]


def test_what_was_emitted_but_not_committed_ends_too(world: World) -> None:
    """Followers hold it, whatever the local state is."""
    world.write(0, b'{"id":7}', None, [])
    world.work(0, 5, cut=1)
    world.start_empty(0, 6)
    assert len(resets(world)) == 4
    check(world, set(), 1)


def test_stale_owner_events_do_not_bring_records_back(world: World) -> None:
    """What a dead worker wrote late is repaired in the new era."""
    first = next(event for _, event in changes_of(world.changes[0].history))
    world.crash(0)
    world.changes[0].append(first)
    world.start_empty(0, 5)
    world.changes[0].compact(lambda: False)
    world.disk.pop(Path("0"))
    world.crash(0)
    assert texts(world) == set()


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_dead_owner_writes_late_is_no_record(world: World, when: str) -> None:
    """An era without a change of its own is behind all that comes late from the one before."""
    world.write(0, b'{"id":7}', None, [])
    world.work(0, 1, cut=0)
    if when == "before":
        world.arrive_late(0)
    world.start_empty(0, 6)
    world.arrive_late(0)
    world.write(0, b"{", None, [])
    world.drain()
    world.changes[0].compact(lambda: False)
    checkpoint = world.owner(0).checkpoint
    check(world, set(), 1)
    assert world.owner(0).checkpoint.last_change == checkpoint.last_change


def test_a_stale_owner_event_before_an_era_without_changes_makes_no_gap(world: World) -> None:
    """The era is told before anything is written again in it."""
    world.write(0, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")])
    world.drain()
    world.crash(0)
    world.changes[0].append(next(event for _, event in changes_of(world.changes[0].history)))
    world.start_empty(0, 6)
    check(world, set(), 1)
