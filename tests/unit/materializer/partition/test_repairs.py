"""How a partition notes what a stale owner wrote, and writes again what has to be."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.partition import Partition, stale_owner_keys
from tests.memory_store import MemoryStore
from tests.property.world import dump
from tests.unit.materializer.partition.batches import DEFINITION, opened, partition, record, run, store

__all__ = ["partition", "store"]


def change(offset: int, key: bytes = b"1") -> Change:
    """Return a change at an offset."""
    return Change(key, b"{}", None, Position(0, offset), Position(0, offset - 1), "publish", 0)


@pytest.mark.parametrize(
    ("found", "ours", "foreign"),
    [
        ([change(5), change(6)], [change(5), change(6)], set()),
        ([change(2, b"2"), change(5)], [change(5)], {b"2"}),
        ([change(5), change(6, b"2"), change(5)], [change(5), change(6, b"2")], {b"1"}),
        ([change(5), change(7, b"2")], [change(5)], {b"2"}),
    ],
)
def test_stale_owner_events_are_those_that_are_not_ours(
    found: list[Event], ours: list[Event], foreign: set[bytes]
) -> None:
    """Old, new or a second copy of one of ours: the keys of all of them are stale."""
    assert stale_owner_keys(found, ours) == foreign


def repair(partition: Partition) -> list[Event]:
    """Return everything that is to be written again."""
    return [event for batch in partition.repair(9) for event in batch]


def test_stale_keys_are_written_again(partition: Partition) -> None:
    """The newest event of each is written once more, then where the partition stands; and that only once."""
    events = run(partition, record(0, b'{"id":1}'), record(1, b'{"id":1,"a":1}'), record(2, b"{"))
    key = events[0].sow_key if isinstance(events[0], Change) else b""
    partition.mark_stale({key, PROGRESS_KEY}, 0)
    again, progress = repair(partition)
    assert isinstance(again, Change)
    assert (again.op, again.body, again.position, again.after) == (
        AGAIN,
        b'{"id":1,"a":1}',
        Position(0, 1),
        Position(0, 1),
    )
    assert progress.position == Position(0, 2)
    partition.note_repaired(9)
    assert repair(partition) == []


def test_what_is_stale_outlives_its_owner(partition: Partition, store: MemoryStore) -> None:
    """Until it is repaired, it is committed with the state, and the next owner knows."""
    partition.mark_stale({b"1"}, 0)
    run(partition, record(0, b'{"id":1}'), changes_end=5)
    again, _ = repair(Partition(DEFINITION, 0, opened(store)))
    assert isinstance(again, Change)
    assert again.sow_key == b"1"


def test_a_record_that_a_refill_brought_back(store: MemoryStore) -> None:
    """A state before a record's deletion has written it again behind that: it is deleted again, though it is gone."""
    run(Partition(DEFINITION, 0, opened(store)), record(0, b'{"id":1}'), record(1, b'{"id":2}'))
    stale_keys = frozenset({EVERYTHING})
    behind = Partition(DEFINITION, 0, opened(store, emitted_to=Position(0, 2), stale_keys=stale_keys))
    assert run(behind, record(2, b'{"id":2}', command="sow_delete")) == []
    assert [(event.sow_key, event.body) for event in repair(behind)[:-1] if isinstance(event, Change)] == [
        (sow_key(DEFINITION.declared.domain_prefix, "1"), b'{"id":1}'),
        (sow_key(DEFINITION.declared.domain_prefix, "2"), None),
    ]
    assert EVERYTHING in Checkpoint.decode(store.checkpoint() or b"").stale_keys


def test_keys_are_repaired_only_once_the_state_is_as_new_as_what_was_emitted(store: MemoryStore) -> None:
    """Before that, what would be written again might be older than what is there."""
    partition = Partition(
        DEFINITION, 0, opened(store, emitted_to=Position(0, 1), stale_keys=frozenset({b"1"}))
    )
    assert repair(partition) == []
    run(partition, record(0, b'{"id":1}'))
    assert repair(partition) == []
    run(partition, record(1, b'{"id":1}'))
    assert [event.position for event in repair(partition)] == [Position(0, 1), Position(0, 1)]


