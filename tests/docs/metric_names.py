"""The metrics that the services have, read from where they are made."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("sowline", "materializer", "query_service", "gateway", "fanout", "views")
_MADE = re.compile(r'(CounterMetricFamily|GaugeMetricFamily|_by|_by_partition|\.family)\(\s*"(sowline_\w+)"')
_KINDS = {"CounterMetricFamily": "counter", "_by": "counter", ".family": "histogram"}


def metrics() -> dict[str, str]:
    """Return the kind of each metric, `counter`, `gauge` or `histogram`, by the name that Prometheus gets."""
    sources = "".join(
        path.read_text() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
    )
    kinds = {name: _KINDS.get(makes, "gauge") for makes, name in _MADE.findall(sources)}
    return {f"{name}_total" if kind == "counter" else name: kind for name, kind in kinds.items()}
