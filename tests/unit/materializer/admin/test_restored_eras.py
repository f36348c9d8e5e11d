"""The eras of a restored state: it goes on in the backup's, or in one that nobody has a position of."""

from dataclasses import replace

from sowline.changes.progress import Begin
from sowline.kafka.last_eras import NEVER_DELETED
from sowline.model.position import Position, before_the_log
from sowline_materializer.admin.restored_eras import in_their_eras
from sowline_materializer.core.checkpoint import Checkpoint

BACKED_UP = Checkpoint(
    Position(1, 9, 2), Position(1, 8), 5000, {3: 7}, "d", "log", begin=Begin(4, 300), reflected={}
)
OTHER = replace(BACKED_UP, position=Position(0, 5), last_change=Position(0, 5))
STARTS = {0: 0, 1: 30}


def test_the_same_log_goes_on() -> None:
    """In an era after the last one that ended, nothing else has happened."""
    for last in (NEVER_DELETED, 0):
        assert in_their_eras([BACKED_UP], "log", last, STARTS) == [BACKED_UP]


def test_the_same_log_that_had_a_later_era() -> None:
    """It goes on at its offset, and its origins count, but no position from before."""
    for last in (1, 2):
        (begun,) = in_their_eras([BACKED_UP], "log", last, STARTS)
        assert begun.position == begun.last_change == Position(last + 2, 9, 1)
    assert (begun.next_offset, begun.origins, begun.begin) == (10, {3: 7}, None)
    half = replace(BACKED_UP, complete=False)
    (begun,) = in_their_eras([half], "log", 2, STARTS)
    assert (begun.next_offset, begun.complete) == (9, True)


def test_another_log_is_applied_from_its_start() -> None:
    """In an era after all that there were, of any partition; its base is not the emptiness before a log."""
    for last, era in ((NEVER_DELETED, 2), (0, 2), (1, 3), (5, 7)):
        begun = in_their_eras([OTHER, BACKED_UP], "another", last, STARTS)
        assert [one.position for one in begun] == [Position(era, -1, 1), Position(era, 29, 1)]
        assert [one.next_offset for one in begun] == [0, 30]
        for one in begun:
            assert one.last_change == one.position != before_the_log(era)
            assert (one.origins, one.begin, one.log_id) == ({}, None, "another")


def test_a_partition_of_an_earlier_era_than_another() -> None:
    """The other one goes on in its own."""
    begun = in_their_eras([OTHER, BACKED_UP], "log", 0, STARTS)
    assert begun == [begun[0], BACKED_UP]
    assert begun[0].position == Position(2, 5, 1)
