"""Opening a partition: the three recovery sources, and the eras; over a Kafka and a disk in memory."""

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Origin
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.model.key import sow_key
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position
from sowline.native import panics
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.kafka_partition import KafkaExtent, kafka_extent
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.partition.recovery import Recovery
from tests.memory_store import MemoryStore
from tests.panics import panic
from tests.property.world import World, dump

DEFINITION = define_topic(name="orders", key="/id", partitions=2)
PATH = Path("0")


@pytest.fixture
def world() -> Iterator[World]:
    """A world with nothing in it."""
    world = World(define_topic(name="orders", key="/id"))
    with ExitStack() as stack:
        for entered in world.patched():
            stack.enter_context(entered)
        yield world


@pytest.fixture
def worked(world: World) -> World:
    """A world whose partition has applied four records: two of them live, one deleted, one refused."""
    for value in (b'{"id":1}', b'{"id":2}', b'{"id":1,"a":1}', b"{"):
        world.write(0, value, None, [])
    world.write(0, b'{"id":2}', None, [("sow.command", b"sow_delete")])
    world.write(0, b'{"id":3}', None, [])
    world.drain(2)
    world.crash(0)
    return world


def recover(
    world: World, accept_loss: bool = False, *, looks_at_times: bool = False, native: Any = None, **found: Any
) -> OpenedPartition[Any]:
    """Open the partition with what Kafka holds, or is `found` to hold."""
    changes = world.changes[0]
    extent: dict[str, Any] = {
        "log_id": "log",
        "log_start": 0,
        "log_end": len(world.logs[0]),
        "changes_start": changes.held[0].at if changes.held else changes.end,
        "changes_end": changes.end,
        "changes_id": f"changes {changes.since}",
    }
    since = (lambda time: first_since(world, time)) if looks_at_times else None
    kept = KafkaExtent(**(extent | found))
    return Recovery({}, world.definition, 0, PATH, kept, accept_loss, first_since=since, native=native).open()


def first_since(world: World, time: int) -> int:
    """Return the offset of the log's first record of that time or later."""
    return next((record.offset for record in world.logs[0] if record.time >= time), len(world.logs[0]))


def state(opened: OpenedPartition[Any]) -> Any:
    """Return what all recovery sources must agree on."""
    checkpoint = opened.checkpoint
    return (
        dump(opened.store, 0, 0),
        checkpoint.position,
        checkpoint.last_change,
        checkpoint.time,
        checkpoint.origins,
        checkpoint.complete,
    )


def damage(world: World) -> None:
    """Change a record on the disk behind the store's back."""
    entries = world.disk[PATH]["_entries"]
    key = next(iter(entries))
    entries[key] = entries[key][:-1] + b"!"


def test_a_whole_store_goes_on_where_it_was(worked: World) -> None:
    """The first source: nothing is read but the tail of the changes."""
    opened = recover(worked)
    assert opened.checkpoint.next_offset == len(worked.logs[0])
    assert opened.checkpoint.stale_keys == frozenset()
    assert opened.emitted_to == opened.checkpoint.position


@pytest.mark.parametrize("loss", ["gone", "damaged", "unfinished", "headless"])
def test_the_changes_replace_a_store_that_is_lost(worked: World, loss: str) -> None:
    """The second source leads to the same state as the first, however the store was lost."""
    expected = state(recover(worked))
    if loss == "gone":
        worked.disk.clear()
    elif loss == "damaged":
        damage(worked)
    elif loss == "unfinished":
        del worked.disk[PATH]["finished"]
    else:
        worked.disk[PATH]["_checkpoint"] = None
    opened = recover(worked)
    assert state(opened) == expected
    assert opened.checkpoint.stale_keys == {PROGRESS_KEY}
    assert state(recover(worked)) == expected


@pytest.mark.parametrize("failing", ["load", "get", "written"])
def test_a_panic_leaves_a_load_to_python(worked: World, failing: str) -> None:
    """It begins again: the state is the same."""

    class Panicking:
        """A loader that fails at one of its methods."""

        def __init__(self, *given: Any) -> None:
            self._loader = native.Loader(*given)

        def __getattr__(self, name: str) -> Any:
            return panic if name == failing else getattr(self._loader, name)

    native = pytest.importorskip("sowline_native")
    expected = state(recover(worked))
    worked.disk.clear()
    before = panics()
    opened = recover(worked, native=type("Module", (), {"Loader": Panicking, "survey": panic}))
    assert state(opened) == expected
    assert panics() == before + 1


def test_the_log_replaces_what_is_lost_with_the_changes(worked: World) -> None:
    """The third source: the log itself gives the same state, from its begin."""
    expected = state(recover(worked))
    worked.disk.clear()
    worked.changes[0].replace()
    opened = recover(worked)
    assert (opened.checkpoint.next_offset, opened.checkpoint.stale_keys) == (0, {PROGRESS_KEY})
    worked.drain()
    worked.crash(0)
    assert state(recover(worked)) == expected


