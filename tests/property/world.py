"""A Kafka and a disk in memory, around the real partitions: what a worker does with them, step by step.

What a worker writes can be cut short anywhere, and the rest can arrive later, as from a process that was
thought dead.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import Mock, patch

from sowline.changes.change import Change
from sowline.changes.changes_reader import Verdict, verdict
from sowline.changes.event import Event, read_event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.log_time import CREATE_TIME, LOG_APPEND_TIME
from sowline.model.position import Position
from sowline_materializer.core.fencing import Fenced, check_owner
from sowline_materializer.core.record import Record, decode_record
from sowline_materializer.core.step import DeadLetter, Forward
from sowline_materializer.partition.kafka_partition import KafkaExtent
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.owner_commands import OwnerCommands
from sowline_materializer.partition.partition import Partition, stale_owner_keys
from sowline_materializer.partition.recovery import Recovery
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.interface import Store
from tests.memory_store import MemoryStore

Disk = dict[Path, dict[str, Any]]

CACHE_BYTES = 3000
"""Room for about three records in each half: what was written last is sometimes cached, and soon not."""


class Died(Exception):
    """An owner is no more."""


class Written(NamedTuple):
    """A record of a changes partition; quacks like a Kafka message."""

    at: int
    name: bytes
    body: bytes | None
    about: Headers
    time: int = 0
    time_type: int = LOG_APPEND_TIME

    def timestamp(self) -> tuple[int, int]:
        """Return its kind and the time in ms."""
        return self.time_type, self.time

    def offset(self) -> int:
        """Return the offset."""
        return self.at

    def key(self) -> bytes:
        """Return the Kafka key."""
        return self.name

    def value(self) -> bytes | None:
        """Return the Kafka value."""
        return self.body

    def headers(self) -> Headers:
        """Return the Kafka headers."""
        return self.about

    @property
    def event(self) -> Event:
        """What it says."""
        return read_event(self.name, self.body, self.about)


def written(at: int, event: Event) -> Written:
    """Return the event as it stands in the changes topic."""
    if isinstance(event, Progress):
        return Written(at, event.key, event.value(), [])
    return Written(at, event.sow_key, event.value, event.headers())


def rocks_in_memory(disk: Disk) -> type[MemoryStore]:
    """Return a stand-in for `RocksStore` whose files are on a disk in memory."""

    class RocksInMemory(MemoryStore):
        def __init__(self, path: Path, *, create: bool) -> None:
            super().__init__()
            if create:
                disk[path] = self.__dict__
            else:
                self.__dict__ = disk[path]

        @staticmethod
        def exists(path: Path) -> bool:
            return "finished" in disk.get(path, {})

        def mark_finished(self) -> None:
            self.finished = True

    return RocksInMemory


def store_on(disk: Disk, path: Path) -> MemoryStore:
    """Return a store whose files are on a disk in memory, as it is, and as who has it open changes it."""
    return rocks_in_memory(disk)(path, create=False)  # type: ignore[call-arg]


@dataclass
class Topic:
    """One changes partition: what it still holds, and, apart from it, all that was ever written.

    `since` is where in that history the topic was made again.
    """

    held: list[Written] = field(default_factory=list)
    end: int = 0
    history: list[Written] = field(default_factory=list)
    since: int = 0

    def append(self, event: Event) -> None:
        """Write an event."""
        self.held.append(written(self.end, event))
        self.history.append(self.held[-1])
        self.end += 1

    def compact(self, keeps: Callable[[], bool]) -> None:
        """Remove those events that are not their key's last and that `keeps` does not spare."""
        last = {message.name: message.at for message in self.held}
        self.held = [message for message in self.held if message.at == last[message.name] or keeps()]

    def replace(self) -> None:
        """Delete the topic and make it again."""
        self.held, self.end, self.since = [], 0, len(self.history)


Output = tuple[int, Forward | DeadLetter | Event]
"""What a worker writes, in its order, with the number of the partition whose work it is."""


