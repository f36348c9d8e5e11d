"""Opening a partition: three roads to one state, and the eras that begin where the log broke off.

1. The local store is whole: go on from its position.
2. It is gone or damaged: load the compacted changes partition.
3. That is empty too: the log itself, if it still starts where it began.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from confluent_kafka import Message

from materializer.damage import StoreDamaged
from materializer.emptying import Emptying
from materializer.entries import Entries
from materializer.following import record_of
from materializer.head import EVERYTHING, Head
from materializer.record import decode_record, encode_record
from materializer.store import RocksStore, Store, Tally
from materializer.view import due_hash, entry_hash
from sowline.change import AGAIN, PROGRESS_KEY, RESET, Change, Event, Progress, Rank, read_event
from sowline.cluster import Cluster, compaction_lag_ms
from sowline.command import DEFINE
from sowline.errors import SowlineError
from sowline.following import BROKEN_OFF, UNKNOWN_OFFSET, Verdict, Wholeness, is_of, verdict
from sowline.kafka import KafkaConfig, read_range
from sowline.limits import Limits, read_define
from sowline.position import Position
from sowline.topics import TopicDefinition

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Opened:
    """A partition ready to go on: its store, its head, and `floor`, the newest position already emitted.

    With `emptying` it is not: first the ends of all its records are to be written, and it is to be emptied. Where the
    head is behind the floor, the events that say so stand in the changes from the offset `untaken` on.
    """

    store: RocksStore
    head: Head
    floor: Position
    emptying: Emptying | None = None
    untaken: int = 0


@dataclass(frozen=True, slots=True)
class Extent:
    """What Kafka holds of a partition now."""

    log_id: str
    log_start: int
    log_end: int
    changes_start: int
    changes_end: int
    changes_id: str


def extent_of(cluster: Cluster, definition: TopicDefinition, partition: int) -> Extent:
    """Ask Kafka what it holds of a partition's log and changes.

    First where the changes end: an owner of before may still write, and none of what it has written by then may
    seem to come from beyond the log's end.
    """
    one = [partition]
    changes_id = cluster.topic_id(definition.changes)
    changes_end = cluster.ends(definition.changes, one)[partition]
    return Extent(
        cluster.topic_id(definition.log),
        cluster.starts(definition.log, one)[partition],
        cluster.ends(definition.log, one)[partition],
        cluster.starts(definition.changes, one)[partition],
        changes_end,
        changes_id,
    )


@contextmanager
def closed_on_failure(store: Store) -> Iterator[None]:
    """Let go of a store where what is done with it fails: whoever tries again must be able to open it."""
    try:
        yield
    except BaseException:
        store.close()
        raise


class Recovery:
    """Opens one partition's store by the first road that leads there.

    A `copy` is the local store, if it is open and checked already: then that isn't done again. `ask` tells what Kafka
    holds by now. A load that has taken so long that compaction may have been at work before the end it went for, for
    the sake of what is behind that end, goes on to the end as it is then (`query_service.follower` argues why).
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        definition: TopicDefinition,
        partition: int,
        path: Path,
        extent: Extent,
        accept_loss: bool = False,
        begins_anew: bool = False,
        copy: RocksStore | None = None,
        ask: Callable[[], Extent] | None = None,
    ) -> None:
        self._kafka = kafka
        self._definition = definition
        self._partition = partition
        self._path = path
        self._extent = extent
        self._accept_loss = accept_loss or begins_anew
        self._begins_anew = begins_anew
        self._copy = copy
        self._ask = ask or (lambda: extent)
        self._seen_at = time.monotonic()

    def open(self) -> Opened:
        """Return the partition, ready to go on; raises SowlineError where no road leads to its state."""
        opened = self._from_store() or self._from_changes() or self._from_log()
        with closed_on_failure(opened.store):
            self._check_definition(opened.head)
            return opened if opened.emptying is not None else self._in_its_era(opened)

    def _check_definition(self, head: Head) -> None:
        if head.definition != self._definition.digest:
            raise SowlineError(
                "definition changed",
                f"topic {self._definition.name} was defined otherwise when its state was made. Restore in "
                "topics.yaml what decides that (key, key_domain, partitions, preprocessing, enrichment), or "
                "stop the materializers and run sowline rebuild",
            )

    def anew(self, opened: Opened, offset: int) -> Opened:
        """Return the partition at the begin of an era with an empty base, from the log's `offset` on."""
        self._log.warning("a new era begins", why="the topic is transient")
        emptying = Emptying.begun(opened.head, self._extent.log_id, offset)
        return replace(opened, head=emptying.head, emptying=emptying)

    def emptied(self, opened: Opened, changes_end: int, foreign: frozenset[bytes] = frozenset()) -> Opened:
        """Return the partition without its records, whose ends Kafka has by now; the next era may follow.

        `foreign` are the keys that somebody else wrote amid these ends. The store of `opened` is closed.
        """
        assert opened.emptying is not None, "a partition is emptied in an era of its own"
        head = opened.emptying.done(changes_end)
        head = replace(head, spoiled=head.spoiled | foreign)
        opened.store.close()
        store = RocksStore(self._path, create=True)
        with closed_on_failure(store):
            self._finish(store, head)
            return self._in_its_era(Opened(store, head, head.position))

    # road 1

    def _from_store(self) -> Opened | None:
        if self._copy is None and not RocksStore.exists(self._path):
            return None
        try:
            store = self._copy or RocksStore(self._path, create=False)
        except StoreDamaged as damage:
            self._log.warning("local state is damaged", why=str(damage))
            return None
        try:
            with closed_on_failure(store):
                return self._checked(store)
        except StoreDamaged as damage:
            self._log.warning("local state is damaged", why=str(damage))
            return None

    def _checked(self, store: RocksStore) -> Opened | None:
        head = head_of(store) if store is self._copy else checked_head(store)
        replaced = self._is_replaced(head)
        start = max(self._extent.changes_start, 0 if replaced else head.changes_end)
        tail = _read_tail(self._messages(start), head.position, self._extent.changes_id, start)
        floor, spoiled = tail.newest, tail.spoiled
        if floor > head.position and (self._begins_anew or not self._leads_on(head, floor)):
            self._log.warning("the log does not lead from the local state to what was emitted")
            store.close()
            return None
        if replaced:
            self._log.warning("the changes topic was replaced")
        if tail.has_gap:
            self._log.warning("an owner of before went on in a changes topic that had been replaced")
        if replaced or tail.has_gap or EVERYTHING in head.spoiled:
            spoiled = frozenset({EVERYTHING, *(key for key in spoiled | tail.live if store.get(key) is None)})
        end, id = self._extent.changes_end, self._extent.changes_id
        head = replace(head, changes_end=end, changes_id=id, spoiled=head.spoiled | spoiled)
        if replaced:
            store.commit({}, store.tally(), replace(head, changes_end=0).encode())
        return Opened(store, head, floor, untaken=start)

    def _is_replaced(self, head: Head) -> bool:
        """Tell whether the changes topic is another one than the head knows, or has lost its end."""
        is_another = head.changes_id not in ("", self._extent.changes_id)
        return is_another or self._extent.changes_end < head.changes_end

    def _leads_on(self, head: Head, emitted: Position) -> bool:
        """Tell whether the log still holds all records between the state and what was emitted."""
        same = head.log_id == self._extent.log_id and head.position.era == emitted.era
        return same and self._extent.log_start <= head.next_offset and emitted.offset < self._extent.log_end

    # road 2

    def _from_changes(self) -> Opened | None:
        if self._extent.changes_start >= self._extent.changes_end:
            return None
        store = RocksStore(self._path, create=True)
        with closed_on_failure(store):
            return self._loaded(store)

    def _loaded(self, store: RocksStore) -> Opened:
        loader = Loader(store, self._definition, self._extent.changes_id)
        start = self._extent.changes_start
        while start < self._extent.changes_end:
            for messages in self._batches(start):
                loader.load([as_event(message) for message in messages], offsets_of(messages))
            start = self._extent.changes_end
            if time.monotonic() - self._seen_at > compaction_lag_ms(self._definition) / 2000:
                self._log.warning("the load took long, and goes on")
                self._seen_at = time.monotonic()
                self._extent = self._ask()
        if loader.progress is None and not self._definition.has_sow:
            loader.stand_at_newest(self._extent.log_id)
        elif not loader.wholeness.is_whole:
            raise SowlineError(
                "changes incomplete",
                f"{self._definition.changes} [{self._partition}] does not say where its changes stand, and there is "
                "no local state. Delete that topic: it is made again from the log",
            )
        head = replace(loader.head(self._extent.changes_end), changes_id=self._extent.changes_id)
        self._finish(store, head)
        self._log.warning("state loaded from the changes topic")
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
        start = Position(0, self._extent.log_start - 1)
        head = Head(
            start,
            start,
            definition=self._definition.digest,
            log_id=self._extent.log_id,
            changes_end=self._extent.changes_end,
            spoiled=frozenset({PROGRESS_KEY}),
            limits=self._first_limits() or self._definition.limits,
            begin=(self._extent.log_start, 0),
            changes_id=self._extent.changes_id,
        )
        store = RocksStore(self._path, create=True)
        with closed_on_failure(store):
            self._finish(store, head)
        return Opened(store, head, start)

    def _first_limits(self) -> Limits | None:
        start, end = self._extent.log_start, self._extent.log_end
        return first_limits(self._kafka, self._definition, self._partition, start, end)

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
                raise SowlineError(
                    "log incomplete",
                    f"{self._definition.log} [{self._partition}]: offsets {head.next_offset} to "
                    f"{extent.log_start - 1} are gone and were never applied. Start with --accept-loss to go on",
                )
            return self._begin_era(opened, extent.log_start, "records of the log are gone")
        return opened

    def _begin_era(self, opened: Opened, offset: int, why: str) -> Opened:
        self._log.warning("a new era begins", why=why)
        head = opened.head.new_era(self._extent.log_id, offset)
        head = replace(head, spoiled=head.spoiled | {PROGRESS_KEY})
        return replace(opened, head=head, floor=head.position)

    # reading the changes

    def _messages(self, start: int) -> Iterator[Message]:
        for messages in self._batches(start):
            yield from messages

    def _batches(self, start: int) -> Iterator[list[Message]]:
        end = self._extent.changes_end
        return read_range(self._kafka, self._definition.changes, self._partition, start, end)

    @property
    def _log(self) -> Any:
        return log.bind(topic=self._definition.name, partition=self._partition)


