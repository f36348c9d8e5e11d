"""Holds the changes of a log record until its last one has arrived. Pure.

A delete by filter makes many changes of one log record. If a batch ended within them, a query would see half of the
command.
"""

from collections.abc import Sequence

from sowline.changes.progress import Progress
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import PlainRun, Portion


class IncompleteRecord:
    """The changes of the log record that is incomplete so far; at most one is, the newest of its partition."""

    def __init__(self) -> None:
        self._held: list[Portion] = []
        self._newest: Position | None = None
        """The newest position in what is held."""

    def __bool__(self) -> bool:
        """Whether a log record is incomplete."""
        return bool(self._held)

    def complete(self, portions: Sequence[Portion]) -> list[Portion]:
        """Return the events of complete log records, the held ones first; hold the rest."""
        # Only the new events: in a delete of a million records, each batch would scan all that are held, and every
        # topic would wait for minutes (test_each_change_is_examined_once).
        end, newest, is_end = 0, self._newest, not self._held
        for number, portion in enumerate(portions, 1):
            if isinstance(portion, PlainRun):
                position, is_last = portion.highest, True
            else:
                event = portion.event
                position, is_last = event.position, isinstance(event, Progress) or event.last
            # An event that a stale owner wrote between the changes of one log record has `last` set, too. Taken for
            # the end, it would show half of a delete (test_a_stale_event_within_a_record_does_not_end_it).
            if newest is None or position >= newest:
                newest, is_end = position, is_last
            if is_end:
                end = number
        if not end:
            self._held += portions
            self._newest = newest
            return []
        whole = [*self._held, *portions[:end]]
        self._held = [*portions[end:]]
        self._newest = newest if self._held else None
        assert is_end == (not self._held), "the newest event shows whether a log record is incomplete"
        return whole
