"""One open partition of a topic: its store, its checkpoint, and the batch that is being sent to Kafka.

For each batch of log records the caller calls `prepare`, which stores nothing, and writes what the result holds to
Kafka. If another process wrote between these events, the caller then calls `mark_stale`. It calls `commit`, then
`repair`. It writes the events that `repair` yields, and ends with `note_repaired`. If `prepare` returns `failed`, the
caller raises it after the commit. It calls `prepare` with the same log records as long as some `are_left`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter
from types import ModuleType
from typing import Protocol

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, UNFILLED, Progress
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.model.position import Position, before_the_log
from sowline.native import Core, raise_unless_panic
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import NeedsOwnSteps, NotApplicable
from sowline_materializer.core.expiry import Due
from sowline_materializer.core.record import Record
from sowline_materializer.core.step import Records, Step
from sowline_materializer.partition.due_records import DueRecords
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import FORESEEN
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.interface import Store
from sowline_materializer.store.native_overlay import NativeOverlay, is_plain
from sowline_materializer.store.overlay import Overlay, PendingWrites
from sowline_materializer.store.tombstones import Tombstones

PartitionId = tuple[str, int]
"""A Kafka topic's name and the number of one of its partitions; the topic is a log, if nothing else is said."""

OUTCOMES_MAX = 1000
"""The maximum number of outcomes in one progress event; a batch with more writes several."""


_OFFSET, _POSITION = attrgetter("offset"), attrgetter("position")


class BatchView(Records, Protocol):
    """The records of a partition as one batch sees and changes them."""

    def written(self, checksum: Checksum) -> PendingWrites:
        """Return the writes to commit to a store with these counts."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that was applied but not committed: the new state, and the events to write before the commit.

    `records` is how many log records it completes. `failed` is why it ends before one that can't be applied.
    """

    view: BatchView
    step: Step
    events: list[Event]
    records: int
    failed: NotApplicable | None = None


