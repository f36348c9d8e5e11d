"""A partition at work: what a batch writes, and what is kept."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY, Progress
from sowline.changes.wholeness import Wholeness
from sowline.model.log_time import CREATE_TIME
from sowline.model.position import Position
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.partition import OUTCOMES_MAX, Partition
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore
from tests.unit.materializer.partition.batches import (
    DEFINITION,
    opened,
    partition,
    positions,
    record,
    run,
    store,
)

__all__ = ["partition", "store"]


def test_changes_need_no_progress_event(partition: Partition) -> None:
    """Where every record of a batch is a change, the changes say it all."""
    events = run(partition, record(0, b'{"id":1}'), record(1, b'{"id":2}'))
    assert positions(events) == [("Change", Position(0, 0)), ("Change", Position(0, 1))]


@pytest.mark.parametrize("error", [TypeError("nobody foresaw this"), StoreDamaged("damaged")])
def test_what_is_before_a_record_that_fails_is_applied(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The batch ends before that record, with why; what says nothing about the record is raised as it is."""
    add_change = BatchState.add_change

    def failing(state: BatchState, change: Change) -> None:
        add_change(state, change)
        if change.position.offset == 2:
            raise error

    monkeypatch.setattr(BatchState, "add_change", failing)
    records = [record(offset, b'{"id":%d}' % offset) for offset in range(4)]
    if isinstance(error, StoreDamaged):
        with pytest.raises(StoreDamaged):
            partition.prepare(records, 100)
        return
    prepared = partition.prepare(records, 100)
    assert positions(prepared.events) == [("Change", Position(0, 0)), ("Change", Position(0, 1))]
    assert prepared.records == 2
    assert prepared.failed is not None
    assert (prepared.failed.offset, prepared.failed.__cause__) == (2, error)
    partition.commit(prepared, 2)
    assert partition.checkpoint.next_offset == 2


def test_a_batch_without_changes_writes_a_progress_event(partition: Partition) -> None:
    """What came of its commands stands on it, and up to where the log was read."""
    (progress,) = run(partition, record(0, b"{"), record(1, b"[]"))
    assert isinstance(progress, Progress)
    assert (progress.position, progress.after, progress.end) == (Position(0, 1), Position(0, -1), 100)
    assert progress.outcomes == {"0": "dead:not json", "1": "dead:not an object"}
    assert progress.definition == DEFINITION.digest


def test_a_progress_event_follows_the_changes_it_adds_to(partition: Partition) -> None:
    """It comes last, at the batch's end, and names the last change before it."""
    events = run(partition, record(0, b'{"id":1}'), record(1, b"{"))
    assert positions(events) == [("Change", Position(0, 0)), ("Progress", Position(0, 1))]
    assert events[1].after == Position(0, 0)


def test_compaction_keeps_the_progress_of_an_owner_that_was_ahead(store: MemoryStore) -> None:
    """An owner that takes over at an older position reports outcomes, and does not displace the newer progress."""
    ahead = Partition(DEFINITION, 0, opened(MemoryStore()))
    history = run(ahead, record(0, b"{"), record(1, b'{"id":1}'), record(2, b"{"))
    behind = Partition(DEFINITION, 0, opened(store, emitted_to=Position(0, 2)))
    history += run(behind, record(0, b"{"))
    *_, late = history
    assert isinstance(late, Progress)
    assert (late.position, late.key, late.outcomes) == (Position(0, 0), CATCH_UP_KEY, {"0": "dead:not json"})
    newest = {event.key if isinstance(event, Progress) else event.sow_key: event for event in history}
    wholeness = Wholeness()
    wholeness.saw(newest.values())
    assert wholeness.is_whole
    (level,) = run(behind, record(1, b'{"id":1}'), record(2, b"{"))
    assert isinstance(level, Progress)
    assert (level.position, level.key) == (Position(0, 2), PROGRESS_KEY)


def test_a_new_origin_is_reported(partition: Partition) -> None:
    """Compaction may take the change that brought an origin; the progress event keeps it."""
    events = run(partition, record(0, b'{"id":1}', origin="log:3@5"))
    assert isinstance(events[-1], Progress)
    assert events[-1].origins == {3: 5}


