"""Reads one partition of a changes topic: which events count, when a load is complete, when to load again. Pure.

Open this module to learn how a changes topic is read. Every reader uses it: recovery and warm copies in the
materializer, replicas in the query service, fanouts, views, and the offline tools. The drivers
(`sowline.kafka.changes_driver`) connect readers with Kafka. The Spark reads express the same rules as SQL
(`sowline.spark.loading`); a property test checks that both agree.

**Loading.** A reader without a position loads until it has the newest event of each key. Its caller calls `aim` with
the end of the partition, then `take` for each event. The caller keeps what `take` answers with `LOAD`, if it is the
newest of its key (`sowline.changes.ranking`). At the partition's end the caller calls `at_end`. After it has applied
what it has read, it calls `look`: at `AIMING` it aims again, and at `COMPLETE` it calls `follow`. To begin with a
snapshot, it calls `begin_with_snapshot` before `aim`. A caller that reads in batches and has its own position calls
`saw`, `saw_plain` and `read_up_to` instead of `take`.

**Following.** A reader that has a position compares each event with it (`verdict`). `take` answers `TAKE` or `DROP`.

**Starting again.** `note_topic` gives the reader Kafka's id of the topic, from time to time. At `MISSING` and
`REPLACED` the caller discards the reader, and what it has loaded, and loads with a new one.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import repeat
from typing import Final, Self

from sowline.changes.event import Event
from sowline.changes.progress import ChangesId, Progress
from sowline.changes.wholeness import UNKNOWN_OFFSET, PlainChanges, Wholeness, is_of
from sowline.errors import SowlineError, StartAgain
from sowline.model.position import Position, before_the_log


class Verdict(Enum):
    """A reader's decision about an event."""

    TAKE = "take"
    DROP = "drop"
    GAP = "gap"
    LOAD = "load"
    """A load keeps it if it is the newest of its key."""


class ChangesMissing(StartAgain):
    """The changes do not continue from a reader's position: it must load again, or end."""


class ChangesReplaced(SowlineError, StartAgain):
    """A changes topic was deleted and created again while it was read: load the new one."""

    def __init__(self, changes: str) -> None:
        super().__init__(
            "changes replaced", f"{changes} was deleted and created again while it was read. Start again"
        )


def verdict(event: Event, held: Position) -> Verdict:
    """Compare an event with the follower's position, `held`.

    Return `TAKE` if the event's position is newer and its `after` is not. Return `DROP` if its position is not newer.
    Return `GAP` if `after` is newer too: events in between are missing, and the follower must load again.
    """
    # A stalled owner wakes up, and its Kafka client writes change 10 after change 11 of the new owner. A follower
    # that took change 10 would go back to an older state (test_the_verdict_on_an_event).
    if event.position <= held:
        return Verdict.DROP
    # A follower holds change 10 and is down while compaction removes change 11. The next event has the position 12
    # and `after` 11. A follower that took it would miss change 11 without noticing (test_the_verdict_on_an_event).
    return Verdict.GAP if event.after > held and not _is_first(event, held) else Verdict.TAKE


def _is_first(event: Event, held: Position) -> bool:
    """Return whether an event is the first one of a log, and the follower holds nothing."""
    # A log that was dropped and defined again begins in a later era, without a record of the earlier ones. What
    # follows from the start misses nothing (test_a_log_begins_in_a_later_era).
    is_begun = event.position.offset >= 0 or isinstance(event, Progress)
    return is_begun and held == before_the_log() and event.after == before_the_log(event.after.era)


def is_newer(event: Event, held: Position) -> bool:
    """Return whether an event's position is newer than `held`: it is no repeat of what was read."""
    return event.position > held


def takes(event: Event, held: Position) -> bool:
    """Return whether a follower at the position `held` takes an event; raise `ChangesMissing` at a gap."""
    # The usual case, without another call: each event of each follower passes here.
    if event.after <= held < event.position:
        return True
    judged = verdict(event, held)
    if judged is Verdict.GAP:
        raise ChangesMissing(f"expected what follows {held}, got {event.position} after {event.after}")
    return judged is Verdict.TAKE


class Phase(Enum):
    """The state of a reader, and what it needs from its caller."""

    AIMING = "aiming"
    """It has no target, or one that was set too long ago: compaction may have removed events before it. Aim."""
    LOADING = "loading"
    """Events up to the target are still to be read."""
    INCOMPLETE = "incomplete"
    """All events up to the target were read, but records are missing: the partition is empty or being refilled."""
    COMPLETE = "complete"
    """All records were read. Use them, and follow."""
    FOLLOWING = "following"
    MISSING = "missing"
    """Changes are missing, or may be: load again, with a new reader."""
    REPLACED = "replaced"
    """The topic was deleted and created again: load again, with a new reader."""