class Partition:
    """Applies batches in two halves: `prepare`, then, once Kafka has everything, `commit`."""

    def __init__(
        self,
        definition: TopicDefinition,
        number: int,
        opened: OpenedPartition[Store],
        cache: RecordCache | None = None,
        store: Store | None = None,
        native: ModuleType | None = None,
        bodies: TypedBodies | None = None,
    ) -> None:
        """Continue from an opened partition. `bodies` reads the log of a message type with schemas.

        `store` is where commits go, if not to the store that was opened. `native` is the module of the native core.
        Without it, or in a topic that it does not know, Python applies everything.
        """
        self.definition = definition
        self.number = number
        self.bodies = bodies
        self.checkpoint = opened.checkpoint
        self._store: Store = store or opened.store
        self._cache = cache or RecordCache()
        self._emitted_to = opened.emitted_to
        """The newest position that was in the changes when the partition was opened, perhaps newer than the state."""
        self._tail_start = opened.tail_start
        """The offset in the changes at which everything begins that is newer than the opened state."""
        known = opened.tombstones
        self._tombstones = Tombstones(survey(opened.store, native).tombstones if known is None else known)
        self._resume_at = b""
        """The SOW key after the last one that a log record changed, if the state is within its changes."""
        self._due_records = DueRecords(self._store)
        self._native: NativeOverlay | None = None
        if native is not None and is_plain(definition):
            cached = self._cache.bytes_max
            self._native = NativeOverlay(native, definition, number, self._store, cached, bodies)

    @property
    def core(self) -> Core:
        """The core that applies plain log records."""
        return "python" if self._native is None else "native"

    def prepare(self, batch: Sequence[LogRecord], log_end: int) -> Prepared:
        """Apply the log records that are newer than the state; nothing is kept until `commit`."""
        # After a rebalance Kafka may deliver records again that were applied already. Applied twice, a delta that
        # appends would append twice (test_records_that_are_applied_already_are_passed_over).
        start = bisect_left(batch, self.checkpoint.next_offset, key=_OFFSET)
        new = batch[start:] if start else batch
        assert not new or new[0].offset >= self.checkpoint.next_offset, "no log record is applied twice"
        failed, applied = None, None
        while applied is None:
            try:
                applied = self._applied(new)
            except NotApplicable as error:
                # The records before the one that fails count: readers see them, and the next owner continues at that
                # record. They are applied again without it (test_what_is_before_a_record_that_fails_is_applied).
                failed, new = error, new[: bisect_left(new, error.offset, key=_OFFSET)]
            except NeedsOwnSteps as error:
                # First the records before it, then it alone, then those after it
                # (test_a_large_delete_among_other_records).
                new = new[: max(1, bisect_left(new, error.offset, key=_OFFSET))]
        view, step = applied
        events = self._events(step, log_end)
        if self._needs_progress(step):
            events += self._progress_events(step, log_end)
        assert step.checkpoint.position >= self.checkpoint.position, (
            "a batch moves the state on, or not at all"
        )
        return Prepared(view, step, events, len(new) - (not step.checkpoint.complete), failed)

    def are_left(self, batch: Sequence[LogRecord]) -> bool:
        """Return whether log records of a batch are yet to be applied, or the rest of one."""
        return bool(batch) and batch[-1].offset >= self.checkpoint.next_offset

    def _applied(self, records: Sequence[LogRecord]) -> tuple[BatchView, Step]:
        """Apply the log records; raise `NotApplicable` for one that fails with an unforeseen exception."""
        native = self._native
        if native is not None:
            native.begin()
            try:
                applier = Applier(self.definition, self.number, self.checkpoint, native, native, self.bodies)
                return native, _applied_by(applier, records, self._resume_at)
            except BaseException as error:
                # After a panic nothing of the batch is kept. Python, which is the specification, applies this batch
                # and all that follow.
                raise_unless_panic(error, f"{self.definition.log} [{self.number}]")
                self._native = None
        view = Overlay(self._store, self._cache)
        applier = Applier(self.definition, self.number, self.checkpoint, view, bodies=self.bodies)
        return view, _applied_by(applier, records, self._resume_at)

    def was_sent(self, offset: int) -> bool:
        """Return whether a previous owner emitted the changes of the log record at an offset."""
        return Position(self.checkpoint.position.era, offset) <= self._emitted_to

    def _events(self, step: Step, log_end: int) -> list[Event]:
        """Return the changes that were not yet emitted, and between them the progress events that they need.

        The owner and its disk may be lost when Kafka has only the first events of the batch. The next owner loads
        them, so the state that they make must be complete: a progress event reports what has no change of its own
        (`step.unreported`) before the next change.
        """
        changes = step.changes
        # The previous owner has emitted the changes up to this position. Emitted again, they would follow newer
        # events of other keys, and loaders would find old positions last
        # (test_changes_that_were_emitted_before_a_crash_are_not_emitted_again).
        start = bisect_right(changes, self._emitted_to, key=_POSITION)
        events: list[Event] = []
        for end, checkpoint in step.unreported:
            if end >= start:
                events += changes[start:end]
                events.append(self._progress_event(checkpoint, log_end, {}))
                start = end
        assert start <= len(changes), "each change is emitted at most once"
        return events + changes[start:]

    def _needs_progress(self, step: Step) -> bool:
        """Return whether a progress event must follow the changes.

        It reports what they do not: how far the log was read, outcomes without a change, the origins of forwarded
        records, and what a view reflects.
        """
        # A reader takes a progress event for the end of a log record: it would show half of a command
        # (test_a_delete_in_portions).
        if not step.checkpoint.complete:
            return False
        moved_on = step.checkpoint.position > max(step.checkpoint.last_change, self._emitted_to)
        # A change of a view names the source partition that it reflects. Compaction removes that change once its key
        # has a newer one, so a progress event reports all of them (test_a_load_knows_what_is_reflected).
        before, after = self.checkpoint, step.checkpoint
        # The portions before the last one have the origin, too, and reported nothing.
        is_news = (
            not before.complete or after.origins != before.origins or after.reflected != before.reflected
        )
        return bool(step.outcomes) or moved_on or is_news

    def _progress_events(self, step: Step, log_end: int) -> list[Event]:
        outcomes = list(step.outcomes.items())
        parts = [outcomes[i : i + OUTCOMES_MAX] for i in range(0, len(outcomes), OUTCOMES_MAX)] or [[]]
        return [self._progress_event(step.checkpoint, log_end, dict(part)) for part in parts]

    def _progress_event(self, checkpoint: Checkpoint, log_end: int, outcomes: dict[str, str]) -> Progress:
        progress = progress_of(checkpoint, log_end, outcomes)
        return progress._replace(is_catching_up=checkpoint.position < self._emitted_to)

    def commit(self, prepared: Prepared, changes_end: int) -> None:
        """Commit the batch; Kafka has all its events, the last of them just before `changes_end`."""
        assert prepared.step.checkpoint.position >= self.checkpoint.position, (
            "a commit never moves the state back"
        )
        stale_keys = self.checkpoint.stale_keys | self._emitted_deletions(prepared.step)
        checkpoint = stored = replace(
            prepared.step.checkpoint, changes_end=changes_end, stale_keys=stale_keys
        )
        # The state has not reached what a previous owner emitted, and this owner dies now. The next one has to read
        # the same tail of the changes. From the new end it would find nothing newer than the state, and followers
        # would stay ahead of it permanently (test_a_crash_between_two_flushes).
        if checkpoint.position < self._emitted_to:
            # The end that was seen counts too. Kafka loses the tail, and with it changes that this state has applied
            # without emitting them: nothing else shows that they are to be written again
            # (test_what_was_applied_without_a_change_is_written_again).
            stored = replace(checkpoint, changes_end=self._tail_start, seen_end=changes_end)
        self._tombstones.forget(prepared.view, checkpoint.remembered_since)
        written = prepared.view.written(self._store.checksum())
        self._store.commit(written.entries, written.checksum, stored.encode(), written.expiries)
        assert self._store.checksum() == written.checksum, "the store has the checksum of its last commit"
        self._cache.keep(written.records, written.bytes)
        self.checkpoint = checkpoint
        changes = prepared.step.changes
        self._resume_at = b"" if checkpoint.complete or not changes else changes[-1].sow_key + b"\0"
        self._due_records.note(written.expiries)
        for time, sow_key in prepared.step.tombstones:
            # The entry of a deleted record keeps its publishers' sequences until the repeat window has passed.
            # Without them a repeated publish would bring the record back. A document's entry is kept permanently.
            self._tombstones.add(time, sow_key)

    def _emitted_deletions(self, step: Step) -> frozenset[bytes]:
        """Return the keys whose deletion a previous owner emitted, while every key is to be repaired; else none.

        The changes are `[K@5, delete K@9]`, and a state at position 7 fills them again: `[K@5, delete K@9, K@5]`.
        After this owner has applied the log up to 9, its store has no K, so a repair of every key in the store would
        leave K out. Compaction would then bring K back (`test_a_record_that_a_refill_brought_back`).
        """
        if EVERYTHING not in self.checkpoint.stale_keys:
            return frozenset()
        changes = step.changes[: bisect_right(step.changes, self._emitted_to, key=_POSITION)]
        return frozenset(change.sow_key for change in changes if change.body is None)

    def due(self, time: int) -> Iterator[Due]:
        """Yield the records that are due at a log time, the earliest due time first; none if nothing expires."""
        return self._due_records.until(time) if self.checkpoint.limits.may_expire else iter(())

    def mark_stale(self, keys: Iterable[bytes], changes_end: int) -> None:
        """Note that another process wrote events of these keys before `changes_end`; the next commit stores it."""
        self.checkpoint = replace(
            self.checkpoint, stale_keys=self.checkpoint.stale_keys.union(keys), changes_end=changes_end
        )

    @property
    def base(self) -> Position | None:
        """The last change of the previous eras until this era makes one, then None: followers may have reached it."""
        checkpoint = self.checkpoint
        return checkpoint.last_change if checkpoint.last_change.era != checkpoint.position.era else None

    def repair(self, log_end: int, batch_max: int = 1000) -> Iterator[list[Event]]:
        """Yield in batches the newest events of the stale keys, then the partition's position.

        Yield nothing if no key is stale, or before the state has reached what was emitted.
        """
        checkpoint = self.checkpoint
        # The newest event of a key may be one that this state does not have yet. Its own event would replace a newer
        # record by an older one (test_keys_are_repaired_only_once_the_state_is_as_new_as_what_was_emitted).
        is_behind = checkpoint.position < self._emitted_to or not checkpoint.complete
        if not checkpoint.stale_keys or is_behind:
            return
        assert checkpoint.position >= self._emitted_to, "a repair is as new as what was emitted"
        # Repairs carry the new era. Followers must see the era begin before its first event.
        if checkpoint.last_change.era != checkpoint.position.era:
            yield [progress_of(checkpoint, log_end, {})]
        keys = self._known_stale_keys()
        while batch := list(islice(keys, batch_max)):
            yield self.newest_events(batch)
        yield [progress_of(replace(checkpoint, stale_keys=frozenset()), log_end, {})]

    def _known_stale_keys(self) -> Iterator[bytes]:
        if not self.definition.has_sow:
            return iter(())
        named = sorted(self.checkpoint.stale_keys - {PROGRESS_KEY, EVERYTHING})
        if EVERYTHING not in self.checkpoint.stale_keys:
            return iter(named)
        deleted = [key for key in named if self._store.get(key) is None]
        return chain((key for key, _ in self._store.scan()), deleted)

    def newest_events(self, keys: Iterable[bytes]) -> list[Event]:
        """Return the newest event of each SOW key, to write it again after the events of stale owners.

        Followers drop it as a repeat. A follower that lacks the original must not take it, since it may lack other
        changes too: with its own position as `after`, it is a gap to that follower. Its `emitted_in` ranks it above
        what an owner of the previous era wrote after that position.
        """
        view = Overlay(self._store, self._cache)
        return [self._newest_event(key, view.get(key)) for key in keys]

    def _newest_event(self, key: bytes, record: Record | None) -> Change:
        if record is None:
            position = self._last_of_era()
            return Change(
                sow_key=key,
                body=None,
                previous=None,
                position=position,
                after=position,
                op=AGAIN,
                time=self.checkpoint.time,
            )
        era = self.checkpoint.position.era
        return Change(
            sow_key=key,
            body=record.body,
            previous=None,
            position=record.position,
            after=record.position,
            op=AGAIN,
            time=record.time,
            expires=record.expires,
            correlation=record.correlation,
            numbers=record.numbers,
            schema_id=record.schema_id,
            key_text=record.key_text if record.body is None or record.writes is not None else None,
            log_time=self.checkpoint.time if record.time > self.checkpoint.time else None,
            emitted_in=era if era != record.position.era else None,
            writes=record.writes,
            states=record.states,
        )

    def _last_of_era(self) -> Position:
        """Return the position of the era's last change; if it has made none, the position at which the era begins.

        The last change of the previous era would be too old: its owner may still write events that are newer.
        """
        era, last = self.checkpoint.position.era, self.checkpoint.last_change
        assert last.era <= era, "no change is of an era that is yet to begin"
        return last if last.era == era else before_the_log(era)

    def note_repaired(self, changes_end: int, still_stale: Iterable[bytes] = ()) -> None:
        """Store that the changes end here, and that each key but `still_stale` has its newest event last in them."""
        self.checkpoint = replace(
            self.checkpoint, changes_end=changes_end, stale_keys=frozenset(still_stale), holds_base=False
        )
        self._store.commit({}, self._store.checksum(), self.checkpoint.encode())
        assert Checkpoint.decode(self.checkpoint.encode()) == self.checkpoint, "what was stored reads back"

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _applied_by(applier: Applier, records: Sequence[LogRecord], resume_at: bytes) -> Step:
    try:
        return applier.apply(records, resume_at)
    except (*FORESEEN, NeedsOwnSteps):
        raise
    except Exception as error:
        if applier.applying is None:
            raise
        raise NotApplicable(applier.applying) from error