def test_without_its_begin_the_log_is_no_recovery_source(worked: World) -> None:
    """Where store, changes and the log's begin are gone the partition stops with a sentence."""
    worked.disk.clear()
    worked.changes[0].replace()
    with pytest.raises(SowlineError, match=r"orders \[0\] begins at offset 3.*--accept-loss") as error:
        recover(worked, log_start=3)
    assert error.value.reason == "log incomplete"
    opened = recover(worked, log_start=3, accept_loss=True)
    assert (opened.checkpoint.next_offset, opened.checkpoint.stale_keys) == (3, {PROGRESS_KEY})


def check_filled_again(worked: World) -> None:
    """The changes topic alone gives the state that its owner leaves."""
    worked.crash(0)
    expected = state(recover(worked))
    worked.disk.clear()
    assert state(recover(worked)) == expected


def test_a_changes_topic_that_was_replaced_is_filled_again(worked: World) -> None:
    """With a whole store and a shorter changes topic, everything is to be written again."""
    worked.changes[0].replace()
    for _ in range(2):
        opened = recover(worked)
        assert EVERYTHING in opened.checkpoint.stale_keys
    worked.owner(0)
    check_filled_again(worked)


def test_a_changes_topic_that_has_grown_again_is_noticed(worked: World) -> None:
    """Its id tells that it is another one, however long it is; what it alone holds is to be told gone."""
    replayed = [message.event for message in worked.changes[0].history]
    worked.changes[0].replace()
    for event in [*replayed[:3], *replayed[:3], *replayed[:3]]:
        worked.changes[0].append(event)
    opened = recover(worked)
    deleted = sow_key(b"orders\0", "2")
    assert opened.checkpoint.stale_keys == {EVERYTHING, PROGRESS_KEY, deleted}
    assert opened.checkpoint.changes_id == f"changes {len(replayed)}"
    worked.owner(0)
    check_filled_again(worked)


def test_an_owner_of_before_goes_on_in_a_topic_that_was_made_again(worked: World) -> None:
    """What it wrote there leaves out what was before: all of it is written again, once the state has come so far."""
    changes = worked.changes[0]
    last = [message.event for message in changes.history if isinstance(message.event, Change)][-1]
    changes.replace()
    worked.disk.clear()
    recover(worked)
    changes.append(last)
    opened = recover(worked)
    assert (opened.checkpoint.next_offset, opened.emitted_to) == (0, last.position)
    assert EVERYTHING in opened.checkpoint.stale_keys
    worked.drain(2)
    check_filled_again(worked)


def test_a_head_without_an_id_takes_the_topic_as_it_is(worked: World) -> None:
    """It was written before the id was kept."""
    checkpoint = Checkpoint.decode(worked.disk[PATH]["_checkpoint"])
    worked.disk[PATH]["_checkpoint"] = dataclasses.replace(checkpoint, changes_id="").encode()
    opened = recover(worked)
    assert (opened.checkpoint.changes_id, opened.checkpoint.stale_keys) == ("changes 0", frozenset())


