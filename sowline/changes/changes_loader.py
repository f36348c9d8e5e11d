"""The rules for reading a changes partition: which events count, and when a load is complete.

Open this module to learn how a changes topic is read. Every reader uses it: recovery and warm copies in the
materializer, replicas in the query service, fanouts, and the offline tools. The Spark reads express the same rules
as SQL (`sowline.spark.loading`); a property test checks that both agree.

**Following.** A reader that has a position compares each event with it (`verdict`).

**Loading.** A reader without a position keeps the newest event of each key (`NewestEvents`) until its load is
complete (`LoadProgress`). Then it follows.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import repeat
from typing import Protocol

from sowline.changes.change import AGAIN, UNFILLED, Change, ChangesId, Event, Rank
from sowline.model.position import Position, before_the_log, position_of

UNKNOWN_OFFSET = -1

BROKEN_OFF = -2
"""The expected next offset after a gap in the offsets. No offset equals it, not even `UNKNOWN_OFFSET`, so no later
offset counts as contiguous with the start."""


class Verdict(Enum):
    """What a follower does with an event."""

    TAKE = "take"
    DROP = "drop"
    GAP = "gap"


def verdict(event: Event, held: Position) -> Verdict:
    """Compare an event with the follower's position, `held`.

    Return `TAKE` if the event's position is newer and its `after` is not. Return `DROP` if its position is not newer.
    Return `GAP` if `after` is newer too: events in between are missing, and the follower must load again.
    """
    # A stalled owner wakes up, and its Kafka client writes change 10 behind change 11 of the new owner. A follower
    # that took change 10 would go back to an older state (test_the_verdict_on_an_event).
    if event.position <= held:
        return Verdict.DROP
    # A follower holds change 10 and is down while compaction removes change 11. The next event has the position 12
    # and `after` 11. A follower that took it would miss change 11 without noticing (test_the_verdict_on_an_event).
    return Verdict.GAP if event.after > held else Verdict.TAKE


def is_of(event: Event, topic_id: str) -> bool:
    """Return whether an event may describe the changes topic with this id; False only if it names another one.

    The id may be a `ChangesId` too. Positions are right also if they were written before a part of the topic was
    deleted.

    Suppose that the changes topic is deleted and created again, and its owner has not noticed. The owner's progress
    events then describe what it wrote to the old topic. They must not complete a load of the new one
    (`test_the_word_of_an_owner_that_knows_another_topic`).
    """
    if isinstance(event, Change) or not topic_id or event.changes_id in ("", UNFILLED, topic_id):
        return True
    return ChangesId.parse(event.changes_id).topic == ChangesId.parse(topic_id).topic


class RelativeAge(Enum):
    """How the rank of an event compares with the rank of the event that the reader holds for the same key."""

    NEWER = "newer"
    EQUAL = "equal"
    OLDER = "older"
    ENDED = "ended"
    """Written by the owner of an ended era after a later era had started. The reader ignores it."""


class NewestEvents:
    """Ranks the events of a load. For each key the event with the highest rank counts, tombstones included.

    An event's rank is the era in which it was written, then its position. A stalled owner of an ended era can wake up
    and write changes that the new era does not have. Write `K@0/50` for a change of key K at offset 50 of era 0. In
    `[progress 0/0, K@0/50, progress 1/9, K@0/107]` the last event has the highest position of its era. But era 1
    started before it was written, so it does not count. The owner of era 1 repairs the key: it writes `K@0/50` again,
    in era 1. That outranks `K@0/107` even if compaction has removed `progress 1/9`. Without this rule a reader
    shows a record that never existed (`test_a_stalled_owner_of_an_ended_era`).

    The reader stores positions. Until the load is complete, this class keeps the ranks that a stored position does
    not give: those of deletions, which leave nothing in the store, and of events written again in a later era.
    """

    def __init__(self) -> None:
        self.era = 0
        """The latest era in which any event seen so far was written."""
        self.ranks: dict[bytes, Rank] = {}
        """By SOW key, the ranks that stored positions do not give."""

    def saw(self, event: Event) -> None:
        """Note the era in which an event was written. Call it for each event, in the order of their offsets."""
        era = event.rank[0] if isinstance(event, Change) else event.position.era
        if era > self.era:
            self.era = era

    def relative_age(self, change: Change, held: Position | None) -> RelativeAge:
        """Compare a change with the event that the reader holds for its key; `held` is that event's position.

        Call `saw` for the change first.
        """
        rank = change.rank
        # Era 1 has started. The stalled owner of era 0 then writes change 0/107 of a key that era 1 does not have.
        # There is no held event to compare it with: only the era shows that the change is invalid
        # (test_a_stalled_owner_of_an_ended_era).
        if rank[0] < self.era:
            return RelativeAge.ENDED
        # The load reads record K at 7, its deletion at 8, and K at 7 again from a stalled owner. The store holds
        # nothing for K by then: without the kept rank of the deletion, K would come back
        # (test_a_deletion_of_a_later_era_outranks_a_higher_position).
        highest = self.ranks.get(change.sow_key)
        if highest is None:
            if held is None:
                return RelativeAge.NEWER
            highest = held.era, held
        if rank == highest:
            return RelativeAge.EQUAL
        return RelativeAge.NEWER if rank > highest else RelativeAge.OLDER

    def keep(self, change: Change, *, is_stored: bool) -> None:
        """Note that the reader holds this change now; `is_stored` if its store has the change's position."""
        # The position of an event that was written again in a later era names the earlier era, and so ranks too low.
        if is_stored and change.emitted_in is None:
            self.ranks.pop(change.sow_key, None)
        else:
            self.ranks[change.sow_key] = change.rank

    def clear(self) -> None:
        """Forget all ranks, after the load."""
        self.ranks.clear()