def first_limits(
    kafka: KafkaConfig, definition: TopicDefinition, partition: int, start: int, end: int
) -> Limits | None:
    """Return the limits at a place of a log: those that its next `define` changed; None where there is none."""
    for messages in read_range(kafka, definition.log, partition, start, end):
        for message in messages:
            if ("sow.command", DEFINE.encode()) in (message.headers() or ()):
                with suppress(SowlineError):
                    return read_define(message.value())[0]
    return None


def as_event(message: Message) -> Event:
    """Read one Kafka message of a changes topic."""
    return read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]


def offsets_of(messages: Iterable[Message]) -> list[int]:
    """Return the offsets of Kafka messages."""
    return [message.offset() or 0 for message in messages]


class Tail(NamedTuple):
    """What somebody wrote behind what a state knows.

    `newest` is the newest position, `spoiled` are the keys of events that came too late, `live` those of records that
    it leaves live; `has_gap` says that something in between was never written, though compaction has taken nothing.
    """

    newest: Position
    spoiled: frozenset[bytes]
    live: frozenset[bytes]
    has_gap: bool


def _read_tail(messages: Iterable[Message], position: Position, topic_id: str, start: int) -> Tail:
    """Read what stands in the changes from an offset on, for a state at a position.

    What is not newer than all before it was written by a worker that thought it was still the owner.
    """
    spoiled: set[bytes] = set()
    live: set[bytes] = set()
    due, has_gap = start, False
    for message in messages:
        event, offset = as_event(message), message.offset() or 0
        follows, due = offset == due, offset + 1 if offset == due else BROKEN_OFF
        if follows and is_of(event, topic_id) and verdict(event, position) is Verdict.GAP:
            has_gap = True
        if isinstance(event, Change):
            (live.discard if event.body is None else live.add)(event.sow_key)
        if event.position > position and is_of(event, topic_id):
            position = event.position
        else:
            spoiled.add(event.sow_key if isinstance(event, Change) else PROGRESS_KEY)
    return Tail(position, frozenset(spoiled), frozenset(live), has_gap)


