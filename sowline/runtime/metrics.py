"""A histogram of durations for Prometheus. The collector that reads it gives it its name."""

from prometheus_client import Histogram
from prometheus_client.metrics_core import HistogramMetricFamily

BOUNDS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""The upper bounds of the buckets, from the latency of an idle system to an hour's downtime."""


class Latencies:
    """Counts durations by bucket.

    Each `note` costs about 1 µs of CPU: call it for each batch, not for each record.
    """

    def __init__(self) -> None:
        # Not in a registry: the collectors of a service report the histogram under their own names.
        self._histogram = Histogram("latency_seconds", "-", buckets=BOUNDS_SECONDS, registry=None)

    def note(self, seconds: float) -> None:
        """Count a duration; a negative one counts as 0."""
        # A broker's clock is ahead of this machine's. Negative durations would make the histogram's sum decrease, and
        # Prometheus would read that as a counter reset (test_a_clock_that_is_behind_makes_no_negative_duration).
        self._histogram.observe(max(0.0, seconds))

    def family(self, name: str, help: str) -> HistogramMetricFamily:
        """Return the counts as a metric."""
        counts: list[tuple[str, float]] = []
        seconds = 0.0
        (metric,) = self._histogram.collect()
        for sample in metric.samples:
            if sample.name.endswith("_bucket"):
                counts.append((f"{float(sample.labels['le']):g}".replace("inf", "+Inf"), sample.value))
            elif sample.name.endswith("_sum"):
                seconds = sample.value
        return HistogramMetricFamily(name, help, counts, seconds)
