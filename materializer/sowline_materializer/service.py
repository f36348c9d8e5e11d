"""The materializer as a process: runs a worker, restarts it when necessary, and serves health and metrics."""

import gc
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.definition_changes import ChangeEffect, Followed
from sowline.config.settings import Settings
from sowline.config.topics import Topics
from sowline.kafka.admin import Cluster, ensure_topics
from sowline.kafka.definitions_follower import DefinitionsFollower
from sowline.kafka.health import KafkaHealth
from sowline.kafka.leaderless import leaderless_metric
from sowline.kafka.retriable import RESTART_ERRORS
from sowline.native import Core, raise_unless_panic
from sowline.runtime import descriptors
from sowline.runtime.health import HealthServer
from sowline.runtime.native import native_core, panic_metric
from sowline.runtime.store_memory import share_arenas
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.store.disk_space import SPACE_BYTES, has_disk_space
from sowline_materializer.store.errors import DiskFull, NoDescriptors, StoreInUse
from sowline_materializer.store.rocksdb import is_in_use
from sowline_materializer.worker.assignment import StartPhase
from sowline_materializer.worker.counts import WorkerStatistics
from sowline_materializer.worker.worker import Worker, group_of

log = structlog.get_logger()

USUAL_PORT = 8081
PAUSE_SECONDS = 1.0
FEW_SECONDS = 10.0
"""How long a worker without descriptors stays out of the group."""


class Materializer:
    """Runs one worker after another until the service stops. Each starts from the committed state."""

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        self.definitions = DefinitionsFollower(settings, topics, stop, self.redefine)
        self.core: Core = "python" if native_core(settings.core) is None else "native"
        self._settings = settings
        self._topics = topics
        self._redefined = threading.Lock()
        self._stop = stop
        self._worker: Worker | None = None
        self._starting: StartPhase | None = None
        self._disk_full: str | None = None
        self._in_use: str | None = None
        self._few_descriptors: str | None = None
        self.kafka_health = KafkaHealth(settings.kafka_client, topics.topics[0].log)

    def run(self) -> None:
        """Apply the logs until the service stops."""
        Path(self._settings.data_dir).mkdir(parents=True, exist_ok=True)
        while not self._stop.is_set():
            gc.collect()  # the previous worker is in reference cycles, and holds clients of Kafka
            try:
                self._next_worker().run()
            except DiskFull as error:
                self._wait_for_room(str(error))
            except StoreInUse as error:
                self._wait_for_store(error.path, str(error))
            except NoDescriptors as error:
                self._wait_for_descriptors(str(error))
            except RESTART_ERRORS as error:
                if not self._stop.is_set():
                    log.error("restarting from committed state", why=str(error))
                    self._stop.wait(PAUSE_SECONDS)
            except BaseException as error:
                raise_unless_panic(error, "worker")
                # Python, which is the specification, continues from the committed state.
                self._settings = self._settings.model_copy(update={"core": "python"})
                self.core = "python"

    def _next_worker(self) -> Worker:
        # Definitions that change meanwhile wait for this worker. Given to the previous one, they would be lost: so it
        # is known before they go on (test_definitions_that_wait_for_the_next_worker_reach_it).
        with self._redefined:
            ensure_topics(self._settings.kafka_client, self._topics, self._stop)
            self._worker = worker = Worker(self._settings, self._topics, self._stop, self._start())
        return worker

    def redefine(self, followed: Followed) -> None:
        """Let this worker, and each later one, apply the logs by these definitions."""
        with self._redefined:
            self._topics = followed.topics
            if self._worker is not None:
                for name in followed.topics_that_are(ChangeEffect.NEW):
                    self._start().begin(followed.topics.named(name), group_of(self._settings))
                self._worker.redefinitions.put(followed)

    def _wait_for_room(self, why: str) -> None:
        """Leave the group, so that other workers can take the partitions, until the disk has space again."""
        self._disk_full = (
            f"the disk of {self._settings.data_dir} is full ({why}): free at least {SPACE_BYTES >> 20} MiB;"
            " the worker then continues from its committed state"
        )
        log.error("disk full", why=why, directory=str(self._settings.data_dir))
        while not self._stop.wait(PAUSE_SECONDS):
            if has_disk_space(self._settings.data_dir):
                log.info("disk has space again", directory=str(self._settings.data_dir))
                self._disk_full = None
                return

    def _wait_for_descriptors(self, why: str) -> None:
        """Leave the group for a while, so that other workers can take the partitions."""
        limit = descriptors.limit()
        self._few_descriptors = (
            f"the process may have {limit} descriptors, which are too few for its partitions ({why}): raise the hard"
            " limit (ulimit -Hn); nothing was deleted, and it tries again by itself"
        )
        log.error("too few descriptors", why=why, limit=limit)
        self._stop.wait(FEW_SECONDS)
        self._few_descriptors = None

    def _wait_for_store(self, path: Path, why: str) -> None:
        """Leave the group, so that other workers can take the partitions, until no other process has a store open."""
        self._in_use = (
            f"another process uses the state in {path} ({why}): end it, or give each its own SOWLINE_DATA_DIR;"
            " nothing was deleted, and the worker continues once the state is free"
        )
        log.error("state in use", why=why, directory=str(path))
        while not self._stop.wait(PAUSE_SECONDS):
            if not is_in_use(path):
                log.info("state is no longer in use", directory=str(path))
                self._in_use = None
                return

    def _start(self) -> StartPhase:
        """Return whether the service starts with this process; it is determined only once."""
        if self._starting is None:
            cluster = Cluster(self._settings.kafka_client, self._stop)
            self._starting = StartPhase(cluster, group_of(self._settings), self._topics.topics)
        return self._starting

    def not_started(self) -> str | None:
        """Return the reason why the service has not started yet; None once it has."""
        worker = self._worker
        if worker is not None and worker.assigned:
            return None
        why = self.kafka_health.lost() or self._few_descriptors or self._opening()
        return why or "waiting for partitions from the group"

    def _opening(self) -> str | None:
        """Name the partitions that are being opened; a rebuild takes long."""
        opening = self._statistics().opening if self._worker else []
        return (
            f"recovering {', '.join(f'{topic} [{number}]' for topic, number in opening)}" if opening else None
        )

    def not_ready(self) -> str | None:
        """Return the reason for not being ready: Kafka is away, the disk is full or used by another process, or
        partitions are stopped, opening, or waiting for schemas or for leaders in Kafka.
        """
        now = self._statistics() if self._worker else None
        halted = {} if now is None else {**now.logs_gone, **now.stopped, **now.leaderless, **now.waiting}
        whys = [f"{topic} [{partition}]: {why}" for (topic, partition), why in halted.items()]
        waits = self._disk_full or self._in_use or self._few_descriptors
        return waits or "; ".join(whys) or self.kafka_health.lost() or self._opening()

    def not_alive(self) -> str | None:
        """Return why only a restart can help: never, while the process answers."""
        return None

    def details(self) -> dict[str, Any]:
        """Return the details of `/status`: the core that applies plain log records, and the definitions."""
        return {"core": self.core} | self.definitions.details()

    def _statistics(self) -> WorkerStatistics:
        assert self._worker is not None
        return self._worker.statistics()

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        yield GaugeMetricFamily(
            "sowline_disk_full",
            "Whether the worker waits for disk space",
            value=self._disk_full is not None,
        )
        yield from self.kafka_health.metrics()
        yield from self.definitions.metrics()
        if self._worker is not None:
            yield from _metrics(self._statistics())