def test_a_load_that_takes_long_goes_on(worked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction may have taken what was below the end for what is behind it: that is read, too."""
    expected = state(recover(worked))
    changes, clock = worked.changes[0], SimpleNamespace(now=0.0)
    end = changes.end - 1
    changes.compact(lambda: False)
    worked.disk.clear()
    # By the machine's clock in one of them, nothing would take long on a machine that has just started.
    for module in ("recovery", "changes_loader"):
        monkeypatch.setattr(
            f"sowline_materializer.partition.{module}.time", SimpleNamespace(monotonic=lambda: clock.now)
        )
    extents = [KafkaExtent("log", 0, len(worked.logs[0]), 0, at, "changes 0") for at in (end, changes.end)]
    recovery = Recovery({}, worked.definition, 0, PATH, extents[0], ask=lambda: extents[1])
    clock.now = 10_000.0
    opened = recovery.open()
    assert state(opened) == expected
    assert opened.checkpoint.changes_end == changes.end


class Broken(Exception):
    """Kafka does not answer."""


@pytest.mark.parametrize("lost", [False, True])
def test_what_fails_leaves_no_store_open(worked: World, lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next worker of the process could not open it."""
    if lost:
        worked.disk.clear()
    closed: list[object] = []
    monkeypatch.setattr(MemoryStore, "close", lambda self: closed.append(self))  # noqa: PLW0108 - a method

    def read_range(*_: object, **__: object) -> Iterator[object]:
        raise Broken

    monkeypatch.setattr("sowline_materializer.partition.kafka_partition.read_range", read_range)
    with pytest.raises(Broken):
        recover(worked)
    assert len(closed) == 1


def test_what_was_emitted_but_not_committed_is_not_emitted_again(worked: World) -> None:
    """`emitted_to` is the newest position in the tail of the changes."""
    worked.write(0, b'{"id":9}', None, [])
    worked.work(0, 5, cut=1)
    opened = recover(worked)
    assert opened.checkpoint.next_offset == len(worked.logs[0]) - 1
    assert opened.emitted_to == Position(0, len(worked.logs[0]) - 1)


def test_stale_owner_events_in_the_tail_are_noted(worked: World) -> None:
    """What came too late since the last commit is to be repaired, once the state is new enough."""
    old = worked.changes[0].history[1].event
    assert isinstance(old, Change)
    worked.changes[0].append(old)
    opened = recover(worked)
    assert opened.checkpoint.stale_keys == {old.sow_key}
    assert opened.emitted_to == opened.checkpoint.position


def test_the_word_of_another_topic_in_the_tail_is_noted(worked: World) -> None:
    """An owner that does not know that the topic was made again: nothing up to there was emitted into this one."""
    position = Position(0, 99)
    word = Progress(position, position, 0, {}, DEFINITION.digest, "log", 100, {}, changes_id="old")
    worked.changes[0].append(word)
    opened = recover(worked)
    assert (opened.emitted_to, opened.checkpoint.stale_keys) == (opened.checkpoint.position, {PROGRESS_KEY})


def test_stale_owner_events_in_a_load_are_noted(worked: World) -> None:
    """A load knows which keys' last events are not their newest."""
    old = worked.changes[0].history[1].event
    assert isinstance(old, Change)
    worked.changes[0].append(old)
    worked.disk.clear()
    assert recover(worked).checkpoint.stale_keys == {old.sow_key, PROGRESS_KEY}


def test_another_definition_is_refused(worked: World) -> None:
    """State made under another definition is not gone on with."""
    changed = worked.definition.declared.model_copy(update={"key_domain": "x"})
    worked.definition = TopicDefinition.of(changed)
    with pytest.raises(SowlineError) as error:
        recover(worked)
    assert error.value.reason == "definition changed"
    assert "enrichment, documents, sow and framing in topics.yaml" in error.value.message


@pytest.fixture
def older(world: World) -> World:
    """A world of documents whose state, changes and progress events are of a version that recorded no template."""
    world.definition = define_topic(name="orders", key="/id", documents=True, template={"type": "review"})
    world.write(0, b'{"id":1}', None, [])
    world.drain()
    world.crash(0)
    disk, changes = world.disk[PATH], world.changes[0]
    disk["_checkpoint"] = without_template(disk["_checkpoint"])
    changes.held = [
        one._replace(body=without_template(one.body)) if one.name == PROGRESS_KEY and one.body else one
        for one in changes.held
    ]
    return world


def without_template(data: bytes) -> bytes:
    """Return a checkpoint or a progress event as versions without templates wrote it."""
    given = orjson.loads(data)
    assert (given["format"], given.pop("template")) == (2, '{"type":"review"}')
    return orjson.dumps(given)


@pytest.mark.parametrize("store", ["whole", "gone"])
def test_the_template_of_an_older_state_is_recorded(older: World, store: str) -> None:
    """It is stored at once, and reported: with another template in the file, nothing else would show it."""
    if store == "gone":
        older.disk.clear()
    opened = recover(older)
    assert opened.checkpoint.limits == older.definition.limits
    assert PROGRESS_KEY in opened.checkpoint.stale_keys
    held = Checkpoint.decode(older.disk[PATH]["_checkpoint"])
    assert (held.limits, held.stale_keys) == (opened.checkpoint.limits, opened.checkpoint.stale_keys)
    older.definition = define_topic(name="orders", key="/id", documents=True)
    assert recover(older).checkpoint.limits.template == '{"type":"review"}'


def test_another_template_than_that_of_an_older_state_is_refused(older: World) -> None:
    """Only its digest is known, and that is of the previous one."""
    older.definition = define_topic(name="orders", key="/id", documents=True, template={"type": "order"})
    with pytest.raises(
        SowlineError, match=r"expected the definition that made the state of topic .*, got another"
    ):
        recover(older)


# eras


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


# the loader


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


class Busy:
    """A cluster in which a topic's end moves on whenever it is asked for."""

    def __init__(self) -> None:
        self._moment = 100

    def topic_id(self, name: str) -> str:
        """Return the id of a topic."""
        return f"id of {name}"

    def starts(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """Return where partitions begin."""
        return dict.fromkeys(partitions, 0)

    def ends(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """Return where partitions end at this moment."""
        self._moment += 1
        return dict.fromkeys(partitions, self._moment)


def test_an_owner_that_still_writes_is_not_beyond_the_log() -> None:
    """Whatever the changes hold by the end that is looked at, the log held before its own."""
    extent = kafka_extent(Busy(), DEFINITION, 0)  # type: ignore[arg-type]
    assert extent.changes_end < extent.log_end