def stale_owner_keys(found: Iterable[Event], ours: Iterable[Event]) -> set[bytes]:
    """Return the keys of changes that another process wrote between our events.

    A worker that was considered dead woke up and repeated old events. Followers drop those by their position, but
    compaction keeps the last event of each key, which must be ours.
    """
    expected = {event.position for event in ours if not isinstance(event, Progress)}
    keys = set()
    for event in found:
        # Two events with one position: one is ours. Which one does not matter, since both bodies come from the same
        # log record.
        if isinstance(event, Change) and event.position in expected:
            expected.remove(event.position)
        elif isinstance(event, Change):
            keys.add(event.sow_key)
    return keys


def progress_of(checkpoint: Checkpoint, log_end: int, outcomes: dict[str, str]) -> Progress:
    """Return the progress event of a partition with this checkpoint."""
    # The topic is being filled again: a reader that took it for whole would lack records
    # (test_readers_that_start_during_a_refill).
    changes_id = checkpoint.changes_id if EVERYTHING not in checkpoint.stale_keys else UNFILLED
    return Progress(
        position=checkpoint.position,
        after=checkpoint.last_change,
        end=log_end,
        origins=checkpoint.origins,
        definition=checkpoint.definition,
        log_id=checkpoint.log_id,
        time=checkpoint.time,
        outcomes=outcomes,
        limits=checkpoint.limits,
        numbers_since=checkpoint.numbers_since,
        begin=checkpoint.begin,
        changes_id=changes_id,
        reflected=checkpoint.reflected,
        taken=checkpoint.taken,
    )
