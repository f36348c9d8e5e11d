"""The worker: takes partitions as the group hands them out, and applies their logs batch by batch."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from materializer.cache import Cache
from materializer.emitter import Emitter, NotWritten
from materializer.eras import Overtaken, check_base, check_owner
from materializer.partition import Partition, Prepared, foreign_keys
from materializer.recovery import Extent, Opened, Recovery, as_event, closed_on_failure, extent_of
from materializer.standby import Standby, StandbyStatistics
from materializer.starting import Place, Starting
from materializer.store import RocksStore
from materializer.traced import Applying
from materializer.upkeep import Upkeep
from materializer.watching import Known, Watching
from sowline.change import PROGRESS_KEY, Event
from sowline.cluster import Cluster
from sowline.command import LogRecord
from sowline.errors import SowlineError
from sowline.kafka import REPORT_ENDS, plain_consumer, poll_batch, raising, read_range
from sowline.latency import Latencies
from sowline.position import Position
from sowline.settings import WORKERS, Settings
from sowline.topics import TopicDefinition, Topics

log = structlog.get_logger()

POLL_SECONDS = 0.2
"""How long a worker waits for the log before it looks after what else there is."""

HEARTBEAT_MS = 300
"""How often a worker tells the group that it lives, and so the longest until it learns that partitions move."""

LOOK_SECONDS = 1.0
"""How often a worker that makes its copies before it joins looks whether there is still anybody in the group."""

COPY_SECONDS = 0.005
"""What copies of other partitions may take between two batches; more, if the batch took more."""


@dataclass
class Counts:
    """What a worker has done since it started."""

    records: int = 0
    changes: int = 0
    commands: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    dead: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    repeats: int = 0
    forwards: int = 0
    publishers_pushed_out: int = 0
    foreign_writes: int = 0
    batches: int = 0
    busy_seconds: float = 0.0
    emitting: Latencies = field(default_factory=Latencies)
    """From a record's append to the log until Kafka had what it leads to: of each batch its oldest."""


@dataclass(frozen=True)
class WorkerStatistics:
    """A look at a worker: its counts, where each partition stands, what it is behind, what is stopped or opened."""

    counts: Counts
    positions: dict[Place, str]
    behind: dict[Place, int]
    stopped: dict[Place, str]
    opening: list[Place]
    standby: StandbyStatistics = field(default_factory=StandbyStatistics)


