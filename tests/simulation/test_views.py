"""Views equal a recomputation over their sources, whatever goes wrong; and the simulation would notice otherwise.

Of the seeds, every fifth is of a view with joins.
"""

import pytest

from tests.simulation.many import view_failures
from tests.simulation.view_mutations import OF_JOINS, VIEW_MISTAKES, seeds_that_find
from tests.simulation.view_runs import has_joins, simulate_views

PORTION = 25
PORTIONS = range(0, 75, PORTION)

SEEDS_A_MISTAKE = 120


@pytest.mark.parametrize("first", PORTIONS)
def test_seeds(first: int) -> None:
    """Every partition of a view is, at each message boundary, what its sources are at the positions it reflects."""
    assert "\n".join(view_failures(range(first, first + PORTION))) == ""


@pytest.mark.parametrize("seed", [700_714, 700_887, 701_546])
def test_a_copy_at_rest_is_of_the_changes_there_are(seed: int) -> None:
    """A changes topic is replaced, and the new one ends where the old one did."""
    outcome = simulate_views(seed)
    assert outcome.error is None, outcome


@pytest.mark.parametrize("seed", [7, 9])
def test_a_seed_again(seed: int) -> None:
    """The same seed is the same run, also of a view with joins."""
    assert simulate_views(seed).trace == simulate_views(seed).trace


@pytest.mark.parametrize("mistake", VIEW_MISTAKES)
def test_mistake(mistake: str) -> None:
    """A mistake in views is found by two of the first seeds."""
    assert len(seeds_that_find(mistake, range(SEEDS_A_MISTAKE), 2)) == 2


@pytest.mark.parametrize("mistake", OF_JOINS)
def test_mistake_in_joins(mistake: str) -> None:
    """A mistake that concerns joins is found by two of the first seeds with joins."""
    assert len(seeds_that_find(mistake, filter(has_joins, range(SEEDS_A_MISTAKE)), 2)) == 2
