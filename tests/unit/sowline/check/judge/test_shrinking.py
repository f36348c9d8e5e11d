"""Shrinking: the events of a few reads and records, which break the same guarantee."""

import random

import pytest

from sowline.check.judge.judging import judge
from sowline.check.judge.shrinking import shrunk
from sowline.check.judge.verdict import Guarantee, Violation
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, plant


@pytest.mark.parametrize("name", ["a lost publish", "a wrong delta", "a record is stale", "a wrong count"])
def test_a_short_history(name: str) -> None:
    """Much shorter than the whole, and broken in the same way."""
    mistake = next(one for one in PLANTED if one.name == name)
    events = plant(mistake, CheckedWorld(8).live(12), random.Random(8))
    assert events is not None
    violation = next(one for one in judge(events).violations if one.guarantee is mistake.breaks)
    short = shrunk(events, violation)
    assert mistake.breaks in judge(short).broken
    assert len(short) < len(events)


def test_what_does_not_shrink() -> None:
    """A violation that no part has stays as it is."""
    events = CheckedWorld(8).live()
    assert shrunk(events, Violation(Guarantee.ORDER, "never", "r1", ("1",))) == events
