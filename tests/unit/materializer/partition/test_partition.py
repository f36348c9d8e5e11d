"""A partition at work: what a batch writes, what is kept, and how stale-owner writes are repaired."""

from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY, Progress
from sowline.changes.wholeness import Wholeness
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.key import sow_key
from sowline.model.log_time import CREATE_TIME
from sowline.model.position import Position
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import OUTCOMES_MAX, Partition, stale_owner_keys
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore
from tests.property.world import dump

DEFINITION = define_topic(name="orders", key="/id", repeat_window="100ms")


def opened(store: MemoryStore, **given: Any) -> OpenedPartition[MemoryStore]:
    """Return a store as a recovery hands it over."""
    data = store.checkpoint()
    begin = Checkpoint(definition=DEFINITION.digest, limits=DEFINITION.limits, log_id="log")
    checkpoint = begin if data is None else Checkpoint.decode(data)
    emitted_to = given.pop("emitted_to", checkpoint.position)
    return OpenedPartition(store, replace(checkpoint, **given), emitted_to)


@pytest.fixture
def store() -> MemoryStore:
    """A new store."""
    return MemoryStore()


@pytest.fixture
def partition(store: MemoryStore) -> Partition:
    """A partition that has applied nothing."""
    return Partition(DEFINITION, 0, opened(store))


def record(offset: int, value: bytes | None, time: int = 0, **headers: str) -> LogRecord:
    """Return a log record with headers of ours."""
    return LogRecord(offset, time, None, value, [(f"sow.{k}", v.encode()) for k, v in headers.items()])


def run(partition: Partition, *records: LogRecord, changes_end: int = 0) -> list[Event]:
    """Apply and commit a batch; return its events."""
    prepared = partition.prepare(records, 100)
    partition.commit(prepared, changes_end)
    return prepared.events


def positions(events: list[Event]) -> list[tuple[str, Position]]:
    """Return what kind each event is, and where it stands."""
    return [(type(event).__name__, event.position) for event in events]


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


# stale-owner writes


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
