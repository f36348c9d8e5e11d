"""The replica of one partition: its part of the topic's rows, its position, and its recent changes. Pure.

First it loads: it keeps the newest event of each key in the compacted changes topic. Then it follows. Missing events
are an error, never a silent gap.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, Verdict, is_newer, takes, verdict
from sowline.changes.event import Event
from sowline.changes.partials import read_reflected, reflected_fields
from sowline.changes.progress import Progress
from sowline.changes.ranking import NewestEvents, RelativeAge
from sowline.config.topic_definition import TopicDefinition
from sowline.model.limits import Limits
from sowline.model.log_time import known_log_time
from sowline.model.position import Position, before_the_log, position_of
from sowline.native import raise_unless_panic
from sowline_query_service.index.rows import LoadBefore, Rows
from sowline_query_service.replica.history import PartitionHistory
from sowline_query_service.replica.log_end import Reached
from sowline_query_service.replica.plain_run import EventAtOffset, PlainRun, Portion
from sowline_query_service.replica.timeline import Timeline

RUN_MIN = 8
"""Changes that a run has at least to be loaded by the native core: for fewer, its call costs more than it spares."""

INDEX_STEP = 500
"""Events between two entries of the index from positions to offsets."""

RING_BYTES_MAX = 64 * 1024 * 1024
"""Default memory for the recent changes of a partition."""

CHANGE_BYTES = 1024
"""Bytes of a change in addition to its bodies: measured 600, and 950 with a correlation and a publisher."""


class Head(NamedTuple):
    """The state of a partition, in addition to its records: what a snapshot has of it."""

    position: Position
    next_offset: int
    time: int
    changed_time: int
    reflected: dict[str, str] = {}  # noqa: RUF012 - it is never changed
    """The position up to which a view reflects each of its source partitions."""
    taken: dict[str, str] = {}  # noqa: RUF012 - it is never changed
    """The same for a view with joins, as a bookmark of the source and the joined topics for each source partition."""
    log_id: str = ""
    """Kafka's id of the log that the position's era applies; empty if that is not known."""


class OwnerDefinition(NamedTuple):
    """The definition by which the owner of a partition works."""

    digest: str
    limits: Limits

    def limits_under(self, definition: TopicDefinition) -> Limits:
        """Return the owner's limits. An owner of an earlier version reports its template only in the digest."""
        if self.digest == definition.digest:
            return replace(self.limits, template=definition.limits.template)
        return self.limits


class Ring:
    """The most recent changes of a partition, without a gap, up to a number and a size."""

    def __init__(self, changes_max: int, bytes_max: int) -> None:
        assert changes_max >= 0, "a limit is never negative"
        self._changes_max = changes_max
        self._bytes_max = bytes_max
        self._changes: deque[Change] = deque(maxlen=changes_max)
        self._sizes: deque[int] = deque(maxlen=changes_max)
        self.bytes = 0
        """Bytes of the changes: their bodies before and after, and `CHANGE_BYTES` for each."""

    def extend(self, changes: Sequence[Change]) -> None:
        """Add changes, and drop the oldest above a limit; if the last change alone is too large, drop all."""
        assert not changes or not self._changes or changes[0].position > self._changes[-1].position, (
            "no repeat"
        )
        sizes = [CHANGE_BYTES + len(change.body or b"") + len(change.previous or b"") for change in changes]
        over = max(0, len(self._sizes) + len(sizes) - self._changes_max)
        self.bytes += sum(sizes) - sum(islice(chain(self._sizes, sizes), over))
        self._sizes.extend(sizes)
        self._changes.extend(changes)
        assert len(self._changes) == len(self._sizes), "each change has its size"
        while self.bytes > self._bytes_max:
            self.bytes -= self._sizes.popleft()
            self._changes.popleft()

    def clear(self) -> None:
        """Forget all changes."""
        self._changes.clear()
        self._sizes.clear()
        self.bytes = 0

    @property
    def oldest(self) -> Change | None:
        """The oldest of these changes; None if there are none."""
        return self._changes[0] if self._changes else None

    def newest_first(self, sow_key: bytes) -> Iterator[Change]:
        """Yield the changes of one record, the newest first."""
        return (change for change in reversed(self._changes) if change.sow_key == sow_key)

    def after(self, position: Position, changes_max: int) -> list[Change] | None:
        """Return up to `changes_max` changes after the position, oldest first; None if it does not go back so far."""
        held = self._changes
        if not held or held[0].after > position:
            return None
        assert held[-1].position >= held[0].position, "the ring is in the order of positions"
        start = len(held)
        for change in reversed(held):
            if change.position <= position:
                break
            start -= 1
        return list(islice(held, start, start + changes_max))


