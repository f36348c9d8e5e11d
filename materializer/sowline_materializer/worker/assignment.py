"""Assignment: opens the partitions that the consumer group gives to a worker, and closes those that it takes.

The service starts with the first worker of a group without other members. Only then do transient topics begin at
their recovery points. A partition that moves between workers, or returns to a worker that restarted, keeps its state.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from sowline.changes.progress import PROGRESS_KEY, ChangesId
from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import assign_more
from sowline.kafka.last_eras import LastEras
from sowline.kafka.retriable import NO_LEADER
from sowline.runtime.store_memory import MEMORY
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.fencing import Fenced
from sowline_materializer.core.views import require_source_partitions
from sowline_materializer.partition.kafka_partition import kafka_extent
from sowline_materializer.partition.opened import OpenedPartition, closed_on_failure
from sowline_materializer.partition.partition import Partition, PartitionId
from sowline_materializer.partition.recovery import Recovery
from sowline_materializer.standby.standby import Standby
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.write_behind import WriteBehindStore
from sowline_materializer.worker.leaders import Leaders, WithoutLeader
from sowline_materializer.worker.owned import WORKER_ENDS, OwnedPartitions
from sowline_materializer.worker.repair import Repair
from sowline_materializer.worker.schemas import Schemas

log = structlog.get_logger()


RECOVERED_AT_ONCE: Final = min(4, os.cpu_count() or 1)
"""How many partitions are recovered in parallel. Each may keep `PENDING_BYTES_MAX` of entries in memory."""


@dataclass(frozen=True, slots=True)
class Recovering:
    """The recovery of a partition: `open` returns its result, or raises, and is called once.

    `start` is where a transient partition starts in its log, if the service starts with it.
    """

    recovery: Recovery
    open: Callable[[], OpenedPartition[RocksStore]]
    log_end: int
    start: int | None


class StartPhase:
    """Where the partitions of transient topics begin when the service starts, or when they are defined while it runs.

    Created before a worker joins the group.
    """

    def __init__(self, cluster: Cluster, group: str, definitions: Iterable[TopicDefinition]) -> None:
        self._cluster = cluster
        transient = [definition for definition in definitions if definition.starts_empty]
        self._definitions = {definition.log: definition for definition in transient}
        self._changes_ends: dict[PartitionId, int | None] = {}
        """The ends at the start. A partition of Kafka without a leader has None: nobody can write to it."""
        if transient and cluster.is_empty_group(group):
            for definition in transient:
                self._changes_ends |= self._ends(definition)

    def offset(self, partition_id: PartitionId, changes_end: int, log_end: int) -> int | None:
        """Return the start offset of a partition in its log; None if it continues, as it has had an owner since."""
        if partition_id not in self._changes_ends:
            return None
        if self._changes_ends[partition_id] not in (None, changes_end):
            return None
        topic, number = partition_id
        time = self._definitions[topic].recovery_time
        return log_end if time is None else self._cluster.offsets_at(topic, [number], time)[number]

    def _ends(self, definition: TopicDefinition) -> dict[PartitionId, int | None]:
        changes, numbers = definition.changes, range(definition.partitions)
        leaderless = self._cluster.leaderless([changes])
        led = [one for one in numbers if (changes, one) not in leaderless]
        ends = self._cluster.ends(changes, led) if led else {}
        return {(definition.log, one): ends.get(one) for one in numbers}

    def begin(self, definition: TopicDefinition, group: str) -> None:
        """Let a topic that was just defined begin at its recovery point, unless a worker already has a part of it."""
        if not definition.starts_empty:
            return
        # The ends first. A worker that opens a partition in between is an owner, or has written behind its end.
        ends = self._ends(definition)
        if all(log != definition.log for log, _ in self._cluster.owned(group)):
            self._definitions[definition.log] = definition
            self._changes_ends |= ends

    def over(self, partition_ids: Iterable[PartitionId]) -> None:
        """End the phase of partitions that were assigned: from now on they only move."""
        for partition_id in partition_ids:
            self._changes_ends.pop(partition_id, None)


class Assignment:
    """The consumer's callbacks: opens partitions, and closes them or keeps them as warm copies."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        owned: OwnedPartitions,
        repair: Repair,
        schemas: Schemas,
        standby: Standby | None,
        start_phase: StartPhase | None,
        native: ModuleType | None = None,
    ) -> None:
        self._native = native
        self._settings = settings
        self._cluster = cluster
        self._owned = owned
        self._repair = repair
        self._schemas = schemas
        self._standby = standby
        self._start_phase = start_phase
        self.is_complete = False
        """Whether the group has assigned partitions to this worker, even none, and they are open."""
        self.opening: list[PartitionId] = []
        self.leaders = Leaders(owned)
        self._last_eras = LastEras(settings.kafka_client, cluster)
        self._paused: set[PartitionId] = set()

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Open partitions that the group gives to this worker."""
        self._open_all(partitions)
        assign_more(consumer, partitions)
        self.pause_halted(consumer)
        self.is_complete, self.opening = True, []

    def reopen(self, consumer: Consumer, partition_ids: Sequence[PartitionId]) -> None:
        """Open partitions again, and continue from their states: their log or their definition is another one."""
        partitions = [TopicPartition(*one) for one in partition_ids]
        # Before they are released, or the service would seem ready until Kafka has answered.
        self.opening = list(partition_ids)
        self._release(consumer, partitions)
        self._open_all(partitions)
        # A consumer that found nothing at its offset reads the partition no more, and refuses to seek in it
        # (test_a_log_whose_head_goes_before_it_is_applied).
        consumer.incremental_unassign(partitions)
        assign_more(consumer, partitions)
        self.pause_halted(consumer)
        self.opening = []

    def follow_leaders(self, consumer: Consumer) -> None:
        """Close partitions that have lost a leader until it is back, and open those whose leaders are back."""
        for partition_id, leaderless in self.leaders.lost().items():
            self._owned.await_leader(partition_id, leaderless)
        if back := self.leaders.back():
            self.reopen(consumer, back)

    def _open_all(self, partitions: list[TopicPartition]) -> None:
        """Open partitions, and note the offsets to continue from; stopped and leaderless ones are read no more."""
        given = [(one.topic, one.partition) for one in partitions]
        self.opening = given
        # Asked at most once, by the first partition that begins from nothing: thousands may begin at one time.
        self._last_eras = LastEras(self._settings.kafka_client, self._cluster)
        self._await_leaders(given)
        self.opening = [one for one in given if one not in self._owned.leaderless]
        MEMORY.share_among(self._stores_at_once())
        with self._recovering() as recovering:
            for one in partitions:
                one.offset = self._open((one.topic, one.partition), recovering)
        if self._start_phase is not None:
            # A partition that waits for a leader has not begun.
            self._start_phase.over(one for one in given if one not in self._owned.leaderless)
        if self._standby is not None:
            self._standby.cover(self._owned.assigned)

    def _await_leaders(self, partition_ids: Sequence[PartitionId]) -> None:
        """Ask Kafka for the leaders, and let the partitions that lack one wait for it."""
        if not partition_ids:
            return
        self._ask_for_leaders()
        for partition_id in partition_ids:
            if leaderless := self.leaders.missed_by(partition_id):
                self._owned.await_leader(partition_id, leaderless)

    def _ask_for_leaders(self) -> None:
        self.leaders.note(self._cluster.leaderless(self.leaders.needed_topics()))

    def pause_halted(self, consumer: Consumer) -> None:
        """Read no more of the partitions that are stopped or leaderless since the last call."""
        for partition_id in (self._owned.stopped.keys() | self._owned.leaderless.keys()) - self._paused:
            self._schemas.forget(partition_id)
            self._paused.add(partition_id)
            consumer.pause([TopicPartition(*partition_id)])

    def _stores_at_once(self) -> int:
        """Return how many stores are open or being opened; with warm copies, the most that there can be."""
        if self._standby is not None:
            return sum(definition.partitions for definition in self._owned.definitions.values())
        return len(self._owned.partitions) + len(self.opening)

    @contextmanager
    def _recovering(self) -> Iterator[dict[PartitionId, Recovering]]:
        """Recover several partitions in parallel, in threads. Results that nobody takes are closed at the end."""
        at_once = min(RECOVERED_AT_ONCE, len(self.opening))
        if at_once < 2:
            yield {}
            return
        recovering: dict[PartitionId, Recovering] = {}
        futures: dict[PartitionId, Future[OpenedPartition[RocksStore]]] = {}
        with ThreadPoolExecutor(at_once, "recovery") as pool:
            try:
                for partition_id in self.opening:
                    try:
                        with self._checking_leaders(partition_id):
                            begun = self._begin(partition_id)
                    except WithoutLeader as error:
                        self._owned.await_leader(partition_id, error.leaderless)
                        continue
                    except WORKER_ENDS:
                        # Each of the others would wait as long for a Kafka that is away.
                        raise
                    except Exception:  # noqa: S112 - the recovery in its turn logs it
                        # A recovery that fails here fails again, and is reported, in its turn.
                        continue
                    futures[partition_id] = pool.submit(begun.open)
                    recovering[partition_id] = replace(begun, open=futures[partition_id].result)
                yield recovering
            finally:
                for partition_id in recovering:
                    future = futures[partition_id]
                    if not future.cancel() and future.exception() is None:
                        future.result().store.close()

    def _open(self, partition_id: PartitionId, recovering: dict[PartitionId, Recovering]) -> int:
        """Open a partition and return the log offset to read from; stop the partition if it can't be recovered."""
        topic, number = partition_id
        if partition_id in self._owned.leaderless:
            return OFFSET_END
        with self._owned.guarded(partition_id), self._checking_leaders(partition_id):
            partition = self.opened(partition_id, recovering.pop(partition_id, None))
            self._owned.add(partition_id, partition)
            position = partition.checkpoint.position
            log.info("partition opened", topic=topic, partition=number, position=str(position))
            return partition.checkpoint.next_offset
        return OFFSET_END

    @contextmanager
    def _checking_leaders(self, partition_id: PartitionId) -> Iterator[None]:
        """Raise `WithoutLeader` in place of Kafka's error if the partition has just lost a leader."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() not in NO_LEADER:
                raise
            self._ask_for_leaders()
            if leaderless := self.leaders.missed_by(partition_id):
                raise WithoutLeader(leaderless) from error
            raise

    def opened(self, partition_id: PartitionId, recovering: Recovering | None = None) -> Partition:
        """Open a partition; open it again if followers received more than the base of the era that began."""
        recovering = recovering or self._begin(partition_id)
        while True:
            try:
                return self._finished(partition_id, recovering)
            except Fenced:
                log.warning(
                    "previous owner emitted past the era base",
                    topic=partition_id[0],
                    partition=partition_id[1],
                )
                recovering = self._begin(partition_id, recovering)

    def _begin(self, partition_id: PartitionId, before: Recovering | None = None) -> Recovering:
        """Prepare the recovery of a partition; `before` is one that was in vain."""
        topic, number = partition_id
        definition, last_eras = self._owned.definitions[topic], self._last_eras
        if number >= definition.partitions:
            self._cluster.ensure_topic(definition)
        ask = partial(kafka_extent, self._cluster, definition, number)
        extent = ask()
        if ChangesId.parse(extent.changes_id).start:
            # The head of the changes was deleted: by a retention that the topic may have been given since the start.
            self._cluster.ensure_topic(definition)
        start = None
        if before is not None:
            start = before.start
        elif self._start_phase is not None:
            start = self._start_phase.offset(partition_id, extent.changes_end, extent.log_end)
        recovery = Recovery(
            self._settings.kafka_client,
            definition,
            number,
            partition_path(self._settings.data_dir, definition, number),
            extent,
            accept_loss=self._settings.accept_loss,
            starts_empty=start is not None,
            copy=self._standby.take_over(partition_id) if self._standby is not None else None,
            ask=ask,
            first_since=lambda time: self._cluster.offsets_at(definition.log, [number], time)[number],
            native=self._native,
            first_era=lambda: last_eras.of(definition.log) + 1,
        )
        return Recovering(recovery, recovery.open, extent.log_end, start)

    def _finished(self, partition_id: PartitionId, recovering: Recovering) -> Partition:
        """Write what a partition needs before its first batch, and return it."""
        topic, number = partition_id
        definition, recovery = self._owned.definitions[topic], recovering.recovery
        opened = self._emptied(partition_id, recovery, recovering.open())
        if recovering.start is not None:
            opened = self._emptied(partition_id, recovery, recovery.reset_to(opened, recovering.start))
        store = WriteBehindStore(opened.store, self._native)
        with closed_on_failure(opened.store):
            self._require_source(definition, opened.checkpoint)
            bodies = self._schemas.opened(partition_id, opened.checkpoint.limits.schema)
            partition = Partition(
                definition, number, opened, RecordCache(self._cache_share), store, self._native, bodies
            )
            if definition.starts_empty:
                # Followers wait for an event of each worker that opens a transient partition, also if its state
                # continues.
                partition.mark_stale({PROGRESS_KEY}, partition.checkpoint.changes_end)
            self._repair.repair(partition_id, partition, recovering.log_end)
        self._owned.stores[partition_id] = store
        return partition

    def _require_source(self, definition: TopicDefinition, checkpoint: Checkpoint) -> None:
        if (view := definition.view) is None:
            return
        for source in self._owned.definitions.values():
            if source.name == view.source:
                require_source_partitions(view, source.partitions, checkpoint)

    def _cache_share(self) -> int:
        """Return how many bytes of cached records each partition may hold."""
        return self._settings.cache_bytes_max // max(1, len(self._owned.partitions))

    def _emptied(
        self, partition_id: PartitionId, recovery: Recovery, opened: OpenedPartition[RocksStore]
    ) -> OpenedPartition[RocksStore]:
        """Write the end of each record of a partition that is reset, and return it empty; others as they are."""
        reset = opened.state_reset
        if reset is None:
            return opened
        end, base, position = opened.checkpoint.changes_end, reset.base, reset.done(0).position
        stale: set[bytes] = set()
        with closed_on_failure(opened.store):
            for events in reset.ends(opened.store):
                emitted = self._repair.emit(partition_id, end, events)
                end = emitted.end
                if emitted.has_other_events:
                    stale |= self._repair.stale_owner_keys(partition_id, emitted, position, base)
                base = None
        return recovery.after_reset(opened, end, frozenset(stale))

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Close partitions that the group takes from this worker."""
        if self._start_phase is not None:
            # Their next owner opens them as they are, and writes to changes whose end at the start nobody knows.
            given = ((one.topic, one.partition) for one in partitions)
            self._start_phase.over(one for one in given if one in self._owned.leaderless)
        self._release(consumer, partitions)

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Close partitions that the group has already given to another worker."""
        self._release(consumer, partitions)

    def _release(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Close partitions, or keep them as copies. Their states are committed, because only whole batches are."""
        owned = self._owned
        for partition_id in ((one.topic, one.partition) for one in partitions):
            owned.stopped.pop(partition_id, None)
            owned.leaderless.pop(partition_id, None)
            # It may return to this worker, and open without an error then.
            if partition_id in self._paused or self._schemas.is_waiting(partition_id):
                self._paused.discard(partition_id)
                consumer.resume([TopicPartition(*partition_id)])
            self._schemas.forget(partition_id)
            owned.owner_commands.pop(partition_id, None)
            partition = owned.partitions.pop(partition_id, None)
            store = owned.stores.pop(partition_id, None)
            if partition is not None and store is not None and self._standby is not None:
                # The copy continues from what is on disk.
                if (disk := store.hand_over()) is not None:
                    self._standby.hold(partition_id, disk)
            elif partition is not None:
                partition.close()
        if self._standby is not None:
            self._standby.cover(owned.assigned)


def partition_path(data_dir: Path, definition: TopicDefinition, partition: int) -> Path:
    """Return the directory of a partition's store."""
    return data_dir / definition.log / str(partition)
