"""A refill of the changes that ends halfway: what the next owner, and readers that start meanwhile, make of it."""

from collections.abc import Callable, Sequence

import pytest

from sowline.changes.changes_reader import ChangesReader, Phase
from sowline.changes.progress import UNFILLED, Progress
from sowline_materializer.core.checkpoint import EVERYTHING
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.interface import Store
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.property.world import World, dump
from tests.unit.materializer.partition.recovered import check_filled_again, recover, worked, world

__all__ = ["worked", "world"]

PORTIONS = [0, 1, 2, None]
"""How many portions of a refill Kafka gets before its owner dies; None if it gets all."""


def refill(world: World, opened: OpenedPartition[Store], portions: int | None) -> None:
    """Write portions of one event each; an owner that has written all of them stores that."""
    partition = Partition(world.definition, 0, opened)
    end = partition.checkpoint.changes_end
    for number, events in enumerate(partition.repair(len(world.logs[0]), 1)):
        if number == portions:
            return
        for event in events:
            world.changes[0].append(event)
        end = world.changes[0].end
    partition.note_repaired(end)


def lose_power(world: World, changes_end: int = 2) -> None:
    """The log loses all but its first two messages, and the changes those from an offset on."""
    changes = world.changes[0]
    changes.held, changes.end = [one for one in changes.held if one.at < changes_end], changes_end
    del world.logs[0][2:]


@pytest.mark.parametrize("portions", PORTIONS)
def test_both_topics_were_made_again(worked: World, portions: int | None) -> None:
    """A new Kafka: the state stays the base of the log's new era."""
    expected = dump(recover(worked).store, 0, 0)
    assert len(expected) == 2
    worked.changes[0].replace()
    worked.logs[0].clear()
    opened = recover(worked, log_id="other")
    assert EVERYTHING in opened.checkpoint.stale_keys
    refill(worked, opened, portions)
    again = recover(worked, log_id="other")
    assert dump(again.store, 0, 0) == expected
    assert (again.checkpoint.position.era, again.checkpoint.holds_base) == (1, portions is not None)


@pytest.mark.parametrize("portions", PORTIONS)
def test_both_topics_lost_their_ends(worked: World, portions: int | None) -> None:
    """All replicas lost power: what was applied stays applied."""
    expected = dump(recover(worked).store, 0, 0)
    lose_power(worked)
    opened = recover(worked)
    assert EVERYTHING in opened.checkpoint.stale_keys
    refill(worked, opened, portions)
    again = recover(worked)
    assert dump(again.store, 0, 0) == expected
    assert again.checkpoint.position.era == 1


@pytest.mark.parametrize("second", [0, 1, None])
@pytest.mark.parametrize("first", [0, 1, None])
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("changes_end", [0, 2])
def test_both_topics_lost_their_ends_twice(
    worked: World, first: int | None, second: int | None, is_written: bool, changes_end: int
) -> None:
    """The second power loss comes during the refill, or after more was applied: that stays, too."""
    lose_power(worked)
    refill(worked, recover(worked), first)
    if is_written:
        worked.write(0, b'{"id":1,"a":2}', None, [])
        worked.write(0, b'{"id":4}', None, [])
        worked.drain(2)
        worked.crash(0)
    opened = recover(worked)
    expected, before = dump(opened.store, 0, 0), opened.checkpoint
    lose_power(worked, changes_end)
    opened = recover(worked)
    assert dump(opened.store, 0, 0) == expected
    refill(worked, opened, second)
    again = recover(worked)
    assert dump(again.store, 0, 0) == expected
    assert again.checkpoint.position.era == before.position.era + (before.next_offset > len(worked.logs[0]))
    refill(worked, again, None)
    check_filled_again(worked)


def begin_elsewhere(world: World) -> None:
    """Let an owner without local state begin the era, and finish what it has to write."""
    kept = world.disk.copy()
    world.disk.clear()
    refill(world, recover(world), None)
    world.disk.clear()
    world.disk.update(kept)


def write_elsewhere(world: World) -> None:
    """The same, and let it apply a record."""
    kept = world.disk.copy()
    world.disk.clear()
    world.write(0, b'{"id":9}', None, [])
    world.drain(2)
    world.crash(0)
    world.disk.clear()
    world.disk.update(kept)