class PartitionReplica:
    """The replica of one partition, for use by one thread. Each call of `apply` is one instant for readers."""

    def __init__(
        self,
        number: int,
        rows: Rows,
        ring_changes_max: int,
        ring_bytes_max: int = RING_BYTES_MAX,
        history: PartitionHistory | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.number = number
        self._rows = rows
        self.history = history
        self.timeline = timeline
        self.position: Position | None = None
        self.log_id = ""
        """Kafka's id of the log that the position's era applies; empty until a progress event of the era has it."""
        self.owner_definition: OwnerDefinition | None = None
        """That of the newest progress event that is applied."""
        self.time = 0
        self.changed_time = 0
        """The log time of the newest change, in ms since 1970; 0 if there was none."""
        self.next_offset = 0
        """The next offset in the changes topic; everything before it is applied."""
        self.reflected: dict[int, Position] = {}
        """The position up to which a view reflects each of its source partitions."""
        self.taken: dict[int, str] = {}
        """The same for a view with joins, as a bookmark of the source and joined topics for each source partition."""
        self.ring = Ring(ring_changes_max, ring_bytes_max)
        self.loading = True
        self.is_restored = False
        """Whether it has begun with a snapshot, which it follows from while its load lasts."""
        self.changes_applied = 0
        """The number of changes applied since it began to follow."""
        self.native_has_failed = False
        """Whether the native core has failed at a run of changes."""
        self._newest = NewestEvents()
        self._index: list[tuple[Position, int]] = []
        self._since_indexed = 0

    @property
    def held(self) -> Position:
        """The position up to which every change is applied."""
        return self.position if self.position is not None else before_the_log()

    @property
    def reached(self) -> Reached:
        """The position up to which every change is applied, and the log that it is of."""
        return Reached(self.held, self.log_id)

    def take_log(self, log_id: str) -> None:
        """Take Kafka's id of the log if no event has named it: those of a topic without a SOW are deleted by age."""
        self.log_id = self.log_id or log_id

    # loading

    def load(self, portions: Iterable[Portion]) -> None:
        """Load events in the order of their offsets; keep the one with the highest rank for each key.

        A partition with a history or a timeline takes no runs. If the native core has failed, Python loads them.
        """
        assert self.loading, "a replica that follows loads nothing"
        for portion in portions:
            if isinstance(portion, EventAtOffset):
                self._load_event(*portion)
            elif len(portion) < RUN_MIN or self.native_has_failed or not self._load_run(portion):
                for event in portion:
                    self._load_event(*event)

    def _load_run(self, run: PlainRun) -> bool:
        """Load a run with the native core; return False if that has failed, and the run is still to be loaded."""
        newest = self._newest
        before = LoadBefore(newest.ranks, newest.era, self.position, self._since_indexed)
        try:
            after = self._rows.load(run.changes, self.number, before, INDEX_STEP)
        except BaseException as error:
            # The native core decides what to keep before it changes anything (test_a_panic_leaves_the_run_to_python).
            raise_unless_panic(error, f"rows of partition {self.number}")
            self.native_has_failed = True
            return False
        self._since_indexed = after.since_indexed
        self._index += [(position_of(reached), offset) for reached, offset in after.entries]
        if after.era is not None:
            newest.era = after.era
        if after.position is not None:
            self._move(position_of(after.position))
            time, changed = after.times
            self.time, self.changed_time = max(self.time, time), max(self.changed_time, changed)
        self.next_offset = run.last_offset + 1
        return True

    def _load_event(self, offset: int, event: Event) -> None:
        is_first = self.position is None or is_newer(event, self.position)
        self._note(offset, event, is_first)
        self._newest.saw(event)
        if self.history is not None:
            self._load_history(self.history, event)
        # During a load, events arrive by offset, not by position. A repair writes an old event again: noted once
        # more, a write would be in the timeline twice (test_what_is_written_again_is_not_the_past).
        if self.timeline is not None and is_newer(event, self.held):
            self._note_write(self.timeline, offset, event)
        if isinstance(event, Change):
            self._load_change(event)
        self._advance(event, is_first)
        self.next_offset = offset + 1

    def _load_history(self, history: PartitionHistory, event: Event) -> None:
        """Add the event to the history; if changes before it are missing, start the history again after it."""
        judged = verdict(event, self.held)
        if judged is Verdict.GAP:
            history.restart(event.partition_time)
        elif judged is Verdict.TAKE and isinstance(event, Change):
            history.note(event)
        elif judged is Verdict.TAKE:
            history.advance(event.partition_time)

    @staticmethod
    def _note_write(timeline: Timeline, offset: int, event: Event) -> None:
        if isinstance(event, Change):
            timeline.note(offset, event)
        else:
            timeline.advance(event.partition_time)

    def _load_change(self, event: Change) -> None:
        if self._newest.relative_age(event, self._rows.position(event.sow_key)) is RelativeAge.NEWER:
            self._keep(event)
            self._newest.keep(event, is_stored=event.body is not None)

    def loaded(self) -> None:
        """Note that the load is complete; from now on the replica follows."""
        self._newest.clear()
        self.loading = False

    # snapshots

    @property
    def head(self) -> Head | None:
        """The state that a snapshot keeps; None while there is none."""
        if self.position is None:
            return None
        view = reflected_fields(self.reflected, self.taken)
        return Head(self.position, self.next_offset, self.time, self.changed_time, log_id=self.log_id, **view)

    @property
    def index(self) -> list[tuple[Position, int]]:
        """A copy of the index: positions, and the offsets at which they were first reached."""
        return self._index.copy()

    def restore(self, head: Head, index: list[tuple[Position, int]]) -> None:
        """Begin with a snapshot, whose records the rows have already; follow from it instead of loading."""
        assert self.position is None, "only an empty replica begins with a snapshot"
        self.position, self.next_offset, time, changed, *_ = head
        self.time, self.changed_time = known_log_time(time), known_log_time(changed)
        self.reflected, self.taken = read_reflected(head._asdict())
        self.log_id = head.log_id
        self._index = index
        self.is_restored = True

    def begin_again(self) -> None:
        """Remove the records and everything that is known; load from the start of the changes topic."""
        self._rows.remove_partition(self.number)
        self.position, self.log_id, self.owner_definition = None, "", None
        self.next_offset = self.time = self.changed_time = self.changes_applied = 0
        self.reflected, self.taken = {}, {}
        self.ring.clear()
        self._index = []
        self._since_indexed = 0
        self.is_restored = False

    # following

    def apply(self, events: Iterable[EventAtOffset]) -> list[Change]:
        """Apply the events that follow; return the new changes among them.

        Raise `ChangesMissing`: the replica can't know what a missing change was. It never serves records with a hole
        (test_a_gap_is_an_error).
        """
        changes: list[Change] = []
        held, history, is_checked = self.held, self.history, self.loading
        for offset, event in events:
            if is_checked and self._shows_cut(offset, event):
                raise ChangesMissing(f"the changes were cut since, and have grown again: {event.position}")
            if takes(event, held):
                self._note(offset, event, is_first=True)
                if self.timeline is not None:
                    self._note_write(self.timeline, offset, event)
                if isinstance(event, Change):
                    # Before the row has the change: the history takes the time and position of the previous state
                    # from it.
                    if history is not None:
                        history.note(event)
                    self._keep(event)
                    changes.append(event)
                elif history is not None:
                    history.advance(event.partition_time)
                self._advance(event, is_first=True)
                held = event.position
            self.next_offset = offset + 1
        assert self.held == held, "the position is that of the last event taken"
        self.ring.extend(changes)
        self.changes_applied += len(changes)
        return changes

    def _shows_cut(self, offset: int, event: Event) -> bool:
        """Whether an event shows that the changes topic lost its end after the snapshot, and has grown again."""
        # A broker lost power, and the owner its state: commands at the lost positions are others now, in the same
        # era. Their changes would be dropped as repeats. What is written in place of lost records is later
        # (test_a_snapshot_ahead_of_changes_that_were_cut_is_discarded).
        held = self.held
        if event.position > held:
            return offset < self.next_offset
        return event.position.era == held.era and event.partition_time > self.time

    def _keep(self, event: Change) -> None:
        if event.body is None:
            self._rows.remove(event.sow_key, event.known)
        else:
            self._rows.put(
                event.sow_key,
                event.body,
                self.number,
                event.position,
                event.time,
                event.correlation,
                event.known,
            )

    def _advance(self, event: Event, is_first: bool) -> None:
        if is_first:
            self._move(event.position)
            self.time = max(self.time, event.partition_time)
            if isinstance(event, Change):
                self.changed_time = max(self.changed_time, event.replay_time)
                if event.reflects is not None:
                    partition, position = event.reflects
                    self.reflected[partition] = position
                    if event.taken is not None:
                        self.taken[partition] = event.taken
        # A load may have only the last change of a batch. The progress event after it has the same position, and
        # reports all source partitions (test_a_load_knows_what_a_view_reflects).
        if isinstance(event, Progress) and event.position == self.position:
            self.reflected, self.taken = dict(event.reflected), dict(event.taken)
            # Not the event: it has the outcomes of a whole batch.
            self.owner_definition = OwnerDefinition(event.definition, event.limits)
        if isinstance(event, Progress) and event.position.era == self.held.era:
            self.log_id = event.log_id

    def _move(self, position: Position) -> None:
        # An era may apply another log.
        if self.position is None or position.era != self.position.era:
            self.log_id = ""
        assert self.position is None or position >= self.position, "a position only moves on"
        self.position = position

    # going back

    def _note(self, offset: int, event: Event, is_first: bool) -> None:
        """Record, every `INDEX_STEP` events, the offset at which a position was first reached."""
        self._since_indexed += 1
        due = not self._index or self._since_indexed >= INDEX_STEP
        # Only positions that are reached for the first time: an old event of a stale owner would lead a subscriber to
        # an offset after the changes that it wants (test_the_index_is_not_led_astray_by_stale_events).
        if due and is_first:
            assert not self._index or self._index[-1][0] < event.position, (
                "the index is in the order of positions"
            )
            self._index.append((event.position, offset))
            self._since_indexed = 0

    def offset_for(self, position: Position) -> int:
        """Return an offset in the changes topic: no event before it is newer than the position."""
        if not self._index:
            return self.next_offset
        return self._index[max(0, self._entries_until(position) - 1)][1]

    def offset_behind(self, position: Position) -> int:
        """Return an offset in the changes topic: every new event from it on is newer than the position."""
        found = self._entries_until(position)
        return self._index[found][1] if found < len(self._index) else self.next_offset

    def _entries_until(self, position: Position) -> int:
        """Return the number of index entries that are not newer than the position."""
        return bisect_right(self._index, position, key=lambda entry: entry[0])

    def recent(self, position: Position, changes_max: int) -> list[Change] | None:
        """Return the changes after the position, oldest first; None if the ring does not go back so far."""
        if position >= self.held:
            return []
        assert changes_max > 0, "a subscriber asks for changes"
        return self.ring.after(position, changes_max)
