"""The changes of one log record are handed over together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.model.position import Position
from sowline_query_service.replica.incomplete_record import IncompleteRecord
from sowline_query_service.replica.plain_run import EventAtOffset, MessageColumns, PlainRun, Portion


def change(offset: int, nth: int = 0, *, last: bool = True) -> Change:
    """Return a deletion."""
    return Change(b"1", None, b"{}", Position(0, offset, nth), Position(0, offset - 1), "delete", 0, last)


def progress(offset: int) -> Progress:
    """Return a progress event."""
    return Progress(Position(0, offset), Position(0, offset - 1), 0, {}, "", "", 0, {})


def placed(events: Iterable[Event]) -> list[EventAtOffset]:
    """Return the events at offsets of the changes topic that follow each other."""
    return [EventAtOffset(offset, event) for offset, event in enumerate(events)]


def complete(*batches: Sequence[Portion]) -> list[int]:
    """Return how many portions are complete after each of these batches; they keep their order."""
    incomplete, found, counts = IncompleteRecord(), list[Portion](), list[int]()
    for batch in batches:
        found += incomplete.complete(batch)
        counts.append(len(found))
    read = [portion for batch in batches for portion in batch]
    assert found == read[: len(found)]
    assert bool(incomplete) == (len(found) < len(read))
    return counts


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([], 0),
        ([change(1)], 1),
        ([change(1, last=False)], 0),
        ([change(1), change(2, last=False), change(2, 1, last=False)], 1),
        ([change(1, last=False), change(1, 1), change(2, last=False)], 2),
        ([change(1), progress(2)], 2),
    ],
)
def test_a_log_records_changes_are_shown_together(events: Sequence[Event], shown: int) -> None:
    """What may be shown ends where a log record's changes end; the rest waits for them."""
    assert complete(placed(events)) == [shown]
    assert complete(*([one] for one in placed(events)))[-1:] == [shown][: len(events)]


def test_a_record_is_complete_once_its_last_change_arrives() -> None:
    """The batches before that one show nothing of it, and those after it begin again."""
    events = placed(change(5, nth, last=nth == 4) for nth in range(5))
    later = placed([change(6, last=False), change(6, 1)])
    assert complete(events[:2], events[2:4], [*events[4:], later[0]], later[1:]) == [0, 0, 5, 7]
    assert complete(placed([change(5, last=False)]), placed([progress(6)])) == [0, 2]


def test_a_stale_event_within_a_record_does_not_end_it() -> None:
    """An old event that a dead worker wrote between a record's changes does not make them whole."""
    events = placed([change(1), change(5, last=False), change(3, 2), change(5, 1)])
    assert complete(events[:3]) == [1]
    assert complete(events) == [4]
    assert complete(events[:2], events[2:3], events[3:]) == [1, 1, 4]


def test_each_change_is_examined_once() -> None:
    """Many batches bring the changes of one delete: what is held is not scanned again."""
    examined = Counter[int]()

    class Counted(SimpleNamespace):
        @property
        def position(self) -> Position:
            examined[self.nth] += 1
            return Position(0, 7, self.nth)

    events = placed(cast("Any", Counted(nth=nth, last=nth == 99)) for nth in range(100))
    assert complete(*([one] for one in events))[-2:] == [0, 100]
    assert examined == dict.fromkeys(range(100), 1)


def test_the_changes_of_a_run_are_whole() -> None:
    """Each of its log records has one change. A change of several before it is whole with its last one only."""

    class Changes(SimpleNamespace):
        def __len__(self) -> int:
            return 2

    run = PlainRun(MessageColumns([], [], [], [], [], []), 0, Changes(highest=(0, 8, 0)))
    assert complete([run]) == [1]
    assert complete([*placed([change(5, last=False)]), run]) == [2]
    assert complete(placed([change(5, last=False)]), [run]) == [0, 2]
    assert complete([run, *placed([change(9, last=False)])]) == [1]