class World:
    """The logs and changes of one topic, its disk, and the worker's steps."""

    def __init__(self, definition: TopicDefinition) -> None:
        self.definition = definition
        count = range(definition.partitions)
        self.logs: list[list[LogRecord]] = [[] for _ in count]
        self.changes = [Topic() for _ in count]
        self.disk: Disk = {}
        self.native: ModuleType | None = None
        """The native core of the owners, if they have it."""
        self.owners: dict[int, Partition] = {}
        self.stores: dict[int, Store] = {}
        """Those of the owners."""
        self.owner_commands: dict[int, OwnerCommands] = {}
        self.skew = 0
        self.late: list[list[Output]] = [[] for _ in count]
        self.dead: list[set[tuple[int, str]]] = [set() for _ in count]
        self.time = 1000

    def patched(self) -> list[AbstractContextManager[Any]]:
        """Return what must be entered for `Recovery` to read this world."""
        return [
            patch("sowline_materializer.partition.recovery.RocksStore", rocks_in_memory(self.disk)),
            patch("sowline_materializer.partition.kafka_partition.read_range", self._read_range),
            patch(
                "sowline_materializer.partition.kafka_partition.read_natively",
                lambda native, *given, **named: self._read_range(*given, **named),
            ),
            patch("sowline_materializer.partition.kafka_partition.log.bind", lambda **_: Mock()),
        ]

    def _read_range(
        self, kafka: Any, topic: str, partition: int, start: int, end: int, **_: Any
    ) -> Iterator[list[Written]]:
        held = self.changes[partition].held
        if topic == self.definition.log:
            held = [
                Written(r.offset, r.key or b"", r.value, r.headers or [], r.time, r.time_type)
                for r in self.logs[partition]
            ]
        inside = [message for message in held if start <= message.at < end]
        for at in range(0, len(inside), 3):
            yield inside[at : at + 3]

    # the log

    def write(
        self,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        producers_time: int | None = None,
    ) -> None:
        """Append a record to a log, with the broker's time or its producer's."""
        log = self.logs[partition]
        if producers_time is None:
            log.append(LogRecord(len(log), self.time, key, value, headers))
        else:
            log.append(LogRecord(len(log), producers_time, key, value, headers, CREATE_TIME))

    def is_behind(self, partition: int) -> bool:
        """Tell whether a partition has records to apply."""
        return self.owner(partition).checkpoint.next_offset < len(self.logs[partition])

    # the worker

    def owner(self, number: int) -> Partition:
        """Return the partition at work, opened if it is not."""
        if number not in self.owners:
            try:
                opened = self._recover(number)
            except SowlineError as error:
                if error.reason != "changes incomplete":
                    raise
                self.changes[number].replace()
                opened = self._recover(number)
            self._own(number, opened)
        return self.owners[number]

    def _own(self, number: int, opened: OpenedPartition[Any]) -> None:
        self.stores[number] = opened.store
        cache = RecordCache(lambda: CACHE_BYTES)
        self.owners[number] = Partition(self.definition, number, opened, cache, native=self.native)
        self.owner_commands[number] = OwnerCommands(self.owners[number])
        self._repair(number)

    def _recover(self, number: int) -> OpenedPartition[Any]:
        recovery = self._recovery(number)
        return self._emptied(number, recovery, recovery.open())

    def _recovery(self, number: int, reset_to: bool = False) -> Recovery:
        changes = self.changes[number]
        start = changes.held[0].at if changes.held else changes.end
        extent = KafkaExtent("log", 0, len(self.logs[number]), start, changes.end, f"changes {changes.since}")
        return Recovery({}, self.definition, number, Path(str(number)), extent, starts_empty=reset_to)

    def start_empty(self, number: int, offset: int, cut: int | None = None) -> None:
        """Open a partition in an era with an empty base; the owner dies before the `cut`-th record's end."""
        self.crash(number)
        recovery = self._recovery(number, reset_to=True)
        opened = self._emptied(number, recovery, recovery.open())
        try:
            opened = self._emptied(number, recovery, recovery.reset_to(opened, offset), cut)
        except Died:
            return
        self._own(number, opened)

    def _emptied(
        self, number: int, recovery: Recovery, opened: OpenedPartition[Any], cut: int | None = None
    ) -> OpenedPartition[Any]:
        if opened.state_reset is None:
            return opened
        events = [event for batch in opened.state_reset.ends(opened.store, 2) for event in batch]
        for event in events[:cut]:
            self.changes[number].append(event)
        if cut is not None:
            raise Died
        return recovery.after_reset(opened, self.changes[number].end)

    def work(
        self, number: int, size: int, cut: int | None = None, intrude: int = 0, restart: bool = False
    ) -> None:
        """Apply a batch; `intrude` is where late writers get in.

        The owner dies before the `cut`-th output, or, if it is to `restart`, right after the commit. One that finds
        its followers told of more than it has applied does not commit, and opens the partition again.
        """
        partition = self.owner(number)
        start = partition.checkpoint.next_offset
        batch = self.logs[number][start : start + size]
        if not batch:
            return
        prepared = partition.prepare(batch, len(self.logs[number]))
        outputs: list[Output] = [(number, forward) for forward in prepared.step.forwards]
        outputs += [(number, letter) for letter in prepared.step.dead]
        outputs += [(number, event) for event in prepared.events]
        if cut is not None and cut <= len(outputs):
            self._output(outputs[:cut])
            self.late[number] = [*self.late[number], *outputs[cut:]]
            self.crash(number)
            return
        self._output(outputs[:intrude])
        self.arrive_late(number)
        self._output(outputs[intrude:])
        before = after = partition.checkpoint.changes_end
        if prepared.events:
            after = self.changes[number].end
        try:
            if after - before > len(prepared.events):
                stands = prepared.step.checkpoint.position
                foreign = self._stale_owner_keys(number, before, after, prepared.events, stands)
                partition.mark_stale(foreign, after)
            partition.commit(prepared, after)
            if batch:
                owner_commands, others = self.owner_commands[number], prepared.step.others
                owner_commands.applied(others, batch[-1].time, self.time + self.skew)
            if restart:
                self.crash(number)
                return
            self._repair(number)
        except Fenced:
            self.crash(number)

    def _stale_owner_keys(
        self, number: int, start: int, end: int, ours: Sequence[Event], stands: Position
    ) -> set[bytes]:
        found = [message.event for message in self.changes[number].held if start <= message.at < end]
        check_owner(found, stands)
        return {PROGRESS_KEY, *stale_owner_keys(found, ours)}

    def _output(self, outputs: Sequence[Output]) -> None:
        for number, output in outputs:
            if isinstance(output, Forward):
                headers = [*(output.record.headers or []), ("sow.origin", str(output.origin).encode())]
                self.write(output.partition, output.record.value, output.record.key, headers)
            elif isinstance(output, DeadLetter):
                self.dead[number].add((output.record.offset, output.reason))
            else:
                self.changes[number].append(output)

    def _repair(self, number: int) -> None:
        partition, changes = self.owners[number], self.changes[number]
        end, foreign = partition.checkpoint.changes_end, set[bytes]()
        for events in partition.repair(len(self.logs[number]), 2):
            for event in events:
                changes.append(event)
            start, end = end, changes.end
            if end - start > len(events):
                foreign |= self._stale_owner_keys(number, start, end, events, partition.checkpoint.position)
        if end > partition.checkpoint.changes_end:
            partition.note_repaired(end, foreign)

    def arrive_late(self, number: int, count: int | None = None) -> None:
        """Let what a dead worker had on its way arrive after all."""
        self._output(self.late[number][:count])
        self.late[number] = [] if count is None else self.late[number][count:]

    def crash(self, number: int) -> None:
        """Forget everything that is not on disk."""
        self.owners.pop(number, None)
        self.owner_commands.pop(number, None)

    def keep_up(self, number: int) -> int:
        """Append to a log what its owner appends by itself; returns how much. Its clock differs by `skew`."""
        if not self.is_behind(number):
            self.owner_commands[number].caught_up()
        appends = self.owner_commands[number].appends(self.time + self.skew)
        for append in appends:
            self.write(number, append.value, append.key, append.headers)
        return len(appends)

    def drain(self, size: int = 5) -> None:
        """Apply everything that is on the logs."""
        while behind := [number for number in range(len(self.logs)) if self.is_behind(number)]:
            for number in behind:
                self.work(number, size)

    def store(self, number: int) -> Store:
        """Return the store of a partition at work."""
        self.owner(number)
        return self.stores[number]


def dump(store: Store, time: int, window: int) -> dict[bytes, Record]:
    """Return all records of a store, and of the deleted ones those whose memory can still matter."""
    records = {key: decode_record(data) for key, data in store.scan()}
    return {
        key: record
        for key, record in records.items()
        if record.body is not None or time - record.time <= window
    }


def without_gaps(messages: Iterable[Written], position: Position) -> Iterator[Written]:
    """Yield the messages that a follower at a position takes; it never sees a gap."""
    for message in messages:
        judged = verdict(message.event, position)
        assert judged is not Verdict.GAP, f"a gap after {position}, before {message.event}"
        if judged is not Verdict.DROP:
            position = message.event.position
            yield message


def changes_of(messages: Sequence[Written]) -> Iterator[tuple[Written, Change]]:
    """Yield the changes among the messages."""
    for message in messages:
        event = message.event
        if isinstance(event, Change):
            yield message, event
