"""One open partition of a topic: its store, its checkpoint, and the batch that is being sent to Kafka."""

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
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position, before_the_log
from sowline.native import Core, note_panic
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import NotApplicable, StoreDamaged
from sowline_materializer.core.expiry import Due
from sowline_materializer.core.record import Record, decode_record
from sowline_materializer.core.step import Records, Step
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.checksum import Checksum, expiry_entry
from sowline_materializer.store.errors import FORESEEN
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.interface import Store
from sowline_materializer.store.native_overlay import NativeOverlay, is_plain
from sowline_materializer.store.overlay import Overlay, PendingWrites
from sowline_materializer.store.tombstones import Tombstones

PartitionId = tuple[str, int]
"""A Kafka topic's name and the number of one of its partitions; of a log, if nothing else is meant."""

NOTHING_DUE = b"\xff" * 9
"""A key after all entries of the index of due times."""

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

    `failed` is why it ends before a log record that can't be applied.
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
        opened: OpenedPartition,
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
        self._floor, self._untaken = opened.floor, opened.untaken
        known = opened.tombstones
        self._tombstones = Tombstones(survey(opened.store, native).tombstones if known is None else known)
        self._first_due = b""
        self._may_have_lost_expiries = True
        """Whether the store may have due times that no log time reaches: version 0.1 wrote such."""
        self._native: NativeOverlay | None = None
        if native is not None and is_plain(definition):
            self._native = NativeOverlay(native, definition, number, self._store, self._cache.bytes_max)

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
        failed = None
        try:
            view, step = self._applied(new)
        except NotApplicable as error:
            # What was written before that record counts. Readers see it, and the position is the record's
            # (test_what_is_before_a_record_that_fails_is_applied).
            failed, new = error, new[: bisect_left(new, error.offset, key=_OFFSET)]
            view, step = self._applied(new)
        events = self._events(step, log_end)
        if self._leaves_unreported(step):
            events += self._progress_events(step, log_end)
        return Prepared(view, step, events, len(new), failed)

    def _applied(self, records: Sequence[LogRecord]) -> tuple[BatchView, Step]:
        """Apply the log records; raise `NotApplicable` for one that fails with an exception that nobody foresaw."""
        native = self._native
        if native is not None:
            native.begin()
            try:
                applier = Applier(self.definition, self.number, self.checkpoint, native, native)
                return native, _applied_by(applier, records)
            except BaseException as error:
                # Nothing of the batch is kept. Python, which is the specification, applies it and all that follow.
                note_panic(error, f"{self.definition.log} [{self.number}]")
                self._native = None
        view = Overlay(self._store, self._cache)
        applier = Applier(self.definition, self.number, self.checkpoint, view, bodies=self.bodies)
        return view, _applied_by(applier, records)

    def was_sent(self, offset: int) -> bool:
        """Return whether a previous owner emitted the changes of the log record at an offset."""
        return Position(self.checkpoint.position.era, offset) <= self._floor

    def _events(self, step: Step, log_end: int) -> list[Event]:
        """Return the changes that were not yet emitted, after the progress events that they need.

        If the owner and its disk are lost, Kafka may have only the first events of the batch. So each event must be
        complete with those before it.
        """
        changes = step.changes
        # Up to the floor everything was emitted by the previous owner. Emitted again, it would sit behind newer
        # events of other keys, and loaders would find old positions last
        # (test_changes_that_were_emitted_before_a_crash_are_not_emitted_again).
        start = bisect_right(changes, self._floor, key=_POSITION)
        events: list[Event] = []
        for end, checkpoint in step.unreported:
            if end >= start:
                events += changes[start:end]
                events.append(self._progress_event(checkpoint, log_end, {}))
                start = end
        return events + changes[start:]

    def _leaves_unreported(self, step: Step) -> bool:
        """Return whether the changes leave something unreported: outcomes, origins, what a view reflects, or how far
        the log was read.
        """
        moved_on = step.checkpoint.position > max(step.checkpoint.last_change, self._floor)
        # A change of a view names the source partition that it reflects. Compaction removes that change once its key
        # has a newer one, so a progress event reports all of them (test_a_load_knows_what_is_reflected).
        before, after = self.checkpoint, step.checkpoint
        is_news = after.origins != before.origins or after.reflected != before.reflected
        return bool(step.outcomes) or moved_on or is_news

    def _progress_events(self, step: Step, log_end: int) -> list[Event]:
        outcomes = list(step.outcomes.items())
        parts = [outcomes[i : i + OUTCOMES_MAX] for i in range(0, len(outcomes), OUTCOMES_MAX)] or [[]]
        return [self._progress_event(step.checkpoint, log_end, dict(part)) for part in parts]

    def _progress_event(self, checkpoint: Checkpoint, log_end: int, outcomes: dict[str, str]) -> Progress:
        progress = progress_of(checkpoint, log_end, outcomes)
        return progress._replace(is_catching_up=checkpoint.position < self._floor)

    def commit(self, prepared: Prepared, changes_end: int) -> None:
        """Commit the batch; Kafka has all its events, the last of them just before `changes_end`.

        As long as the state is behind what was emitted before, the next owner must be able to find that out again.
        """
        stale_keys = self.checkpoint.stale_keys | self._deleted_again(prepared.step)
        checkpoint = replace(prepared.step.checkpoint, changes_end=changes_end, stale_keys=stale_keys)
        # Behind the floor the stored checkpoint keeps the old end of the changes. If this owner dies now, the next
        # one reads the same tail and finds the same floor. With the new end, it would find nothing newer, and
        # followers would stay ahead of it permanently.
        kept = (
            checkpoint
            if checkpoint.position >= self._floor
            else replace(checkpoint, changes_end=self._untaken)
        )
        self._tombstones.forget(prepared.view, checkpoint.remembered_since)
        written = prepared.view.written(self._store.checksum())
        self._store.commit(written.entries, written.checksum, kept.encode(), written.expiries)
        self._cache.keep(written.records, written.bytes)
        self.checkpoint = checkpoint
        for due, is_there in written.expiries.items():
            if is_there and due < self._first_due:
                self._first_due = due
        for change in prepared.step.removed:
            # A deleted record's numbers are kept for the window: without them a repeated publish would bring the
            # record back.
            if change.numbers and change.writes is None:
                self._tombstones.add(change.partition_time, change.sow_key)

    def _deleted_again(self, step: Step) -> frozenset[bytes]:
        """Return the keys whose deletion was emitted before, while every key of the store is to be repaired.

        A refill by an older state may have written such a record after its deletion. Once the log was applied again,
        the store no longer has the record, so a walk through the store would leave it out. Compaction would bring it
        back: `[K@5, delete K@9, K@5 again]`, by a state at position 7 (`test_a_record_that_a_refill_brought_back`).
        """
        if EVERYTHING not in self.checkpoint.stale_keys:
            return frozenset()
        changes = step.changes[: bisect_right(step.changes, self._floor, key=_POSITION)]
        return frozenset(change.sow_key for change in changes if change.body is None)

    def due(self, time: int) -> Iterator[Due]:
        """Yield the records that are due at a log time, the earliest due time first; none if nothing expires."""
        end = expiry_entry(time + 1, b"")
        if not self.checkpoint.limits.may_expire:
            return
        start = self._first_due
        if start < end:
            self._first_due = NOTHING_DUE
            for due in self._store.expiries(start):
                self._first_due = min(due, self._first_due)
                if due >= end:
                    break
                yield self._due(due)
        if self._may_have_lost_expiries:
            for due in self._store.expiries(expiry_entry(TIME_MAX + 1, b"")):
                yield self._due(due)
            self._may_have_lost_expiries = False

    def _due(self, due: bytes) -> Due:
        key = due[8:]
        data = self._store.get(key)
        if data is None:
            raise StoreDamaged(f"expected record {key!r}, which is due, got none")
        record = decode_record(data)
        return Due(int.from_bytes(due[:8], "big"), record.key_text, record.position)

    def mark_stale(self, keys: Iterable[bytes], changes_end: int) -> None:
        """Note that another process wrote events of these keys up to here: compaction may keep the wrong ones.

        The next commit stores that with the state, until the keys are repaired.
        """
        self.checkpoint = replace(
            self.checkpoint, stale_keys=self.checkpoint.stale_keys.union(keys), changes_end=changes_end
        )

    @property
    def base(self) -> Position | None:
        """The last change before this era, if the era has made none yet: what followers may hold by now."""
        checkpoint = self.checkpoint
        return checkpoint.last_change if checkpoint.last_change.era != checkpoint.position.era else None

    def repair(self, log_end: int, batch_max: int = 1000) -> Iterator[list[Event]]:
        """Yield in batches the events to write again because of stale owners, and the partition's position.

        Nothing is written before the state has reached everything that was ever emitted: the newest event of a key
        may be one that the state does not have yet. An era without changes is reported first.
        """
        checkpoint = self.checkpoint
        # Below the floor the newest event of a key may be one that this state does not have yet. Writing its own
        # would replace a newer record by an older one
        # (test_keys_are_repaired_only_once_the_state_is_as_new_as_what_was_emitted).
        if not checkpoint.stale_keys or checkpoint.position < self._floor or not checkpoint.complete:
            return
        # Repairs carry the new era. Followers must see the era begin before its first event.
        if checkpoint.last_change.era != checkpoint.position.era:
            yield [progress_of(checkpoint, log_end, {})]
        keys = self._known_stale_keys()
        while batch := list(islice(keys, batch_max)):
            yield self.again(batch)
        yield [progress_of(replace(checkpoint, stale_keys=frozenset()), log_end, {})]

    def _known_stale_keys(self) -> Iterator[bytes]:
        if not self.definition.has_sow:
            return iter(())
        named = sorted(self.checkpoint.stale_keys - {PROGRESS_KEY, EVERYTHING})
        if EVERYTHING not in self.checkpoint.stale_keys:
            return iter(named)
        deleted = [key for key in named if self._store.get(key) is None]
        return chain((key for key, _ in self._store.scan()), deleted)

    def again(self, keys: Iterable[bytes]) -> list[Event]:
        """Return the newest event of each SOW key again, for a changes topic that holds events of stale owners.

        Followers drop them by their position. `after` is the event's own position, so that a reader without the
        original event sees a gap. `emitted_in` lets a loader rank it above the events that an owner of the previous
        era has written after that position.
        """
        view = Overlay(self._store, self._cache)
        return [self._again(key, view.get(key)) for key in keys]

    def _again(self, key: bytes, record: Record | None) -> Change:
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
        """Return the last change's position, or the era's begin if that is later: after everything that others may
        write.

        In an era without changes, an event that comes late from the previous era is newer than the last change.
        """
        era, last = self.checkpoint.position.era, self.checkpoint.last_change
        return last if last.era == era else before_the_log(era)

    def note_right(self, changes_end: int, but: Iterable[bytes] = ()) -> None:
        """Note that the changes partition ends here with the newest event of each key, except for these."""
        self.checkpoint = replace(self.checkpoint, changes_end=changes_end, stale_keys=frozenset(but))
        self._store.commit({}, self._store.checksum(), self.checkpoint.encode())

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _applied_by(applier: Applier, records: Sequence[LogRecord]) -> Step:
    try:
        return applier.apply(records)
    except FORESEEN:
        raise
    except Exception as error:
        if applier.applying is None:
            raise
        raise NotApplicable(applier.applying) from error


def stale_owner_keys(found: Iterable[Event], ours: Iterable[Event]) -> set[bytes]:
    """Return the keys of changes that another process wrote between our events.

    A worker that was considered dead woke up and repeated old events. Followers drop those by their position, but
    compaction keeps the last event of each key, which must be ours. Of two events with one position, one is the other
    process's; it does not matter which.
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
