"""Portions of a command over many records: as many as one step may change, and never among other log records."""

import pytest

from sowline.commands.command import Command, LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import NeedsOwnSteps
from sowline_materializer.core.portions import PORTION_BYTES_MAX, PORTION_CHANGES_MAX, portion
from sowline_materializer.core.record import Record
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

DELETE = LogRecord(7, 1000, None, None, [("sow.command", b"sow_delete")])


def state(*, is_alone: bool = True) -> BatchState:
    """Return a state at the log record of a command, which may be alone in its batch."""
    definition = define_topic(name="orders", key="/id")
    made = BatchState(definition, 0, Checkpoint(definition=definition.digest), Overlay(MemoryStore()))
    made.begin(DELETE)
    made.is_alone = is_alone
    return made


def targets(count: int, body: bytes | None = b"{}") -> list[Target]:
    """Return as many records that the command is for; without a body, records that do not exist."""
    current = None if body is None else Record(body, "1", Position(0, 1), 1000, None)
    return [Target(b"%06d" % n, str(n), current, DELETE, Command("sow_delete")) for n in range(count)]


@pytest.mark.parametrize(
    "count", [0, 1, PORTION_CHANGES_MAX], ids=["none", "one", "as many as a step changes"]
)
@pytest.mark.parametrize("is_alone", [True, False])
def test_what_one_step_can_change_is_one_portion(count: int, is_alone: bool) -> None:
    """Also among other log records."""
    wanted = targets(count)
    assert portion(iter(wanted), state(is_alone=is_alone)) == (wanted, True)


def test_more_records_than_a_step_changes_are_left() -> None:
    """Only one more is read, which shows that this portion is not the last one."""
    wanted = targets(PORTION_CHANGES_MAX + 2)
    given = iter(wanted)
    assert portion(given, state()) == (wanted[:PORTION_CHANGES_MAX], False)
    assert list(given) == wanted[-1:]


def test_a_portion_ends_at_its_bytes() -> None:
    """With the record that reaches them: a portion of no records would never end."""
    wanted = targets(3, b"x" * (PORTION_BYTES_MAX // 2))
    assert portion(iter(wanted), state()) == (wanted[:2], False)
    wanted = targets(2, b"x" * (PORTION_BYTES_MAX + 1))
    assert portion(iter(wanted), state()) == (wanted[:1], False)


def test_records_that_do_not_exist_have_no_bytes() -> None:
    """A delete by keys names them, too."""
    wanted = targets(3, None)
    assert portion(iter(wanted), state()) == (wanted, True)


def test_a_larger_command_needs_a_batch_of_its_own() -> None:
    """Its step ends before its last change, so no other log record can be in it."""
    with pytest.raises(NeedsOwnSteps) as raised:
        portion(iter(targets(PORTION_CHANGES_MAX + 1)), state(is_alone=False))
    assert raised.value.offset == DELETE.offset
