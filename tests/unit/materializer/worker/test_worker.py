"""How often a worker looks at its partitions."""

import threading
from types import SimpleNamespace

import pytest

from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline_materializer.worker import worker
from sowline_materializer.worker.worker import Worker, seconds_to_pause, seconds_to_wait


@pytest.mark.parametrize(
    ("partitions", "seconds"), [(0, 0.2), (200, 0.2), (500, 0.5), (1600, 1.0), (90_000, 1.0)]
)
def test_an_idle_worker_looks_less_often_at_many_partitions(partitions: int, seconds: float) -> None:
    """Each of its tasks looks at all partitions; with 1,600 of them, five looks a second took 4 % of a core."""
    assert seconds_to_wait(partitions) == seconds


@pytest.mark.parametrize(("partitions", "seconds"), [(0, 0.0), (2, 0.002), (64, 0.064), (1600, 1.6)])
def test_each_partition_is_checked_once_in_the_time_that_a_thousand_a_second_take(
    partitions: int, seconds: float
) -> None:
    """Small batches come by the hundred a second, and a check after each one would look at all partitions."""
    assert seconds_to_pause(partitions) == seconds


def test_a_worker_limits_the_memory_of_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it opens one, to what the setting says."""
    limits: list[int] = []

    def limit(bytes_max: int) -> None:
        limits.append(bytes_max)
        raise InterruptedError

    monkeypatch.setattr(worker, "MEMORY", SimpleNamespace(limit=limit))
    with pytest.raises(InterruptedError):
        Worker(
            Settings(store_bytes_max=1 << 24),
            parse_topics("topics: [{name: orders, key: /id}]"),
            threading.Event(),
        )
    assert limits == [1 << 24]
