"""Opening a partition: three roads to one state, and the eras that begin where the log broke off.

1. The local store is whole: go on from its position.
2. It is gone or damaged: load the compacted changes partition.
3. That is empty too: the log itself, if it still starts where it began.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from confluent_kafka import Message

from materializer.damage import StoreDamaged
from materializer.emptying import Emptying
from materializer.head import EVERYTHING, Head
from materializer.record import Record
from materializer.store import RocksStore, Store, Tally
from materializer.view import View, due_hash, entry_hash
from sowline.body import read_object
from sowline.change import AGAIN, PROGRESS_KEY, RESET, Change, Event, Progress, read_event
from sowline.cluster import Cluster
from sowline.command import DEFINE
from sowline.errors import SowlineError
from sowline.kafka import KafkaConfig, read_range
from sowline.key import key_text
from sowline.limits import Limits, read_define
from sowline.position import Position
from sowline.topics import TopicDefinition

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Opened:
    """A partition ready to go on: its store, its head, and `floor`, the newest position already emitted.

    With `emptying` it is not: first the ends of all its records are to be written, and it is to be emptied.
    """

    store: RocksStore
    head: Head
    floor: Position
    emptying: Emptying | None = None


@dataclass(frozen=True, slots=True)
class Extent:
    """What Kafka holds of a partition now."""

    log_id: str
    log_start: int
    log_end: int
    changes_start: int
    changes_end: int


def extent_of(cluster: Cluster, definition: TopicDefinition, partition: int) -> Extent:
    """Ask Kafka what it holds of a partition's log and changes.

    First where the changes end: an owner of before may still write, and none of what it has written by then may
    seem to come from beyond the log's end.
    """
    one = [partition]
    changes_end = cluster.ends(definition.changes, one)[partition]
    return Extent(
        cluster.topic_id(definition.log),
        cluster.starts(definition.log, one)[partition],
        cluster.ends(definition.log, one)[partition],
        cluster.starts(definition.changes, one)[partition],
        changes_end,
    )


class Recovery:
    """Opens one partition's store by the first road that leads there."""

    def __init__(
        self,
        kafka: KafkaConfig,
        definition: TopicDefinition,
        partition: int,
        path: Path,
        extent: Extent,
        accept_loss: bool = False,
        begins_anew: bool = False,
    ) -> None:
        self._kafka = kafka
        self._definition = definition
        self._partition = partition
        self._path = path
        self._extent = extent
        self._accept_loss = accept_loss or begins_anew
        self._begins_anew = begins_anew

    def open(self) -> Opened:
        """Return the partition, ready to go on; raises SowlineError where no road leads to its state."""
        opened = self._from_store() or self._from_changes() or self._from_log()
        if opened.head.definition != self._definition.digest:
            opened.store.close()
            raise SowlineError(
                "definition changed",
                f"topic {self._definition.name} was defined otherwise when its state was made. Restore in "
                "topics.yaml what decides that (key, key_domain, partitions, preprocessing, enrichment), or "
                "define a new topic",
            )
        return opened if opened.emptying is not None else self._in_its_era(opened)

    def anew(self, opened: Opened, offset: int) -> Opened:
        """Return the partition at the begin of an era with an empty base, from the log's `offset` on."""
        self._warn("a new era begins: the topic is transient")
        emptying = Emptying.begun(opened.head, self._extent.log_id, offset)
        return replace(opened, head=emptying.head, emptying=emptying)

    def emptied(self, opened: Opened, changes_end: int) -> Opened:
        """Return the partition without its records, whose ends Kafka has by now; the next era may follow."""
        assert opened.emptying is not None, "a partition is emptied in an era of its own"
        head = opened.emptying.done(changes_end)
        opened.store.close()
        store = RocksStore(self._path, create=True)
        self._finish(store, head)
        return self._in_its_era(Opened(store, head, head.position))

    # road 1

    def _from_store(self) -> Opened | None:
        if not RocksStore.exists(self._path):
            return None
        try:
            store = RocksStore(self._path, create=False)
        except StoreDamaged as damage:
            self._warn("local state is damaged", damage)
            return None
        try:
            return self._checked(store)
        except StoreDamaged as damage:
            self._warn("local state is damaged", damage)
            store.close()
            return None

    def _checked(self, store: RocksStore) -> Opened | None:
        if (found := walk(store)) != store.tally():
            raise StoreDamaged(f"expected {store.tally()}, found {found}")
        data = store.head()
        if data is None:
            raise StoreDamaged("there is no head")
        head = Head.decode(data)
        replaced = self._extent.changes_end < head.changes_end
        start = max(self._extent.changes_start, 0 if replaced else head.changes_end)
        floor, spoiled = _read_tail(self._events(start), head.position)
        if floor > head.position and (self._begins_anew or not self._leads_on(head, floor)):
            self._warn("the log does not lead from the local state to what was emitted")
            store.close()
            return None
        head = replace(head, changes_end=self._extent.changes_end, spoiled=head.spoiled | spoiled)
        if replaced:
            self._warn("the changes topic was replaced")
            head = replace(head, spoiled=head.spoiled | {EVERYTHING})
            store.commit({}, store.tally(), head.encode())
        return Opened(store, head, floor)

    def _leads_on(self, head: Head, emitted: Position) -> bool:
        """Tell whether the log still holds all records between the state and what was emitted."""
        same = head.log_id == self._extent.log_id and head.position.era == emitted.era
        return same and self._extent.log_start <= head.next_offset and emitted.offset < self._extent.log_end

    # road 2

    def _from_changes(self) -> Opened | None:
        if self._extent.changes_start >= self._extent.changes_end:
            return None
        store = RocksStore(self._path, create=True)
        loader = Loader(store, self._definition)
        for events in self._event_batches(self._extent.changes_start):
            loader.load(events)
        if loader.progress is None and not self._definition.has_sow:
            loader.stand_at_newest(self._extent.log_id)
        if loader.progress is None:
            store.close()
            raise SowlineError(
                "changes incomplete",
                f"{self._definition.changes} [{self._partition}] does not say where its changes stand, and there is "
                "no local state. Delete that topic: it is made again from the log",
            )
        head = loader.head(self._extent.changes_end)
        self._finish(store, head)
        self._warn("state loaded from the changes topic")
        emptying = Emptying(head, head.position.nth + 1) if loader.is_emptying else None
        return Opened(store, head, head.position, emptying)

    # road 3

    def _from_log(self) -> Opened:
        if self._extent.log_start > 0 and self._definition.has_sow and not self._accept_loss:
            raise SowlineError(
                "log incomplete",
                f"{self._definition.log} [{self._partition}] begins at offset {self._extent.log_start}, and there is "
                "neither local state nor a changes topic for what came before. Start with --accept-loss to go on",
            )
        store = RocksStore(self._path, create=True)
        start = Position(0, self._extent.log_start - 1)
        head = Head(
            start,
            start,
            definition=self._definition.digest,
            log_id=self._extent.log_id,
            changes_end=self._extent.changes_end,
            spoiled=frozenset({PROGRESS_KEY}),
            limits=self._first_limits(),
        )
        self._finish(store, head)
        return Opened(store, head, start)

    def _first_limits(self) -> Limits:
        """Return the limits at the log's begin: those that its first `define` changed, or else what is defined."""
        start, end = self._extent.log_start, self._extent.log_end
        for messages in read_range(self._kafka, self._definition.log, self._partition, start, end):
            for message in messages:
                if ("sow.command", DEFINE.encode()) in (message.headers() or ()):
                    with suppress(SowlineError):
                        return read_define(message.value())[0]
        return self._definition.limits

    def _finish(self, store: RocksStore, head: Head) -> None:
        store.commit({}, store.tally(), head.encode())
        store.mark_finished()

    # eras

    def _in_its_era(self, opened: Opened) -> Opened:
        head, extent = opened.head, self._extent
        if head.log_id != extent.log_id:
            return self._begin_era(opened, extent.log_start, "the log was replaced")
        if extent.log_end < head.next_offset:
            return self._begin_era(opened, extent.log_end, "the log ends before the state")
        if extent.log_start > head.next_offset:
            if not self._accept_loss:
                opened.store.close()
                raise SowlineError(
                    "log incomplete",
                    f"{self._definition.log} [{self._partition}]: offsets {head.next_offset} to "
                    f"{extent.log_start - 1} are gone and were never applied. Start with --accept-loss to go on",
                )
            return self._begin_era(opened, extent.log_start, "records of the log are gone")
        return opened

    def _begin_era(self, opened: Opened, offset: int, why: str) -> Opened:
        self._warn(f"a new era begins: {why}")
        head = opened.head.new_era(self._extent.log_id, offset)
        head = replace(head, spoiled=head.spoiled | {PROGRESS_KEY})
        return replace(opened, head=head, floor=head.position)

    # reading the changes

    def _events(self, start: int) -> Iterator[Event]:
        for events in self._event_batches(start):
            yield from events

    def _event_batches(self, start: int) -> Iterator[list[Event]]:
        end = self._extent.changes_end
        for messages in read_range(self._kafka, self._definition.changes, self._partition, start, end):
            yield [as_event(message) for message in messages]

    def _warn(self, what: str, damage: Exception | None = None) -> None:
        why = {} if damage is None else {"why": str(damage)}
        log.warning(what, topic=self._definition.name, partition=self._partition, **why)


