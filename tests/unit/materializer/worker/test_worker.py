"""How often a worker looks at its partitions."""

import pytest

from sowline_materializer.worker.worker import seconds_to_pause, seconds_to_wait


@pytest.mark.parametrize(
    ("partitions", "seconds"), [(0, 0.2), (200, 0.2), (500, 0.5), (1600, 1.0), (90_000, 1.0)]
)
def test_an_idle_worker_looks_less_often_at_many_partitions(partitions: int, seconds: float) -> None:
    """Each of its tasks looks at all partitions; with 1,600 of them, five looks a second took 4 % of a core."""
    assert seconds_to_wait(partitions) == seconds


@pytest.mark.parametrize(("partitions", "seconds"), [(0, 0.0), (200, 0.0), (201, 0.201), (1600, 1.6)])
def test_few_partitions_are_checked_after_each_batch(partitions: int, seconds: float) -> None:
    """Of many, each is checked once in the time that 1,000 a second take."""
    assert seconds_to_pause(partitions) == seconds
