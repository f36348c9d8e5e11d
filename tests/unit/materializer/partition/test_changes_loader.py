"""Loads of the changes: which events count, and what is known of the partition afterwards."""

from typing import Any

import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Origin
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.changes_loader import ChangesLoader
from tests.memory_store import MemoryStore
from tests.property.world import World, dump
from tests.unit.materializer.partition.recovered import DEFINITION, recover, world

__all__ = ["world"]


def change(
    offset: int, key: bytes = b"1", body: bytes | None = b'{"id":1}', era: int = 0, **given: Any
) -> Change:
    """Return a change."""
    position, after = Position(era, offset), Position(era, offset - 1)
    return Change(key, body, b'{"id":1}', position, after, "publish", 100 + offset, **given)


def progress(offset: int, era: int = 0, origins: dict[int, int] | None = None) -> Progress:
    """Return a progress event."""
    position = Position(era, offset)
    return Progress(position, position, 0, origins or {}, DEFINITION.digest, "log", 100 + offset, {})


def load(*events: Event, topic_id: str = "") -> tuple[MemoryStore, ChangesLoader]:
    """Load events, each in a batch of its own."""
    store = MemoryStore()
    loader = ChangesLoader(store, DEFINITION, topic_id)
    for event in events:
        loader.load([event])
        loader.finish()
    return store, loader


def loaded_positions(store: MemoryStore) -> list[int]:
    """Return the offsets of the records that were loaded."""
    return [record.position.offset for record in dump(store, 0, 0).values()]


def test_of_each_key_the_newest_event_counts() -> None:
    """Wherever an older one stands, it changes nothing."""
    store, loader = load(progress(-1), change(5), change(3), change(7, b"2"), change(6))
    assert sorted(loaded_positions(store)) == [6, 7]
    assert loader.checkpoint(9) == Checkpoint(
        Position(0, 7),
        Position(0, 7),
        107,
        {},
        DEFINITION.digest,
        "log",
        9,
        True,
        frozenset({PROGRESS_KEY}),
        records=2,
    )


def test_a_deletion_is_newer_than_what_it_deletes() -> None:
    """A record that was deleted does not come back with a stale event."""
    store, loader = load(progress(-1), change(5), change(6, body=None), change(5))
    assert loaded_positions(store) == []
    assert loader.stale_keys == {b"1"}


def test_an_event_written_again_heals_its_key() -> None:
    """Once the newest event stands behind the stale one, nothing is stale."""
    _, loader = load(progress(-1), change(5), change(3), replace(change(5), op=AGAIN))
    assert loader.stale_keys == set()


def test_what_comes_late_from_an_ended_era_counts_nothing() -> None:
    """An owner that did not know wrote it after the next era had begun; its key is to be written again."""
    store, loader = load(progress(-1), change(5), progress(-1, 1), change(7), change(8, b"2"))
    assert loaded_positions(store) == [5]
    assert loader.stale_keys == {b"1", b"2"}
    assert loader.checkpoint(0).last_change == progress(-1, 1).after
    _, loader = load(progress(-1), change(5), progress(-1, 1), change(7), repair(5))
    assert loader.stale_keys == set()


def repair(offset: int) -> Change:
    """Return a change of the first era that was written again in the second."""
    return replace(change(offset), op=AGAIN, emitted_in=1)


@pytest.mark.parametrize("events", [(change(7), repair(5)), (repair(5), change(7))])
def test_what_was_reported_in_the_later_era_counts(events: tuple[Event, ...]) -> None:
    """Compaction may have taken the event with which an era began; what its owner has repaired counts still."""
    store, _ = load(*events, progress(4, 1))
    assert loaded_positions(store) == [5]
    store, _ = load(*events, change(2, era=1), progress(4, 1))
    assert loaded_positions(store) == [2]


def test_a_record_cut_short_is_next_again() -> None:
    """If the newest change is not its log record's last, that record is read again."""
    _, loader = load(progress(-1), change(5, last=False))
    assert (loader.checkpoint(0).next_offset, loader.checkpoint(0).complete) == (5, False)
    _, loader = load(progress(-1), change(5, last=False), progress(6))
    assert loader.checkpoint(0).next_offset == 7


def test_the_newest_progress_event_counts() -> None:
    """Position, definition and log are those of the newest, wherever it stands; the time is the highest."""
    _, loader = load(progress(8), change(3), progress(4))
    checkpoint = loader.checkpoint(0)
    assert (checkpoint.position, checkpoint.last_change, checkpoint.time) == (
        Position(0, 8),
        Position(0, 8),
        108,
    )


def test_the_word_of_an_owner_that_knows_another_topic_counts_nothing() -> None:
    """What it has written up to there is in the topic that is no more."""
    old = progress(9)._replace(changes_id="old", origins={1: 4})
    _, loader = load(progress(3)._replace(changes_id="this"), old, topic_id="this")
    assert (loader.checkpoint(2).position, loader.checkpoint(2).origins, loader.is_whole) == (
        Position(0, 3),
        {},
        True,
    )


def test_origins_come_from_changes_and_progress_events() -> None:
    """The highest offset of each origin counts."""
    _, loader = load(
        progress(1, origins={1: 5, 2: 9}), change(2, origin=Origin(1, 7)), change(3, origin=Origin(2, 8))
    )
    assert loader.checkpoint(0).origins == {1: 7, 2: 9}


@pytest.mark.parametrize("last", [progress(-1, 1), change(0, b"3", era=1)])
def test_origins_of_an_ended_era_are_forgotten(last: Event) -> None:
    """They are offsets of a log that is no more: the new log's records would be taken for repeats."""
    stale = change(9, b"4", origin=Origin(1, 900))
    _, loader = load(progress(1, origins={1: 500}), change(2, origin=Origin(1, 501)), last, stale)
    assert loader.checkpoint(0).origins == {}


def test_changes_that_do_not_say_where_they_stand_are_not_loaded(world: World) -> None:
    """Without a progress event they may be a part of what is to be there: the partition stops and says so."""
    world.changes[0].append(change(3))
    with pytest.raises(SowlineError, match=r"orders\.changes \[0\].*Delete that topic") as error:
        recover(world)
    assert error.value.reason == "changes incomplete"