def test_a_partition_within_a_record_waits_before_it_repairs(store: MemoryStore) -> None:
    """A progress event within a log record's changes would show half of it."""
    given = {"position": Position(0, 3), "complete": False, "stale_keys": frozenset({b"1"})}
    partition = Partition(DEFINITION, 0, opened(store, **given))
    assert repair(partition) == []


@pytest.mark.parametrize("numbered", [True, False])
def test_a_deletion_written_again_loads_by_itself(
    partition: Partition, store: MemoryStore, numbered: bool
) -> None:
    """After compaction only the event written again is left, without a previous body: it is enough."""
    number: dict[str, Any] = {"publisher": "p", "sequence": "1"} if numbered else {}
    run(partition, record(0, b'{"id":7}', **number), record(1, b'{"id":7}', command="sow_delete"))
    partition.mark_stale([sow_key(b"orders\0", "7")], 0)
    loaded = MemoryStore()
    loader = ChangesLoader(loaded, DEFINITION)
    loader.load(repair(partition))
    loader.finish()
    assert dump(loaded, 0, 0) == dump(store, 0, 0)
    checkpoint = loader.checkpoint(partition.checkpoint.changes_end)
    assert (checkpoint.position, checkpoint.last_change) == (Position(0, 1), Position(0, 1))


def test_everything_can_be_written_again(partition: Partition, store: MemoryStore) -> None:
    """For a changes topic that was replaced: it loads to the very state, memories included."""
    run(
        partition,
        *(record(n, b'{"id":%d}' % n, publisher="p", sequence="1") for n in range(5)),
        record(5, b'{"id":3}', command="sow_delete"),
        record(6, b"{", origin="log:2@9"),
    )
    partition.mark_stale({EVERYTHING}, 0)
    batches = list(partition.repair(7, 2))
    assert [len(batch) for batch in batches] == [2, 2, 1, 1]
    loaded = MemoryStore()
    loader = ChangesLoader(loaded, DEFINITION)
    for batch in batches:
        loader.load(batch)
        loader.finish()
    partition.note_repaired(0)
    assert dump(loaded, 0, 0) == dump(store, 0, 0)
    assert loader.checkpoint(0) == replace(partition.checkpoint, stale_keys=frozenset({PROGRESS_KEY}))
    assert loader.stale_keys == set()


def test_a_position_seen_is_committed(partition: Partition, store: MemoryStore) -> None:
    """Up to where the changes partition is right is part of the state."""
    partition.mark_stale({b"1"}, 0)
    partition.note_repaired(42)
    data = store.checkpoint()
    assert data is not None
    assert Checkpoint.decode(data) == partition.checkpoint
    assert (partition.checkpoint.changes_end, partition.checkpoint.stale_keys) == (42, frozenset())


def test_stale_writes_during_a_repair_stay_noted(partition: Partition, store: MemoryStore) -> None:
    """Their events may be the last of their keys: the next repair writes those again."""
    partition.mark_stale({b"1"}, 0)
    partition.note_repaired(42, {b"2"})
    data = store.checkpoint()
    assert data is not None
    assert Checkpoint.decode(data) == partition.checkpoint
    assert partition.checkpoint.stale_keys == {b"2"}


def test_a_records_state_is_all_that_again_needs(partition: Partition) -> None:
    """Due time, correlation and numbers are on an event written again."""
    run(partition, record(0, b'{"id":1}', 5, publisher="p", sequence="2", correlation="c", expiration="1"))
    (again,) = partition.newest_events([sow_key(b"orders\0", "1")])
    assert isinstance(again, Change)
    assert (again.expires, again.correlation, again.numbers, again.time) == (1005, "c", {"p": (2, 0, 5)}, 5)
    assert orjson.loads(again.headers()[0][1] or b"")["op"] == "again"
