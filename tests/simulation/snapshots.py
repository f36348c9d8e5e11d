"""The snapshots of a query service that is played: on a disk of its own, taken step by step between its changes."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from sowline_query_service.snapshots.manifest import BlockAt, Manifest
from sowline_query_service.snapshots.partition_snapshots import PartitionSnapshots
from sowline_query_service.snapshots.reader import has_snapshots
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState


class SnapshotDisk:
    """What `SnapshotDirectory` is to the reader and the writer, in memory. It outlives the process."""

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self._manifests: dict[tuple[str, int], Manifest] = {}
        self._data: dict[str, list[bytes]] = {}

    def manifest(self, topic: str, partition: int) -> Manifest | None:
        """Return the manifest of a partition's snapshot."""
        return self._manifests.get((topic, partition))

    def blocks(self, topic: str, manifest: Manifest) -> Iterator[bytes]:
        """Yield the blocks, and then the index."""
        return iter(self._data[manifest.data])

    def write(
        self, topic: str, partition: int, data: str, blocks: Iterator[bytes], describe: Any
    ) -> Manifest:
        """Keep a snapshot."""
        self._data[data] = list(blocks)
        *at, index = [BlockAt(0, len(block), 0) for block in self._data[data]]
        manifest: Manifest = describe(at, index)
        self.write_manifest(topic, partition, manifest)
        return manifest

    def write_manifest(self, topic: str, partition: int, manifest: Manifest) -> None:
        """Keep a manifest."""
        self._trace("  snapshot of", partition, manifest.head)
        self._manifests[topic, partition] = manifest


class SnapshotsTaken:
    """Takes snapshots of one life of a service; `step` does a little of one."""

    def __init__(
        self,
        disk: SnapshotDisk,
        state: ServedTopics,
        topic_id: Callable[[str], str],
        whole_at: Callable[[TopicState, int], float | None],
        chance: Random,
    ) -> None:
        self._state = state
        self._chance = chance
        self._snapshots = PartitionSnapshots(disk, state, topic_id, whole_at)  # type: ignore[arg-type]
        self._taken: Iterator[None] = iter(())

    def step(self) -> None:
        """Take a few rows, and finish the snapshot after the last ones; begin the next one now and then."""
        if next(self._taken, self) is self and self._chance.random() < 0.3:
            (topic,) = self._state.topics.values()
            if not topic.partitions:
                return
            number = self._chance.choice(list(topic.partitions))
            if has_snapshots(topic.definition) and not topic.partitions[number].loading:
                self._taken = self._take(topic, number)
                next(self._taken, None)

    def _take(self, topic: TopicState, number: int) -> Iterator[None]:
        """Do what `SnapshotWriter._take` does, and let others do something before each part of it."""
        begun = self._snapshots.begin(topic, number)
        if begun is None:
            return
        yield
        blocks: list[bytes] = []
        for block in self._snapshots.blocks(topic, number, begun, lambda function, *given: function(*given)):
            blocks.append(block)
            yield
        self._snapshots.keep(topic, number, begun, iter(blocks))
