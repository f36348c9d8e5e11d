"""Eras: when a log that was replaced, cut or written again begins another one, and what is kept of the state."""

from typing import Any

import pytest

from sowline.changes.progress import PROGRESS_KEY
from sowline.errors import SowlineError
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position
from sowline_materializer.partition.partition import Partition
from tests.property.world import World, dump
from tests.unit.materializer.partition.recovered import recover, state, worked, world

__all__ = ["worked", "world"]


def test_a_replaced_log_begins_a_new_era(worked: World) -> None:
    """The state is kept; the new log's first record is next; the era counts up."""
    before = recover(worked)
    opened = recover(worked, log_id="other", log_end=0)
    assert dump(opened.store, 0, 0) == dump(before.store, 0, 0)
    assert (opened.checkpoint.position, opened.checkpoint.next_offset) == (Position(1, -1), 0)
    assert (opened.checkpoint.last_change, opened.checkpoint.log_id) == (
        before.checkpoint.last_change,
        "other",
    )
    assert (opened.checkpoint.stale_keys, opened.emitted_to) == ({PROGRESS_KEY}, opened.checkpoint.position)


def test_a_log_that_ends_before_the_state_begins_a_new_era(worked: World) -> None:
    """Records that were applied and are gone stay applied; the log goes on from its end."""
    opened = recover(worked, log_end=2)
    assert (opened.checkpoint.position, opened.checkpoint.next_offset) == (Position(1, 1), 2)


def rewritten(world: World, cut: int, beyond: int) -> None:
    """Cut the end of a log, and write other records in its place, later, up to as many offsets beyond the old end."""
    end = len(world.logs[0])
    del world.logs[0][cut:]
    world.time += 50
    for number in range(cut, end + beyond):
        world.write(0, b'{"id":%d,"again":true}' % number, None, [])


@pytest.mark.parametrize("beyond", [-2, -1, 0, 1, 7])
def test_a_log_that_was_cut_and_written_again_begins_a_new_era(worked: World, beyond: int) -> None:
    """It reaches the state's position again, with other records: they are applied from the cut on."""
    rewritten(worked, 4, beyond)
    opened = recover(worked, looks_at_times=True)
    assert (opened.checkpoint.position, opened.checkpoint.next_offset) == (Position(1, 3), 4)


def test_a_log_that_was_written_again_behind_what_was_emitted(worked: World) -> None:
    """The state is behind that: it is loaded from the changes, and the era begins at the cut."""
    worked.time += 50
    for number in (7, 8):
        worked.write(0, b'{"id":%d}' % number, None, [])
    worked.work(0, 5, cut=2)
    rewritten(worked, 7, 3)
    opened = recover(worked, looks_at_times=True)
    texts = {record.key_text for record in dump(opened.store, 0, 0).values()}
    assert texts == {"1", "3", "7", "8"}
    assert (opened.checkpoint.position, opened.checkpoint.next_offset) == (Position(1, 6), 7)


def test_a_log_that_is_the_same_goes_on_whatever_its_times(worked: World) -> None:
    """A broker's clock may have run back, and what is newer than the state is later."""
    worked.time -= 500
    worked.write(0, b'{"id":7}', None, [])
    worked.time += 900
    worked.write(0, b'{"id":8}', None, [])
    worked.work(0, 1)
    worked.crash(0)
    assert recover(worked, looks_at_times=True).checkpoint.position == Position(0, 6)


def test_producers_times_begin_no_era(worked: World) -> None:
    """They show nothing about what was applied: the log goes on, from each source with the same log time."""
    for number, time in enumerate((worked.time + 900, TIME_MAX + 1, -1, worked.time + 901)):
        worked.write(0, b'{"id":%d}' % number, None, [], time)
    worked.work(0, 4)
    worked.crash(0)
    opened = recover(worked, looks_at_times=True)
    assert (opened.checkpoint.position.era, opened.checkpoint.time) == (0, worked.time)
    expected = state(opened)
    worked.disk.clear()
    native = pytest.importorskip("sowline_native")
    assert state(recover(worked, native=native)) == state(recover(worked)) == expected


def test_a_log_without_a_time_of_the_broker_is_the_same(world: World) -> None:
    """An existing log, of which all records have their producers' times."""
    for number in range(3):
        world.write(0, b'{"id":%d}' % number, None, [], 5000 + number)
    world.drain(2)
    world.crash(0)
    opened = recover(world, looks_at_times=True)
    assert (opened.checkpoint.position, opened.checkpoint.time) == (Position(0, 2), 0)


def test_a_log_without_log_time_that_ends_before_the_state_is_applied_again(world: World) -> None:
    """Nothing shows which of its records were written again at the offsets that were lost."""
    for number in range(4):
        world.write(0, b'{"id":%d}' % number, None, [], 5000 + number)
    world.drain(2)
    world.crash(0)
    opened = recover(world, looks_at_times=True, log_end=3)
    assert (opened.checkpoint.position.era, opened.checkpoint.next_offset) == (1, 0)


def test_a_hole_in_the_log_stops_the_partition(worked: World) -> None:
    """Records that were never applied and are gone: a sentence, or, accepted, a new era."""
    end = len(worked.logs[0])
    with pytest.raises(SowlineError, match=rf"offsets {end} to {end + 3} are gone") as error:
        recover(worked, log_start=end + 4, log_end=end + 9)
    assert error.value.reason == "log incomplete"
    opened = recover(worked, accept_loss=True, log_start=end + 4, log_end=end + 9)
    assert (opened.checkpoint.position, opened.checkpoint.stale_keys) == (
        Position(1, end + 3),
        {PROGRESS_KEY},
    )


def test_a_log_cut_up_to_the_state_is_no_hole(worked: World) -> None:
    """Records that were applied may go."""
    end = len(worked.logs[0])
    assert recover(worked, log_start=end).checkpoint.position.era == 0


@pytest.mark.parametrize(
    "found", [{"log_id": "other", "log_end": 0}, {"log_start": 8, "log_end": 8}, {"log_end": 7}]
)
def test_state_behind_what_was_emitted_gives_way_where_the_log_does_not_lead_on(
    worked: World, found: dict[str, Any]
) -> None:
    """Followers hold what was emitted: the base of a new era must hold it too, so it is loaded from the changes."""
    end = len(worked.logs[0])
    assert end == 6
    for number in (7, 8):
        worked.write(0, b'{"id":%d}' % number, None, [])
    worked.work(0, 5, cut=2)
    opened = recover(worked, accept_loss=True, **found)
    texts = {record.key_text for record in dump(opened.store, 0, 0).values()}
    assert texts == {"1", "3", "7", "8"}


def test_local_state_of_an_ended_era_gives_way(worked: World) -> None:
    """A copy that another worker's era has passed by is loaded again."""
    old = {path: dict(files) for path, files in worked.disk.items()}
    with_era = recover(worked, log_id="other", log_end=0)
    partition = Partition(worked.definition, 0, with_era)
    for events in partition.repair(0):
        for event in events:
            worked.changes[0].append(event)
    worked.disk.clear()
    worked.disk.update(old)
    opened = recover(worked, log_id="other", log_end=0)
    assert (opened.checkpoint.position, opened.checkpoint.log_id) == (Position(1, -1), "other")
