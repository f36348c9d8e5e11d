"""The tail of a changes partition: the events that were written after a state was committed."""

from collections.abc import Iterable
from typing import NamedTuple

from sowline.changes.change import Change
from sowline.changes.changes_reader import Verdict, verdict
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.changes.wholeness import BROKEN_OFF, Wholeness, is_of
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint


class Tail(NamedTuple):
    """The events that were written after a state's position.

    `newest` is the newest position, `time` the log time in ms at it, `stale_keys` are the keys of events that came
    too late, and `live` those of the records that exist afterwards. `has_gap` is whether an event in between was
    never written, although compaction has removed nothing, `is_unfilled` whether without one an owner began to fill
    the topic again and did not finish. `bases` are the last changes of the eras before those that begin here.
    `limits` are those of the first progress event, None without one.
    """

    newest: Position
    time: int
    stale_keys: frozenset[bytes]
    live: frozenset[bytes]
    has_gap: bool
    is_unfilled: bool = False
    bases: frozenset[Position] = frozenset()
    limits: Limits | None = None

    def is_of_another_begin(self, checkpoint: Checkpoint) -> bool:
        """Return whether another owner began the era of this state, on another base or with other limits."""
        is_behind = self.newest > checkpoint.position
        # This era is that of another owner, which began it on what the changes held
        # (test_the_era_of_another_owner_counts).
        if checkpoint.holds_base and (is_behind or not self.bases <= {checkpoint.last_change}):
            return True
        # Two workers open a new partition one after the other, and only one of them has read a new definition. The
        # topic has the limits of the one that wrote first (test_a_store_of_other_first_limits).
        return is_behind and checkpoint.is_untouched and self.limits not in (None, checkpoint.limits)


def read_tail(events: Iterable[tuple[int, Event]], position: Position, topic_id: str, start: int) -> Tail:
    """Return the tail of the changes from an offset on, for a state at a position; each event has its offset.

    An event that is not newer than all before it was written by a worker that had lost the partition without
    noticing.
    """
    stale_keys: set[bytes] = set()
    live: set[bytes] = set()
    bases: set[Position] = set()
    limits: Limits | None = None
    # A state that takes over from an unfinished refill would otherwise report that all is there
    # (test_an_unfinished_refill_is_begun_again).
    wholeness = Wholeness(topic_id)
    wholeness.state = position, start, False
    due, has_gap, time = start, False, 0
    for offset, event in events:
        wholeness.saw([event], [offset])
        # A gap counts only between neighboring offsets. Where compaction has removed an event, the next offset does
        # not follow, and a missing position proves nothing (test_a_gap_that_compaction_has_not_made).
        follows, due = offset == due, offset + 1 if offset == due else BROKEN_OFF
        is_ours = is_of(event, topic_id)
        judged = verdict(event, position) if is_ours else Verdict.DROP
        if follows and judged is Verdict.GAP:
            has_gap = True
        if isinstance(event, Change):
            # Each change counts here, also one that came too late: after a refill by an older state, `[K@5, delete
            # K@9, K@5 again]` leaves K live, and the owner must delete it once more
            # (test_a_record_that_a_refill_brought_back).
            (live.discard if event.body is None else live.add)(event.sow_key)
        elif is_ours and event.position >= position and event.after.era < event.position.era:
            bases.add(event.after)
        if limits is None and is_ours and isinstance(event, Progress):
            limits = event.limits
        if judged is not Verdict.DROP:
            position, time = event.position, max(time, event.partition_time)
        else:
            # Not newer than what came before: a stale owner wrote it. Compaction keeps the last event of each key,
            # which is now the wrong one, so the key must be written again
            # (test_stale_owner_events_in_the_tail_are_noted).
            stale_keys.add(event.sow_key if isinstance(event, Change) else PROGRESS_KEY)
    is_unfilled = wholeness.is_refilling and not has_gap
    return Tail(
        position, time, frozenset(stale_keys), frozenset(live), has_gap, is_unfilled, frozenset(bases), limits
    )
