"""The whole system holds its promises, whatever goes wrong; and the simulation would notice if it did not."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tests.simulation.many import SEEDS_A_MISTAKE, failures, finding, pool
from tests.simulation.mutations import MISTAKES
from tests.simulation.run import simulate

pytestmark = pytest.mark.timeout(420)

PORTION = 25
PORTIONS = range(0, 50, PORTION)
"""The first seeds of portions, always the same ones: all but a few of the planted mistakes are found by them.
`make test-all` tries many more.
"""

EXAMPLES = (23, 1022, 1601, 3777, 20407, 20704, 704947, 439553455, 492846852)
"""More seeds that once found a fault: in topics that were lost, with several owners or with a snapshot."""

EXAMPLES_WITH_GATEWAYS = (57, 77, 135)
"""Seeds that found one if they have gateways: nodes that were started again as another shard."""

EXAMPLES_WITH_SCHEMAS = (56,)
"""Seeds that found one if the message type has schemas: an entry that a replaced owner wrote late."""

Runs = dict[tuple[str, Any], "Future[Any]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    """All the runs that the chosen tests of this module wait for, on all cores."""
    with pool() as processes:
        found: Runs = {}
        for item in request.session.items:
            if (
                isinstance(item, pytest.Function)
                and item.module is request.module
                and hasattr(item, "callspec")
            ):
                case: Any = item.callspec.params["case"]
                run: Future[Any]
                if item.originalname == "test_mistake":
                    run = processes.submit(finding, case, range(SEEDS_A_MISTAKE))
                elif item.originalname == "test_example_with_gateways":
                    run = processes.submit(failures, [case], has_gateways=True)
                elif item.originalname == "test_example_with_schemas":
                    run = processes.submit(failures, [case], is_typed=True)
                else:
                    count = 1 if item.originalname == "test_example" else PORTION
                    run = processes.submit(failures, range(case, case + count))
                found[item.originalname, case] = run
        yield found
        processes.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", EXAMPLES)
def test_example(runs: Runs, case: int) -> None:
    """What was found once is not found again."""
    assert "\n".join(runs["test_example", case].result()) == ""


@pytest.mark.parametrize("case", EXAMPLES_WITH_GATEWAYS)
def test_example_with_gateways(runs: Runs, case: int) -> None:
    """Nor with shards and gateways."""
    assert "\n".join(runs["test_example_with_gateways", case].result()) == ""


@pytest.mark.parametrize("case", EXAMPLES_WITH_SCHEMAS)
def test_example_with_schemas(runs: Runs, case: int) -> None:
    """Nor with a message type that has schemas."""
    assert "\n".join(runs["test_example_with_schemas", case].result()) == ""


@pytest.mark.parametrize("case", PORTIONS)
def test_seeds(runs: Runs, case: int) -> None:
    """Whatever a seed brings, every state, replica and view is what the log says, at every position."""
    assert "\n".join(runs["test_seeds", case].result()) == ""


def test_a_seed_again() -> None:
    """The same seed is the same run, whatever else runs in this process and looks at the clock."""
    first, is_over = simulate(7).trace, threading.Event()

    def look() -> None:
        while not is_over.wait(0.001):
            time.monotonic()

    other = threading.Thread(target=look)
    other.start()
    try:
        assert simulate(7).trace == first
    finally:
        is_over.set()
        other.join()


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake(runs: Runs, case: str) -> None:
    """A mistake in a service is found by one of the first seeds, or by the known one."""
    seed = runs["test_mistake", case].result()
    assert seed is not None, (
        "run python -m tests.simulation --mistakes --seeds 500, and add its line to FOUND_BY"
    )
