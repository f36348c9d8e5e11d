"""The views process: a runner for each view."""

import sys
import threading
from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import Any

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.definition_changes import Kind
from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.kafka.runner_service import RunnerService
from sowline.native import Core, panics
from sowline.runtime.native import native_core, panic_metric
from sowline_views.core.joined_tables import JoinedTable, joined_table
from sowline_views.runner import ViewRunner
from sowline_views.spill_store import SpillDirectory

log = structlog.get_logger()

USUAL_PORT = 8083

SWITCH_SECONDS = 0.0005
"""How long the thread of a view may compute while another one waits: a tenth of Python's default."""


class ViewsService(RunnerService):
    """Runs each view in its own thread."""

    TASK = "compute view"
    SERVICE = "the views service"
    KINDS = frozenset({Kind.VIEW, Kind.CONFLATED})

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        super().__init__(settings, topics, stop)
        self._stack = ExitStack()
        self._directory: SpillDirectory | None = None
        self._opening = threading.Lock()
        self._native = native_core(settings.core)

    @property
    def core(self) -> Core:
        """The core that keeps the groups of views that start now: Python after a panic of the native core."""
        return "python" if self._native is None or panics() else "native"

    def _prepare(self, stack: ExitStack) -> None:
        # A view that computes holds Python's lock. Another one releases it at each call that waits for Kafka, and
        # gets it back after this time.
        sys.setswitchinterval(SWITCH_SECONDS)
        self._stack = stack
        if self._joining:
            self._spill_directory()

    @property
    def _joining(self) -> int:
        """The number of views with joins."""
        return sum(topic.view is not None and bool(topic.view.joins) for topic in self._topics.topics)

    def _spill_directory(self) -> SpillDirectory:
        """Return the directory for joins, shared among the present views with joins."""
        with self._opening:
            if self._directory is None:
                # The first view with joins may come while the service runs.
                settings = self._settings
                directory = SpillDirectory(settings.data_dir, settings.join_bytes_max, self._joining)
                self._directory = self._stack.enter_context(closing(directory))
            self._directory.share_among(self._joining)
            return self._directory

    def _runner(self, name: str, stop: threading.Event, stack: ExitStack) -> ViewRunner:
        topic = self._topics.named(name)
        assert topic.view is not None
        source = self._topics.named(topic.view.source)
        # A view that starts again after a panic is computed by Python (test_after_a_panic_python_computes).
        native = self._native if self.core == "native" else None
        return ViewRunner(self._settings, topic, source, stop, self._joined(topic, stack), native)

    def _joined(self, topic: TopicDefinition, stack: ExitStack) -> list[JoinedTable]:
        """Return the empty tables of a view's joins; `stack` ends their space."""
        assert topic.view is not None
        if not topic.view.joins:
            return []
        space = stack.enter_context(self._spill_directory().space(topic.name))
        return [joined_table(join, self._topics.named(join.topic), space) for join in topic.view.joins]

    def _log_restart(self, name: str, why: str) -> None:
        log.error("view starts again", view=name, why=why)

    def _log_stop(self, name: str, reason: str, why: str, traceback: bool) -> None:
        log.error("view stopped", view=name, reason=reason, why=why, exc_info=traceback)

    def details(self) -> dict[str, Any]:
        """Return the core that keeps groups, and the definitions in effect, for `/status`."""
        return {"core": self.core} | super().details()

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        yield from super().metrics()
        yield panic_metric()

    def _families(self) -> tuple[CounterMetricFamily, GaugeMetricFamily]:
        return (
            CounterMetricFamily("sowline_view_states", "Partial states written", labels=["view"]),
            GaugeMetricFamily(
                "sowline_view_behind_changes", "Changes of the source not yet taken", labels=["view"]
            ),
        )


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Compute the views, and serve their health port, until `stop` is set."""
    service = ViewsService(settings, topics, stop)
    log.info("computes views", core=service.core)
    service.serve(USUAL_PORT)
