"""Takes snapshots of the partitions while the service answers, in a thread of its own.

The event loop captures a part of the rows at a time, so no client waits long. Changes go on in between: a record may
be newer in the snapshot than the position that the snapshot begins with. A reader applies these changes again, in
order, before anybody sees a record, and so comes to the same state (test_a_snapshot_that_is_taken_during_changes).
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import structlog

from sowline.kafka.admin import compaction_lag_ms
from sowline.kafka.changes_driver import ChangesPartition
from sowline_query_service.index.rows import Captured
from sowline_query_service.replica.partition_replica import Head
from sowline_query_service.snapshots.block import BLOCK_RECORDS_MAX, Index, blocks_of, encoded, encoded_index
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import BlockAt, Manifest
from sowline_query_service.snapshots.reader import has_snapshots
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

log = structlog.get_logger()

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
"""Interval at which the writer looks for a partition whose snapshot is due."""

LAG_SHARE: Final = 10
"""A snapshot is taken in each tenth of the topic's compaction lag at least: after half of it, it is too old."""

ROWS_MAX: Final = 16 * BLOCK_RECORDS_MAX
"""Rows that the event loop looks through at once for those of a partition."""


class Stopped(Exception):
    """The service ends: the snapshot is not finished."""


class Begun(NamedTuple):
    """The state of a partition when its snapshot began."""

    head: Head
    entries: Index
    changes_applied: int
    rows_end: int
    taken_at: float


class NewestSnapshot(NamedTuple):
    """The newest snapshot of a partition, and how many changes had been applied by then."""

    manifest: Manifest
    changes_applied: int


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
        self._directory = directory
        self._state = state
        self._topic_id = topic_id
        self._restored = restored
        self._seconds = seconds
        self._bytes_per_second_max = bytes_per_second_max
        self._written: dict[ChangesPartition, NewestSnapshot] = {}
        self._due_at: dict[ChangesPartition, float] = {}
        """When the next snapshot of a partition is due, in seconds of the monotonic clock."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failures = 0
        """The number of snapshots that could not be written."""

    def start(self) -> None:
        """Start; call it in the event loop of the replicas."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the thread; a snapshot that is being written is given up."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def taken_at(self) -> dict[ChangesPartition, float]:
        """Return when the newest snapshot of each partition was taken, in seconds since 1970."""
        # Any thread may call this. Copies, because other threads add to both.
        taken = {partition: manifest.taken_at for partition, manifest in self._restored.copy().items()}
        return taken | {partition: one.manifest.taken_at for partition, one in self._written.copy().items()}

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            for topic in self._state.topics.values():
                if has_snapshots(topic.definition):
                    self._look_at(topic)

    def _look_at(self, topic: TopicState) -> None:
        for number, replica in topic.partitions.items():
            partition = (topic.definition.changes, number)
            if replica.loading or not self._claim_if_due(topic, partition):
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

    def _claim_if_due(self, topic: TopicState, partition: ChangesPartition) -> bool:
        """Return whether a snapshot of a partition is due; the caller takes it, and the next one is due later."""
        seconds = min(self._seconds, compaction_lag_ms(topic.definition) / 1000 / LAG_SHARE)
        now = time.monotonic()
        due_at = self._due_at.setdefault(partition, now + seconds if partition in self._restored else now)
        if now >= due_at:
            self._due_at[partition] = now + seconds
        return now >= due_at

    def _take(self, topic: TopicState, number: int) -> None:
        begun = self._in_loop(self._begin, topic, number)
        if begun is not None:
            self._keep(topic, number, begun, self._paced(self._blocks(topic, number, begun)))

    def _keep(self, topic: TopicState, number: int, begun: Begun, blocks: Iterator[bytes]) -> None:
        """Write a snapshot; if no change was applied since the last one, only its manifest."""
        definition, partition = topic.definition, (topic.definition.changes, number)
        before = self._written.get(partition)
        if before is not None and before.changes_applied == begun.changes_applied:
            # The records are the same; only the position has moved, and the snapshot must not become too old.
            manifest = replace(before.manifest, head=begun.head, taken_at=begun.taken_at)
            self._directory.write_manifest(definition.name, number, manifest)
        else:
            data = f"{number}.{time.time_ns()}.data"

            def describe(at: list[BlockAt], index: BlockAt) -> Manifest:
                topic_id, lag_seconds = (
                    self._topic_id(definition.changes),
                    compaction_lag_ms(definition) / 1000,
                )
                facts = (topic_id, definition.digest, lag_seconds, begun.taken_at, begun.head)
                return Manifest(*facts, data, at, index)

            manifest = self._directory.write(definition.name, number, data, blocks, describe)
        self._written[partition] = NewestSnapshot(manifest, begun.changes_applied)

    def _begin(self, topic: TopicState, number: int) -> Begun | None:
        """Return the state to begin with; None if it is not known that the replica has every change."""
        replica, taken_at = topic.partitions[number], self._whole_at(topic, number)
        # A batch that failed in the middle has moved the position, and not all of its changes were applied.
        if self._state.broken or replica.head is None or taken_at is None:
            return None
        return Begun(replica.head, replica.index, replica.changes_applied, topic.rows.end, taken_at)

    def _whole_at(self, topic: TopicState, number: int) -> float | None:
        """Return the newest time at which the replica is known to have had every change, in seconds since 1970."""
        # A replica that is behind lacks changes, which compaction may remove soon. So its snapshot is older than now.
        seconds = topic.lags()[number].seconds
        return None if seconds is None else time.time() - seconds

    def _blocks(self, topic: TopicState, number: int, begun: Begun) -> Iterator[bytes]:
        """Yield the blocks of a partition's records, then its index."""
        rows_max = BLOCK_RECORDS_MAX * min(len(topic.partitions), ROWS_MAX // BLOCK_RECORDS_MAX)
        for start in range(0, begun.rows_end, rows_max):
            captured = self._in_loop(self._capture, topic, number, start, start + rows_max)
            yield from map(encoded, blocks_of(captured))
        yield encoded_index(begun.entries)

    @staticmethod
    def _capture(topic: TopicState, number: int, start: int, stop: int) -> Captured:
        return topic.rows.capture(topic.rows.of_partition(number, start, stop))

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
        assert self._loop is not None
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