def test_an_origin_without_a_change_is_reported_before_the_next_change(partition: Partition) -> None:
    """If only the first events of a batch reach Kafka, they still say which forwards were applied."""
    events = run(
        partition,
        record(0, b'{"id":1}', origin="log:3@5"),
        record(1, None, command="sow_delete", keys="7", origin="log:3@6"),
        record(2, b"{", origin="log:4@1"),
        record(3, b'{"id":2}'),
        record(4, b'{"id":2}'),
    )
    assert positions(events) == [
        ("Change", Position(0, 0)),
        ("Progress", Position(0, 2)),
        ("Change", Position(0, 3)),
        ("Change", Position(0, 4)),
        ("Progress", Position(0, 4)),
    ]
    progress = events[1]
    assert isinstance(progress, Progress)
    assert (progress.origins, progress.after) == ({3: 6, 4: 1}, Position(0, 0))


def test_many_outcomes_are_split(partition: Partition) -> None:
    """One progress event carries no more outcomes than its limit."""
    events = run(partition, *(record(offset, b"{") for offset in range(OUTCOMES_MAX + 1)))
    assert [len(event.outcomes) for event in events if isinstance(event, Progress)] == [OUTCOMES_MAX, 1]


def test_nothing_is_kept_before_the_commit(partition: Partition, store: MemoryStore) -> None:
    """A batch that was prepared but not committed leaves no trace; prepared again it is the same."""
    first = partition.prepare([record(0, b'{"id":1}')], 1)
    assert (list(store.scan()), store.checkpoint(), partition.checkpoint.next_offset) == ([], None, 0)
    assert partition.prepare([record(0, b'{"id":1}')], 1).events == first.events


def test_records_that_are_applied_already_are_passed_over(partition: Partition) -> None:
    """A batch that begins before the state's position applies only what is new."""
    run(partition, record(0, b'{"id":1}'), record(1, b'{"id":2}'))
    assert positions(run(partition, record(1, b'{"id":2}'), record(2, b'{"id":3}'))) == [
        ("Change", Position(0, 2))
    ]


def test_changes_that_were_emitted_before_a_crash_are_not_emitted_again(store: MemoryStore) -> None:
    """Up to `emitted_to` a replay changes the state but writes no change."""
    partition = Partition(DEFINITION, 0, opened(store, emitted_to=Position(0, 1)))
    events = run(partition, *(record(n, b'{"id":%d}' % n) for n in range(3)))
    assert positions(events) == [("Change", Position(0, 2))]
    assert len(list(store.scan())) == 3


def test_a_crash_between_two_flushes(store: MemoryStore) -> None:
    """The replay of many batches changes the state, emits nothing, and may be cut off by a crash of its own."""
    written = WriteBehindStore(store)
    first = Partition(DEFINITION, 0, opened(store), store=written)
    run(first, record(0, b'{"id":1,"n":0}'), changes_end=1)
    written.flush()
    for offset in range(1, 6):
        run(first, record(offset, b'{"id":1,"n":%d}' % offset), changes_end=offset + 1)
    assert Checkpoint.decode(store.checkpoint() or b"").position == Position(0, 0)
    for replayed in (range(1, 4), range(4, 7)):
        written = WriteBehindStore(store)
        next_owner = replace(opened(store, emitted_to=Position(0, 5)), tail_start=1)
        partition = Partition(DEFINITION, 0, next_owner, store=written)
        for offset in replayed:
            events = run(partition, record(offset, b'{"id":1,"n":%d}' % offset), changes_end=7)
            assert positions(events) == ([("Change", Position(0, 6))] if offset == 6 else [])
            written.flush()
            kept = Checkpoint.decode(store.checkpoint() or b"")
            # Behind `emitted_to`, the next owner reads the same tail from here, and finds the same `emitted_to`.
            assert (kept.position, kept.changes_end) == (Position(0, offset), 1 if offset < 5 else 7)
    assert [data.endswith(b'"n":6}') for _, data in store.scan()] == [True]
    assert survey(store).checksum == store.checksum()


