"""Views in memory: source partitions, their owners in the service `views`, and the materializer of the view.

Owners may stall, wake and die at any instruction (`view_sources.py`), several of them may own a source partition at a
time, and what they have produced comes to the view's log in any order across its partitions. After each step every
partition of the view is compared with a plain recomputation over the sources, at each message boundary.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson

from sowline.changes.change import AGAIN, DELETED, RESET, Change
from sowline.changes.changes_reader import ChangesMissing
from sowline.changes.partials import read_partials
from sowline.commands.command import PARTIALS, Headers
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.model.difference import Keys
from sowline.model.key import partition_of
from sowline.model.merge import merge, take_out
from sowline.model.path import Path as FieldPath
from sowline.model.position import Position, before_the_log
from sowline_materializer.admin.dump import dump_lines
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.core.views import NOWHERE
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.interface import Store
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.memory_store import MemoryStore
from tests.property.view_reference import VIEWS, Body, Recompute
from tests.property.view_sources import SourceModel, SourceOwner
from tests.property.world import World, changes_of, without_gaps

STATES_A_MESSAGE = 2
"""So few that most snapshots are of several messages."""

MESSAGES_MAX = 100
"""More than a snapshot has here."""

COMMAND: Headers = [("sow.command", PARTIALS.encode())]

Vector = dict[int, Position]


class ExpectedView(NamedTuple):
    """What a partition of the view reflects behind a message; not `is_whole` while a snapshot is in progress."""

    vector: Vector
    is_whole: bool


class ViewFollower:
    """A reader of one partition of the view, which compares it with the recomputation at each message boundary."""

    def __init__(self, number: int, key_fields: Keys) -> None:
        self.number = number
        self.key_fields = key_fields
        self.position = before_the_log()
        self.records: dict[bytes, bytes] = {}
        self.reflected: Vector = {}
        self.events_read = 0
        self._expected: list[ExpectedView] = []
        self._vector: Vector = {}
        self._ahead: Vector = {}

    def expected(self, world: "ViewWorld", offset: int) -> ExpectedView:
        """Return what the messages of the log mean, up to an offset."""
        for record in world.stage2.logs[self.number][len(self._expected) : offset + 1]:
            self._note(read_partials(record.value))
        return self._expected[offset] if offset >= 0 else ExpectedView({}, True)

    def _note(self, message: Any) -> None:
        source, up_to = message.partition, Position.parse(message.up_to)
        reached = self._vector.get(source, NOWHERE)
        if up_to > reached:
            if not message.ends:
                self._ahead[source] = max(up_to, self._ahead.get(source, NOWHERE))
            else:
                assert message.is_snapshot or Position.parse(message.after) <= reached, "an owner left a gap"
                self._vector = {**self._vector, source: up_to}
        whole = all(position <= self._vector.get(one, NOWHERE) for one, position in self._ahead.items())
        self._expected.append(ExpectedView(self._vector, whole))

    def follow(self, world: "ViewWorld") -> None:
        """Read the new events of the changes topic."""
        history = world.stage2.changes[self.number].history
        for message in without_gaps(history[self.events_read :], self.position):
            event = message.event
            if event.position.era > self.position.era:
                self.reflected = {}
            self.position = event.position
            is_boundary = True
            if isinstance(event, Change):
                self._take(event)
                is_boundary = event.last
            else:
                self._move(dict(event.reflected))
            if is_boundary:
                self._compare(world)
        self.events_read = len(history)

    def _take(self, change: Change) -> None:
        assert change.previous == self.records.get(change.sow_key)
        if change.op != RESET:
            assert (change.reason == DELETED) == (change.body is None and change.previous is not None)
        if change.body is None:
            self.records.pop(change.sow_key, None)
        else:
            self._merge(change)
            self.records[change.sow_key] = change.body
        if change.reflects is not None:
            self._move({**self.reflected, change.reflects[0]: change.reflects[1]})

    def _merge(self, change: Change) -> None:
        """Check that the delta of an update has the key fields, and turns the record before into the new one."""
        delta = change.delta(self.key_fields)
        if delta is not None and change.previous is not None and change.body is not None:
            merged = take_out(merge(change.previous, delta.body), delta.removed)
            body, sent = orjson.loads(change.body), orjson.loads(delta.body)
            assert orjson.loads(merged) == body
            for names in map(FieldPath, self.key_fields):
                assert names.find(sent) == names.find(body), "a delta has the key fields"

    def _move(self, reflected: Vector) -> None:
        for source, position in self.reflected.items():
            assert position <= reflected.get(source, NOWHERE), (
                f"the view goes back to {reflected} from {self.reflected}"
            )
        self.reflected = reflected

    def _compare(self, world: "ViewWorld") -> None:
        expected = self.expected(world, self.position.offset)
        assert self.reflected == expected.vector, f"expected {expected.vector}, got {self.reflected}"
        if expected.is_whole:
            found = as_text({key.decode(): orjson.loads(body) for key, body in self.records.items()})
            recomputed = as_text(world.recomputed(self.number, expected.vector))
            assert found == recomputed, f"expected {recomputed}, got {found}"


def as_text(records: dict[str, Body]) -> str:
    """Return records as JSON: unlike Python's numbers, 1, 1.0 and true differ there."""
    return orjson.dumps(records, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode()


class ViewWorld:
    """One view, its sources, their owners, and the materializer of the view."""

    native: ModuleType | None = None
    """The native core of the owners of sources, if they have it."""

    def __init__(self, view: str, sources: int, partitions: int) -> None:
        text, recompute = VIEWS[view]
        self.definition = defined(text, sources, partitions)
        self._recompute: Recompute = recompute
        self.partitions = partitions
        self.sources = [SourceModel(number) for number in range(sources)]
        self.owners: list[SourceOwner] = []
        self.saved: dict[int, SourceOwner] = {}
        self.stage2 = World(self.definition)
        self.followers = [ViewFollower(number, self.definition.key_fields) for number in range(partitions)]

    def patched(self) -> list[AbstractContextManager[Any]]:
        """Return what must be entered before anything is done."""
        return [*self.stage2.patched(), patch("sowline_views.core.outgoing.STATES_MAX", STATES_A_MESSAGE)]

    # the service `views`

    def begin(self, source: int) -> None:
        """A process takes a source partition and has no state: it loads it, and will produce a snapshot."""
        sources = self.sources
        self.owners.append(SourceOwner.begun(self.definition, sources[source], len(sources), self.native))

    def resume(self, source: int) -> None:
        """A process takes a source partition and continues from the state that was saved, if one was."""
        saved = self.saved.get(source)
        copied = None if saved is None else saved.copy()
        if copied is None:
            self.begin(source)
        else:
            self.owners.append(copied)

    def take(self, owner: SourceOwner, count: int) -> None:
        """Let an owner read; one that finds changes missing begins again."""
        try:
            owner.take(count)
        except ChangesMissing:
            self.owners.remove(owner)
            self.saved.pop(owner.source.number, None)
            self.begin(owner.source.number)

    def save(self, owner: SourceOwner) -> None:
        """Save an owner's state, if the log has all that it has read."""
        if (copied := owner.copy()) is not None:
            self.saved[owner.source.number] = copied

    def append(self, owner: SourceOwner, partition: int, count: int) -> None:
        """Append what an owner has produced to one partition of the log, in its order."""
        for _ in range(count):
            if (one := owner.next_for(partition)) is None:
                return
            self._append(partition, one.message.encode())

    def repeat(self, partition: int, number: int) -> None:
        """Append a message again."""
        if log := self.stage2.logs[partition]:
            self._append(partition, log[number % len(log)].value)

    def _append(self, partition: int, value: bytes | None) -> None:
        self.stage2.time += 1
        self.stage2.write(partition, value, None, COMMAND)

    # the materializer

    def lose(self, partition: int, *, store: bool, changes: bool) -> None:
        """The owner of a partition of the view is killed; its disk is lost, or the changes topic, or both."""
        self.stage2.owner(partition)
        self.stage2.crash(partition)
        if store:
            self.stage2.disk.pop(Path(str(partition)))
        if changes:
            self.stage2.changes[partition].replace()
            self.stage2.late[partition] = []
        self.stage2.owner(partition)

    def write_old(self, partition: int, start: int, count: int) -> None:
        """An owner that was thought dead writes old changes of a partition of the view once more."""
        changes = self.stage2.changes[partition]
        own = [event for _, event in changes_of(changes.history[changes.since :]) if event.op != AGAIN]
        for event in own[start : start + count]:
            changes.append(event)

    def compact(self, partition: int, keeps: Any) -> None:
        """Kafka compacts the changes, once they are older than the lag: an owner has reported all by then."""
        self.stage2.arrive_late(partition)
        self.stage2.drain()
        self.repeat(partition, 0)
        self.stage2.drain()
        self.stage2.changes[partition].compact(keeps)

    # everything must add up

    def recomputed(self, partition: int, vector: Vector) -> dict[str, Body]:
        """Return the records of a partition of the view, by key text, computed from the sources at a vector."""
        records = {
            key: seen
            for number, position in vector.items()
            for key, seen in self.sources[number].at(position).items()
        }
        return {
            key: body
            for key, body in self._recompute(records).items()
            if partition_of(key, self.partitions) == partition
        }

    def check(self) -> None:
        """Compare each partition of the view with the recomputation."""
        for number, follower in enumerate(self.followers):
            follower.follow(self)
            if (owner := self.stage2.owners.get(number)) is not None:
                self._check_owner(number, owner.checkpoint, follower)
        assert not any(self.stage2.dead), f"refused: {self.stage2.dead}"

    def _check_owner(self, number: int, checkpoint: Checkpoint, follower: ViewFollower) -> None:
        reached = checkpoint.next_offset - 1
        assert dict(checkpoint.reflected) == follower.expected(self, reached).vector, "reflected"
        if checkpoint.position == follower.position:
            records = {key: decode_record(data) for key, data in self.stage2.store(number).scan()}
            live = {key: record.body for key, record in records.items() if record.body is not None}
            assert live == follower.records, "the records of an owner and those that it has emitted"
            assert checkpoint.records == sum(record.is_live for record in records.values())

    def settle(self) -> None:
        """Let a new owner of each source partition bring the view up to date; then everything must add up."""
        self.bring_up_to_date()
        for number in range(self.partitions):
            self.stage2.arrive_late(number)
        self.stage2.drain()
        for number in range(self.partitions):
            self.repeat(number, 0)
        self.stage2.drain()
        self.check()
        for number, follower in enumerate(self.followers):
            assert follower.reflected == self.newest()
            assert follower.expected(self, follower.position.offset).is_whole
            self._check_other_batches(number)
            self._check_loading(number)
            self._check_rebuild(number)

    def bring_up_to_date(self) -> None:
        """Let a new owner of each source partition take and write everything."""
        self.owners = []
        for source in range(len(self.sources)):
            self.resume(source)
        for owner in list(self.owners):
            self.take(owner, owner.source.end + MESSAGES_MAX)
        for owner in self.owners:
            owner.take(owner.source.end + MESSAGES_MAX)
            owner.flush(also_idle=True)
            for number in range(self.partitions):
                self.append(owner, number, len(owner.produced))

    def newest(self) -> Vector:
        """Return what the view reflects once it is up to date."""
        return {source.number: source.position for source in self.sources}

    def lines(self, number: int, store: Store, checkpoint: Checkpoint) -> list[bytes]:
        """Return the state of a partition of the view, as a dump has it."""
        records = [(key, decode_record(data)) for key, data in store.scan()]
        copy: Any = SimpleNamespace(checkpoint=checkpoint, records=lambda: iter(records))
        return list(dump_lines(self.definition, number, copy))

    def own_lines(self, number: int) -> list[bytes]:
        """Return the state that the owner of a partition of the view holds."""
        return self.lines(number, self.stage2.store(number), self.stage2.owner(number).checkpoint)

    def _check_other_batches(self, number: int) -> None:
        """The same log in batches of another size makes the same state, byte for byte."""
        log = self.stage2.logs[number]
        for size in (1, 1000):
            store, definition = MemoryStore(), self.definition
            begin = Checkpoint(limits=definition.limits, log_id="log", definition=definition.digest)
            partition = Partition(
                definition,
                number,
                OpenedPartition(store, begin, before_the_log()),
            )
            for start in range(0, len(log), size):
                partition.commit(partition.prepare(log[start : start + size], len(log)), 0)
            assert self.lines(number, store, partition.checkpoint) == self.own_lines(number)

    def _check_rebuild(self, number: int) -> None:
        """An era with an empty base, in which the log is applied from its begin, leads to the same records."""
        follower = self.followers[number]
        before, reflected = follower.records.copy(), follower.reflected
        has_entries = any(self.stage2.store(number).scan())
        self.stage2.start_empty(number, 0, cut=1 if has_entries else None)
        self.stage2.crash(number)
        self.stage2.owner(number)
        follower.follow(self)
        assert follower.records == follower.reflected == {}
        self.stage2.drain()
        self.check()
        assert (follower.records, follower.reflected) == (before, reflected)
        self._check_loading(number)

    def _check_loading(self, number: int) -> None:
        """The changes topic as it is, and compacted, loads to the same state; so a query service has its records."""
        changes = self.stage2.changes[number]
        for _ in range(2):
            store = MemoryStore()
            loader = ChangesLoader(store, self.definition)
            loader.load([message.event for message in changes.held])
            loader.finish()
            assert self.lines(number, store, loader.checkpoint(0)) == self.own_lines(number)
            assert survey(store).checksum == store.checksum()
            half = len(changes.history) // 2
            for loaded, followed in (
                (changes.held, []),
                (changes.history[:half], changes.history[half:]),
            ):
                self._check_replica(number, [_at(one) for one in loaded], [_at(one) for one in followed])
            changes.compact(lambda: False)

    def _check_replica(self, number: int, loaded: list[EventAtOffset], followed: list[EventAtOffset]) -> None:
        rows = Rows()
        replica = PartitionReplica(number, rows, ring_changes_max=5)
        replica.load(loaded)
        replica.loaded()
        replica.apply(followed)
        assert {key: rows.body(key) for key in rows.numbers} == self.followers[number].records
        assert replica.reflected == self.followers[number].reflected, "what a query service reflects"


def _at(message: Any) -> EventAtOffset:
    return EventAtOffset(message.at, message.event)


def defined(view: dict[str, Any], sources: int, partitions: int, **source: Any) -> TopicDefinition:
    """Return the topic of a view of `orders`, or of a conflated topic if it has an interval."""
    kind = "conflated" if "interval" in view else "views"
    topics = Topics.model_validate(
        {
            "topics": [{"name": "orders", "key": "/id", "partitions": sources, **source}],
            kind: [{"name": "view", "from": "orders", "partitions": partitions, **view}],
        }
    )
    return topics.named("view")
