"""Small mistakes of materializers, as somebody might make them."""

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.language.emodb.fold import fold
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.deduplication import Deduplication
from sowline_materializer.core.deletes import Deletes
from sowline_materializer.core.documents import write_of
from sowline_materializer.core.errors import NotApplicable
from sowline_materializer.core.portions import portion
from sowline_materializer.partition.changes_follower import record_of
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.partition import Partition
from sowline_materializer.partition.tail import read_tail
from sowline_materializer.store.errors import DiskFull
from sowline_materializer.store.integrity import survey as _survey
from sowline_materializer.store.write_behind import WriteBehindStore
from sowline_materializer.worker.assignment import Assignment
from sowline_materializer.worker.batch import BatchProcessor
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.repair import Repair
from tests.simulation.mistake import Mistake, mistakes_in

_begin = BatchState.begin
_loaded_head = ChangesLoader.checkpoint
_commit = Partition.commit
_flush = WriteBehindStore.flush
_commit_behind = WriteBehindStore.commit
_again = Partition._newest_event
_fold = fold
_record_of = record_of
_write_of = write_of
_needs_progress = Partition._needs_progress
_portion = portion


def _commit_before_emit() -> list[Any]:
    def apply(self: BatchProcessor, batches: Any) -> Any:
        prepared = {
            partition_id: self._prepare(partition_id, batch) for partition_id, batch in batches.items()
        }
        for partition_id, batch in prepared.items():
            partition = self._owned.partitions[partition_id]
            partition.commit(batch, partition.checkpoint.changes_end + len(batch.events))
            self._owned.stores[partition_id].flush()
        for partition_id, batch in prepared.items():
            self._emitter.events(self._owned.definitions[partition_id[0]], partition_id[1], batch.events)
        self._emitter.wait()
        return self.left_of(batches, prepared)

    return [patch.object(BatchProcessor, "apply", apply)]


def _events_before_forwards() -> list[Any]:
    def apply(self: BatchProcessor, batches: Any) -> Any:
        prepared = {
            partition_id: self._owned.partitions[partition_id].prepare(batch, 0)
            for partition_id, batch in batches.items()
        }
        for partition_id, batch in prepared.items():
            self._emitter.events(self._owned.definitions[partition_id[0]], partition_id[1], batch.events)
        self._emitter.wait()
        for partition_id, batch in prepared.items():
            self._emitter.forwards(partition_id[0], batch.step.forwards)
            self._emitter.dead(
                self._owned.definitions[partition_id[0]].kafka.dead, partition_id[1], batch.step.dead
            )
            self._commit(partition_id, batch)
        self._emitter.wait()
        return self.left_of(batches, prepared)

    return [patch.object(BatchProcessor, "apply", apply)]


def _stale_owner_writes_not_seen() -> list[Any]:
    return [patch.object(Partition, "mark_stale", lambda self, keys, changes_end: None)]


def _stale_owner_tail_not_seen() -> list[Any]:
    def tail(events: Any, position: Any, topic_id: str, start: int) -> Any:
        return read_tail(events, position, topic_id, start)._replace(stale_keys=frozenset(), live=frozenset())

    return [patch("sowline_materializer.partition.recovery.read_tail", tail)]


def _repeat_window_ignored() -> list[Any]:
    def is_repeat(numbers: Any, command: Any, since: int) -> bool:
        seen = (numbers or {}).get(command.publisher)
        return seen is not None and command.sequence <= seen[:2]

    return [patch("sowline_materializer.core.deduplication.is_repeat", is_repeat)]


def _origin_not_remembered() -> list[Any]:
    return [patch.object(Deduplication, "_first_seen", lambda self, origin: True)]


def _origin_of_any_log_counts() -> list[Any]:
    def dropped(self: Deduplication, copy: Any) -> str | None:
        return None if self._first_seen(copy.source) else "repeat"

    return [patch.object(Deduplication, "dropped", dropped)]


def _guard_not_checked() -> list[Any]:
    def is_due(self: Deletes, current: Any, command: Any) -> bool:
        return current.body is not None and current.expires is not None and self._state.limits.may_expire

    return [patch.object(Deletes, "_is_due", is_due)]


def _due_time_not_checked() -> list[Any]:
    def is_due(self: Deletes, current: Any, command: Any) -> bool:
        return current.body is not None and current.position == command.guard

    return [patch.object(Deletes, "_is_due", is_due)]


def _damage_not_seen() -> list[Any]:
    def survey(store: Any, native: Any = None) -> Any:
        return _survey(store, native)._replace(checksum=store.checksum())

    return [patch("sowline_materializer.store.integrity.survey", survey)]


def _resumed_from_the_start() -> list[Any]:
    def begin(self: BatchState, record: Any) -> None:
        _begin(self, record)
        self.index, self.resumed = 0, False

    return [patch.object(BatchState, "begin", begin)]


def _cut_short_not_seen() -> list[Any]:
    def checkpoint(self: ChangesLoader, changes_end: int) -> Any:
        found = _loaded_head(self, changes_end)
        return type(found)(**{**_fields(found), "complete": True})

    return [patch.object(ChangesLoader, "checkpoint", checkpoint)]


def _account_not_written_again() -> list[Any]:
    def again(self: Partition, key: bytes, record: Any) -> Any:
        return structs.replace(_again(self, key, record), writes=None)

    return [patch.object(Partition, "_newest_event", again)]