def test_state_head_and_checksum_are_committed_together(partition: Partition, store: MemoryStore) -> None:
    """After a commit the store says how far it is true and what it must contain."""
    run(partition, record(0, b'{"id":1}'), record(1, b"{"), changes_end=7)
    data = store.checkpoint()
    assert data is not None
    assert Checkpoint.decode(data) == partition.checkpoint
    assert (partition.checkpoint.position, partition.checkpoint.changes_end) == (Position(0, 1), 7)
    assert survey(store).checksum == store.checksum()


def test_a_deleted_records_memory_is_cleared_after_the_window(
    partition: Partition, store: MemoryStore
) -> None:
    """Once no number of it can matter any more, a deleted record leaves the store."""
    run(partition, record(0, b'{"id":1}', 0, publisher="p", sequence="1"))
    run(partition, record(1, b'{"id":1}', 0, command="sow_delete"))
    run(partition, record(2, b"{", 100))
    assert len(list(store.scan())) == 1
    run(partition, record(3, b"{", 101))
    assert list(store.scan()) == []
    assert survey(store).checksum == store.checksum()


def test_a_memory_is_cleared_by_the_next_owner_too(partition: Partition, store: MemoryStore) -> None:
    """Anyone who opens the store knows what is to be cleared."""
    run(partition, record(0, b'{"id":1}', 0, publisher="p", sequence="1"))
    run(partition, record(1, b'{"id":1}', 0, command="sow_delete"))
    run(Partition(DEFINITION, 0, opened(store)), record(2, b"{", 101))
    assert list(store.scan()) == []


def test_a_record_that_came_back_is_not_cleared(partition: Partition, store: MemoryStore) -> None:
    """A key that was deleted long ago and published again stays."""
    run(partition, record(0, b'{"id":1}', 0, publisher="p", sequence="1"))
    run(partition, record(1, b'{"id":1}', 0, command="sow_delete"))
    run(partition, record(2, b'{"id":1}', 50))
    run(partition, record(3, b"{", 500))
    assert len(list(store.scan())) == 1


def test_clearing_a_memory_can_not_be_seen_in_the_changes() -> None:
    """A plain publish of the key gives the same change, whether the memory was there or cleared."""
    log = [
        record(0, b'{"id":1}', 0, publisher="p", sequence="1"),
        record(1, b'{"id":1}', 0, command="sow_delete"),
        record(2, b"{", 500),
        record(3, b'{"id":1}', 500),
    ]
    one_by_one = Partition(DEFINITION, 0, opened(MemoryStore()))
    apart = [event for one in log for event in run(one_by_one, one)]
    together = run(Partition(DEFINITION, 0, opened(MemoryStore())), *log)
    assert changes_bytes(apart) == changes_bytes(together)


def changes_bytes(events: list[Event]) -> list[Any]:
    """Return the changes among the events as they are on Kafka."""
    return [(e.sow_key, e.body, e.headers()) for e in events if isinstance(e, Change)]


def test_a_store_is_let_go(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a partition closes its store."""
    closed: list[bool] = []
    monkeypatch.setattr(store, "close", lambda: closed.append(True))
    Partition(DEFINITION, 0, opened(store)).close()
    assert closed == [True]


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_deletion_with_a_producers_time_is_forgotten(
    partition: Partition, store: MemoryStore, is_opened_again: bool
) -> None:
    """By log time, as any other: a producer's time a year ahead keeps neither its numbers nor those after it."""
    ahead = record(2, b'{"id":1}', 365 * 86_400_000, command="sow_delete", publisher="p", sequence="7")
    ahead = msgspec.structs.replace(ahead, time_type=CREATE_TIME)
    other = record(3, b'{"id":2}', 1001, command="sow_delete", publisher="p", sequence="8")
    run(partition, record(0, b'{"id":1}', 1000), record(1, b'{"id":2}', 1000), ahead, other)
    deleted = survey(store).tombstones
    assert [time for time, _ in deleted] == [1000, 1001]
    if is_opened_again:
        partition = Partition(DEFINITION, 0, replace(opened(store), tombstones=deleted))
    run(partition, record(4, b'{"id":3}', 1102))
    assert not survey(store).tombstones
