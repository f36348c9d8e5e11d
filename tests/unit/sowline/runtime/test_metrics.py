"""The histogram of how long things took, as Prometheus gets it."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sowline.cli.metrics_text import read_metrics
from sowline.runtime.metrics import BOUNDS_SECONDS, Latencies


class Of(Collector):
    """A registry's one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        """Return it."""
        return [self._metric]


def samples(latencies: Latencies) -> Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]:
    """Return what a reader of `/metrics` finds."""
    registry = CollectorRegistry()
    registry.register(Of(latencies.family("sowline_took_seconds", "How long it took")))
    return read_metrics(generate_latest(registry).decode())


def test_durations_count_to_each_bucket_that_has_room_for_them() -> None:
    """A bucket holds all that took no longer than its bound; what took longer than all is in the last one only."""
    latencies = Latencies()
    for seconds in (0.004, 0.005, 0.3, 1e6):
        latencies.note(seconds)
    numbers = samples(latencies)
    buckets = {dict(labels)["le"]: count for labels, count in numbers["sowline_took_seconds_bucket"].items()}
    assert len(buckets) == len(BOUNDS_SECONDS) + 1
    assert (buckets["0.005"], buckets["0.25"], buckets["0.5"], buckets["3600"]) == (2, 2, 3, 3)
    assert buckets["+Inf"] == sum(numbers["sowline_took_seconds_count"].values()) == 4
    assert sum(numbers["sowline_took_seconds_sum"].values()) == 0.004 + 0.005 + 0.3 + 1e6


def test_a_clock_that_is_behind_makes_no_negative_duration() -> None:
    """It counts as none at all, and takes nothing from the sum."""
    latencies = Latencies()
    latencies.note(-5)
    numbers = samples(latencies)
    assert numbers["sowline_took_seconds_bucket"][("le", "0.005"),] == 1
    assert sum(numbers["sowline_took_seconds_sum"].values()) == 0
