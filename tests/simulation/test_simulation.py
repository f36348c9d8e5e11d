"""The whole system holds its promises, whatever goes wrong; and the simulation would notice if it did not."""

import pytest

from tests.simulation.mutations import FAULTS_OF, MISTAKES, mistaken
from tests.simulation.run import STEPS, simulate

SEEDS = 100
SEEDS_A_MISTAKE = 80


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_seeds(first: int) -> None:
    """Whatever a seed brings, every state, replica and view is what the log says, at every place."""
    for seed in range(first, first + 20):
        outcome = simulate(seed)
        assert outcome.error is None, f"python -m tests.simulation {seed}\n{outcome}"


def test_a_seed_again() -> None:
    """The same seed is the same run."""
    assert simulate(7).trace == simulate(7).trace


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    """A mistake in a service is found by one of the first seeds."""
    with mistaken(name):
        outcomes = (simulate(seed, STEPS, FAULTS_OF.get(name)) for seed in range(SEEDS_A_MISTAKE))
        assert any(outcome.error is not None for outcome in outcomes), name
