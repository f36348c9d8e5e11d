"""The state that moves from log record to log record of a batch."""

import pytest

from sowline.changes.change import Change
from sowline.commands.command import Command, LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.log_time import CREATE_TIME
from sowline.model.position import Position
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

TOPIC = define_topic(name="orders", key="/id")


def state_at(position: Position, **given: object) -> BatchState:
    """Return the state of a partition that has applied the log up to a position."""
    checkpoint = Checkpoint(position, Position(position.era, 3), time=500, records=7, **given)  # type: ignore[arg-type]
    return BatchState(TOPIC, 0, checkpoint, Overlay(MemoryStore()))


def changed(state: BatchState) -> Change:
    """Make a change, and return it as the step has it."""
    change = Change(b"1", b"{}", None, state.next_position(), state.last_change, "publish", state.time)
    state.add_change(change)
    return state.out.step.changes[-1]


def test_the_changes_of_a_log_record_are_numbered() -> None:
    """Each names the one before it."""
    state = state_at(Position(2, 5))
    state.begin(LogRecord(8, 600, None, b"{}"))
    first, second = changed(state), changed(state)
    assert (first.position, first.after) == (Position(2, 8), Position(2, 3))
    assert (second.position, second.after) == (Position(2, 8, 1), Position(2, 8))
    assert (state.position, state.last_change) == (Position(2, 8, 1), Position(2, 8, 1))


def test_a_log_record_that_was_cut_short_goes_on() -> None:
    """After the changes that the state already has."""
    state = state_at(Position(2, 5, 1))
    state.begin(LogRecord(5, 600, None, b"{}"))
    assert (state.resumed, state.next_position()) == (True, Position(2, 5, 2))
    state.begin(LogRecord(6, 600, None, b"{}"))
    assert (state.resumed, state.next_position()) == (False, Position(2, 6))


@pytest.mark.parametrize(
    ("time", "time_type", "log_time", "of_change"),
    [(600, 2, 600, None), (400, 2, 500, None), (900, CREATE_TIME, 500, 500)],
    ids=["broker", "broker that runs back", "producer ahead"],
)
def test_a_change_has_the_log_time_if_its_own_is_later(
    time: int, time_type: int, log_time: int, of_change: int | None
) -> None:
    """Only the broker's time moves log time."""
    state = state_at(Position(0, 5))
    state.begin(LogRecord(6, time, None, b"{}", None, time_type))
    assert (state.log_time, changed(state).log_time) == (log_time, of_change)


def test_the_checkpoint_is_after_the_log_record() -> None:
    """With all that a new owner needs to continue."""
    state = state_at(Position(2, 5), origins={1: 4})
    state.begin(LogRecord(8, 600, None, b"{}"))
    changed(state)
    state.live_records += 1
    made = state.checkpoint()
    assert (made.position, made.last_change, made.time) == (Position(2, 8), Position(2, 8), 600)
    assert (made.records, made.origins) == (8, {1: 4})


@pytest.mark.parametrize("makes_change", [True, False])
def test_news_without_a_change_are_reported_before_the_next_one(makes_change: bool) -> None:
    """A change has its own."""
    state = state_at(Position(0, 5))
    state.begin(LogRecord(6, 600, None, b"{}"))
    if makes_change:
        changed(state)
    state.out.note_news()
    state.end()
    state.begin(LogRecord(7, 600, None, b"{}"))
    changed(state)
    assert [checkpoint.position for _, checkpoint in state.out.step.unreported] == (
        [] if makes_change else [Position(0, 6)]
    )


def test_what_a_view_reflects_moves_by_source_partition() -> None:
    """What has moved is laid over the rest, unless all of it is given."""
    state = state_at(Position(0, 5), taken={1: "a:0@1,1@2"})
    state.reflect(1, Position(0, 9), {"a": {1: Position(0, 4)}}, is_all=False)
    assert (state.reflected, state.taken) == ({1: Position(0, 9)}, {1: "a:0@1,1@4"})
    state.reflect(1, Position(0, 10), {"a": {1: Position(0, 5)}}, is_all=True)
    assert state.taken == {1: "a:1@5"}
    state.reflect(1, Position(0, 11), {}, is_all=True)
    assert state.taken == {}


def test_a_target_has_the_body_from_before() -> None:
    """None if there is no live record."""
    record = LogRecord(6, 0, None, b"{}")
    held = Record(b"{}", "1", Position(0, 1), 5)
    assert Target(b"1", "1", held, record, Command()).previous == b"{}"
    assert Target(b"1", "1", None, record, Command()).previous is None
