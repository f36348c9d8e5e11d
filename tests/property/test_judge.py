"""The judge of histories finds nothing in those of a perfect system, and each planted mistake by its name."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.check.history import event_line, read_history
from sowline.check.judge.judging import judge
from sowline.check.judge.shrinking import shrunk
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, PlantedMistake, plant

pytestmark = pytest.mark.slow

SEEDS = 20


@given(st.integers(0, 1 << 32))
def test_a_sound_history(seed: int) -> None:
    """Nothing is found, and every guarantee was looked for."""
    verdict = judge(CheckedWorld(seed).live())
    assert [str(one) for one in verdict.violations] == []


def test_every_guarantee_is_checked() -> None:
    """In one life of a system."""
    verdict = judge(CheckedWorld(1).live(12))
    assert {name for name, checked, _ in verdict.rows() if not checked} == set()


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.name)
def test_a_planted_mistake(mistake: PlantedMistake) -> None:
    """It is found in every history in which it is, under the name of what it breaks, and in the short history too."""
    planted = 0
    for seed in range(SEEDS):
        events = plant(mistake, CheckedWorld(seed).live(), random.Random(seed))
        if events is None:
            continue
        planted += 1
        verdict = judge(events)
        assert mistake.breaks in verdict.broken, f"seed {seed}: {[str(one) for one in verdict.violations]}"
        if seed < 3:
            first = next(one for one in verdict.violations if one.guarantee is mistake.breaks)
            short = shrunk(events, first)
            assert mistake.breaks in judge(short).broken
            assert len(short) <= len(events)
    assert planted > SEEDS / 2


def test_two_mistakes_for_each_guarantee() -> None:
    """Expiries and missing answers are of the whole system: tests/integration/test_check.py has those."""
    counts = {
        name: sum(one.breaks is name for one in PLANTED)
        for name in {*Guarantee} - {Guarantee.EXPIRY, Guarantee.ANSWERS}
    }
    assert {name for name, count in counts.items() if count < 2} == set()


def test_a_history_is_read_as_it_was_written() -> None:
    """From its lines."""
    events = CheckedWorld(3).live()
    assert list(read_history(map(event_line, events))) == events
