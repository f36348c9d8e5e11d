"""Small mistakes, as somebody might make them in the services: a simulation is worth what it finds of these."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from confluent_kafka import TopicPartition
from msgspec import structs

from sowline.changes.changes_reader import ChangesReader, Phase, Verdict, takes
from sowline.changes.progress import Progress
from sowline.changes.wholeness import Wholeness
from sowline.client.stream import Stream
from sowline.kafka.admin import Cluster
from sowline.kafka.changes_driver import AssignedChanges, ChangesDriver, MemberChanges
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.language.emodb.fold import fold
from sowline.subscriptions.engine.subscription import OOF, Subscription
from sowline_fanout.runner import FanoutRunner
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
from sowline_query_service.live.catching_up import _Pass
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.replica.incomplete_record import IncompleteRecord
from sowline_query_service.replica.partition_replica import PartitionReplica, Ring
from sowline_query_service.snapshots.manifest import Manifest, discard_reason
from sowline_query_service.snapshots.partition_snapshots import PartitionSnapshots
from sowline_query_service.subscriptions.catch_up import CatchUp
from tests.simulation.gateway_mutations import GATEWAY_MISTAKES
from tests.simulation.mistake import Mistake, mistakes_in
from tests.simulation.schema_mutations import SCHEMA_MISTAKES
from tests.simulation.template_mutations import TEMPLATE_MISTAKES
from tests.waiting import loop_turns

_on_change = Subscription.on_change
_after = Ring.after
_take_more = _Pass._take_more
_begin = BatchState.begin
_loaded_head = ChangesLoader.checkpoint
_messages = Stream._messages
_commit = Partition.commit
_flush = WriteBehindStore.flush
_commit_behind = WriteBehindStore.commit
_again = Partition._newest_event
_fold = fold
_record_of = record_of
_load_phase = ChangesReader._load_phase
_load = ChangesDriver.load
_resumed = FanoutRunner._resumed
_write = FanoutRunner._write
_write_of = write_of
_keep = PartitionSnapshots.keep
_needs_progress = Partition._needs_progress
_portion = portion
_apply = PartitionReplica.apply


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
    def tail(messages: Any, position: Any, topic_id: str, start: int) -> Any:
        return read_tail(messages, position, topic_id, start)._replace(
            stale_keys=frozenset(), live=frozenset()
        )

    return [patch("sowline_materializer.partition.recovery.read_tail", tail)]


def _repeat_window_ignored() -> list[Any]:
    def is_repeat(numbers: Any, command: Any, since: int) -> bool:
        seen = (numbers or {}).get(command.publisher)
        return seen is not None and command.sequence <= seen[:2]

    return [patch("sowline_materializer.core.deduplication.is_repeat", is_repeat)]


def _gap_taken() -> list[Any]:
    def judge(event: Any, held: Any) -> Verdict:
        return Verdict.TAKE if event.position > held else Verdict.DROP

    return [patch("sowline.changes.changes_reader.verdict", judge)]


def _repeat_taken() -> list[Any]:
    def takes_at(event: Any, held: Any) -> bool:
        return event.position == held or takes(event, held)

    return [patch("sowline_query_service.replica.partition_replica.takes", takes_at)]


def _ring_one_too_few() -> list[Any]:
    def after(self: Ring, position: Any, limit: int) -> Any:
        found = _after(self, position, limit)
        return found[1:] if found and len(found) > 1 else found

    return [patch.object(Ring, "after", after)]


def _ring_reaches_too_far() -> list[Any]:
    def after(self: Ring, position: Any, limit: int) -> Any:
        return [change for change in self._changes if change.position > position][:limit]

    return [patch.object(Ring, "after", after)]


def _live_one_change_late() -> list[Any]:
    async def run(self: CatchUp, dispatcher: Dispatcher) -> None:
        await self._live.outbox.wait_drained()
        while behind := self._after.behind():
            for number in behind:
                async for changes in self._after.of(number):
                    await self._deliver(dispatcher.turns, number, changes)
        await loop_turns()
        dispatcher.add(self._live)

    return [patch.object(CatchUp, "run", run)]


def _pass_begins_one_change_late() -> list[Any]:
    def take_more(self: _Pass) -> None:
        _take_more(self)
        next(self._changes, None)

    return [patch.object(_Pass, "_take_more", take_more)]


def _no_out_of_focus() -> list[Any]:
    def on_change(self: Subscription, seen: Any) -> Any:
        found = _on_change(self, seen)
        return None if found is not None and found.command == OOF and seen.change.body is not None else found

    return [patch.object(Subscription, "on_change", on_change)]


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


def _last_loaded() -> list[Any]:
    def load(self: PartitionReplica, event: Any) -> None:
        self._keep(event)

    return [patch.object(PartitionReplica, "_load_change", load)]


def _halves_shown() -> list[Any]:
    return [patch.object(IncompleteRecord, "complete", lambda self, portions: list(portions))]


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


def _replica_not_waited_for() -> list[Any]:
    async def wait(state: Any, topic: Any, positions: Any) -> None:
        return None

    return [patch("sowline_query_service.subscriptions.bookmark_resolver.wait_for_replica", wait)]


def _moved_on_receipt() -> list[Any]:
    def messages(self: Stream, received: Any) -> Any:
        messages = _messages(self, received)
        for message in messages:
            self.machine.taken._position.note(message)
        return messages

    return [patch.object(Stream, "_messages", messages)]


def _behind_from_now() -> list[Any]:
    def fall_behind(self: LiveSubscription) -> None:
        self._behind.set()
        self.positions = self.topic.positions
        for number, position in self.positions.items():
            recent = self.topic.partitions[number].ring._changes
            self.positions[number] = recent[-1].after if recent else position

    return [patch.object(LiveSubscription, "fall_behind", fall_behind)]


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


def _reset_goes_on_from_before() -> list[Any]:
    def messages(self: Stream, received: Any) -> Any:
        return (structs.replace(message, reset=False) for message in _messages(self, received))

    return [patch.object(Stream, "_messages", messages)]


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
    def tail(messages: Any, position: Any, topic_id: str, start: int) -> Any:
        return read_tail(messages, position, topic_id, start)._replace(has_gap=False)

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


def _long_load_not_read_on() -> list[Any]:
    def load_phase(self: ChangesReader, now: float) -> Phase:
        found = _load_phase(self, now)
        return Phase.COMPLETE if found is Phase.AIMING else found

    # A service that starts from snapshots seldom loads for long.
    return [
        patch.object(ChangesReader, "_load_phase", load_phase),
        patch("sowline_query_service.snapshots.reader.has_snapshots", lambda topic: False),
    ]


def _loaded_during_a_rewrite() -> list[Any]:
    def saw(self: Wholeness, events: Any, offsets: Any) -> None:
        self._has_progress = self._has_progress or any(isinstance(event, Progress) for event in events)

    return [patch.object(Wholeness, "saw", saw)]


def _loaded_without_a_word() -> list[Any]:
    return [patch.object(AssignedChanges, "load", _load_anything)]


def _fanout_loads_during_a_refill() -> list[Any]:
    return [patch.object(MemberChanges, "load", _load_anything)]


def _load_anything(self: ChangesDriver, changes: str, numbers: Any) -> None:
    _load(self, changes, numbers)
    for number in numbers:
        self.readers[changes, number].wholeness = None


def _fanout_goes_on_in_another_topic() -> list[Any]:
    def resumed(self: FanoutRunner, committed: Any, start: int, topic_id: str) -> Any:
        metadata = (committed.metadata or "").rpartition(" ")[0]
        known = TopicPartition(committed.topic, committed.partition, committed.offset, metadata)
        return _resumed(self, known if metadata else committed, start, topic_id)

    return [patch.object(FanoutRunner, "_resumed", resumed)]


def _fanout_commits_before_it_writes() -> list[Any]:
    def write(self: FanoutRunner, messages: Any) -> None:
        for message in messages:
            partition = message.topic(), message.partition()
            if (reader := self._changes.readers.get(partition)) is not None:
                self._take(message.partition(), reader, message)
        self._commit()
        _write(self, [])

    return [patch.object(FanoutRunner, "_write", write)]


def _snapshot_of_another_topic() -> list[Any]:
    def ignoring(manifest: Manifest, expected: Any) -> Any:
        offsets = range(max(expected.offsets.stop, manifest.head.next_offset))
        return discard_reason(manifest, expected._replace(topic_id=manifest.topic_id, offsets=offsets))

    return [
        patch("sowline_query_service.snapshots.reader.discard_reason", ignoring),
        patch.object(ChangesReader, "note_topic", lambda self, topic_id: None),
    ]


def _snapshot_begins_at_its_end() -> list[Any]:
    def keep(self: PartitionSnapshots, topic: Any, number: int, begun: Any, blocks: Any) -> None:
        _keep(self, topic, number, begun._replace(head=topic.partitions[number].head), blocks)

    return [patch.object(PartitionSnapshots, "keep", keep)]


def _gap_behind_a_snapshot_taken() -> list[Any]:
    def takes_newer(event: Any, held: Any) -> bool:
        return bool(event.position > held)

    def apply(self: PartitionReplica, events: Any) -> Any:
        if not self.loading:
            return _apply(self, events)
        with patch("sowline_query_service.replica.partition_replica.takes", takes_newer):
            return _apply(self, events)

    def load_phase(self: ChangesReader, now: float) -> Phase:
        self._aimed_at = now if self.has_snapshot else self._aimed_at
        return _load_phase(self, now)

    def ignoring(manifest: Manifest, expected: Any) -> Any:
        return discard_reason(manifest, expected._replace(now=manifest.taken_at))

    # Young snapshots have no gaps behind them.
    return [
        patch.object(ChangesReader, "_load_phase", load_phase),
        patch.object(PartitionReplica, "apply", apply),
        patch("sowline_query_service.snapshots.reader.discard_reason", ignoring),
    ]


def _portion_reported_as_a_record() -> list[Any]:
    def needs_progress(self: Partition, step: Any) -> bool:
        return not step.checkpoint.complete or _needs_progress(self, step)

    return [patch.object(Partition, "_needs_progress", needs_progress)]


def _portion_taken_for_all() -> list[Any]:
    def portion(*given: Any) -> Any:
        return _portion(*given)._replace(is_last=True)

    return [patch(f"sowline_materializer.core.{name}.portion", portion) for name in ("deletes", "definer")]


MISTAKES: dict[str, Mistake] = mistakes_in(globals()) | GATEWAY_MISTAKES | SCHEMA_MISTAKES | TEMPLATE_MISTAKES
"""Each mistake, by what it is."""

FOUND_BY: dict[str, int] = {
    "events before forwards": 14,
    "repeat taken": 19,
    "live one change late": 2,
    "guard not checked": 54,
    "due time not checked": 54,
    "last loaded": 99,
    "resumed from the start": 5,
    "cut short not seen": 5,
    "replica not waited for": 9,
    "reset goes on from before": 14,
    "message that did not fit taken for sent": 6,
    "fenced not seen": 336,
    "long load not read on": 77,
    "stale owner tail not seen": 5,
    "written between ours not seen": 5,
    "fanout loads during a refill": 49,
    "fanout commits before it writes": 232,
    "fanout goes on in another topic": 10,
    "snapshot of another topic": 8,
    "damage not seen": 10,
    "gap behind a snapshot taken": 33,
    "other shard not seen": 1,
    "floor ignored": 14,
    "step lost at failover": 1,
    "step twice at failover": 1,
    "view comes back before its bookmark": 13,
    "schema entries not read back": 35,
    "delta merged into the old form": 2,
    "what waited for the snapshot dropped": 6,
    "stream goes on from now": 6,
    "what the snapshot has sent again": 4,
    "stream joined before it is level": 3,
    "snapshot begins at its end": 3,
    "template of a killed owner begins again": 56,
}
"""The seed that found a mistake that few of them find: it is tried first. Once the services differ, another may."""


_STALE = frozenset({"stale", "stall", "crash"})
FAULTS_OF: dict[str, frozenset[str]] = {
    "commit before emit": frozenset({"crash"}),
    "origin of any log counts": frozenset({"foreign origins"}),
    "stale owner writes not seen": _STALE,
    "stale owner tail not seen": _STALE,
    "written between ours not seen": _STALE,
    "repeat taken": _STALE,
    "last loaded": _STALE | {"service crash"},
    "repeat window ignored": frozenset({"idle"}),
    "live one change late": frozenset({"vanish", "restart"}),
    "reset goes on from before": frozenset({"vanish", "changes loss", "service crash", "crash", "disk loss"}),
    "resumed from the start": frozenset({"disk loss", "crash"}),
    "cut short not seen": frozenset({"disk loss", "crash"}),
    "loaded without a word": frozenset({"changes loss", "service crash"}),
    "loaded during a rewrite": frozenset({"changes loss", "service crash", "disk loss"}),
    "fanout loads during a refill": frozenset({"changes loss", "service crash"}),
    "fanout goes on in another topic": frozenset({"changes loss", "service crash"}),
    "fanout commits before it writes": frozenset({"service crash"}),
    "account not written again": _STALE,
    "deleted document not loaded": frozenset({"disk loss", "crash"}),
    "idle owner does not look": _STALE,
    "topics not known by their ids": frozenset({"changes loss", "service crash"}),
    "fenced not seen": _STALE,
    "snapshot of another topic": frozenset({"changes loss", "service crash"}),
    "snapshot begins at its end": frozenset({"service crash"}),
    "gap behind a snapshot taken": frozenset({"service crash", "compaction", "idle"}),
    "full disk taken for written": frozenset({"full disk"}),
    "unforeseen exception ends the worker": frozenset({"unforeseen"}),
    "failed record left out": frozenset({"unforeseen"}),
    "stopped partition continues": frozenset({"unforeseen"}),
    "template of a killed owner begins again": frozenset({"disk loss", "crash"}),
    "long load not read on": frozenset({"compaction", "idle", "service crash"}),
    "other shard not seen": frozenset({"reshard", "late announcements"}),
    "floor ignored": frozenset({"lag", "cut connections", "freeze"}),
    "view comes back before its bookmark": frozenset({"lag", "gateway crash", "vanish", "restart"}),
}
"""What has to go wrong for a mistake to matter; of the others, whatever a seed brings."""


@contextmanager
def mistaken(name: str) -> Iterator[None]:
    """Let the services make a mistake."""
    with ExitStack() as stack:
        for each in MISTAKES[name]():
            stack.enter_context(each)
        yield
