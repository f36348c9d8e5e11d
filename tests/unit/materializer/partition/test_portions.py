"""A command over many records: it is applied, emitted and committed in portions, with the result of one step."""

from dataclasses import replace

import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import CopyOf, Headers, LogRecord, Origin
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_materializer.core import portions
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import Forward
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from tests.memory_store import MemoryStore
from tests.property.world import dump

IDS = [str(number) for number in range(99) if partition_of(str(number), 2) == 0][:8]
"""The key texts of eight records that partition 0 owns."""

DELETED = 6
DELETE = len(IDS)
"""The offset of the delete. It has records before and after it in its batch."""


class Owner:
    """An owner of partition 0, which works until a batch is applied; it may be killed after any step."""

    def __init__(self, definition: TopicDefinition, origin: CopyOf | None = None) -> None:
        self.definition = definition
        self.store = MemoryStore()
        begin = Checkpoint(definition=definition.digest, limits=definition.limits, log_id="log")
        self.store.commit({}, self.store.checksum(), begin.encode())
        self.events: list[Event] = []
        self.forwards: list[Forward] = []
        self.completed: list[int] = []
        self.log = [
            LogRecord(offset, 1000, None, b'{"id":%s,"n":%d}' % (id.encode(), offset))
            for offset, id in enumerate(IDS)
        ]
        headers: Headers = [("sow.command", b"sow_delete"), ("sow.filter", b"/n < %d" % DELETED)]
        if origin is not None:
            headers.append(("sow.origin", str(origin).encode()))
        self.log.append(LogRecord(DELETE, 2000, None, None, headers))
        self.log.append(LogRecord(DELETE + 1, 3000, None, b'{"id":%s}' % IDS[0].encode()))

    def open(self) -> Partition:
        """Open the partition from the store, as after a crash."""
        checkpoint = Checkpoint.decode(self.store.checkpoint() or b"")
        opened = OpenedPartition(self.store, checkpoint, checkpoint.position)
        return Partition(self.definition, 0, opened)

    def work(self, *, is_killed: bool = False) -> None:
        """Apply the log in one batch; an owner that is killed opens the partition again after each step."""
        partition = self.open()
        while partition.are_left(self.log):
            prepared = partition.prepare(self.log, len(self.log))
            self.events += prepared.events
            self.forwards += prepared.step.forwards
            self.completed.append(prepared.records)
            partition.commit(prepared, 0)
            if is_killed:
                partition = self.open()

    @property
    def changes(self) -> list[Change]:
        """The changes among the events."""
        return [event for event in self.events if isinstance(event, Change)]

    @property
    def kinds(self) -> str:
        """The events in order: a change of the delete that is not its last, another change, or a progress event."""
        return "".join(
            "p" if isinstance(event, Progress) else "c" if event.last else "-" for event in self.events
        )


@pytest.fixture(params=[False, True], ids=["records", "documents"])
def definition(request: pytest.FixtureRequest) -> TopicDefinition:
    """A topic of two partitions, so that a delete by filter is forwarded."""
    return define_topic(name="orders", key="/id", partitions=2, documents=request.param)


@pytest.fixture
def whole(definition: TopicDefinition) -> Owner:
    """An owner that applied everything in one step."""
    owner = Owner(definition)
    owner.work()
    assert owner.completed == [len(owner.log)]
    return owner


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("portion", [1, 2, 3, 5])
def test_a_delete_in_portions(
    definition: TopicDefinition, whole: Owner, monkeypatch: pytest.MonkeyPatch, portion: int, is_killed: bool
) -> None:
    """Changes and state are those of one step, each change is emitted once, and no event ends a portion."""
    monkeypatch.setattr(portions, "PORTION_CHANGES_MAX", portion)
    owner = Owner(definition)
    owner.work(is_killed=is_killed)
    assert owner.changes == whole.changes
    assert dump(owner.store, 0, 0) == dump(whole.store, 0, 0)
    assert replace(owner.open().checkpoint, changes_end=0) == whole.open().checkpoint
    assert owner.forwards == whole.forwards
    assert (sum(owner.completed), len(owner.completed)) == (len(owner.log), 1 + -(-DELETED // portion))
    assert owner.kinds == "c" * len(IDS) + "-" * (DELETED - 1) + "ccp"


def test_a_large_delete_among_other_records(whole: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records before it are a step, each portion is one, and the last one has the records after it too."""
    monkeypatch.setattr(portions, "PORTION_CHANGES_MAX", 4)
    owner = Owner(whole.definition)
    owner.work()
    assert owner.completed == [len(IDS), 0, 2]


def test_a_portion_is_bounded_by_bytes(whole: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records may be large: a few of them are as much as many small ones."""
    monkeypatch.setattr(portions, "PORTION_BYTES_MAX", 1)
    owner = Owner(whole.definition)
    owner.work()
    assert (owner.changes, len(owner.completed)) == (whole.changes, 1 + DELETED)


def test_the_origin_of_a_delete_in_portions_is_reported(
    definition: TopicDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the delete has no effect later, for an owner that loads the changes after compaction too."""
    monkeypatch.setattr(portions, "PORTION_CHANGES_MAX", 2)
    owner = Owner(definition, CopyOf("log", Origin(1, 5)))
    owner.work()
    progress = [event for event in owner.events if isinstance(event, Progress)]
    assert [(event.position, event.origins) for event in progress] == [(Position(0, DELETE + 1), {1: 5})]
    assert owner.forwards == []


@pytest.mark.parametrize("found", range(1, DELETED + 1))
def test_an_owner_that_lost_its_disk_continues_a_delete(
    definition: TopicDefinition, whole: Owner, monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    """Kafka has the first changes of the delete: the next owner loads them, and emits the rest in portions."""
    monkeypatch.setattr(portions, "PORTION_CHANGES_MAX", 2)
    owner = Owner(definition)
    loader = ChangesLoader(owner.store, definition)
    begin = Checkpoint(definition=definition.digest, limits=definition.limits, log_id="log")
    loader.load([progress_of(begin, 0, {}), *whole.changes[: len(IDS) + found]])
    loader.finish()
    checkpoint = replace(loader.checkpoint(0), stale_keys=frozenset())
    owner.store.commit({}, owner.store.checksum(), checkpoint.encode())
    owner.work()
    assert owner.changes == whole.changes[len(IDS) + found :]
    assert dump(owner.store, 0, 0) == dump(whole.store, 0, 0)
