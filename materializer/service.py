"""The materializer as a process: a worker, begun again when it must be, with its health and metrics."""

import threading
from collections.abc import Iterable
from pathlib import Path

import structlog
from confluent_kafka import KafkaException
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from materializer.damage import StoreDamaged
from materializer.emitter import NotWritten
from materializer.starting import Starting
from materializer.worker import Worker, WorkerStatistics, group_of
from sowline.cluster import Cluster, ensure_topics
from sowline.health import HealthServer
from sowline.settings import Settings
from sowline.topics import Topics

log = structlog.get_logger()

USUAL_PORT = 8081
PAUSE_SECONDS = 1.0


class Materializer:
    """Runs worker after worker until told to stop; each begins again from what was committed."""

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        self._settings = settings
        self._topics = topics
        self._stop = stop
        self._worker: Worker | None = None
        self._starting: Starting | None = None
        self._failed: str | None = None

    def run(self) -> None:
        """Apply the logs until told to stop."""
        Path(self._settings.data_dir).mkdir(parents=True, exist_ok=True)
        while not self._stop.is_set():
            try:
                ensure_topics(self._settings.kafka_client, self._topics)
                self._worker = Worker(self._settings, self._topics, self._stop.is_set, self._start())
                self._worker.run()
            except (NotWritten, StoreDamaged, KafkaException) as error:
                if not self._stop.is_set():
                    log.error("beginning again from committed state", why=str(error))
                    self._stop.wait(PAUSE_SECONDS)

    def _start(self) -> Starting:
        """Return whether the service starts with this process, which is asked only once."""
        if self._starting is None:
            cluster = Cluster(self._settings.kafka_client)
            self._starting = Starting(cluster, group_of(self._settings), self._topics.topics)
        return self._starting

    def not_started(self) -> str | None:
        """Say what start-up is still waiting for."""
        worker = self._worker
        return None if worker is not None and worker.assigned else "waiting for partitions from the group"

    def not_ready(self) -> str | None:
        """Say which partitions had to stop."""
        stopped = self._statistics().stopped if self._worker else {}
        return (
            "; ".join(f"{topic} [{partition}]: {why}" for (topic, partition), why in stopped.items()) or None
        )

    def not_alive(self) -> str | None:
        """Say why only a restart can help: never, while the process answers."""
        return None

    def _statistics(self) -> WorkerStatistics:
        assert self._worker is not None
        return self._worker.statistics()

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        if self._worker is not None:
            yield from _metrics(self._statistics())


def _metrics(now: WorkerStatistics) -> Iterable[Metric]:
    counts = now.counts
    yield CounterMetricFamily("sowline_log_records", "Log records applied", value=counts.records)
    yield _by("sowline_changes", "Changes made, by command", "command", counts.commands)
    yield _by("sowline_dead_letters", "Log records refused, by reason", "reason", counts.dead)
    yield CounterMetricFamily("sowline_repeats", "Commands dropped as repeats", value=counts.repeats)
    yield CounterMetricFamily(
        "sowline_forwards", "Log records forwarded to their owner", value=counts.forwards
    )
    yield CounterMetricFamily(
        "sowline_publishers_pushed_out",
        "Publishers forgotten before their time",
        value=counts.publishers_pushed_out,
    )
    yield CounterMetricFamily(
        "sowline_foreign_writes", "Keys written again after a foreign write", value=counts.foreign_writes
    )
    yield CounterMetricFamily("sowline_batches", "Batches committed", value=counts.batches)
    yield CounterMetricFamily(
        "sowline_busy_seconds", "Time spent applying batches", value=counts.busy_seconds
    )
    behind = GaugeMetricFamily(
        "sowline_behind_records", "Log records not yet applied", labels=["topic", "partition"]
    )
    for (topic, partition), records in now.behind.items():
        behind.add_metric([topic, str(partition)], records)
    yield behind
    yield GaugeMetricFamily("sowline_partitions", "Partitions owned", value=len(now.positions))
    yield GaugeMetricFamily(
        "sowline_partitions_stopped", "Partitions that can't go on", value=len(now.stopped)
    )


def _by(name: str, help: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, help, labels=[label])
    for value, count in dict(values).items():
        family.add_metric([value], count)
    return family


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the materializer and its health port until `stop` is set."""
    materializer = Materializer(settings, topics, stop)
    health = HealthServer(materializer, settings.host, settings.port or USUAL_PORT)
    health.start()
    try:
        materializer.run()
    finally:
        health.stop()
