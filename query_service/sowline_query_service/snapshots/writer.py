"""Takes snapshots of the partitions while the service answers, in a separate thread.

The event loop captures a part of the rows at a time, so no client waits long. Changes continue in between: a record
may be newer in the snapshot than the position that the snapshot begins with. A reader applies these changes again, in
order, before anybody sees a record, and so reaches the same state (test_a_snapshot_that_is_taken_during_changes).
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import structlog

from sowline.kafka.changes_driver import ChangesPartition
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import Manifest
from sowline_query_service.snapshots.partition_snapshots import PartitionSnapshots, SnapshotTimes, whole_at
from sowline_query_service.snapshots.reader import has_snapshots
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

log = structlog.get_logger()

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
"""Interval at which the writer looks for a partition whose snapshot is due."""


class Stopped(Exception):
    """The service ends: the snapshot is not finished."""


class SnapshotWriter:
    """Takes a snapshot of each partition every `seconds`, and writes at most `bytes_per_second_max`.

    `restored` are the snapshots that the service began with. `topic_id` returns the id of a changes topic.
    """

    def __init__(
        self,
        directory: SnapshotDirectory,
        state: ServedTopics,
        topic_id: Callable[[str], str],
        restored: dict[ChangesPartition, Manifest],
        seconds: float,
        bytes_per_second_max: int,
    ) -> None:
        self._state = state
        self._restored = restored
        self._bytes_per_second_max = bytes_per_second_max
        self._times = SnapshotTimes(seconds, restored)
        self._snapshots = PartitionSnapshots(directory, state, topic_id, whole_at)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failures = 0
        """The number of snapshots that could not be written."""

    def start(self) -> None:
        """Start; call it in the event loop of the replicas."""
        assert self._loop is None, "it starts once"
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the thread; an unfinished snapshot is abandoned."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def taken_at(self) -> dict[ChangesPartition, float]:
        """Return when the newest snapshot of each partition was taken, in seconds since 1970."""
        # Any thread may call this. Copies, because other threads add to both.
        taken = {partition: manifest.taken_at for partition, manifest in self._restored.copy().items()}
        return taken | {
            partition: one.manifest.taken_at for partition, one in self._snapshots.written.copy().items()
        }

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            # A copy: the event loop may add or remove a topic.
            for topic in list(self._state.topics.values()):
                if has_snapshots(topic.definition):
                    self._look_at(topic)

    def _look_at(self, topic: TopicState) -> None:
        for number, replica in topic.partitions.items():
            if replica.loading or not self._times.claim(topic.definition, number, time.monotonic()):
                continue
            try:
                self._take(topic, number)
            except Stopped:
                return
            except Exception as error:
                # The service answers all the same, and the previous snapshot is still there
                # (test_a_full_disk_skips_snapshots).
                self.failures += 1
                log.warning(
                    "snapshot not written", topic=topic.definition.name, partition=number, why=str(error)
                )

    def _take(self, topic: TopicState, number: int) -> None:
        begun = self._in_loop(self._snapshots.begin, topic, number)
        if begun is not None:
            blocks = self._snapshots.blocks(topic, number, begun, self._in_loop)
            self._snapshots.keep(topic, number, begun, self._paced(blocks))

    def _paced(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield blocks, so that no more bytes a second are written than allowed."""
        due = time.monotonic()
        for block in blocks:
            yield block
            # Time that was lost is not made up for: the limit holds for each moment.
            due = max(due, time.monotonic()) + len(block) / self._bytes_per_second_max
            if self._stop.wait(max(0.0, due - time.monotonic())):
                raise Stopped

    def _in_loop(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in the event loop, and return its result; raise `Stopped` if the service ends."""
        assert self._loop is not None, "it has started"
        result: list[T] = []
        failed: list[Exception] = []
        done = threading.Event()

        def call() -> None:
            try:
                result.append(function(*arguments))
            except Exception as error:
                failed.append(error)
            finally:
                done.set()

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError as error:  # the loop has ended
            raise Stopped from error
        while not done.wait(0.2):
            if self._stop.is_set():
                raise Stopped
        if failed:
            raise failed[0]
        return result[0]
