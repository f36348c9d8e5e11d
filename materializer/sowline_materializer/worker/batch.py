"""A batch of log records: applied, emitted to Kafka, then committed to the stores."""

import time
from collections.abc import Mapping, Sequence
from types import ModuleType

from confluent_kafka import Message

from sowline.commands.command import LogRecord
from sowline.kafka.messages import columns_of, headers_of
from sowline.model.log_time import LOG_APPEND_TIME
from sowline_materializer.batch_trace import BatchTrace
from sowline_materializer.emitter import Emitter
from sowline_materializer.partition.partition import PartitionId, Prepared
from sowline_materializer.worker.counts import Counts
from sowline_materializer.worker.leaders import Leaders
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.repair import LogEnd, Repair

LogRecords = Mapping[PartitionId, Sequence[LogRecord]]
"""The log records of some partitions, in log order."""


class BatchProcessor:
    """Applies batches in three steps: the pure core computes the changes, Kafka acknowledges them, the stores commit.
    If writing fails, the error ends the worker before it commits, and the batch is applied again.
    """

    def __init__(
        self,
        owned: OwnedPartitions,
        emitter: Emitter,
        repair: Repair,
        counts: Counts,
        leaders: Leaders,
        log_end: LogEnd,
        native: ModuleType | None,
    ) -> None:
        self._native = native
        self._owned = owned
        self._emitter = emitter
        self._repair = repair
        self._counts = counts
        self._leaders = leaders
        self._log_end = log_end
        self._trace = BatchTrace()

    def apply(self, batches: LogRecords) -> LogRecords:
        """Apply log records; return those of partitions that have to go on with them.

        The events of one partition are sent while the next one is applied.
        """
        if not batches:
            return batches
        started = time.perf_counter()
        self._trace = BatchTrace()
        prepared: dict[PartitionId, Prepared] = {}
        for partition_id, records in batches.items():
            with self._owned.guarded(partition_id):
                prepared[partition_id] = self._prepare(partition_id, records)
        # Emit before commit. If the worker committed the store first and died, the log records would count as
        # applied. No later owner would write their changes: `commit 7, crash, restart at 8` loses change 7 for all
        # followers (tests/integration/test_two_workers.py::test_workers_join_and_die).
        self._emitter.wait()
        self._trace.end()
        emitted = now_ms()
        for partition_id, batch in prepared.items():
            records = batches[partition_id]
            # A producer's time says nothing about how long Kafka has had the record.
            if records[0].time_type == LOG_APPEND_TIME:
                self._counts.emitting.note((emitted - records[0].time) / 1000)
            with self._owned.guarded(partition_id):
                self._commit(partition_id, batch)
                others = batch.step.others
                self._owned.owner_commands[partition_id].applied(others, batch.step.checkpoint.time, now_ms())
                self._counts.count(batch)
                if batch.failed is not None:
                    raise batch.failed
        self._counts.batches += 1
        self._counts.busy_seconds += time.perf_counter() - started
        return self.left_of(batches, prepared)

    def left_of(self, batches: LogRecords, prepared: Mapping[PartitionId, Prepared]) -> LogRecords:
        """Return the log records of partitions that have not applied all of theirs: of one that makes many changes, a
        step applies a portion.
        """
        partitions = self._owned.partitions
        # Nothing is left of a batch that failed: the same record would fail again, without end.
        return {
            partition_id: batches[partition_id]
            for partition_id, batch in prepared.items()
            if batch.failed is None
            and partition_id in partitions
            and partitions[partition_id].are_left(batches[partition_id])
        }

    def by_partition(self, messages: list[Message]) -> LogRecords:
        """Sort the messages of a poll by partition.

        Those of a partition that has just moved away are left to its new owner.
        """
        if self._native is not None:
            fields = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
            columns = columns_of(messages, *fields)
            found: dict[PartitionId, Sequence[LogRecord]] = self._native.by_partition(
                *columns, self._owned.partitions
            )
            return found
        batches: dict[PartitionId, list[LogRecord]] = {one: [] for one in self._owned.partitions}
        for message in messages:
            batch = batches.get((message.topic(), message.partition()))  # type: ignore[arg-type]
            if batch is not None:
                batch.append(as_log_record(message))
        return {partition_id: batch for partition_id, batch in batches.items() if batch}

    def _prepare(self, partition_id: PartitionId, records: Sequence[LogRecord]) -> Prepared:
        """Apply records and write their changes, forwards and dead letters.

        Kafka has the forwards and dead letters before the first event is written. An event means that its log record
        is complete: a worker that has lost its disk and loads the events relies on that.
        """
        definition = self._owned.definitions[partition_id[0]]
        began_ns, partition = time.time_ns(), self._owned.partitions[partition_id]
        prepared = partition.prepare(records, self._log_end(partition_id))
        prepared = self._trace.traced(partition, prepared, began_ns)
        if prepared.step.forwards or prepared.step.dead:
            # Before anything of the batch is written. The worker waits until Kafka has everything, so a message whose
            # target has no leader would hold up all partitions.
            others = {(definition.log, forward.partition) for forward in prepared.step.forwards}
            self._leaders.require(others | ({(definition.kafka.dead, 0)} if prepared.step.dead else set()))
            self._emitter.forwards(definition.log, prepared.step.forwards)
            self._emitter.dead(definition.kafka.dead, partition_id[1], prepared.step.dead)
            # Waits before this batch's events are sent. With one wait for all, Kafka could keep the event and
            # lose the forward: a worker that loads the events would never forward the record (simulation: mistake
            # `events before forwards`).
            self._emitter.wait()
        self._emitter.events(definition, partition_id[1], prepared.events)
        return prepared

    def _commit(self, partition_id: PartitionId, batch: Prepared) -> None:
        """Commit a batch, with the keys that another owner wrote in between, then repair the stale keys."""
        partition = self._owned.partitions[partition_id]
        emitted = self._repair.acknowledged(partition_id, partition.checkpoint.changes_end, batch.events)
        # Offsets jumped: another process wrote between our events. Either it is the new owner (`Fenced`), or a stale
        # one, whose keys are repaired below (test_stale_owner_events_are_those_that_are_not_ours).
        if emitted.has_other_events:
            position = batch.step.checkpoint.position
            keys = self._repair.stale_owner_keys(partition_id, emitted, position)
            partition.mark_stale(keys, emitted.end)
        partition.commit(batch, emitted.end)
        self._repair.repair(partition_id, partition, self._log_end(partition_id))


def now_ms() -> int:
    """Return this machine's time in ms since 1970."""
    return time.time_ns() // 1_000_000


def as_log_record(message: Message) -> LogRecord:
    """Convert a Kafka message of a log to the core's type."""
    time_type, time = message.timestamp()
    key, headers = message.key(), headers_of(message)
    return LogRecord(message.offset(), time, key, message.value(), headers, time_type)  # type: ignore[arg-type]
