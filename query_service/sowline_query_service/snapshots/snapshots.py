"""The snapshots of a query service, as its settings ask for them: read at the start, written while it runs."""

from collections.abc import Callable, Iterable
from typing import get_args

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline_query_service.snapshots.directory import DirectoryInUse, SnapshotDirectory
from sowline_query_service.snapshots.manifest import DiscardReason
from sowline_query_service.snapshots.reader import SnapshotReader
from sowline_query_service.snapshots.writer import SnapshotWriter
from sowline_query_service.topics.followed_partitions import InLoop
from sowline_query_service.topics.state import ServedTopics

log = structlog.get_logger()


class Snapshots:
    """The snapshots in a directory; without one there are none, and each start loads everything."""

    def __init__(self, settings: Settings, state: ServedTopics, directory: SnapshotDirectory | None) -> None:
        self._settings = settings
        self._state = state
        self._directory = directory
        self._reader = None if directory is None else SnapshotReader(directory, state)
        self._writer: SnapshotWriter | None = None

    @classmethod
    def open(cls, settings: Settings, state: ServedTopics) -> "Snapshots":
        """Open the directory of the settings. If that fails, there are no snapshots, and the log says why."""
        directory = None
        if settings.snapshot_dir is not None:
            try:
                directory = SnapshotDirectory(settings.snapshot_dir)
            except (OSError, DirectoryInUse) as error:
                log.warning("no snapshots", path=str(settings.snapshot_dir), why=str(error))
        return cls(settings, state, directory)

    def restore(
        self, topic: TopicDefinition, number: int, topic_id: str, offsets: range, in_loop: InLoop
    ) -> int | None:
        """Restore a partition: `SnapshotReader.restore`."""
        return (
            None if self._reader is None else self._reader.restore(topic, number, topic_id, offsets, in_loop)
        )

    def start(self, topic_id: Callable[[str], str]) -> None:
        """Begin to take snapshots; call it in the event loop. `topic_id` returns the id of a changes topic."""
        if self._directory is None or self._reader is None:
            return
        self._writer = SnapshotWriter(
            self._directory,
            self._state,
            topic_id,
            self._reader.restored,
            self._settings.snapshot_seconds,
            self._settings.snapshot_bytes_per_second_max,
        )
        self._writer.start()

    def stop(self) -> None:
        """Stop, and wait for it."""
        # The writer first: with the directory its lock is released, and another process may write to the same files.
        if self._writer is not None:
            self._writer.stop()
        if self._directory is not None:
            self._directory.close()

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        taken = GaugeMetricFamily(
            "sowline_snapshot_taken_seconds",
            "When the newest snapshot of a partition was taken, in seconds since 1970",
            labels=["topic", "partition"],
        )
        writer, restored = self._writer, {} if self._reader is None else self._reader.restored
        if writer is not None:
            names = {topic.definition.changes: name for name, topic in self._state.topics.items()}
            for (changes, number), seconds in writer.taken_at().items():
                # A topic that was removed has still a snapshot, for its return.
                if changes in names:
                    taken.add_metric([names[changes], str(number)], seconds)
        yield taken
        yield GaugeMetricFamily(
            "sowline_snapshots_restored",
            "Partitions that began with a snapshot when the service started",
            value=len(restored),
        )
        discarded = CounterMetricFamily(
            "sowline_snapshots_discarded", "Snapshots that could not be used", labels=["reason"]
        )
        for reason in get_args(DiscardReason):
            discarded.add_metric([reason], self._state.snapshots_discarded[reason])
        yield discarded
        yield CounterMetricFamily(
            "sowline_snapshots_failed",
            "Snapshots that could not be written",
            value=0 if writer is None else writer.failures,
        )
