"""Each era applies its own log, and nothing that a transaction holds; and the simulation would notice otherwise."""

import pytest

from tests.simulation.log_mutations import LOG_MISTAKES, seeds_that_find
from tests.simulation.log_world import log_failures, simulate_logs

pytestmark = pytest.mark.timeout(420)

SEEDS = 12
SEEDS_A_MISTAKE = 40


def test_seeds() -> None:
    """Logs are replaced under a running worker, and transactions stay open: nothing is skipped, and lag tells it."""
    assert "\n".join(log_failures(range(SEEDS))) == ""


def test_a_seed_again() -> None:
    """The same seed is the same run."""
    assert simulate_logs(3).trace == simulate_logs(3).trace


@pytest.mark.parametrize("mistake", LOG_MISTAKES)
def test_mistake(mistake: str) -> None:
    """A mistake about logs is found by two of the first seeds."""
    assert len(seeds_that_find(mistake, range(SEEDS_A_MISTAKE), 2)) == 2
