"""What is known of a view from its changes: after loads and in copies, in query services, and when it is rebuilt."""

from collections.abc import Iterator

import pytest

from sowline.changes.change import AGAIN, DELETED, Change
from sowline.changes.event import Event
from sowline.changes.partials import Partials
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import LogRecord
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from sowline_materializer.partition.state_reset import StateReset
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.memory_store import MemoryStore
from tests.property.world import written
from tests.unit.materializer.core.view_log import (
    COMMAND,
    NORTH,
    SOUTH,
    TOTALS,
    ViewCore,
    began,
    message,
    state,
)


def test_a_message_that_was_cut_short_is_applied_to_its_end() -> None:
    """An owner dies within a message; the next one loads what was emitted, and makes the same rest."""
    whole, cut = began()[0], began()[0]
    states = [(str(n), f'["{n}"]', state(str(n), n, 1)) for n in range(3)]
    one = message(whole, "-1", "2", *states)
    expected = whole.apply(one).changes
    for emitted in range(3):
        store, changes = MemoryStore(), list(cut.changes)
        loader = ChangesLoader(store, cut.definition)
        loader.load([progress(cut), *changes, *expected[:emitted]])
        loader.finish()
        resumed = ViewCore()
        resumed.store, resumed.checkpoint = store, loader.checkpoint(0)
        assert resumed.reflected == {0: "-1"}
        assert resumed.checkpoint.next_offset == 1
        assert resumed.apply(one).changes == expected[emitted:]
        assert (resumed.records, resumed.reflected) == (whole.records, {0: "2"})


def progress(core: ViewCore) -> Progress:
    """Return the progress event of a view."""
    at = core.checkpoint
    return Progress(
        at.position,
        at.last_change,
        0,
        {},
        at.definition,
        at.log_id,
        at.time,
        {},
        at.limits,
        reflected=at.reflected,
    )


def partition_of(core: ViewCore, store: MemoryStore | None = None) -> Partition:
    """Return a partition of the materializer that has applied nothing, with an empty store."""
    begin = Checkpoint(limits=core.definition.limits, log_id="log", definition=core.definition.digest)
    return Partition(core.definition, 0, OpenedPartition(store or MemoryStore(), begin, begin.position))


def run(partition: Partition, *messages: Partials) -> list[Event]:
    """Apply and commit a batch; return its events."""
    start = partition.checkpoint.next_offset
    records = [LogRecord(start + n, 1000, None, one.encode(), COMMAND) for n, one in enumerate(messages)]
    prepared = partition.prepare(records, 100)
    partition.commit(prepared, 0)
    return prepared.events


def compacted(events: list[Event]) -> Iterator[Event]:
    """Yield the last event of each key, as they are read from Kafka."""
    messages = [written(at, event) for at, event in enumerate(events)]
    last = {message.name: message.at for message in messages}
    return (message.event for message in messages if message.at == last[message.name])


def test_a_load_knows_what_is_reflected() -> None:
    """Compaction removes the change that reported a source partition; the progress event behind it has them all."""
    core = ViewCore(2)
    partition = partition_of(core)
    begin = [message(core, "-1", "-1", is_snapshot=True, source=source) for source in (0, 1)]
    events = run(partition, *begin)
    events += run(
        partition,
        message(core, "-1", "5", ("5", NORTH, state("north", 5, 1)), source=0),
        message(core, "-1", "7", ("7", NORTH, state("north", 7, 1)), source=1),
    )
    assert [type(event) for event in events[-3:]] == [Change, Change, Progress]
    loader = ChangesLoader(MemoryStore(), core.definition)
    loader.load(list(compacted(events)))
    assert loader.checkpoint(0).reflected == {0: Position(0, 5), 1: Position(0, 7)}
    assert loader.checkpoint(0).reflected == partition.checkpoint.reflected


def test_a_load_knows_what_a_view_reflects() -> None:
    """So does a query service, which loads the last change and the progress event of the same position behind it."""
    core = ViewCore(2)
    partition = partition_of(core)
    events = run(
        partition, *(message(core, "-1", "-1", is_snapshot=True, source=source) for source in (0, 1))
    )
    events += run(
        partition,
        message(core, "-1", "5", ("5", NORTH, state("north", 5, 1)), source=0),
        message(core, "-1", "7", ("7", NORTH, state("north", 7, 1)), source=1),
    )
    replica = PartitionReplica(0, Rows(), ring_changes_max=5)
    replica.load(EventAtOffset(at, event) for at, event in enumerate(compacted(events)))
    assert replica.reflected == {0: Position(0, 5), 1: Position(0, 7)}