def _redundant_write_counts_as_a_change() -> list[Any]:
    def fold(document: Any, write: Any) -> Any:
        folded = _fold(document, write)
        return folded._replace(document=replace(folded.document, last_mutate_ms=write.at_ms))

    return [patch("sowline_materializer.core.documents.fold", fold)]


def _deleted_document_not_loaded() -> list[Any]:
    def record_of(definition: Any, event: Any, held: Any) -> Any:
        return None if event.body is None else _record_of(definition, event, held)

    return [patch("sowline_materializer.partition.changes_loader.record_of", record_of)]


def _forwarded_write_is_another() -> list[Any]:
    def write_of(delta: Any, record: Any, command: Any, partition: int, time: int) -> Any:
        return _write_of(delta, record, command._replace(origin=None), partition, time)

    return [patch("sowline_materializer.core.document_writer.write_of", write_of)]


def _fields(checkpoint: Any) -> dict[str, Any]:
    return {name: getattr(checkpoint, name) for name in checkpoint.__dataclass_fields__}


def _moved_partition_applied() -> list[Any]:
    def release(self: Assignment, consumer: Any, partitions: Any) -> None:
        for one in partitions:
            self._owned.owner_commands.pop((one.topic, one.partition), None)

    return [patch.object(Assignment, "_release", release)]


def _written_between_ours_not_seen() -> list[Any]:
    return [patch.object(Repair, "repair", _repair)]


def _repair(self: Repair, partition_id: Any, partition: Partition, log_end: int) -> None:
    start = end = partition.checkpoint.changes_end
    for events in partition.repair(log_end):
        end = self.emit(partition_id, end, events).end
    if end > start:
        partition.note_repaired(end)


def _idle_owner_does_not_look() -> list[Any]:
    return [patch.object(Repair, "take_in", lambda self, look: None)]


def _topics_not_known_by_their_ids() -> list[Any]:
    return [
        patch.object(Cluster, "topic_id", lambda self, name: f"{name}-0"),
        patch.object(
            ClusterAnswer, "topic_ids", lambda self, but=(): {name: f"{name}-0" for name in self._topics}
        ),
    ]


def _fenced_not_seen() -> list[Any]:
    def tail(events: Any, position: Any, topic_id: str, start: int) -> Any:
        return read_tail(events, position, topic_id, start)._replace(has_gap=False)

    owner = patch("sowline_materializer.worker.repair.check_owner", lambda found, position: None)
    return [owner, patch("sowline_materializer.partition.recovery.read_tail", tail)]


def _full_disk_taken_for_written() -> list[Any]:
    def flush(self: WriteBehindStore[Any]) -> None:
        with suppress(DiskFull):
            _flush(self)
        self._entries.clear()
        self._expiries, self._is_flushed = {}, True

    return [patch.object(WriteBehindStore, "flush", flush)]


def _checkpoint_ahead_of_its_records() -> list[Any]:
    def flush(self: WriteBehindStore[Any]) -> None:
        if not self._is_flushed:
            self.disk.commit({}, self.disk.checksum(), self._checkpoint)
        _flush(self)

    return [patch.object(WriteBehindStore, "flush", flush)]


def _pending_records_not_read() -> list[Any]:
    return [patch.object(WriteBehindStore, "get", lambda self, key: self.disk.get(key))]


def _pending_records_not_scanned() -> list[Any]:
    return [patch.object(WriteBehindStore, "scan", lambda self: self.disk.scan())]


def _pending_deletes_not_flushed() -> list[Any]:
    def flush(self: WriteBehindStore[Any]) -> None:
        kept = {key: data for key, data in self._entries.items() if data is not None}
        self._entries.clear()
        self._entries.update(kept)
        _flush(self)

    return [patch.object(WriteBehindStore, "flush", flush)]


def _only_the_last_commit_flushed() -> list[Any]:
    def commit(self: WriteBehindStore[Any], *given: Any) -> None:
        self._entries.clear()
        self._expiries = {}
        _commit_behind(self, *given)

    return [patch.object(WriteBehindStore, "commit", commit)]


def _unforeseen_exception_ends_the_worker() -> list[Any]:
    return [patch.object(OwnedPartitions, "guarded", lambda self, partition_id: nullcontext())]


def _failed_record_left_out() -> list[Any]:
    return [patch.object(OwnedPartitions, "guarded", lambda self, partition_id: suppress(NotApplicable))]


def _stopped_partition_continues() -> list[Any]:
    def stop(self: OwnedPartitions, partition_id: Any, error: Exception) -> None:
        self.stopped[partition_id] = self._unexpected(partition_id, error)

    return [
        patch.object(OwnedPartitions, "stop", stop),
        patch.object(Assignment, "pause_halted", lambda self, consumer: None),
    ]


def _portion_reported_as_a_record() -> list[Any]:
    def needs_progress(self: Partition, step: Any) -> bool:
        return not step.checkpoint.complete or _needs_progress(self, step)

    return [patch.object(Partition, "_needs_progress", needs_progress)]


def _portion_taken_for_all() -> list[Any]:
    def portion(*given: Any) -> Any:
        return _portion(*given)._replace(is_last=True)

    return [patch(f"sowline_materializer.core.{name}.portion", portion) for name in ("deletes", "definer")]


OWNER_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