class PlainChanges(Protocol):
    """Changes by publishes, without rare fields, that the native core has read."""

    def follow(self, state: tuple[Position, int, bool]) -> tuple[tuple[int, int, int] | None, int, bool]:
        """Return the `Wholeness.state` after these changes; None for the position if it is the same."""


class Wholeness:
    """Checks that the events read from the start of a changes partition include every record.

    The owner of a new partition writes a progress event first. After the topic was lost, the owner refills it: it
    writes the newest event of every record again (`AGAIN`), then a progress event that names the new topic. Until
    that progress event, an `AGAIN` event that is newer than all events before it shows an unfinished refill. A
    stalled owner may also continue in the new topic at its old position. That leaves a gap in the positions that
    compaction cannot have made. The records in the gap have yet to be written again.

    Retention, or an operator, may delete the head of the topic. A reader then begins at a `start` above 0, which
    `changes_id` has as well. The owner notices it and refills the topic as a lost one. Until then it writes progress
    events of an earlier start, which do not count.

    Without this check, a reader that starts during a refill shows only some of the records
    (`test_readers_that_start_during_a_refill`).
    """

    def __init__(self, changes_id: str = "") -> None:
        self.changes_id = changes_id
        self._start = ChangesId.parse(changes_id).start
        self._newest = before_the_log(-1)
        self._due = 0
        self._has_progress = False
        self._is_refilling = False

    def saw(self, events: Iterable[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Note the next events, in the order of their offsets."""
        newest, due = self._newest, self._due
        for event, offset in zip(events, offsets, strict=False):
            position, follows = event.position, offset == due
            # Compaction removes events, and with them offsets. After the first missing offset, a gap in the positions
            # may be compaction's work and proves nothing (test_a_gap_that_compaction_has_not_made).
            due = offset + 1 if follows else BROKEN_OFF
            if isinstance(event, Change):
                if position > newest:
                    # The topic is created again and the owner refills it: each record AGAIN, the progress event last.
                    # Or a stalled owner continues in the new topic: its first change follows no change in the topic,
                    # though no offset is missing. Either way, records are still missing. A reader that becomes ready
                    # now answers queries without them (test_readers_that_start_during_a_refill).
                    if event.op == AGAIN or (follows and event.after > newest):
                        self._is_refilling = True
                    newest = position
            elif position >= newest and is_of(event, self.changes_id):
                # Only a progress event that reaches the newest change proves that nothing is missing. An owner that
                # catches up writes progress events older than changes that the topic already has; those prove
                # nothing (test_example, seed 1601).
                newest = position
                # The head of the topic is deleted, and with it the only event of record K. The owner has not noticed
                # yet, and reports that it has written everything (test_a_topic_that_lost_its_head_is_not_whole).
                if event.changes_id != UNFILLED and ChangesId.parse(event.changes_id).start >= self._start:
                    self._has_progress, self._is_refilling = True, False
        self._newest, self._due = newest, due

    def saw_plain(self, changes: PlainChanges) -> None:
        """Note the next events, which are plain changes."""
        newest, due, is_refilling = changes.follow(self.state)
        self.state = (self._newest if newest is None else newest, due, is_refilling)

    @property
    def has_position(self) -> bool:
        """Whether any event was seen that has a position."""
        return self._newest.era >= 0

    @property
    def state(self) -> tuple[Position, int, bool]:
        """What changes that are not written again depend on, and change: `saw` does it for one event after the other.

        The position of the newest event, the offset that follows without a gap, and whether a refill is unfinished.
        The native core does it for many changes at once.
        """
        return self._newest, self._due, self._is_refilling

    @state.setter
    def state(self, state: tuple[tuple[int, int, int], int, bool]) -> None:
        newest, self._due, self._is_refilling = state
        self._newest = position_of(newest)

    @property
    def is_whole(self) -> bool:
        """Whether every record is included. Nothing is known about an empty partition, so it is not whole."""
        return self._has_progress and not self._is_refilling


class Phase(Enum):
    """The phase of the load of a partition."""

    READING = "reading"
    """Events up to the target are still to be read."""
    INCOMPLETE = "incomplete"
    """All events up to the target were read, but records are missing: the partition is empty or being refilled."""
    LATE = "late"
    """The target was set too long ago: compaction may have removed events before it. Set a new target."""
    COMPLETE = "complete"


class LoadProgress:
    """Decides when the load of one changes partition is complete.

    The target of a load is the partition's end offset when the load starts. Compaction continues during the load. It
    removes an event only when a newer event of the same key is older than the topic's compaction lag. If that newer
    event is before the target, the load reads it too. If it is behind the target, it was written after the target was
    set, so the removal came more than one lag later. A load that finishes within the lag therefore misses nothing. A
    load that takes longer than half of the lag needs a new target (half, because clocks differ). A reader at the
    current end of the partition needs none.

    `changes_id` is a `ChangesId` as text, with the offset at which the load starts. `lag_seconds` is the topic's
    `min.compaction.lag.ms`. A topic without a SOW (`has_sow=False`) is not compacted, so its load is never
    incomplete. Times are seconds of a monotonic clock.
    """

    def __init__(self, changes_id: str, lag_seconds: float, has_sow: bool = True) -> None:
        self.wholeness = Wholeness(changes_id) if has_sow else None
        self.next_offset = 0
        self._lag_seconds = lag_seconds
        self._target = 0
        self._seen_at: float | None = None
        self._end: int | None = None

    @property
    def has_target(self) -> bool:
        """Whether a target was set."""
        return self._seen_at is not None

    def aim(self, end: int, now: float) -> None:
        """Set the target: the end of the partition as it is `now`."""
        self._target, self._seen_at = end, now

    @property
    def target(self) -> int:
        """The offset up to which events are read."""
        return self._target

    def has_aged(self, now: float) -> bool:
        """Return whether the target was set so long ago that compaction may have removed events since."""
        assert self._seen_at is not None, "a load has a target"
        return now - self._seen_at > self._lag_seconds / 2

    def begin_at(self, offset: int) -> None:
        """Note that the reader has a snapshot with every record, and follows from this offset."""
        self.wholeness = None
        self.next_offset = offset

    @property
    def is_whole(self) -> bool:
        """Whether the events read so far include every record."""
        # A topic without a SOW deletes its changes by age, progress events too: a reader that waited for one would
        # never be ready (test_a_topic_without_a_sow_has_nothing_to_complete). A snapshot has every record.
        return self.wholeness is None or self.wholeness.is_whole

    def saw(self, events: Iterable[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Note the next events, in the order of their offsets."""
        if self.wholeness is not None:
            self.wholeness.saw(events, offsets)

    def saw_plain(self, changes: PlainChanges) -> None:
        """Note the next events, which are plain changes."""
        if self.wholeness is not None:
            self.wholeness.saw_plain(changes)

    def read_up_to(self, offset: int) -> None:
        """Note that all events before this offset were applied; there may be no events at the last offsets."""
        self.next_offset = max(self.next_offset, offset)

    def at_end(self, offset: int) -> None:
        """Note that the reader has reached the partition's current end, this offset.

        The caller applies everything that it has read before it calls `phase`.
        """
        self._end = offset
        self.read_up_to(offset)

    def phase(self, now: float) -> Phase:
        """Return the phase of the load at the time `now`. Set a target first (`aim`)."""
        assert self._seen_at is not None, "a load has a target"
        # A reader reaches the end at 3, and later reads an event at 4. It is not at the end any more, so compaction
        # may again be ahead of it (test_a_load_at_the_end_is_never_late).
        is_at_end = self._end is not None and self._end >= self.next_offset
        if self.next_offset < self._target and not is_at_end:
            return Phase.READING
        if not self.is_whole:
            return Phase.INCOMPLETE
        # A load takes longer than the lag. Record K changes behind the target, and compaction removes the older event
        # of K before the load reaches it. Without a new target the load would end without K
        # (test_a_load_that_takes_long_goes_on). Half of the lag, because the clocks of brokers and readers differ.
        if not is_at_end and self.has_aged(now):
            return Phase.LATE
        return Phase.COMPLETE


def incomplete(changes: str, partitions: Iterable[int]) -> str:
    """Return the message for partitions of a changes topic whose load is `Phase.INCOMPLETE`."""
    numbers = ", ".join(map(str, sorted(partitions)))
    return (
        f"waiting for {changes} [{numbers}]: it is empty, or its owner is still filling it again. Start a"
        " materializer if none is running"
    )
