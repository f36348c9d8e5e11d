"""Eras: a new one begins if the log does not continue the applied records. Its base is the current state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from sowline.changes.progress import PROGRESS_KEY
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.log_time import LOG_APPEND_TIME
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.kafka_partition import KafkaExtent, PartitionReader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.tail import Tail
from sowline_materializer.store.interface import Store

S = TypeVar("S", bound=Store)

LOOK_BACK_OFFSETS = 100
"""How many of a log's last records are checked if the log's times seem to be later than the state."""


class Eras:
    """Compares the state of one partition with its log.

    `first_since` returns the offset of the log's first record at or after a log time (ms). It is needed to recognize
    a log that was cut, and has grown again beyond the state's position.
    """

    def __init__(
        self,
        definition: TopicDefinition,
        reader: PartitionReader,
        *,
        accept_loss: bool = False,
        first_since: Callable[[int], int] | None = None,
    ) -> None:
        self._definition = definition
        self._reader = reader
        self._accept_loss = accept_loss
        self._first_since = first_since

    def leads_on(self, checkpoint: Checkpoint, tail: Tail, extent: KafkaExtent) -> bool:
        """Return whether the log still holds all records between the state and the last emitted change."""
        emitted = tail.newest
        # The local state may be older than the last emitted change. Applying the log must lead exactly there. If the
        # log was replaced or cut in between, followers hold changes that this state can't produce again, so it is
        # discarded
        # (test_state_behind_what_was_emitted_gives_way_where_the_log_does_not_lead_on).
        same = checkpoint.log_id == extent.log_id and checkpoint.position.era == emitted.era
        is_there = extent.log_start <= checkpoint.next_offset and emitted.offset < extent.log_end
        return same and is_there and self._written_again_from(emitted.offset, tail.time, extent) is None

    def in_its_era(self, opened: OpenedPartition[S], extent: KafkaExtent) -> OpenedPartition[S]:
        """Return the partition in the era to continue in; raises `log incomplete` if a loss was not accepted."""
        checkpoint = opened.checkpoint
        if checkpoint.log_id != extent.log_id:
            return self._begun(opened, extent.log_start, "the log was replaced", extent)
        if extent.log_end < checkpoint.next_offset:
            # The broker lost the end of the log. Records at the lost offsets may have been written again since: those
            # are later than all that was applied, so the era begins at the first later record, not at the end
            # (test_a_log_that_ends_before_the_state_begins_a_new_era).
            # Without a log time, nothing shows which records were applied: all are applied again
            # (test_a_log_without_log_time_that_ends_before_the_state_is_applied_again).
            is_dated = checkpoint.time or self._definition.declared.durability == "transient"
            offset = self._first_later(checkpoint.time, extent) if is_dated else extent.log_start
            return self._begun(opened, offset, "the log ends before the state", extent)
        if extent.log_start > checkpoint.next_offset:
            # Retention removed records that were never applied. To continue silently would make a state that no log
            # produces (test_a_hole_in_the_log_stops_the_partition).
            if not self._accept_loss:
                raise SowlineError(
                    "log incomplete",
                    f"{self._definition.log} [{self._reader.number}]: offsets {checkpoint.next_offset} to "
                    f"{extent.log_start - 1} are gone and were never applied. To continue without them, start with "
                    "--accept-loss",
                )
            return self._begun(opened, extent.log_start, "records of the log are gone", extent)
        applied, time = checkpoint.position.offset, checkpoint.time
        if (offset_or_none := self._written_again_from(applied, time, extent)) is not None:
            return self._begun(opened, offset_or_none, "the log was cut and written again", extent)
        return opened

    def _written_again_from(self, applied: int, time: int, extent: KafkaExtent) -> int | None:
        """Return the offset from which the log holds other records than those that were applied; None if it holds the
        same.

        `applied` is the offset of the last applied record; no record up to it was later than `time`. If a broker
        loses the end of a log, the records written in its place are later than all lost ones.
        """
        if applied < extent.log_start or (first := self._first_later(time, extent)) > applied:
            return None
        start = max(first, applied - LOOK_BACK_OFFSETS)
        batches = self._reader.log(start, applied + 1)
        # One record with a late timestamp is not enough: clocks of brokers differ. The log counts as written again
        # only if every record near the end is later than the state
        # (test_a_log_that_is_the_same_goes_on_whatever_its_times).
        times = [
            time_of
            for messages in batches
            for type_of, time_of in (message.timestamp() for message in messages)
            # A producer's time shows nothing about what was applied (test_producers_times_begin_no_era).
            if type_of == LOG_APPEND_TIME
        ]
        return first if times and min(times) > time else None

    def _begun(
        self, opened: OpenedPartition[S], offset: int, why: str, extent: KafkaExtent
    ) -> OpenedPartition[S]:
        self._log.warning("a new era begins", why=why)
        checkpoint = opened.checkpoint.new_era(extent.log_id, offset)
        assert checkpoint.position.era == opened.checkpoint.position.era + 1, "eras follow each other"
        assert checkpoint.next_offset == offset, "an era begins at its offset"
        # The newest progress event is still one of the era that ended. Until this era has written its own, a loader
        # would take the old log's offsets for this one's.
        checkpoint = replace(checkpoint, stale_keys=checkpoint.stale_keys | {PROGRESS_KEY})
        return replace(opened, checkpoint=checkpoint, emitted_to=checkpoint.position)

    def _first_later(self, time: int, extent: KafkaExtent) -> int:
        """Return the offset of the log's first record after a log time; its end if there is none, or if it is
        unknown.

        A transient topic skips records at its start, so their times do not show what was applied. Without a log time
        every record would count as later.
        """
        if self._first_since is None or not time or self._definition.declared.durability == "transient":
            return extent.log_end
        return min(extent.log_end, self._first_since(time + 1))

    @property
    def _log(self) -> Any:
        return self._reader.logger