def checked_head(store: Store) -> Head:
    """Return the head of a store that is whole; raises `StoreDamaged`, or `unknown format` before anything else."""
    head = head_of(store)
    if (found := walk(store)) != store.tally():
        raise StoreDamaged(f"expected {store.tally()}, found {found}")
    return head


def head_of(store: Store) -> Head:
    """Return the head of a store; raises `StoreDamaged` where there is none, or `unknown format`."""
    data = store.head()
    if data is None:
        raise StoreDamaged("there is no head")
    return Head.decode(data)


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
    """Loads a changes partition into an empty store: of each key the event of the highest rank, tombstones too.

    What the owner of an ended era wrote after the next one had begun counts as little as if it had never come. The
    owner by then writes each such record again, as said in its era: that counts more, too, where compaction has
    taken the event that says when the era began.
    """

    def __init__(self, store: Store, definition: TopicDefinition, changes_id: str = "") -> None:
        self._store = store
        self._definition = definition
        self._ranks: dict[bytes, Rank] = {}
        self._newest: Change | None = None
        self._era = 0
        self._origins: dict[int, int] = {}
        self._time = 0
        self._live = 0
        self._reset_time = 0
        self.progress: Progress | None = None
        self.wholeness = Wholeness(changes_id)
        self.spoiled: set[bytes] = set()
        """Keys whose last event is not their newest: compaction would keep the wrong one."""

    def load(self, events: list[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Take in the next events, in the order of the topic's offsets."""
        entries = Entries(self._store)
        self.wholeness.saw(events, offsets)
        for event in events:
            if not is_of(event, self.wholeness.topic_id):
                continue
            if event.time > self._time:
                self._time = event.time
            if event.position.era > self._era:
                self._begin_era(event.position.era)
            if isinstance(event, Change):
                self._load_change(event, entries)
            else:
                self._load_progress(event)
        entries.commit()

    def _begin_era(self, era: int) -> None:
        """Forget the origins of eras that have ended: they are offsets of a log that is no more."""
        self._era, self._origins = era, {}

    def _load_progress(self, event: Progress) -> None:
        if self.progress is None or event.position >= self.progress.position:
            self.progress = event
        for partition, offset in event.origins.items():
            self._saw_origin(event, partition, offset)

    def _load_change(self, event: Change, entries: Entries) -> None:
        key, rank = event.sow_key, event.rank
        if rank[0] < self._era:
            self.spoiled.add(key)
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
        before = entries.get(key)
        held = None if before is None else decode_record(before)
        highest = self._ranks.get(key)
        if highest is None and held is not None:
            highest = (held.position.era, held.position)
        if highest is not None and highest > rank:
            self.spoiled.add(key)
            return
        self.spoiled.discard(key)
        if highest == rank:
            return
        record = record_of(self._definition, event, held)
        entries.put(key, before, None if record is None else encode_record(record))
        self._live += (event.body is not None) - (held is not None and held.body is not None)
        if record is None or event.said_in is not None:
            self._ranks[key] = rank
        else:
            self._ranks.pop(key, None)

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
    def is_whole(self) -> bool:
        """Whether the partition once stood where the load does: not amid a log record's changes or an era's ends."""
        return self.wholeness.is_whole and not self.is_emptying and self.head(0).complete

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
            self.progress.begin if self.progress.position.era == position.era else None,
        )