def _metrics(now: WorkerStatistics) -> Iterable[Metric]:
    counts = now.counts
    yield CounterMetricFamily("sowline_log_records", "Log records applied", value=counts.records)
    yield _by("sowline_changes", "Changes made, by command", "command", counts.commands)
    yield _by("sowline_dead_letters", "Log records refused, by reason", "reason", counts.dead)
    yield CounterMetricFamily("sowline_repeats", "Commands dropped as repeats", value=counts.repeats)
    yield CounterMetricFamily(
        "sowline_foreign_copies",
        "Forwarded copies of another log's records, dropped",
        value=counts.foreign_copies,
    )
    yield CounterMetricFamily(
        "sowline_forwards", "Log records forwarded to their owner", value=counts.forwards
    )
    yield CounterMetricFamily(
        "sowline_publishers_pushed_out",
        "Publishers dropped from deduplication before their window ended",
        value=counts.publishers_pushed_out,
    )
    yield CounterMetricFamily(
        "sowline_stale_owner_writes",
        "Keys written again after stale-owner writes",
        value=counts.stale_owner_writes,
    )
    yield CounterMetricFamily("sowline_batches", "Batches committed", value=counts.batches)
    yield CounterMetricFamily(
        "sowline_busy_seconds", "Time spent applying batches", value=counts.busy_seconds
    )
    yield CounterMetricFamily(
        "sowline_flush_seconds", "Time spent flushing stores", value=counts.flush_seconds
    )
    yield counts.emitting.family(
        "sowline_append_to_emit_seconds",
        "From a record's append to the log until Kafka had the change that it made",
    )
    yield _by_partition("sowline_behind_records", "Log records not yet applied", now.behind)
    yield GaugeMetricFamily("sowline_partitions", "Partitions owned", value=len(now.positions))
    yield _by_core(now.cores)
    yield panic_metric()
    yield GaugeMetricFamily("sowline_partitions_stopped", "Partitions that stopped", value=len(now.stopped))
    yield leaderless_metric(len(now.leaderless))
    yield GaugeMetricFamily(
        "sowline_partitions_awaiting_schemas",
        "Partitions that wait for the schema registry",
        value=len(now.waiting),
    )
    yield GaugeMetricFamily(
        "sowline_standby_copies", "Warm copies of partitions that other workers own", value=now.standby.warm
    )
    yield _by_partition(
        "sowline_standby_behind_changes", "Changes that a copy has not yet applied", now.standby.behind
    )
    yield CounterMetricFamily(
        "sowline_standby_takeovers", "Partitions taken over from a warm copy", value=now.standby.takeovers
    )


def _by_partition(name: str, help: str, values: Mapping[PartitionId, int]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=["topic", "partition"])
    for (topic, partition), value in values.items():
        family.add_metric([topic, str(partition)], value)
    return family


def _by_core(partitions: Mapping[Core, int]) -> Metric:
    family = GaugeMetricFamily(
        "sowline_core_partitions", "Partitions whose plain records a core applies", labels=["core"]
    )
    for core in get_args(Core):
        family.add_metric([core], partitions.get(core, 0))
    return family


def _by(name: str, help: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, help, labels=[label])
    for value, count in dict(values).items():
        family.add_metric([value], count)
    return family


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the materializer and its health port until `stop` is set."""
    share_arenas()
    materializer = Materializer(settings, topics, stop)
    log.info("applies log records", core=materializer.core)
    health = HealthServer(
        materializer,
        settings.host,
        settings.port or USUAL_PORT,
        materializer.details,
        materializer.definitions.note,
    )
    health.start()
    materializer.kafka_health.start()
    materializer.definitions.start()
    try:
        materializer.run()
    finally:
        stop.set()
        materializer.definitions.join()
        health.stop()