NEXT: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.AIMING: frozenset({Phase.LOADING, Phase.REPLACED}),
    Phase.LOADING: frozenset({Phase.AIMING, Phase.INCOMPLETE, Phase.COMPLETE, Phase.MISSING, Phase.REPLACED}),
    # A load that waits for its owner reads on. Its caller may aim again. The load may also become whole after its
    # target has aged, while it is not at the end: then it needs a new target.
    Phase.INCOMPLETE: frozenset({Phase.AIMING, Phase.LOADING, Phase.COMPLETE, Phase.REPLACED}),
    # The caller of a complete load may let it continue, as a view does until its joined topics are loaded. Such a
    # load goes through the same phases again.
    Phase.COMPLETE: frozenset(
        {
            Phase.AIMING,
            Phase.LOADING,
            Phase.INCOMPLETE,
            Phase.FOLLOWING,
            Phase.MISSING,
            Phase.REPLACED,
        }
    ),
    Phase.FOLLOWING: frozenset({Phase.MISSING, Phase.REPLACED}),
    Phase.MISSING: frozenset({Phase.REPLACED}),
    Phase.REPLACED: frozenset(),
}
"""The phases that may come after each phase."""

LOADS: Final = frozenset({Phase.AIMING, Phase.LOADING, Phase.INCOMPLETE, Phase.COMPLETE})
"""The phases of a load."""


