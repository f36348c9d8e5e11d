"""How long things took, as a histogram for Prometheus: a few additions to note one, no label, no lock."""

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.metrics_core import HistogramMetricFamily

BOUNDS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Up to which a duration counts to a bucket: from a system that is idle to one that was down for an hour."""


class Latencies:
    """Counts durations by bucket. One thread notes; any may read."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self._seconds = 0.0

    def note(self, seconds: float) -> None:
        """Count a duration; one below 0, of two clocks that differ, is none at all."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self._seconds += seconds

    def family(self, name: str, help: str) -> HistogramMetricFamily:
        """Return what was counted as a metric."""
        bounds = [*(f"{bound:g}" for bound in BOUNDS_SECONDS), "+Inf"]
        counts = list(accumulate(self._counts))
        return HistogramMetricFamily(
            name, help, list(zip(bounds, map(float, counts), strict=True)), self._seconds
        )
