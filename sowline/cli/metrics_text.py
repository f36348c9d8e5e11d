"""Reads the metrics that a service answers with. No I/O."""

from collections.abc import Mapping

Numbers = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""Metrics: by name, and by their labels in order of their names."""


def read_metrics(text: str) -> Numbers:
    """Read the metrics of a service; raises ValueError for anything else."""
    from prometheus_client.parser import text_string_to_metric_families  # slow to import

    numbers: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            numbers.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return numbers
