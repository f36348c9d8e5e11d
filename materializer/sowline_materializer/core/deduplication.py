"""Deduplication: finds commands that their record has already seen, and forwarded copies that the partition has
already seen. Pure.
"""

from sowline.changes.change import Numbers
from sowline.commands.command import Command, CopyOf, Origin
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.record import Record
from sowline_materializer.core.step import FOREIGN, REPEAT

PUBLISHERS_MAX = 8


class Deduplication:
    """Recognizes commands by their publishers' numbers, and forwarded copies by their origins."""

    def __init__(self, state: BatchState) -> None:
        self._state = state

    def is_repeat(self, current: Record, command: Command) -> bool:
        """Whether the record has seen the command, or a later one of its publisher."""
        return is_repeat(current.numbers, command, self.numbers_since())

    def numbers_after(self, current: Record | None, command: Command) -> Numbers | None:
        """Return the publishers' numbers of a record after the command."""
        numbers = current.numbers if current is not None else None
        if command.publisher is None and numbers is None:
            return None
        numbers, pushed_out = note_number(numbers, command, self._state.log_time, self.numbers_since())
        assert pushed_out >= 0, "a count of publishers is never negative"
        self._state.out.step.publishers_pushed_out += pushed_out
        return numbers

    def numbers_since(self) -> int:
        """Return the log time from which publishers' numbers count. Numbers that have left the window do not return
        if the window becomes longer.
        """
        state = self._state
        return max(state.log_time - state.limits.repeat_window, state.numbers_since)

    def dropped(self, copy: CopyOf) -> str | None:
        """Return the outcome of a copy that is dropped, as one of another log or a repeat; None if it must be
        applied.

        The offset of another log means nothing in this one. Nothing is lost with such a copy: a log that was
        mirrored holds the original too, which is forwarded here.
        """
        if copy.log_id != self._state.log_id:
            return FOREIGN
        return None if self._first_seen(copy.source) else REPEAT

    def _first_seen(self, origin: Origin) -> bool:
        state = self._state
        highest = state.origins.get(origin.partition, -1)
        # The copy at the highest offset is applied again only on resuming within it: a forwarded command may delete
        # many records, and the owner may have died between two of them.
        if origin.offset < highest or (origin.offset == highest and not state.resumed):
            return False
        state.origins[origin.partition] = origin.offset
        state.out.note_news()
        return True


def is_repeat(numbers: Numbers | None, command: Command, since: int) -> bool:
    """Return whether the command's number is not above the highest of its publisher since that log time (ms)."""
    if command.publisher is None or not numbers:
        return False
    seen = numbers.get(command.publisher)
    # Numbers count for a window of log time, the same for each owner and each replay. A wall clock would make a
    # replay apply what the first run dropped (test_a_number_is_remembered_for_the_window).
    return seen is not None and seen[2] >= since and command.sequence <= seen[:2]


def note_number(
    numbers: Numbers | None, command: Command, time: int, since: int
) -> tuple[Numbers | None, int]:
    """Return the numbers with the command's own, if it has one, and how many publishers were dropped for it.

    Numbers from before `since` are dropped with every write. Otherwise a change would depend on when a deleted
    record's numbers were cleared. Of more than `PUBLISHERS_MAX` publishers the oldest is dropped.
    """
    kept = {name: seen for name, seen in (numbers or {}).items() if seen[2] >= since}
    if command.publisher is not None:
        kept[command.publisher] = (*command.sequence, time)
    pushed_out = max(0, len(kept) - PUBLISHERS_MAX)
    for name in sorted(kept, key=lambda name: (name == command.publisher, kept[name][2], name))[:pushed_out]:
        del kept[name]
    assert len(kept) <= PUBLISHERS_MAX, "a record keeps the numbers of a limited number of publishers"
    assert command.publisher is None or command.publisher in kept, "the command's own number is kept"
    return kept or None, pushed_out
