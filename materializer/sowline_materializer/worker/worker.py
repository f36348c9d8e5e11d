"""The worker: one member of the materializer's consumer group, and its loop."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from sowline.config.settings import WORKERS, Settings
from sowline.config.topics import Topics
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import REPORT_ENDS, of_many, plain_consumer, poll_batch, raising
from sowline.kafka.fetched_ids import FetchedIds
from sowline.kafka.leaderless import why_it_waits
from sowline.language.emodb import use_native
from sowline.model.limits import MIB
from sowline.registry.client import Registry
from sowline.runtime.native import native_core
from sowline.runtime.store_memory import MEMORY
from sowline_materializer.emitter import Emitter
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.standby.standby import Standby
from sowline_materializer.standby.statistics import StandbyStatistics
from sowline_materializer.topic_monitor import TopicMonitor
from sowline_materializer.worker.assignment import Assignment, StartPhase, partition_path
from sowline_materializer.worker.batch import BatchProcessor, LogRecords, now_ms
from sowline_materializer.worker.counts import Counts, WorkerStatistics
from sowline_materializer.worker.flush import Flush
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.redefinitions import Redefinitions
from sowline_materializer.worker.repair import Repair
from sowline_materializer.worker.replaced_logs import ReplacedLogs
from sowline_materializer.worker.schemas import Schemas

log = structlog.get_logger()

POLL_SECONDS = 0.2
POLL_SECONDS_MAX = 1.0
"""How long a worker waits for the log before it does its other tasks, with few partitions and with thousands: each
task looks at all of them."""

HEARTBEAT_MS = 300
"""How often a worker reports to the group, and so the longest time until it learns that partitions move."""

LOOK_SECONDS = 1.0
"""How often a worker that makes its copies before it joins checks whether the group still has members; and the time
after which partitions may be opened again at once."""

FETCH_AHEAD: Mapping[str, Any] = {
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16 * 1024,
    "fetch.max.bytes": 8 * MIB,
    "fetch.message.max.bytes": MIB // 2,
}
"""How much the consumer fetches ahead. A message takes about 400 bytes in addition to its own, and a fetch is
compressed: in memory it may be many times as large. Small portions of each partition keep the others from waiting.
"""

CHECKED_A_SECOND = 1000
"""Partitions that are checked in a second, for due commands and for the ends of their logs. With 64 partitions, a
check of all of them after each small batch took a quarter of the worker's own CPU."""

COPY_SECONDS = 0.005
"""The time for copies of other partitions between two batches; more, if the batch took longer."""


