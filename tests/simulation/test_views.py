"""Views equal a recomputation over their sources, whatever goes wrong; and the simulation would notice otherwise."""

import pytest

from tests.simulation.many import view_failures
from tests.simulation.view_mutations import VIEW_MISTAKES, seeds_that_find
from tests.simulation.view_runs import simulate_views

PORTION = 25
PORTIONS = range(0, 75, PORTION)

SEEDS_A_MISTAKE = 120


@pytest.mark.parametrize("first", PORTIONS)
def test_seeds(first: int) -> None:
    """Every partition of a view is, at each message boundary, what its sources are at the positions it reflects."""
    assert "\n".join(view_failures(range(first, first + PORTION))) == ""


def test_a_seed_again() -> None:
    """The same seed is the same run."""
    assert simulate_views(7).trace == simulate_views(7).trace


@pytest.mark.parametrize("mistake", VIEW_MISTAKES)
def test_mistake(mistake: str) -> None:
    """A mistake in views is found by two of the first seeds."""
    assert len(seeds_that_find(mistake, range(SEEDS_A_MISTAKE), 2)) == 2
