"""A step: the result of a batch."""

from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import Step

START = Position(0, -1)


def test_a_step_begins_with_nothing_but_its_checkpoint() -> None:
    """Two steps share nothing."""
    one, other = (Step(Checkpoint(START, START)) for _ in range(2))
    one.changes.append(None)  # type: ignore[arg-type]
    one.outcomes["1"] = "noop"
    assert (other.changes, other.outcomes, other.dead, other.forwards) == ([], {}, [], [])
    assert other.checkpoint.position == START