class ChangesReader:
    """The reader of one changes partition: its phase, and up to where it has read.

    The target of a load is the end of the partition when the load starts. Compaction continues during the load. It
    removes an event once a later event of the same key is older than the topic's compaction lag. If the later event
    is before the target, the load reads that one. If it is after the target, it was written after the load started,
    so compaction removes nothing because of it until one lag has passed. A load that finishes within the lag
    therefore misses nothing. A load that takes longer than half of the lag needs a new target (half, because clocks
    differ). A reader at the current end of the partition needs none: it has read every later event.

    `changes_id` is a `ChangesId` as text: Kafka's id of the topic, and the offset at which the partition starts if
    that is not 0. `lag_seconds` is the topic's `min.compaction.lag.ms`. A topic without a SOW (`has_sow=False`) is
    not compacted, so its load is never incomplete. Times are seconds of a monotonic clock.
    """

    def __init__(self, changes_id: str, lag_seconds: float, has_sow: bool = True) -> None:
        self.changes_id = changes_id
        self.phase = Phase.AIMING
        self.wholeness = Wholeness(changes_id) if has_sow else None
        self.required_position = before_the_log()
        """The position that a load has to reach before it is complete.

        A fanout sets it to the position of its output. After a changes topic is lost, its owner fills it again from a
        state that may be older than that. If the load counted as complete then, the fanout would write `oof` for
        records that still exist, and its readers would drop its next messages as repeats.
        """
        self.position = before_the_log()
        """The newest position that `take` has loaded or taken."""
        self.next_offset = ChangesId.parse(changes_id).start
        """The offset of the event that it reads next."""
        self.has_snapshot = False
        """Whether the load began with a snapshot, instead of at the start of the partition."""
        self._lag_seconds = lag_seconds
        self._aimed_at = 0.0
        self._end: int | None = None
        """The end of the partition when the reader last reached it; None if it has not."""
        self.target = 0
        """The offset up to which a load reads."""

    @classmethod
    def after(cls, position: Position, next_offset: int, changes_id: str) -> Self:
        """Return a reader that follows from a position, and reads next at `next_offset`."""
        # Only a load has a use for the lag.
        reader = cls(changes_id, lag_seconds=0)
        reader.phase, reader.position, reader.next_offset = Phase.FOLLOWING, position, next_offset
        return reader

    def _enter(self, phase: Phase) -> None:
        if phase is not self.phase:
            assert phase in NEXT[self.phase], f"{phase} does not come after {self.phase}"
            self.phase = phase

    @property
    def topic_id(self) -> str:
        """Kafka's id of the topic that it reads."""
        return ChangesId.parse(self.changes_id).topic

    @property
    def is_loading(self) -> bool:
        """Whether it has no position to follow from yet."""
        return self.phase in LOADS

    # what goes in

    def aim(self, end: int, now: float) -> None:
        """Set the target of the load: the end of the partition as it is `now`."""
        self.target, self._aimed_at = end, now
        self._enter(Phase.LOADING)

    def begin_with_snapshot(self, offset: int) -> None:
        """Note that the reader has a snapshot with every record, and reads on from this offset."""
        assert offset >= self.next_offset, "a snapshot has what was read"
        assert self.phase in (Phase.AIMING, Phase.LOADING), "a load begins with a snapshot"
        self.wholeness = None
        self.next_offset = offset
        self.has_snapshot = True

    def saw(self, events: Iterable[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Note the next events of a load, in the order of their offsets, without the position.

        The caller calls `read_up_to` after it, and checks `is_of` itself.
        """
        if self.wholeness is not None:
            self.wholeness.saw(events, offsets)

    def saw_plain(self, changes: PlainChanges) -> None:
        """Note the next events of a load as `saw` does: they are plain changes."""
        if self.wholeness is not None:
            self.wholeness.saw_plain(changes)

    def read_up_to(self, offset: int) -> None:
        """Note that all events before this offset were read; there may be no events at the last offsets."""
        self.next_offset = max(self.next_offset, offset)

    def take(self, event: Event, offset: int) -> Verdict:
        """Read the next event: return LOAD or DROP in a load, then TAKE or DROP. Raise `ChangesMissing` at a gap."""
        if offset >= self.next_offset:
            self.next_offset = offset + 1
        is_following = self.phase is Phase.FOLLOWING
        # `Wholeness` sees events of another topic, too: without them it would find a gap in the offsets. It checks
        # `is_of` itself.
        if not is_following and self.wholeness is not None:
            self.wholeness.saw((event,), (offset,))
        # The changes topic is replaced, and its owner has not noticed. The owner's progress events have positions of
        # the old topic. A load would count as having reached them while the topic is still being filled, and a
        # follower would drop the changes up to them (test_the_word_of_an_owner_that_knows_another_topic).
        if not is_of(event, self.changes_id):
            return Verdict.DROP
        if not is_following:
            if event.position > self.position:  # noqa: PLR1730 - each event passes here: a call of `max` costs more
                self.position = event.position
            return Verdict.LOAD
        try:
            if not takes(event, self.position):
                return Verdict.DROP
        except ChangesMissing:
            self._enter(Phase.MISSING)
            raise
        self.position = event.position
        return Verdict.TAKE

    def at_end(self, offset: int) -> None:
        """Note that the reader has reached the partition's current end, this offset.

        The caller applies everything that it has read before it calls `look`.
        """
        self._end = offset
        self.read_up_to(offset)

    def note_topic(self, topic_id: str) -> None:
        """Note the id that Kafka has for the topic now."""
        if topic_id != self.topic_id:
            self._enter(Phase.REPLACED)

    def follow(self) -> None:
        """End a complete load: from now on, events are compared with the newest position."""
        self._enter(Phase.FOLLOWING)

    def look(self, now: float) -> Phase:
        """Enter the phase that a load is in at the time `now`; return the reader's phase."""
        if self.is_loading and self.phase is not Phase.AIMING:
            self._enter(self._load_phase(now))
        return self.phase

    def _load_phase(self, now: float) -> Phase:
        has_aged = now - self._aimed_at > self._lag_seconds / 2
        # A record is deleted after the snapshot. Kafka is away for an hour, and compaction removes the deletion
        # before the load reads it: the load keeps the record, at the end of the partition too
        # (test_a_snapshot_that_is_followed_for_too_long).
        if self.has_snapshot and has_aged:
            return Phase.MISSING
        # A reader reaches the end at offset 3, and later reads the event at 3. It is no longer at the end: later
        # events may follow, because of which compaction has removed some before them
        # (test_a_load_at_the_end_needs_no_target).
        is_at_end = self._end is not None and self._end >= self.next_offset
        if self.next_offset < self.target and not is_at_end:
            return Phase.LOADING
        if not self.is_whole or not self.has_reached_required:
            return Phase.INCOMPLETE
        # A load takes longer than the lag. Record K changes after the target, and compaction removes the older event
        # of K before the load reaches it. Without a new target the load would end without K
        # (test_a_load_that_takes_long_goes_on).
        if has_aged and not is_at_end:
            return Phase.AIMING
        return Phase.COMPLETE

    @property
    def has_reached_required(self) -> bool:
        """Whether the load has reached `required_position`."""
        return self.position >= self.required_position

    @property
    def is_whole(self) -> bool:
        """Whether the events read so far include every record."""
        # A topic without a SOW deletes its events by age. `Wholeness` waits for a progress event, so a reader with
        # one might never be ready (test_a_topic_without_a_sow_has_nothing_to_complete). A snapshot has every record.
        return self.wholeness is None or self.wholeness.is_whole


def incomplete(changes: str, partitions: Iterable[int]) -> str:
    """Return the message for partitions of a changes topic whose load is `Phase.INCOMPLETE`."""
    numbers = ", ".join(map(str, sorted(partitions)))
    return (
        f"waiting for {changes} [{numbers}]: it is empty, or its owner is still filling it again. Start a"
        " materializer if none is running"
    )
