"""Whether the events read from a changes partition include every record. Pure."""

from collections.abc import Iterable
from itertools import repeat
from typing import Protocol

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import UNFILLED, ChangesId
from sowline.model.position import Position, before_the_log, position_of

UNKNOWN_OFFSET = -1

BROKEN_OFF = -2
"""The expected next offset after a gap in the offsets. No offset equals it, not even `UNKNOWN_OFFSET`, so no later
offset counts as contiguous with the start."""


def is_of(event: Event, topic_id: str) -> bool:
    """Return whether an event may describe the changes topic with this id; False only if it names another one.

    The id may be a `ChangesId` too. Positions are right even if they were written before a part of the topic
    was deleted.

    Suppose that the changes topic is deleted and created again, and its owner has not noticed. The owner's progress
    events then describe what it wrote to the old topic. They must not complete a load of the new one
    (`test_the_word_of_an_owner_that_knows_another_topic`).
    """
    if isinstance(event, Change) or not topic_id or event.changes_id in ("", UNFILLED, topic_id):
        return True
    return ChangesId.parse(event.changes_id).topic == ChangesId.parse(topic_id).topic


class PlainChanges(Protocol):
    """Changes by publishes, without rare fields, that the native core has read."""

    def follow(self, state: tuple[Position, int, bool]) -> tuple[tuple[int, int, int] | None, int, bool]:
        """Return the `Wholeness.state` after these changes; None for the position if it is the same."""
        ...


class Wholeness:
    """Checks that the events read from the start of a changes partition include every record.

    The owner of a new partition writes a progress event first. After the topic was lost, the owner refills it: it
    writes the newest event of every record again (`AGAIN`), then a progress event that names the new topic. Until
    that progress event, an `AGAIN` event that is newer than all events before it, or a progress event that says so
    (`UNFILLED`), shows an unfinished refill. A
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
                if event.changes_id == UNFILLED:
                    # An era begins, and its owner writes lost changes again. They are older than the era, so none of
                    # them shows it (test_a_reader_that_starts_within_the_refill_of_an_era).
                    self._is_refilling = True
                elif ChangesId.parse(event.changes_id).start >= self._start:
                    self._has_progress, self._is_refilling = True, False
        assert newest >= self._newest, "the newest position does not move back"
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
        """The newest event's position, the offset that follows without a gap, and whether a refill is unfinished.

        Changes that are not written again depend on this state, and change only it. `saw` updates it event by event,
        the native core for many changes at once.
        """
        return self._newest, self._due, self._is_refilling

    @state.setter
    def state(self, state: tuple[tuple[int, int, int], int, bool]) -> None:
        newest, self._due, self._is_refilling = state
        assert newest >= self._newest, "the newest position does not move back"
        self._newest = position_of(newest)

    @property
    def is_refilling(self) -> bool:
        """Whether the owner began to write its newest events again, and has not reported that all are there."""
        return self._is_refilling

    @property
    def is_whole(self) -> bool:
        """Whether every record is included. Nothing is known about an empty partition, so it is not whole."""
        return self._has_progress and not self._is_refilling
