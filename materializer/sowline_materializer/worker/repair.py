"""Repair of changes partitions into which a stale owner wrote: the current owner writes the newest events again.

A stale owner writes an old event of key K after the newest one. Followers ignore it, but compaction keeps the last
event of each key: a reader that loads after compaction would show the old record. The current owner finds such keys
after each of its batches, and every few seconds in partitions without traffic. It then writes their newest events
again, before it applies more of the log.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY
from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.clients import read_range
from sowline.kafka.leader_watch import needing_leader
from sowline.kafka.messages import event_of
from sowline.model.position import Position
from sowline_materializer.core.fencing import check_base, check_owner
from sowline_materializer.emitter import Emitter, NotWritten
from sowline_materializer.partition.partition import Partition, PartitionId, stale_owner_keys
from sowline_materializer.topic_monitor import KnownEnd, MonitorAnswer
from sowline_materializer.worker.counts import Counts
from sowline_materializer.worker.owned import OwnedPartitions

log = structlog.get_logger()

LogEnd = Callable[[PartitionId], int]
"""Returns the end offset of a partition's log, as far as the worker knows it."""


class EmittedRange(NamedTuple):
    """The offsets of a changes partition that hold our events, and perhaps those of a stale owner."""

    start: int
    end: int
    events: Sequence[Event]

    @property
    def has_other_events(self) -> bool:
        """Whether another process wrote events between ours."""
        return self.end - self.start > len(self.events)


class Repair:
    """Finds the events that stale owners wrote into the changes of our partitions, and writes the newest events
    again.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        emitter: Emitter,
        owned: OwnedPartitions,
        counts: Counts,
        log_end: LogEnd,
    ) -> None:
        self._kafka = kafka
        self._emitter = emitter
        self._owned = owned
        self._counts = counts
        self._log_end = log_end

    def emit(self, partition_id: PartitionId, start: int, events: Sequence[Event]) -> EmittedRange:
        """Write events that belong to no batch; `start` is the known end of the changes partition."""
        self._emitter.events(self._owned.definitions[partition_id[0]], partition_id[1], events)
        self._emitter.wait()
        return self.acknowledged(partition_id, start, events)

    def acknowledged(self, partition_id: PartitionId, start: int, events: Sequence[Event]) -> EmittedRange:
        """Return the offsets of the events that were written from `start` on."""
        changes = self._owned.definitions[partition_id[0]].changes
        if not events:
            return EmittedRange(start, start, events)
        end = self._emitter.end(changes, partition_id[1])
        assert end is not None, "Kafka acknowledged the events"
        # The end moved back: the topic was deleted and created again while these events were written. The emitter
        # reports an offset of the new topic, and the old events are gone.
        if end - start < len(events):
            raise NotWritten(
                f"{changes} [{partition_id[1]}] was deleted and made again: expected an end from {start} on"
            )
        return EmittedRange(start, end, events)

    def stale_owner_keys(
        self,
        partition_id: PartitionId,
        emitted: EmittedRange,
        position: Position,
        base: Position | None = None,
    ) -> set[bytes]:
        """Return the keys that another process wrote between our events.

        Raise `Fenced` if one of its events is newer than the `position` of our partition. If our events begin an era
        on a `base`, raise `Fenced` if followers received more than the base before our first event.
        """
        changes = self._owned.definitions[partition_id[0]].changes
        start, end = emitted.start, emitted.end
        log.warning("stale-owner writes", topic=changes, partition=partition_id[1], start=start, end=end)
        idle = needing_leader(self._kafka, {(changes, partition_id[1])})
        batches = read_range(self._kafka, changes, partition_id[1], start, end, idle=idle)
        found = [event_of(message) for messages in batches for message in messages]
        # First of all: an owner that has been replaced must not repair. It would write its old events over the new
        # owner's (test_somebody_else_is_further).
        check_owner(found, position)
        if base is not None:
            check_base(found, base)
        keys = stale_owner_keys(found, emitted.events)
        self._counts.stale_owner_writes += len(keys)
        return {PROGRESS_KEY, *keys}

    def repair(self, partition_id: PartitionId, partition: Partition, log_end: int) -> None:
        """Write the newest events of the stale keys again.

        The stale owner may still write: keys that it writes between our events wait for the next repair.
        """
        end, base = partition.checkpoint.changes_end, partition.base
        stale: set[bytes] = set()
        for events in partition.repair(log_end):
            emitted = self.emit(partition_id, end, events)
            end = emitted.end
            if emitted.has_other_events:
                stale |= self.stale_owner_keys(partition_id, emitted, partition.checkpoint.position, base)
            # Only the first events of an era stand on the base. After them, followers are in the new era.
            base = None
        if end > partition.checkpoint.changes_end:
            # Keys that the stale owner wrote between our repairs stay stale, and wait for the next repair
            # (test_stale_writes_during_a_repair_stay_noted).
            partition.note_repaired(end, stale)

    def repair_all(self) -> None:
        """Repair all partitions with stale keys. By now a stale owner knows that it lost the partition."""
        for partition_id, partition in list(self._owned.partitions.items()):
            if partition.checkpoint.stale_keys:
                with self._owned.guarded(partition_id):
                    self.repair(partition_id, partition, self._log_end(partition_id))

    def take_in(self, look: MonitorAnswer) -> None:
        """Find stale-owner writes to partitions without traffic. A partition with traffic finds them by the offsets
        of its own events.

        Raise `NotWritten` if a changes topic is gone, is another one or has lost its head: what was written to it is
        lost, and must be written again.
        """
        ours = {one.definition.changes for one in self._owned.partitions.values()}
        if gone := ours & look.gone:
            raise NotWritten(f"a changes topic is gone: {min(gone)}")
        if replaced := sorted(one for one in look.replaced if one[0] in ours):
            raise NotWritten(f"{replaced[0][0]} was deleted and made again, or has lost its head or its end")
        for partition_id, partition in list(self._owned.partitions.items()):
            start = partition.checkpoint.changes_end
            end = look.ends.get((partition.definition.changes, partition_id[1]), start)
            # This worker writes nothing to a partition without traffic, so no jump in the offsets of its events would
            # show what a stale owner wrote there (simulation: mistake `idle owner does not look`).
            if end > start:
                found = EmittedRange(start, end, ())
                with self._owned.guarded(partition_id):
                    keys = self.stale_owner_keys(partition_id, found, partition.checkpoint.position)
                    partition.mark_stale(keys, end)

    def known_ends(self) -> dict[PartitionId, KnownEnd]:
        """Return the ends of the changes partitions, as their checkpoints have them."""
        partitions = self._owned.partitions.values()
        checkpoints = ((p.definition, p.number, p.checkpoint) for p in partitions)
        return {
            (definition.changes, number): KnownEnd(
                checkpoint.changes_id, checkpoint.changes_end, definition.has_sow
            )
            for definition, number, checkpoint in checkpoints
        }
