"""The views process: a runner for each view, with their health and metrics."""

import sys
import threading
from collections.abc import Iterable
from contextlib import ExitStack, closing

import structlog
from confluent_kafka import KafkaException
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.changes.changes_reader import ChangesMissing, ChangesReplaced
from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.errors import SowlineError, fault_sentence
from sowline.kafka.admin import await_topics
from sowline.kafka.health import KafkaHealth
from sowline.runtime.health import HealthServer
from sowline_views.core.joined_tables import JoinedTable, joined_table
from sowline_views.runner import ViewRunner
from sowline_views.spill_store import SpillDirectory

log = structlog.get_logger()

USUAL_PORT = 8083
PAUSE_SECONDS = 1.0

SWITCH_SECONDS = 0.0005
"""How long the thread of a view may compute while another one waits: a tenth of what Python allows."""


class ViewsService:
    """Runs each view in its own thread. A view that fails restarts, or reports why it can't."""

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        self._settings = settings
        self._topics = topics
        self._views = [topic for topic in topics.topics if topic.view is not None]
        self._stop = stop
        self._directory: SpillDirectory | None = None
        self._runners: dict[str, ViewRunner] = {}
        self._stopped: dict[str, str] = {}
        self._kafka_health = KafkaHealth(settings.kafka_client, topics.topics[0].log)

    def run(self) -> None:
        """Compute all views until the service stops."""
        # A view that computes holds Python's lock. Another one releases it at each call that waits for Kafka, and
        # gets it back after this time.
        sys.setswitchinterval(SWITCH_SECONDS)
        self._kafka_health.start()
        if not await_topics(self._settings.kafka_client, self._topics, self._stop):
            return
        with ExitStack() as stack:
            if joining := sum(_has_joins(view) for view in self._views):
                settings = self._settings
                directory = SpillDirectory(settings.data_dir, settings.join_bytes_max, joining)
                self._directory = stack.enter_context(closing(directory))
            threads = [threading.Thread(target=self._keep, args=(view,)) for view in self._views]
            for thread in threads:
                thread.start()
            self._stop.wait()
            for thread in threads:
                thread.join()

    def _keep(self, topic: TopicDefinition) -> None:
        assert topic.view is not None
        source = self._topics.named(topic.view.source)
        while not self._stop.is_set():
            try:
                with ExitStack() as stack:
                    joined = self._joined(topic, stack)
                    runner = ViewRunner(self._settings, topic, source, self._stop, joined)
                    self._runners[topic.name] = runner
                    runner.run()
            except (KafkaException, ChangesMissing, ChangesReplaced) as error:
                log.error("view starts again", view=topic.name, why=str(error))
                self._stop.wait(PAUSE_SECONDS)
            except SowlineError as error:
                log.error("view stopped", view=topic.name, reason=error.reason, why=error.message)
                self._stopped[topic.name] = error.message
                return
            except Exception as error:
                why = fault_sentence(f"compute view {topic.name}", error, "the views service")
                log.exception("view stopped", view=topic.name, reason="unexpected", why=why)
                self._stopped[topic.name] = why
                return

    def _joined(self, topic: TopicDefinition, stack: ExitStack) -> list[JoinedTable]:
        """Return the empty tables of a view's joins; `stack` ends their space."""
        assert topic.view is not None
        if self._directory is None or not topic.view.joins:
            return []
        space = stack.enter_context(self._directory.space(topic.name))
        return [joined_table(join, self._topics.named(join.topic), space) for join in topic.view.joins]

    def not_started(self) -> str | None:
        """Return which views have no partitions yet; None if all have some."""
        waiting = [view.name for view in self._views if not self._has_begun(view.name)]
        return (
            self._kafka_health.lost() or f"waiting for partitions: {', '.join(waiting)}" if waiting else None
        )

    def _has_begun(self, name: str) -> bool:
        return name in self._stopped or (name in self._runners and self._runners[name].assigned)

    def not_ready(self) -> str | None:
        """Return which views have stopped, that Kafka is away, or what views wait for; None if ready."""
        stopped = "; ".join(f"{name}: {why}" for name, why in self._stopped.items())
        return stopped or self._kafka_health.lost() or self._waiting()

    def _waiting(self) -> str | None:
        waiting = {name: runner.waiting() for name, runner in dict(self._runners).items()}
        return "; ".join(f"{name}: {why}" for name, why in waiting.items() if why is not None) or None

    def not_alive(self) -> str | None:
        """Return why only a restart can help: always None, as long as the process answers."""
        return None

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        family = CounterMetricFamily("sowline_view_states", "Partial states written", labels=["view"])
        for name, runner in dict(self._runners).items():
            family.add_metric([name], runner.states)
        yield family
        behind = GaugeMetricFamily(
            "sowline_view_behind_changes", "Changes of the source not yet taken", labels=["view"]
        )
        for name, runner in dict(self._runners).items():
            if (events := runner.behind) is not None:
                behind.add_metric([name], events)
        yield behind
        yield from self._kafka_health.metrics()


def _has_joins(topic: TopicDefinition) -> bool:
    return topic.view is not None and bool(topic.view.joins)


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Compute the views, and serve their health port, until `stop` is set."""
    service = ViewsService(settings, topics, stop)
    health = HealthServer(service, settings.host, settings.port or USUAL_PORT)
    health.start()
    try:
        service.run()
    finally:
        health.stop()
