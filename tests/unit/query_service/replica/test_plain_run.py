"""Runs of plain changes: messages in columns, and the events that Python reads in them."""

from types import SimpleNamespace

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset, MessageColumns, PlainRun, events_of

CHANGES = [
    Change(b"%d" % number, b"{}", None, Position(0, number), Position(0, number - 1), "publish", 9)
    for number in range(4)
]
MESSAGES = MessageColumns(
    ["orders.changes"] * 4,
    [3] * 4,
    [10, 11, 12, 14],
    [change.sow_key for change in CHANGES],
    [change.body for change in CHANGES],
    [change.headers() for change in CHANGES],
)


class PlainChanges(SimpleNamespace):
    """What the native core has read."""

    def __len__(self) -> int:
        return 2


RUN = PlainRun(MESSAGES, 1, PlainChanges(highest=(0, 2, 0)))


def test_a_message_has_its_partition_and_its_event() -> None:
    """Read as the only ones of their kind would be."""
    assert MESSAGES.partition(2) == ("orders.changes", 3)
    assert MESSAGES.event(3) == EventAtOffset(14, CHANGES[3])


def test_a_run_is_a_part_of_the_messages() -> None:
    """It ends at the offset of its last change."""
    assert (len(RUN), RUN.last_offset, RUN.highest) == (2, 12, Position(0, 2))
    assert list(RUN) == [EventAtOffset(11, CHANGES[1]), EventAtOffset(12, CHANGES[2])]


def test_portions_are_events_one_by_one() -> None:
    """Events alone are taken as they are."""
    first, last = MESSAGES.event(0), MESSAGES.event(3)
    assert list(events_of([first, RUN, last])) == [first, *RUN, last]
    plain = [first, last]
    assert events_of(plain) is plain