def test_every_reader_knows_what_was_taken_of_joined_topics() -> None:
    """Loads of all events, of compacted ones, and without the last progress event; a copy, and a query service."""
    core = ViewCore(2)
    partition = partition_of(core)
    begin = [
        message(core, "1/1", "1/1", is_snapshot=True, source=source, taken=f"orders:{source}@1;customers:0@3")
        for source in (0, 1)
    ]
    events = run(partition, *begin)
    states = ("1/2", NORTH, state("north", 5, 1))
    events += run(partition, message(core, "1/1", "1/2", states, source=1, taken="customers:0@8"))
    expected = {0: "orders:0@1;customers:0@3", 1: "orders:1@1;customers:0@8"}
    assert partition.checkpoint.taken == expected
    assert Checkpoint.decode(partition.checkpoint.encode()).taken == expected
    for loaded in (events, list(compacted(events)), events[:-1]):
        loader = ChangesLoader(MemoryStore(), core.definition)
        loader.load(loaded)
        assert loader.checkpoint(0).taken == expected
        replica = PartitionReplica(0, Rows(), ring_changes_max=5)
        replica.load(EventAtOffset(at, event) for at, event in enumerate(loaded))
        assert replica.taken == expected
    restored = PartitionReplica(0, Rows(), ring_changes_max=5)
    assert replica.head is not None
    restored.restore(replica.head, [])
    assert (restored.reflected, restored.taken) == (replica.reflected, expected)
    copied = ChangesLoader(MemoryStore(), core.definition)
    copied.load(events[:1])
    follower = ChangesFollower(core.definition, MemoryStore(), copied.checkpoint(1), [])
    for event in events[1:]:
        follower.follow([event], 9)
    assert follower.checkpoint.taken == expected


def test_a_group_written_again_keeps_its_states() -> None:
    """A stale owner has written old events of a shown group and of a hidden one."""
    core = ViewCore(having="/qty > 1", **TOTALS)
    held = MemoryStore()
    partition = partition_of(core, held)
    run(
        partition,
        message(core, "-1", "-1", is_snapshot=True),
        message(core, "-1", "5", ("4", NORTH, state("north", 5, 1)), ("5", SOUTH, state("south", 1, 1))),
    )
    partition.mark_stale([NORTH.encode(), SOUTH.encode(), PROGRESS_KEY], 10)
    events = [event for batch in partition.repair(2) for event in batch]
    assert [event.op for event in events if isinstance(event, Change)] == [AGAIN, AGAIN]
    store = MemoryStore()
    loader = ChangesLoader(store, core.definition)
    loader.load(list(compacted(events)))
    loader.finish()
    loaded = ViewCore(having="/qty > 1", **TOTALS)
    loaded.store, loaded.checkpoint = store, loader.checkpoint(0)
    assert (list(loaded.records), loaded.kept) == ([NORTH], [NORTH, SOUTH])
    assert [decode_record(data).states for _, data in loaded.store.scan()] == [
        decode_record(data).states for _, data in held.scan()
    ]


def test_a_view_that_is_rebuilt() -> None:
    """Its era begins without records, without hidden groups, and reflects nothing: all messages count again."""
    core = ViewCore(having="/qty > 1", **TOTALS)
    held = MemoryStore()
    partition = partition_of(core, held)
    messages = [
        message(core, "-1", "-1", is_snapshot=True, taken="orders:0@1"),
        message(core, "-1", "5", ("4", NORTH, state("north", 5, 1)), ("5", SOUTH, state("south", 1, 1))),
    ]
    events = run(partition, *messages)
    begun = StateReset.begun(partition.checkpoint, "log", 0)
    ends = [change for batch in begun.ends(held) for change in batch]
    assert [(one.sow_key.decode(), one.body, one.reason, one.last) for one in ends] == [
        (NORTH, None, DELETED, False),
        (SOUTH, None, DELETED, True),
    ]
    done = begun.done(100)
    store = MemoryStore()
    loader = ChangesLoader(store, core.definition)
    loader.load([*events, *ends, progress_of(done, 100, {})])
    loader.finish()
    assert (list(store.scan()), loader.checkpoint(0).reflected, loader.checkpoint(0).taken) == ([], {}, {})
    assert loader.checkpoint(0).position == done.position == Position(1, -1, 1)
    loaded = Partition(core.definition, 0, OpenedPartition(store, done, done.position))
    run(loaded, *messages)
    assert loaded.checkpoint.reflected == partition.checkpoint.reflected
    assert [key for key, _ in store.scan()] == [NORTH.encode(), SOUTH.encode()]


@pytest.mark.parametrize("written", [1, 2])
def test_a_rebuild_that_is_interrupted_reflects_nothing(written: int) -> None:
    """The progress event that begins its era is not written yet; that of the era before does not count."""
    core = ViewCore()
    held = MemoryStore()
    partition = partition_of(core, held)
    events = run(
        partition,
        message(core, "-1", "-1", is_snapshot=True),
        message(core, "-1", "5", ("4", NORTH, state("north", 5, 1)), ("5", SOUTH, state("south", 1, 1))),
    )
    (ends,) = StateReset.begun(partition.checkpoint, "log", 0).ends(held)
    loader = ChangesLoader(MemoryStore(), core.definition)
    loader.load([*events, *ends[:written]])
    assert loader.checkpoint(0).reflected == {}
