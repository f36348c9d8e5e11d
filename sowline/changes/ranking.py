"""Ranks the events of a load: which one of a key counts. Pure."""

from enum import Enum

from sowline.changes.change import Change, Rank
from sowline.changes.event import Event
from sowline.model.position import Position


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
        if era > self.era:  # noqa: PLR1730 - each event passes here: a call of `max` costs more
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
