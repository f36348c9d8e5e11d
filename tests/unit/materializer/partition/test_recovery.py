"""Opening a partition: the three recovery sources, over a Kafka and a disk in memory."""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.native import panics
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.partition.kafka_partition import KafkaExtent, kafka_extent
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.recovery import Recovery
from tests.memory_store import MemoryStore
from tests.panics import panic
from tests.property.world import World, dump
from tests.unit.materializer.partition.recovered import (
    DEFINITION,
    PATH,
    check_filled_again,
    damage,
    recover,
    state,
    worked,
    world,
)

__all__ = ["worked", "world"]


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


def test_a_store_of_other_first_limits(worked: World) -> None:
    """Its worker began with a later definition, and wrote nothing; the partition has the limits of the other one."""
    expected, definition = recover(worked), worked.definition
    worked.disk.clear()
    worked.definition = define_topic(name="orders", key="/id", records_max=1)
    begun = recover(worked, changes_end=0)
    assert (begun.checkpoint.position.offset, begun.checkpoint.limits.records_max) == (-1, 1)
    begun.store.close()
    worked.definition = definition
    opened = recover(worked)
    assert state(opened) == state(expected)
    assert opened.checkpoint.limits == expected.checkpoint.limits


def test_a_head_without_an_id_takes_the_topic_as_it_is(worked: World) -> None:
    """It was written before the id was kept."""
    checkpoint = Checkpoint.decode(worked.disk[PATH]["_checkpoint"])
    worked.disk[PATH]["_checkpoint"] = dataclasses.replace(checkpoint, changes_id="").encode()
    opened = recover(worked)
    assert (opened.checkpoint.changes_id, opened.checkpoint.stale_keys) == ("changes 0", frozenset())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of loads. By the machine's, nothing would take long on a machine that has just started."""
    clock = SimpleNamespace(now=0.0)
    for module in ("recovery", "changes_loader"):
        monkeypatch.setattr(
            f"sowline_materializer.partition.{module}.time", SimpleNamespace(monotonic=lambda: clock.now)
        )
    return clock


def load_for_long(worked: World, clock: SimpleNamespace, now: KafkaExtent) -> OpenedPartition[Any]:
    """Recover from all changes but the last one, so slowly that Kafka is asked again; the answer is `now`."""
    first = replace(now, changes_end=worked.changes[0].end - 1, changes_id="changes 0")
    recovery = Recovery({}, worked.definition, 0, PATH, first, ask=lambda: now)
    clock.now = 10_000.0
    return recovery.open()


def test_a_load_that_takes_long_goes_on(worked: World, clock: SimpleNamespace) -> None:
    """Compaction may have taken what was below the end for what is behind it: that is read, too."""
    expected = state(recover(worked))
    changes = worked.changes[0]
    changes.compact(lambda: False)
    worked.disk.clear()
    now = KafkaExtent("log", 0, len(worked.logs[0]), 0, changes.end, "changes 0")
    opened = load_for_long(worked, clock, now)
    assert state(opened) == expected
    assert opened.checkpoint.changes_end == changes.end


def test_a_topic_that_is_replaced_while_it_is_loaded(worked: World, clock: SimpleNamespace) -> None:
    """The new one lacks what was read of the other. It is empty, and the log makes the state again."""
    worked.disk.clear()
    now = KafkaExtent("log", 0, len(worked.logs[0]), 0, 0, "changes 1")
    checkpoint = load_for_long(worked, clock, now).checkpoint
    assert (checkpoint.position, checkpoint.changes_id) == (Position(0, -1), "changes 1")


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


class Busy:
    """A cluster in which a topic's end moves on whenever it is asked for.

    `replaced_at` is the end with which the topics are deleted and created again.
    """

    def __init__(self, replaced_at: int = 0) -> None:
        self._moment = 100
        self._replaced_at = replaced_at

    def topic_ids(self, names: list[str]) -> dict[str, str]:
        """Return the ids of topics."""
        return {name: f"{name} {self._moment >= self._replaced_at}" for name in names}

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


def test_a_topic_that_is_replaced_between_two_answers() -> None:
    """All answers are about the new one."""
    extent = kafka_extent(Busy(replaced_at=101), DEFINITION, 0)  # type: ignore[arg-type]
    assert (extent.changes_id, extent.log_id) == ("orders.changes True", "orders True")
    assert (extent.changes_end, extent.log_end) == (103, 104)


@pytest.mark.parametrize(
    ("first_era", "position"), [(0, Position(1, -1)), (1, Position(1, -1)), (3, Position(3, -1))]
)
def test_a_store_that_outlived_its_topic(worked: World, first_era: int, position: Position) -> None:
    """The topic was dropped while another machine had it: its records do not come back with the new log."""
    worked.changes[0].replace()
    worked.logs[0].clear()
    opened = recover(worked, log_id="other", first_era=first_era)
    assert opened.checkpoint.position == position
    assert bool(dump(opened.store, 0, 0)) == (first_era == 0)


def test_a_store_of_a_log_that_was_kept(worked: World) -> None:
    """Only the topic's changes were dropped: the log would lead to the same state."""
    expected = dump(recover(worked).store, 0, 0)
    worked.changes[0].replace()
    assert dump(recover(worked, first_era=1).store, 0, 0) == expected
