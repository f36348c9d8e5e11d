"""Shrinking: the events of a few reads and records, which break the same guarantee."""

import random

import pytest

from sowline.check.history import Event, FaultRun
from sowline.check.judge.judging import judge
from sowline.check.judge.shrinking import shrunk
from sowline.check.judge.verdict import Guarantee, Violation
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, plant
from tests.small_histories import answered, ended, got, group, history, opened, sent, written


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


# The smallest histories: two records, two subscriptions, and one wrong message.

K, M = {"id": "k", "qty": 5}, {"id": "m", "qty": 1}
WRITES = [*written("w1", "t:0@1", K), *written("w2", "t:1@1", M)]
OTHER = [opened(read="other"), got("t:0@1", K, "w1", read="other")]
WRONG = got("t:0@1", {**K, "qty": 6}, "w1")


def first(events: list[Event]) -> Violation:
    """Return the first violation of a history."""
    return judge(events).violations[0]


def test_the_read_and_the_record_concerned() -> None:
    """All else is left out, but for what was done to the system."""
    fault = FaultRun("true", 1.0, 0)
    deleted = [sent("d", None, "sow_delete", filter="/qty > 9"), answered("d", deleted=0)]
    events = history(WRITES, OTHER, deleted, fault, opened(), WRONG, got("t:1@1", M, "w2"), ended("t:0@1"))
    kept = history(WRITES[:2], deleted[0], answered("d"), fault, opened(), WRONG, ended("t:0@1"))
    assert shrunk(events, first(events)) == kept


def test_the_numbers_of_all_records_are_left_out() -> None:
    """Those of a group with fewer records would be other ones."""
    wrong = {**K, "qty": 6}
    events = history(WRITES, opened("sow"), group("t:0@1,1@1", wrong, M, records=2, hash="00"))
    kept = history(WRITES[:2], opened("sow"), group("t:0@1,1@1", wrong))
    assert shrunk(events, first(events)) == kept


def test_all_records_of_a_read() -> None:
    """Where the violation names none."""
    events = history(WRITES, OTHER, opened("sow"), group("t:0@1,1@1", K, M, records=3))
    assert shrunk(events, first(events)) == history(
        WRITES, opened("sow"), group("t:0@1,1@1", K, M, records=3)
    )


def test_all_records_of_groups_and_pages() -> None:
    """Without some of them, there would be other ranks and other sums."""
    page = opened("sow", order_by="/id", skip_n=1, top_n=1)
    events = history(WRITES, OTHER, page, group("t:0@1,1@1", {**M, "qty": 2}))
    assert shrunk(events, first(events)) == history(WRITES, page, group("t:0@1,1@1", {**M, "qty": 2}))


def test_a_violation_of_all_reads() -> None:
    """One that names no read needs those that show what happened."""
    expired = got("t:0@2", K, reason="expired", read="other")
    events = history(WRITES, OTHER, expired, opened("sow", "page", order_by="/id"), ended(read="page"))
    violation = next(one for one in judge(events).violations if one.guarantee is Guarantee.EXPIRY)
    assert not violation.read
    assert shrunk(events, violation) == history(WRITES[:2], OTHER, expired)