class Worker:
    """One member of the materializer's group. `run` returns when the service stops, or raises.

    With a `start_phase`, transient topics begin at their recovery points where the service starts.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        stop: threading.Event,
        start_phase: StartPhase | None = None,
    ) -> None:
        MEMORY.limit(settings.store_bytes_max)
        self._settings = settings
        self._stop = stop
        kafka = settings.kafka_client
        self._cluster = cluster = Cluster(kafka, stop)
        native = native_core(settings.core)
        self._emitter = emitter = Emitter(kafka, stop.is_set, native)
        fetched = FetchedIds(kafka)
        self._consumer = self._make_consumer(
            sum(definition.partitions for definition in topics.topics), fetched
        )
        self.counts = counts = Counts()
        self._owned = owned = OwnedPartitions({definition.log: definition for definition in topics.topics})
        self._log_ends: dict[PartitionId, int] = {}
        self._ends_at = self._append_at = 0.0
        self._replaced = ReplacedLogs(owned, fetched)
        self._reopened_at = -LOOK_SECONDS
        self._standby: Standby | None = None
        if settings.standby:
            self._standby = Standby(kafka, owned.definitions, self._path, native, stop)
        self._repair = repair = Repair(kafka, emitter, owned, counts, self._log_end)
        use_native(native)
        registry = Registry(settings.registry) if settings.registry else None
        self._schemas = schemas = Schemas(kafka, owned, emitter, registry)
        self._flush = Flush(owned, counts)
        self._assignment = Assignment(
            settings, cluster, owned, repair, schemas, self._standby, start_phase, native
        )
        self._leaders = leaders = self._assignment.leaders
        self._batches = BatchProcessor(owned, emitter, repair, counts, leaders, self._log_end, native)
        self._monitor = TopicMonitor(cluster, lambda: owned.definitions.keys() | leaders.topics)
        self.redefinitions = Redefinitions(owned, self._assignment, self._standby, self._subscribe)

    def _make_consumer(self, partitions: int, fetched: FetchedIds) -> Consumer:
        session = self._settings.session_timeout_ms
        return plain_consumer(
            self._settings.kafka_client,
            {
                # Otherwise each member would close all of its stores whenever another one joins or leaves.
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                # Partitions are recovered within a callback. A recovery of minutes must not cost the membership.
                "max.poll.interval.ms": 600_000,
                **REPORT_ENDS,
                **FETCH_AHEAD,
                **of_many(partitions),
                **fetched.options,
            },
            group_of(self._settings),
        )

    def _path(self, partition_id: PartitionId) -> Path:
        definition = self._owned.definitions[partition_id[0]]
        return partition_path(self._settings.data_dir, definition, partition_id[1])

    def run(self) -> None:
        """Apply the log until the service stops.

        Raise `NotWritten`, `Fenced`, `StoreDamaged`, `StoreInUse`, `DiskFull` or `CompilerAway`: start again with a
        new worker.
        """
        is_copying = False
        try:
            if self._standby is not None:
                self._warm_up(self._standby)
            self._subscribe(list(self._owned.definitions))
            while not self._stop.is_set():
                self.redefinitions.take(self._consumer)
                records_max = self._settings.batch_records_max
                wait_seconds = 0.0 if is_copying else seconds_to_wait(len(self._owned.partitions))
                messages = poll_batch(
                    self._consumer, records_max, wait_seconds, self._on_end, self._replaced.removed
                )
                began = time.monotonic()
                # First: records of a new log must not be applied to the era of the log before it.
                messages = self._reopen_replaced(messages)
                self._note_ends(began)
                if messages:
                    batches = self._batches.by_partition(messages)
                    self._apply(self._schemas.take_ready(self._consumer, batches))
                self._apply(self._schemas.release(self._consumer))
                self._flush.flush_due()
                self._append()
                self._look()
                self._repair.repair_all()
                self._assignment.pause_halted(self._consumer)
                if self._standby is not None:
                    spent = time.monotonic() - began
                    is_copying = self._standby.work(max(COPY_SECONDS, spent))
        finally:
            self._close()

    def _subscribe(self, logs: list[str]) -> None:
        self._consumer.subscribe(
            logs,
            on_assign=raising(self._assignment.on_assign),
            on_revoke=raising(self._assignment.on_revoke),
            on_lost=raising(self._assignment.on_lost),
        )

    def _warm_up(self, standby: Standby) -> None:
        """Make the copies before the group assigns any partition: other workers keep theirs until then."""
        standby.cover([])
        look_at = 0.0
        while not self._stop.is_set() and not standby.has_caught_up:
            if (now := time.monotonic()) >= look_at:
                look_at = now + LOOK_SECONDS
                if self._cluster.is_empty_group(group_of(self._settings)):
                    return
            if not standby.work(POLL_SECONDS):
                time.sleep(COPY_SECONDS)

    def _apply(self, batches: LogRecords) -> None:
        """Apply log records in as many steps as they need."""
        while (batches := self._batches.apply(batches)) and not self._stop.is_set():
            # The stores would otherwise keep all portions of a large delete in memory.
            self._flush.flush_due()

    def _note_ends(self, now: float) -> None:
        """Note where the logs end, for health and metrics."""
        if now >= self._ends_at:
            self._ends_at = now + seconds_to_pause(len(self._owned.partitions))
            self._log_ends = {one: self._log_end(one) for one in self._owned.partitions}

    def _reopen_replaced(self, messages: list[Message]) -> list[Message]:
        """Begin an era in partitions whose logs were replaced; return the messages of the others."""
        if not (replaced := self._replaced.take()):
            return messages
        self._assignment.reopen(self._consumer, replaced)
        # The consumer's records and the cluster's answers may differ for a moment.
        if (now := time.monotonic()) < self._reopened_at + LOOK_SECONDS:
            time.sleep(POLL_SECONDS)
        self._reopened_at = now
        # The new era reads the new log from its beginning, so these come again.
        return [one for one in messages if (one.topic(), one.partition()) not in replaced]

    def _look(self) -> None:
        """Check our topics every few seconds; the answer arrives some calls later."""
        look = self._monitor.look(
            lambda: self._repair.known_ends() | self._replaced.known_ends(), time.monotonic()
        )
        if look is not None:
            self._replaced.note(look)
            self._repair.take_in(look)
            self._leaders.note(look.leaderless)
            self._assignment.follow_leaders(self._consumer)

    def _log_end(self, partition_id: PartitionId) -> int:
        # From the client's memory: a question to Kafka would hold up all partitions while a broker is away.
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition_id), cached=True)
        # Before the first fetch the client knows no end, and says -1001.
        return max(0, high)

    # the owner's own commands

    def _on_end(self, topic: str, partition: int, offset: int) -> None:
        if (topic, partition) in self._owned.owner_commands:
            self._owned.owner_commands[topic, partition].caught_up()

    def _append(self) -> None:
        """Append the due commands to the logs."""
        began = time.monotonic()
        if began < self._append_at:
            return
        now, self._append_at = now_ms(), began + seconds_to_pause(len(self._owned.partitions))
        # A copy: a partition that `guarded` stops leaves the dict.
        for partition_id, owner_commands in list(self._owned.owner_commands.items()):
            # A message that waits for its schema may postpone an expiry.
            if self._schemas.is_waiting(partition_id):
                continue
            with self._owned.guarded(partition_id):
                if appends := owner_commands.appends(now):
                    self._emitter.appends(*partition_id, appends)
                    if appends[0].key is None:
                        log.warning("topic limits changed", topic=partition_id[0], partition=partition_id[1])

    def _close(self) -> None:
        try:
            # The emitter first: once the group has given the partitions away, its queued events would be stale.
            self._emitter.close()
            self._consumer.close()
        finally:
            # Also if Kafka does not let go: stores that stay open can't be opened by the next worker in this process.
            self._schemas.close()
            self._owned.close()
            if self._standby is not None:
                self._standby.close()

    # for health and metrics

    @property
    def assigned(self) -> bool:
        """Whether the group has assigned partitions to this worker, even none, and they are open."""
        return self._assignment.is_complete

    def statistics(self) -> WorkerStatistics:
        """Return the worker's statistics; safe to call from any thread.

        It does not call the consumer: a thread that does would wait as long as another one polls it in a loop.
        """
        # A copy: the worker's thread may open and close partitions meanwhile.
        partitions, ends = dict(self._owned.partitions), self._log_ends
        behind = {one: ends.get(one, 0) - p.checkpoint.next_offset for one, p in partitions.items()}
        return WorkerStatistics(
            counts=self.counts,
            positions={one: str(partition.checkpoint.position) for one, partition in partitions.items()},
            # Ends are noted now and then, so a partition may be beyond its noted end.
            behind={one: max(0, records) for one, records in behind.items()},
            stopped=dict(self._owned.stopped),
            leaderless={one: why_it_waits(awaited) for one, awaited in dict(self._owned.leaderless).items()},
            opening=list(self._assignment.opening),
            standby=StandbyStatistics() if self._standby is None else self._standby.statistics(),
            cores=Counter(partition.core for partition in partitions.values()),
            waiting=self._schemas.waiting(),
            logs_gone=self._replaced.gone(),
        )


def seconds_to_pause(partitions: int) -> float:
    """Return the seconds until this many partitions are checked again."""
    return partitions / CHECKED_A_SECOND


def seconds_to_wait(partitions: int) -> float:
    """Return the seconds that a worker of this many partitions waits for the log before it does its other tasks."""
    return min(max(POLL_SECONDS, seconds_to_pause(partitions)), POLL_SECONDS_MAX)


def group_of(settings: Settings) -> str:
    """Return the name of the workers' consumer group."""
    return settings.group + WORKERS