class Worker:
    """One member of the materializer's group. `run` returns when it is told to stop, or raises.

    With a `starting`, transient topics begin at their recovery points where the service starts.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        stopping: Callable[[], bool],
        starting: Starting | None = None,
    ) -> None:
        self._settings = settings
        self._kafka = settings.kafka_client
        self._definitions = {definition.log: definition for definition in topics.topics}
        self._stopping = stopping
        self._starting = starting
        self._cluster = Cluster(self._kafka)
        self._emitter = Emitter(self._kafka, topics.topics, stopping)
        self._consumer = self._make_consumer()
        self._partitions: dict[Place, Partition] = {}
        self._upkeep: dict[Place, Upkeep] = {}
        self._stopped: dict[Place, str] = {}
        self._watching = Watching(self._cluster)
        self._log_ends: dict[Place, int] = {}
        self._stores: dict[Place, RocksStore] = {}
        self._standby: Standby | None = None
        if settings.standby:
            self._standby = Standby(self._kafka, self._definitions, self._path)
        self._applying = Applying()
        self._assigned = False
        self._opening: list[Place] = []
        self.counts = Counts()

    def _make_consumer(self) -> Consumer:
        session = self._settings.session_timeout_ms
        return plain_consumer(
            self._kafka,
            {
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "max.poll.interval.ms": 600_000,
                **REPORT_ENDS,
            },
            group_of(self._settings),
        )

    def run(self) -> None:
        """Apply the log until told to stop.

        Raises `NotWritten`, `Overtaken`, `StoreDamaged`, `StoreInUse` or `DiskFull`: begin again with a new worker.
        """
        wait_seconds = POLL_SECONDS
        try:
            if self._standby is not None:
                self._warm_up(self._standby)
            self._consumer.subscribe(
                list(self._definitions),
                on_assign=raising(self._on_assign),
                on_revoke=raising(self._on_revoke),
                on_lost=raising(self._on_lost),
            )
            while not self._stopping():
                messages = poll_batch(
                    self._consumer, self._settings.batch_records_max, wait_seconds, self._on_end
                )
                began = time.monotonic()
                self._log_ends = {place: self._log_end(place) for place in self._partitions}
                if messages:
                    self._apply(messages)
                self._append()
                self._look()
                self._put_all_right()
                if self._standby is not None:
                    spent = time.monotonic() - began
                    is_busy = self._standby.work(max(COPY_SECONDS, spent))
                    wait_seconds = 0.0 if is_busy else POLL_SECONDS
        finally:
            self._close()

    def _warm_up(self, standby: Standby) -> None:
        """Make the copies before the group hands out any partition: whoever has them goes on meanwhile."""
        standby.cover([])
        look_at = 0.0
        while not self._stopping() and not standby.has_caught_up:
            if (now := time.monotonic()) >= look_at:
                look_at = now + LOOK_SECONDS
                if self._cluster.is_empty_group(group_of(self._settings)):
                    return
            if not standby.work(POLL_SECONDS):
                time.sleep(COPY_SECONDS)

    # a batch

    def _apply(self, messages: list[Message]) -> None:
        """Apply a batch in two steps: what the pure core makes of it goes to Kafka, then it is committed.

        The events of one partition are on their way while the next one is applied.
        """
        started = time.perf_counter()
        self._applying = Applying()
        batches = self._by_place(messages)
        prepared = {place: self._prepare(place, batch) for place, batch in batches.items()}
        self._emitter.wait()
        self._applying.end()
        emitted = _now_ms()
        for place, batch in prepared.items():
            self.counts.emitting.note((emitted - batches[place][0].time) / 1000)
            self._commit(place, batch)
            self._upkeep[place].applied(batches[place], _now_ms())
            self._count(batch)
        self.counts.batches += 1
        self.counts.busy_seconds += time.perf_counter() - started

    def _by_place(self, messages: list[Message]) -> dict[Place, list[LogRecord]]:
        """Sort messages by partition; those of a partition that has just moved away are left to its new owner."""
        batches: dict[Place, list[LogRecord]] = {place: [] for place in self._partitions}
        for message in messages:
            batch = batches.get((message.topic(), message.partition()))  # type: ignore[arg-type]
            if batch is not None:
                batch.append(as_log_record(message))
        return {place: batch for place, batch in batches.items() if batch}

    def _prepare(self, place: Place, records: list[LogRecord]) -> Prepared:
        """Apply records and write what they lead to.

        Kafka has the forwards and dead letters before the first event is written: events say that a log record is
        done with, and whoever loads them, because a disk went with its worker, must be able to rely on that.
        """
        definition = self._definitions[place[0]]
        began_ns, partition = time.time_ns(), self._partitions[place]
        prepared = partition.prepare(records, self._log_end(place))
        prepared = self._applying.traced(partition, records, prepared, began_ns)
        if prepared.step.forwards or prepared.step.dead:
            self._emitter.forwards(definition.log, prepared.step.forwards)
            self._emitter.dead(definition.dead, place[1], prepared.step.dead)
            self._emitter.wait()
        self._emitter.events(definition, place[1], prepared.events)
        return prepared

    def _commit(self, place: Place, batch: Prepared) -> None:
        """Commit a batch, then put right what foreign writes, seen by a jump in the offsets, have spoiled."""
        partition = self._partitions[place]
        start = end = partition.head.changes_end
        if batch.events:
            end = self._acknowledged_end(place, start, len(batch.events))
        if end - start > len(batch.events):
            stands = batch.step.head.position
            partition.spoil(self._foreign_keys(place, start, end, batch.events, stands), end)
        partition.commit(batch, end)
        self._put_right(place, partition, self._log_end(place))

    def _acknowledged_end(self, place: Place, start: int, events: int) -> int:
        """Return the end of the changes partition behind so many events, which were written from `start` on."""
        changes = self._definitions[place[0]].changes
        end = self._emitter.end(changes, place[1])
        assert end is not None, "Kafka acknowledged the events"
        if end - start < events:
            raise NotWritten(
                f"{changes} [{place[1]}] was deleted and made again: expected an end from {start} on"
            )
        return end

    def _foreign_keys(
        self,
        place: Place,
        start: int,
        end: int,
        ours: Sequence[Event],
        stands: Position,
        base: Position | None = None,
    ) -> set[bytes]:
        """Return the keys that somebody else wrote between `start` and `end`, beside our events.

        Raises `Overtaken` if that is newer than where our partition `stands`, and, where our events begin an era on
        a `base`, if followers were told of more before them.
        """
        changes = self._definitions[place[0]].changes
        log.warning("foreign writes", topic=changes, partition=place[1], start=start, end=end)
        batches = read_range(self._kafka, changes, place[1], start, end)
        found = [as_event(message) for messages in batches for message in messages]
        check_owner(found, stands)
        if base is not None:
            check_base(found, base)
        keys = foreign_keys(found, ours)
        self.counts.foreign_writes += len(keys)
        return {PROGRESS_KEY, *keys}

    def _put_right(self, place: Place, partition: Partition, log_end: int) -> None:
        """Write again the newest events of the keys that foreign writes have spoiled.

        Whoever wrote those may still write: what comes amid our events is left for the next time.
        """
        end, base = partition.head.changes_end, partition.base
        foreign: set[bytes] = set()
        for events in partition.put_right(log_end):
            start, end = end, self._write_apart(place, end, events)
            if end - start > len(events):
                foreign |= self._foreign_keys(place, start, end, events, partition.head.position, base)
            base = None
        if end > partition.head.changes_end:
            partition.is_right(end, foreign)

    def _put_all_right(self) -> None:
        """Put right what is left of that. Not sooner: who is no owner any more has learnt that by now."""
        for place, partition in list(self._partitions.items()):
            if partition.head.spoiled:
                self._put_right(place, partition, self._log_end(place))

    def _look(self) -> None:
        """See, now and then, what somebody else has written though there was no batch to see it with."""
        ends = self._watching.look(self._known, time.monotonic())
        for place, partition in self._partitions.items() if ends else ():
            start = partition.head.changes_end
            end = ends.get((partition.definition.changes, place[1]), start)
            if end > start:
                partition.spoil(self._foreign_keys(place, start, end, (), partition.head.position), end)

    def _known(self) -> dict[Place, Known]:
        """Return what is known of the changes partitions."""
        heads = {(p.definition.changes, p.number): p.head for p in self._partitions.values()}
        return {place: Known(head.changes_id, head.changes_end) for place, head in heads.items()}

    def _write_apart(self, place: Place, start: int, events: Sequence[Event]) -> int:
        """Write events that belong to no batch, and return the end of the changes partition behind them."""
        self._emitter.events(self._definitions[place[0]], place[1], events)
        self._emitter.wait()
        return self._acknowledged_end(place, start, len(events))

    def _log_end(self, place: Place) -> int:
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
        return max(0, high)

    def _count(self, batch: Prepared) -> None:
        counts, step = self.counts, batch.step
        counts.records += batch.records
        counts.changes += len(step.changes)
        for op, changes in Counter(change.op for change in step.changes).items():
            counts.commands[op] += changes
        for letter in step.dead:
            counts.dead[letter.reason] += 1
        counts.repeats += sum(outcome == "repeat" for outcome in step.outcomes.values())
        counts.forwards += len(step.forwards)
        counts.publishers_pushed_out += step.publishers_pushed_out

    # the owner's own commands

    def _on_end(self, topic: str, partition: int, offset: int) -> None:
        if (topic, partition) in self._upkeep:
            self._upkeep[topic, partition].caught_up()

    def _append(self) -> None:
        """Append to the logs what is due by now."""
        now = _now_ms()
        for place, upkeep in self._upkeep.items():
            if appends := upkeep.appends(now):
                self._emitter.appends(*place, appends)
                if appends[0].key is None:
                    log.warning("the topic's limits change", topic=place[0], partition=place[1])

    # partitions come and go

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._opening = [(place.topic, place.partition) for place in places]
        for place in places:
            place.offset = self._open((place.topic, place.partition))
        if places and self._starting is not None:
            self._starting.over()
        if self._standby is not None:
            self._standby.cover([*self._partitions, *self._stopped])
        consumer.incremental_assign(places)
        stopped = [place for place in places if (place.topic, place.partition) in self._stopped]
        if stopped:
            consumer.pause(stopped)
        self._assigned, self._opening = True, []

    def _open(self, place: Place) -> int:
        """Open a partition and return the offset to read its log from; one that can't go on says so and stops."""
        definition = self._definitions[place[0]]
        try:
            if place[1] >= definition.partitions:
                self._cluster.ensure_topic(definition)
            partition = self._recover(place, definition)
        except SowlineError as error:
            log.error(
                "partition stopped", topic=place[0], partition=place[1], reason=error.reason, why=str(error)
            )
            self._stopped[place] = error.message
            return OFFSET_END
        self._partitions[place] = partition
        self._upkeep[place] = Upkeep(partition)
        log.info(
            "partition opened", topic=place[0], partition=place[1], position=str(partition.head.position)
        )
        return partition.head.next_offset

    def _recover(self, place: Place, definition: TopicDefinition) -> Partition:
        """Open a partition, once more where followers were told of more than the base of the era that began."""
        extent = extent_of(self._cluster, definition, place[1])
        start = None
        if self._starting is not None:
            start = self._starting.offset(place, extent.changes_end, extent.log_end)
        while True:
            try:
                return self._opened(place, definition, extent, start)
            except Overtaken:
                log.warning("an owner of before was told of", topic=place[0], partition=place[1])
                extent = extent_of(self._cluster, definition, place[1])

    def _opened(
        self, place: Place, definition: TopicDefinition, extent: Extent, start: int | None
    ) -> Partition:
        loss, anew = self._settings.accept_loss, start is not None
        copy = self._standby.take_over(place) if self._standby is not None else None
        ask = partial(extent_of, self._cluster, definition, place[1])
        recovery = Recovery(
            self._kafka, definition, place[1], self._path(place), extent, loss, anew, copy, ask
        )
        opened = self._emptied(place, recovery, recovery.open())
        if start is not None:
            opened = self._emptied(place, recovery, recovery.anew(opened, start))
        with closed_on_failure(opened.store):
            partition = Partition(definition, place[1], opened, Cache(self._cache_share))
            self._put_right(place, partition, extent.log_end)
        self._stores[place] = opened.store
        return partition

    def _path(self, place: Place) -> Path:
        return partition_path(self._settings.data_dir, self._definitions[place[0]], place[1])

    def _cache_share(self) -> int:
        """Return how many bytes of cached records each partition may hold."""
        return self._settings.cache_bytes_max // max(1, len(self._partitions))

    def _emptied(self, place: Place, recovery: Recovery, opened: Opened) -> Opened:
        """Write the end of each record of a partition that is to be emptied, and return it empty."""
        if opened.emptying is None:
            return opened
        end, base, stands = opened.head.changes_end, opened.emptying.base, opened.emptying.done(0).position
        foreign: set[bytes] = set()
        with closed_on_failure(opened.store):
            for events in opened.emptying.ends(opened.store):
                start, end = end, self._write_apart(place, end, events)
                if end - start > len(events):
                    foreign |= self._foreign_keys(place, start, end, events, stands, base)
                base = None
        return recovery.emptied(opened, end, frozenset(foreign))

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._let_go(places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._let_go(places)

    def _let_go(self, places: list[TopicPartition]) -> None:
        """Close partitions, or go on with them as copies.

        Their states are committed: only whole batches ever are, one after the other.
        """
        for place in ((one.topic, one.partition) for one in places):
            self._stopped.pop(place, None)
            self._upkeep.pop(place, None)
            partition = self._partitions.pop(place, None)
            store = self._stores.pop(place, None)
            if partition is not None and store is not None and self._standby is not None:
                self._standby.hold(place, store)
            elif partition is not None:
                partition.close()
        if self._standby is not None:
            self._standby.cover([*self._partitions, *self._stopped])

    def _close(self) -> None:
        try:
            self._emitter.close()
            self._consumer.close()
        finally:
            for partition in self._partitions.values():
                partition.close()
            if self._standby is not None:
                self._standby.close()
        self._partitions.clear()
        self._stores.clear()
        self._upkeep.clear()

    # what others may know

    @property
    def assigned(self) -> bool:
        """Whether the group has handed out partitions to this worker, if only none, and those are open."""
        return self._assigned

    def statistics(self) -> WorkerStatistics:
        """Return a look at the worker; safe from any thread.

        The consumer is not asked: another thread waits for ever beside one that polls it in a loop.
        """
        partitions, ends = dict(self._partitions), self._log_ends
        behind = {place: ends.get(place, 0) - p.head.next_offset for place, p in partitions.items()}
        return WorkerStatistics(
            self.counts,
            {place: str(partition.head.position) for place, partition in partitions.items()},
            {place: max(0, records) for place, records in behind.items()},
            dict(self._stopped),
            list(self._opening),
            StandbyStatistics() if self._standby is None else self._standby.statistics(),
        )


def group_of(settings: Settings) -> str:
    """Return the name of the workers' consumer group."""
    return settings.group + WORKERS


def partition_path(data_dir: Path, definition: TopicDefinition, partition: int) -> Path:
    """Return where a partition's store lies."""
    return data_dir / definition.log / str(partition)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def as_log_record(message: Message) -> LogRecord:
    """Return a Kafka message of a log as the core takes it."""
    key, headers = message.key(), message.headers()
    return LogRecord(message.offset(), message.timestamp()[1], key, message.value(), headers)  # type: ignore[arg-type]
