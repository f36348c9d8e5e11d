"""What the log records of a batch make, as it is collected."""

import pytest
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.commands.command import LogRecord
from sowline.errors import SowlineError
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.collector import StepCollector

START = Position(0, -1)
CHANGE = Change(b"1", b"{}", None, Position(0, 7), START, "publish", 99)
NEWS = Checkpoint(Position(0, 6), START)


@pytest.fixture
def out() -> StepCollector:
    """A step in which nothing has happened."""
    return StepCollector(Checkpoint(START, START))


def test_changes_are_counted_by_command(out: StepCollector) -> None:
    """In the order of the log."""
    other = replace(CHANGE, op="delete")
    for change in (CHANGE, other, CHANGE):
        out.add_change(change)
    assert out.step.changes == [CHANGE, other, CHANGE]
    assert out.step.commands == {"publish": 2, "delete": 1}


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (replace(CHANGE, body=None, numbers={"p": (1, 0, 9)}), True),
        (replace(CHANGE, body=None), False),
        (replace(CHANGE, numbers={"p": (1, 0, 9)}), False),
        (replace(CHANGE, body=None, numbers={"p": (1, 0, 9)}, writes=Writes(1, "a", 1, 1, 1)), False),
    ],
    ids=["numbers", "nothing", "live", "document"],
)
def test_a_deletion_that_is_kept_for_its_numbers_ends_later(
    out: StepCollector, change: Change, is_kept: bool
) -> None:
    """It is listed with its log time."""
    out.add_change(change)
    assert out.step.tombstones == ([(99, b"1")] if is_kept else [])


def test_a_record_without_a_change_has_an_outcome(out: StepCollector) -> None:
    """A refused one is also a dead letter."""
    record = LogRecord(5, 0, None, b"")
    out.begin(4)
    out.set_outcome("noop")
    out.begin(5)
    out.add_dead_letter(record, SowlineError("bad key", "expected a key"))
    assert out.step.outcomes == {"4": "noop", "5": "dead:bad key"}
    (letter,) = out.step.dead
    assert (letter.record, letter.reason, letter.message) == (record, "bad key", "expected a key")


def test_news_are_written_before_the_next_change(out: StepCollector) -> None:
    """An owner that loads that change would otherwise not know of them."""
    out.add_change(CHANGE)
    out.note_news()
    assert out.has_unreported_news
    out.end(NEWS)
    assert (out.has_unreported_news, out.step.unreported) == (False, [])
    out.add_change(CHANGE)
    out.add_change(CHANGE)
    assert out.step.unreported == [(1, NEWS)]


def test_news_that_a_change_reports_need_nothing_more(out: StepCollector) -> None:
    """The change has them itself."""
    out.note_news()
    out.end(None)
    out.add_change(CHANGE)
    assert out.step.unreported == []