@pytest.mark.parametrize("another", [begin_elsewhere, write_elsewhere])
def test_the_era_of_another_owner_counts(worked: World, another: Callable[[World], None]) -> None:
    """Readers have followed it: the state of an owner that began the era without Kafka's knowledge gives way."""
    lose_power(worked, worked.changes[0].end - 1)
    opened = recover(worked)
    assert opened.checkpoint.holds_base
    refill(worked, opened, 0)
    another(worked)
    again = recover(worked)
    assert again.checkpoint.position.era == 1
    assert not again.checkpoint.holds_base
    assert b'{"id":3}' not in {record.body for record in dump(again.store, 0, 0).values()}


def test_an_unfinished_refill_is_begun_again(worked: World) -> None:
    """By an owner with older state, which has not seen that the changes were lost."""
    older = {path: dict(files) for path, files in worked.disk.items()}
    opened = recover(worked)
    partition = Partition(worked.definition, 0, opened)
    partition.mark_stale([EVERYTHING], worked.changes[0].end)
    first, *_ = partition.repair(len(worked.logs[0]), 1)
    report = Progress(
        partition.checkpoint.position,
        partition.checkpoint.last_change,
        len(worked.logs[0]),
        {},
        "",
        "",
        0,
        {},
    )
    worked.changes[0].append(report._replace(changes_id=UNFILLED, definition=partition.checkpoint.definition))
    worked.changes[0].append(first[0])
    worked.disk.clear()
    worked.disk.update(older)
    assert EVERYTHING in recover(worked).checkpoint.stale_keys


def seen_by(reader: ChangesReader, events: Sequence[EventAtOffset], end: int) -> Phase:
    """Let a reader take the next events up to the end of the changes."""
    for placed in events:
        reader.take(placed.event, placed.offset)
    reader.at_end(end)
    return reader.look(1)


@pytest.mark.parametrize("portions", [1, 2])
def test_a_reader_that_starts_within_the_refill_of_an_era(worked: World, portions: int) -> None:
    """It would serve what is left of the old changes, and drop the rest of the refill as repeats."""
    lose_power(worked)
    refill(worked, recover(worked), portions)
    changes = worked.changes[0]
    reader = ChangesReader("changes 0", 600)
    reader.aim(changes.end, 0)
    events = [EventAtOffset(one.at, one.event) for one in changes.held]
    assert seen_by(reader, events, changes.end) is not Phase.COMPLETE


def test_a_query_service_that_starts_meanwhile_has_every_record_in_the_end(worked: World) -> None:
    """Power came back for all at once: the service loads while the owner writes the lost changes again."""
    expected = {record.body for record in dump(recover(worked).store, 0, 0).values()}
    lose_power(worked)
    changes = worked.changes[0]
    partition = Partition(worked.definition, 0, recover(worked))
    rows = Rows()
    replica, reader = PartitionReplica(0, rows, 100), ChangesReader("changes 0", 600)
    reader.aim(changes.end, 0)
    taken = 0
    for events in partition.repair(len(worked.logs[0]), 1):
        for event in events:
            changes.append(event)
        new = [EventAtOffset(one.at, one.event) for one in changes.held[taken:]]
        taken = len(changes.held)
        assert replica.loading
        replica.load(new)
        if seen_by(reader, new, changes.end) is Phase.COMPLETE:
            replica.loaded()
    assert not replica.loading
    assert {body for body in rows.bodies if body is not None} == expected


def test_what_was_applied_without_a_change_is_written_again(worked: World) -> None:
    """A previous owner emitted two changes, this one has applied one of them, and Kafka loses both."""
    for number in (7, 8):
        worked.write(0, b'{"id":%d}' % number, None, [])
    worked.work(0, 5, cut=2)
    changes = worked.changes[0]
    before = changes.end - 2
    worked.work(0, 1)
    worked.late[0] = []
    worked.crash(0)
    changes.held, changes.end = [one for one in changes.held if one.at < before], before
    worked.write(0, b'{"id":9}', None, [])
    worked.drain(5)
    check_filled_again(worked)
