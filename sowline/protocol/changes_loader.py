"""The rule of reading a changes partition: which events count, and when a load is complete.

Open this module to learn how a changes topic is read. Everything that reads one uses it: recovery and standbys of
the materializer, replicas of the query service, fanouts, and the offline tools. The Spark reads state the same rule
as SQL expressions (`sowline.spark.loading`); a property test holds them to this module.

**Following.** A reader that has a position judges each event by it: `verdict`.

**Loading.** A reader without a position takes the newest event of each key (`NewestEvents`) until its load is
complete (`LoadProgress`). Then it follows.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import repeat

from sowline.model.position import Position, before_the_log
from sowline.protocol.change import AGAIN, UNFILLED, Change, Event, Rank

UNKNOWN_OFFSET = -1

BROKEN_OFF = -2
"""Expected next after an offset gap: no later offset is contiguous with the start."""


class Verdict(Enum):
    """The action of a follower for an event."""

    TAKE = "take"
    DROP = "drop"
    GAP = "gap"


def verdict(event: Event, held: Position) -> Verdict:
    """Judge an event by the position that the follower holds.

    Take an event whose position is newer and whose `after` is not. Drop an event whose position is not newer: it is a
    repeat. If its `after` is newer, too, events in between are missing, and the follower must load again.
    """
    if event.position <= held:
        return Verdict.DROP
    return Verdict.GAP if event.after > held else Verdict.TAKE


def is_of(event: Event, topic_id: str) -> bool:
    """Tell whether an event describes the changes topic with this id, as far as that can be known.

    An owner that does not know yet that its topic was deleted and created again reports where it stands in the old
    topic. What it has written there is not in the new one, so its progress events do not count.
    """
    return isinstance(event, Change) or not topic_id or event.changes_id in ("", UNFILLED, topic_id)


class RelativeAge(Enum):
    """The rank of a loaded event, compared with the held event of its key."""

    NEWER = "newer"
    EQUAL = "equal"
    OLDER = "older"
    ENDED = "ended"
    """Written by the owner of an era after a later era had begun. It counts as little as if it had never come."""


class NewestEvents:
    """Ranks the events of a load: of each key the event with the highest rank counts, tombstones too.

    An event's rank is the era in which it was written, then its position. A stalled owner of an ended era can wake up
    and write changes that the new era does not have. Write `K@0/50` for a change of key K at offset 50 of era 0. In
    `[progress 0/0, K@0/50, progress 1/9, K@0/107]` the last event has the highest position of its era, but era 1 had
    begun before it was written, so it does not count. The owner of era 1 repairs the key: it writes `K@0/50` again,
    in era 1. That outranks `K@0/107` even where compaction has removed `progress 1/9`. Without this rule a reader
    shows a record that never was (`test_a_stalled_owner_of_an_ended_era`).

    The reader stores positions. This class keeps the ranks that a stored position does not give, until the load is
    complete: of deletions that leave nothing in the store, and of events that were written again in a later era.
    """

    def __init__(self) -> None:
        self.era = 0
        """The latest era in which an event was written so far."""
        self._ranks: dict[bytes, Rank] = {}

    def saw(self, event: Event) -> None:
        """Note the era in which an event was written. Call it for each event, in the order of their offsets."""
        era = event.rank[0] if isinstance(event, Change) else event.position.era
        if era > self.era:
            self.era = era

    def relative_age(self, change: Change, held: Position | None) -> RelativeAge:
        """Compare a change that was seen with what the reader holds of its key; `held` is the position of that."""
        rank = change.rank
        if rank[0] < self.era:
            return RelativeAge.ENDED
        highest = self._ranks.get(change.sow_key)
        if highest is None:
            if held is None:
                return RelativeAge.NEWER
            highest = held.era, held
        if rank == highest:
            return RelativeAge.EQUAL
        return RelativeAge.NEWER if rank > highest else RelativeAge.OLDER

    def keep(self, change: Change, *, is_stored: bool) -> None:
        """Note that the reader holds this change now; `is_stored` if it can tell the position of it."""
        if is_stored and change.emitted_in is None:
            self._ranks.pop(change.sow_key, None)
        else:
            self._ranks[change.sow_key] = change.rank

    def clear(self) -> None:
        """Forget all ranks, after the load."""
        self._ranks.clear()


class Wholeness:
    """Whether the events read from the start of a changes partition leave nothing out.

    The owner of a partition begins it with a progress event. Where the topic was lost, the owner writes the newest
    event of every record again, and the progress event that names the new topic comes last: until then, an event that
    is newer than all before it and was written again is part of an unfinished whole. A stalled owner may also go on
    in the new topic at its old position. That leaves a gap which compaction cannot have made, and the records in the
    gap are still to be written again.

    Without this check, a reader that starts during a refill takes a part for the whole
    (`test_readers_that_start_during_a_refill`).
    """

    def __init__(self, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self._newest = before_the_log(-1)
        self._due = 0
        self._has_progress = False
        self._is_refilling = False

    def saw(self, events: Iterable[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Take in the next events, in the order of their offsets."""
        newest, due = self._newest, self._due
        for event, offset in zip(events, offsets, strict=False):
            position, follows = event.position, offset == due
            due = offset + 1 if follows else BROKEN_OFF
            if isinstance(event, Change):
                if position > newest:
                    # A refill writes each record AGAIN, and its progress event last. A gap between adjacent offsets
                    # shows an owner that continued in a topic that was created again. Either way, records are still
                    # to come (test_readers_that_start_during_a_refill).
                    if event.op == AGAIN or (follows and event.after > newest):
                        self._is_refilling = True
                    newest = position
            elif position >= newest and is_of(event, self.topic_id):
                # Only a progress event that reaches the newest change proves that nothing is missing. One of an owner
                # that catches up is older than changes that are there, and proves nothing (seed 1601 of the
                # simulation).
                newest = position
                if event.changes_id != UNFILLED:
                    self._has_progress, self._is_refilling = True, False
        self._newest, self._due = newest, due

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out. Nothing is known about an empty partition, so it is not whole."""
        return self._has_progress and not self._is_refilling


class Phase(Enum):
    """The phase of the load of a partition."""

    READING = "reading"
    """Events up to the target are still to be read."""
    INCOMPLETE = "incomplete"
    """All events were read, and they are not all there is: the partition is empty, or is being filled again."""
    LATE = "late"
    """The target was seen so long ago that compaction may have removed events before it: set a new one."""
    COMPLETE = "complete"


class LoadProgress:
    """Tells when the load of one changes partition is complete.

    The target of a load is the end of the partition, as seen at the start. Compaction goes on during the load. It
    removes an event only after a newer event of the same key is older than the topic's lag. A newer event before the
    target is read, too. A newer event behind the target was written after the target was seen, so the removal came
    more than one lag later: whatever was read before then lacks nothing. A load that takes longer than half of the
    lag (half, because clocks differ) therefore needs a new target. A reader at the very end of the partition needs
    none.

    `lag_seconds` is the topic's `min.compaction.lag.ms`. A topic without a SOW is not compacted, and has nothing to
    complete. Times are seconds of a clock that does not jump.
    """

    def __init__(self, topic_id: str, lag_seconds: float, has_sow: bool = True) -> None:
        self.wholeness = Wholeness(topic_id) if has_sow else None
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
    def is_whole(self) -> bool:
        """Whether the events read so far leave nothing out."""
        return self.wholeness is None or self.wholeness.is_whole

    def saw(self, events: Iterable[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Take in the next events, in the order of their offsets."""
        if self.wholeness is not None:
            self.wholeness.saw(events, offsets)

    def read_up_to(self, offset: int) -> None:
        """Note that all events before this offset were applied; the last offsets may be gaps."""
        self.next_offset = max(self.next_offset, offset)

    def at_end(self, offset: int) -> None:
        """Note that the partition ends at this offset for now. Everything read so far is applied before `phase` is
        asked.
        """
        self._end = offset
        self.read_up_to(offset)

    def phase(self, now: float) -> Phase:
        """Return how far the load is."""
        assert self._seen_at is not None, "a load has a target"
        is_at_end = self._end is not None and self._end >= self.next_offset
        if self.next_offset < self._target and not is_at_end:
            return Phase.READING
        if not self.is_whole:
            return Phase.INCOMPLETE
        # Half of the lag, because the clocks of brokers and readers differ. Later than that, compaction may have
        # removed an event before this reader came to it, with its successor behind the target
        # (test_a_load_that_takes_long_goes_on).
        if not is_at_end and now - self._seen_at > self._lag_seconds / 2:
            return Phase.LATE
        return Phase.COMPLETE


def incomplete(changes: str, partitions: Iterable[int]) -> str:
    """Return a sentence for partitions of a changes topic whose load is `Phase.INCOMPLETE`."""
    numbers = ", ".join(map(str, sorted(partitions)))
    return (
        f"waiting for {changes} [{numbers}]: it is empty, or its owner is still filling it again. Start a"
        " materializer if none is running"
    )