def as_event(message: Message) -> Event:
    """Read one Kafka message of a changes topic."""
    return read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]


def _read_tail(events: Iterable[Event], position: Position) -> tuple[Position, frozenset[bytes]]:
    """Return the newest position of a changes partition's tail, and the keys of events that came too late.

    What is not newer than all before it was written by a worker that thought it was still the owner.
    """
    spoiled = set()
    for event in events:
        if event.position > position:
            position = event.position
        else:
            spoiled.add(event.sow_key if isinstance(event, Change) else PROGRESS_KEY)
    return position, frozenset(spoiled)


def walk(store: Store) -> Tally:
    """Read every entry of a store and return what its tally should be."""
    entries = checksum = 0
    for key, data in store.scan():
        entries += 1
        checksum += entry_hash(key, data)
    for due in store.dues():
        entries += 1
        checksum += due_hash(due)
    return Tally(entries, checksum & 0xFFFFFFFFFFFFFFFF)


class Loader:
    """Loads a changes partition into an empty store: the newest event of each key counts, tombstones too.

    What the owner of an ended era wrote after the next one had begun counts as little as if it had never come.
    """

    def __init__(self, store: Store, definition: TopicDefinition) -> None:
        self._store = store
        self._definition = definition
        self._gone: dict[bytes, Position] = {}
        self._newest: Change | None = None
        self._era = 0
        self._origins: dict[int, int] = {}
        self._time = 0
        self._live = 0
        self._reset_time = 0
        self.progress: Progress | None = None
        self.spoiled: set[bytes] = set()
        """Keys whose last event is not their newest: compaction would keep the wrong one."""

    def load(self, events: list[Event]) -> None:
        """Take in the next events, in the order of the topic's offsets."""
        view = View(self._store)
        for event in events:
            self._time = max(self._time, event.time)
            self._enter_era(event.position.era)
            if isinstance(event, Progress):
                self._load_progress(event)
            else:
                self._load_change(event, view)
        writes = view.writes()
        dues = view.dues(writes)
        self._store.commit(writes, view.tally_after(self._store.tally(), writes, dues), b"", dues)

    def _enter_era(self, era: int) -> None:
        """Forget the origins of eras that have ended: they are offsets of a log that is no more."""
        if era > self._era:
            self._era, self._origins = era, {}

    def _load_progress(self, event: Progress) -> None:
        if self.progress is None or event.position >= self.progress.position:
            self.progress = event
        for partition, offset in event.origins.items():
            self._saw_origin(event, partition, offset)

    def _load_change(self, event: Change, view: View) -> None:
        if event.position.era < self._era and event.op != AGAIN:
            self.spoiled.add(event.sow_key)
            return
        stands_for_none = event.op == AGAIN and event.body is None and event.key_text is None
        if not stands_for_none and (self._newest is None or event.position > self._newest.position):
            self._newest = event
        if event.origin is not None:
            self._saw_origin(event, *event.origin)
        if event.op == RESET:
            self._reset_time = max(self._reset_time, event.time)
        if not self._definition.has_sow:
            return
        held = view.get(event.sow_key)
        newest = held.position if held is not None else self._gone.get(event.sow_key)
        if newest is not None and newest > event.position:
            self.spoiled.add(event.sow_key)
            return
        self.spoiled.discard(event.sow_key)
        if newest == event.position:
            return
        record = self._record(event, held)
        view.put(event.sow_key, record)
        self._live += (event.body is not None) - (held is not None and held.body is not None)
        if record is None:
            self._gone[event.sow_key] = event.position

    def _record(self, event: Change, held: Record | None) -> Record | None:
        if event.body is not None:
            text = key_text(read_object(event.body), self._definition.key_paths)
            return Record(
                event.body, text, event.position, event.time, event.expires, event.numbers, event.correlation
            )
        if not event.numbers:
            return None
        text = event.key_text if event.key_text is not None else self._text_of_gone(event, held)
        return Record(None, text, event.position, event.time, None, event.numbers)

    def _text_of_gone(self, event: Change, held: Record | None) -> str:
        if held is not None:
            return held.key_text
        return key_text(read_object(event.previous or b"{}"), self._definition.key_paths)

    def _saw_origin(self, event: Event, partition: int, offset: int) -> None:
        if event.position.era == self._era:
            self._origins[partition] = max(offset, self._origins.get(partition, -1))

    def stand_at_newest(self, log_id: str) -> None:
        """Take the newest change for where the partition stands: of a topic without a SOW that is all."""
        assert self._newest is not None, "there is an event"
        place, definition = self._newest.position, self._definition
        self.progress = Progress(
            place, place, 0, {}, definition.digest, log_id, self._time, {}, definition.limits
        )

    @property
    def is_emptying(self) -> bool:
        """Whether the partition begins anew, and not all of its records have ended yet."""
        newest, progress = self._newest, self.progress
        if newest is None or progress is None or newest.op != RESET or newest.last:
            return False
        return newest.position >= progress.position

    def head(self, changes_end: int) -> Head:
        """Return the head of what was loaded."""
        assert self.progress is not None, "a changes partition begins with a progress event"
        last_change = max(self.progress.after, self._newest.position) if self._newest else self.progress.after
        position = max(self.progress.position, last_change)
        cut_short = self._newest is not None and position == self._newest.position and not self._newest.last
        return Head(
            position,
            last_change,
            self._time,
            self._origins,
            self.progress.definition,
            self.progress.log_id,
            changes_end,
            self.is_emptying or not cut_short,
            frozenset({PROGRESS_KEY, *self.spoiled}),
            self.progress.limits,
            max(self.progress.numbers_since, self._reset_time),
            self._live,
        )
