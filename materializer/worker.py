"""The worker: takes partitions as the group hands them out, and applies their logs batch by batch."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from materializer.emitter import Emitter
from materializer.partition import Partition, Prepared, foreign_keys
from materializer.recovery import Extent, Opened, Recovery, as_event, extent_of
from materializer.starting import Place, Starting
from materializer.upkeep import Upkeep
from sowline.change import PROGRESS_KEY, Event
from sowline.cluster import Cluster
from sowline.command import LogRecord
from sowline.errors import SowlineError
from sowline.kafka import REPORT_ENDS, plain_consumer, poll_batch, read_range
from sowline.settings import Settings
from sowline.topics import TopicDefinition, Topics

log = structlog.get_logger()


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


@dataclass(frozen=True)
class WorkerStatistics:
    """A look at a worker: its counts, where each partition stands, what it is behind, what it had to stop."""

    counts: Counts
    positions: dict[Place, str]
    behind: dict[Place, int]
    stopped: dict[Place, str]
    recovering: bool


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
        self._log_ends: dict[Place, int] = {}
        self._assigned = False
        self.counts = Counts()

    def _make_consumer(self) -> Consumer:
        session = self._settings.session_timeout_ms
        return plain_consumer(
            self._kafka,
            {
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session,
                "heartbeat.interval.ms": max(300, session // 6),
                "max.poll.interval.ms": 600_000,
                **REPORT_ENDS,
            },
            group_of(self._settings),
        )

    def run(self) -> None:
        """Apply the log until told to stop. Raises `NotWritten` or `StoreDamaged`: begin again with a new worker."""
        self._consumer.subscribe(
            list(self._definitions),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        try:
            while not self._stopping():
                messages = poll_batch(self._consumer, self._settings.batch_records_max, 0.2, self._on_end)
                self._log_ends = {place: self._log_end(place) for place in self._partitions}
                if messages:
                    self._apply(messages)
                self._append()
                self._put_all_right()
        finally:
            self._close()

    # a batch

    def _apply(self, messages: list[Message]) -> None:
        """Apply a batch in four steps: the pure core, what leaves the partitions, their events, the commit.

        Kafka has the forwards and dead letters before the first event is written: events say that a log
        record is done with, and whoever loads them, because a disk went with its worker, must be able to
        rely on that.
        """
        started = time.perf_counter()
        batches = self._by_place(messages)
        prepared = {place: self._prepare(place, batch) for place, batch in batches.items()}
        if any(batch.step.forwards or batch.step.dead for batch in prepared.values()):
            self._emitter.wait()
        for place, batch in prepared.items():
            self._emitter.events(self._definitions[place[0]], place[1], batch.events)
        self._emitter.wait()
        for place, batch in prepared.items():
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
        definition = self._definitions[place[0]]
        prepared = self._partitions[place].prepare(records, self._log_end(place))
        self._emitter.forwards(definition.log, prepared.step.forwards)
        self._emitter.dead(definition.dead, place[1], prepared.step.dead)
        return prepared

    def _commit(self, place: Place, batch: Prepared) -> None:
        """Commit a batch, then put right what foreign writes, seen by a jump in the offsets, have spoiled."""
        partition = self._partitions[place]
        start = end = partition.head.changes_end
        if batch.events:
            end = self._acknowledged_end(place)
        if end - start > len(batch.events):
            partition.spoil(self._foreign_keys(place, start, end, batch.events))
        partition.commit(batch, end)
        self._put_right(place, partition, self._log_end(place))

    def _acknowledged_end(self, place: Place) -> int:
        end = self._emitter.end(self._definitions[place[0]].changes, place[1])
        assert end is not None, "Kafka acknowledged the events"
        return end

    def _foreign_keys(self, place: Place, start: int, end: int, ours: Sequence[Event]) -> set[bytes]:
        """Return the keys that somebody else wrote between `start` and `end`, beside our events."""
        changes = self._definitions[place[0]].changes
        log.warning("foreign writes", topic=changes, partition=place[1], start=start, end=end)
        batches = read_range(self._kafka, changes, place[1], start, end)
        keys = foreign_keys((as_event(message) for messages in batches for message in messages), ours)
        self.counts.foreign_writes += len(keys)
        return {PROGRESS_KEY, *keys}

    def _put_right(self, place: Place, partition: Partition, log_end: int) -> None:
        """Write again the newest events of the keys that foreign writes have spoiled.

        Whoever wrote those may still write: what comes amid our events is left for the next time.
        """
        end = partition.head.changes_end
        foreign: set[bytes] = set()
        for events in partition.put_right(log_end):
            start, end = end, self._write_apart(place, events)
            if end - start > len(events):
                foreign |= self._foreign_keys(place, start, end, events)
        if end > partition.head.changes_end:
            partition.is_right(end, foreign)

    def _put_all_right(self) -> None:
        """Put right what is left of that. Not sooner: who is no owner any more has learnt that by now."""
        for place, partition in list(self._partitions.items()):
            if partition.head.spoiled:
                self._put_right(place, partition, self._log_end(place))

    def _write_apart(self, place: Place, events: Sequence[Event]) -> int:
        """Write events that belong to no batch, and return the end of the changes partition behind them."""
        self._emitter.events(self._definitions[place[0]], place[1], events)
        self._emitter.wait()
        return self._acknowledged_end(place)

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
        self._assigned = True
        for place in places:
            place.offset = self._open((place.topic, place.partition))
        if places and self._starting is not None:
            self._starting.over()
        consumer.incremental_assign(places)
        stopped = [place for place in places if (place.topic, place.partition) in self._stopped]
        if stopped:
            consumer.pause(stopped)

    def _open(self, place: Place) -> int:
        """Open a partition and return the offset to read its log from; one that can't go on says so and stops."""
        definition = self._definitions[place[0]]
        try:
            extent = extent_of(self._cluster, definition, place[1])
            partition = self._recover(place, definition, extent)
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

    def _recover(self, place: Place, definition: TopicDefinition, extent: Extent) -> Partition:
        path = partition_path(self._settings.data_dir, definition, place[1])
        start = None
        if self._starting is not None:
            start = self._starting.offset(place, extent.changes_end, extent.log_end)
        loss, anew = self._settings.accept_loss, start is not None
        recovery = Recovery(self._kafka, definition, place[1], path, extent, loss, anew)
        opened = self._emptied(place, recovery, recovery.open())
        if start is not None:
            opened = self._emptied(place, recovery, recovery.anew(opened, start))
        partition = Partition(definition, place[1], opened)
        self._put_right(place, partition, extent.log_end)
        return partition

    def _emptied(self, place: Place, recovery: Recovery, opened: Opened) -> Opened:
        """Write the end of each record of a partition that is to be emptied, and return it empty."""
        if opened.emptying is None:
            return opened
        end = opened.head.changes_end
        for events in opened.emptying.ends(opened.store):
            end = self._write_apart(place, events)
        return recovery.emptied(opened, end)

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._let_go(places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._let_go(places)

    def _let_go(self, places: list[TopicPartition]) -> None:
        """Close partitions. Their states are committed: only whole batches ever are, one after the other."""
        for place in places:
            self._stopped.pop((place.topic, place.partition), None)
            self._upkeep.pop((place.topic, place.partition), None)
            partition = self._partitions.pop((place.topic, place.partition), None)
            if partition is not None:
                partition.close()

    def _close(self) -> None:
        self._emitter.close()
        self._consumer.close()
        for partition in self._partitions.values():
            partition.close()
        self._partitions.clear()
        self._upkeep.clear()

    # what others may know

    @property
    def assigned(self) -> bool:
        """Whether the group has handed out partitions to this worker, if only none."""
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
            not self._assigned,
        )


def group_of(settings: Settings) -> str:
    """Return the name of the workers' consumer group."""
    return f"{settings.group}-materializer"


def partition_path(data_dir: Path, definition: TopicDefinition, partition: int) -> Path:
    """Return where a partition's store lies."""
    return data_dir / definition.log / str(partition)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def as_log_record(message: Message) -> LogRecord:
    """Return a Kafka message of a log as the core takes it."""
    key, headers = message.key(), message.headers()
    return LogRecord(message.offset(), message.timestamp()[1], key, message.value(), headers)  # type: ignore[arg-type]
