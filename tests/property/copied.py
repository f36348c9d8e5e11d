"""Warm copies in the world of the models: beside each owner another worker with a disk of its own."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sowline.config.topic_definition import TopicDefinition
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.kafka_partition import KafkaExtent
from sowline_materializer.partition.recovery import Recovery
from sowline_materializer.standby.warm_copy import ReadEvent, WarmCopy
from sowline_materializer.store.integrity import survey
from tests.memory_store import MemoryStore
from tests.property.world import Disk, World, rocks_in_memory, store_on


class CopyInMemory(WarmCopy):
    """A copy whose files are on a disk in memory."""

    disk: Disk

    def _replace(self) -> None:
        self.disk[self._path] = self.disk.pop(self._loading_path)


class CopiedWorld(World):
    """A world in which a second worker keeps copies, and takes partitions over; then the two have changed places."""

    def __init__(self, definition: TopicDefinition, knows_ids: bool = True) -> None:
        super().__init__(definition)
        self.knows_ids = knows_ids
        self.other: Disk = {}
        self.copies: dict[int, CopyInMemory] = {}
        self.taken: dict[int, Any] = {}
        self.takeovers = 0

    def patched(self) -> list[AbstractContextManager[Any]]:
        """Return what must be entered for recoveries and copies to read this world."""
        progress_timer = patch("sowline_materializer.standby.warm_copy.log.info", lambda *_, **__: None)
        return [
            *super().patched(),
            patch("sowline_materializer.standby.warm_copy.RocksStore", rocks_in_memory(self.other)),
            progress_timer,
        ]

    def copy(self, number: int) -> CopyInMemory:
        """Return the copy of a partition, begun if it is not."""
        if number not in self.copies:
            self.copies[number] = self._begun(number)
        return self.copies[number]

    def _begun(self, number: int, reset_to: bool = False) -> CopyInMemory:
        copy = CopyInMemory(
            self.definition, number, Path(str(number)), lambda topic: self._changes_id(number)
        )
        copy.disk = self.other
        try:
            copy.begin(reset_to)
            while copy.reads_from is None:
                copy.check()
        except StoreDamaged:
            assert not reset_to
            return self._begun(number, reset_to=True)
        return copy

    def _changes_id(self, number: int) -> str:
        return f"since {self.changes[number].since}" if self.knows_ids else ""

    def follow(self, number: int, count: int) -> bool:
        """Let the copy take in some changes, as its consumer would; returns whether it has had all of them."""
        copy, changes = self.copy(number), self.changes[number]
        if not copy.is_of(self._changes_id(number)):
            copy.reload("replaced")
        new = [message for message in changes.held if message.at >= copy.next_offset][:count]
        if new:
            copy.take([ReadEvent(one.at, one.event) for one in new], changes.end)
        else:
            copy.ended(changes.end)
        while copy.reads_from is None:
            copy.check()
        if copy.is_warm:
            store = self.copied_store(number)
            assert survey(store).checksum == store.checksum()
            assert Checkpoint.decode(store.checkpoint() or b"").changes_end == copy.next_offset
        return not new

    def catch_up(self, number: int) -> MemoryStore | None:
        """Let the copy take in all there is; returns its store, if there was enough to make one of it."""
        while not self.follow(number, 3):
            pass
        return self.copied_store(number) if self.copy(number).is_warm else None

    def copied_store(self, number: int) -> MemoryStore:
        """Return the store of a copy that follows."""
        return store_on(self.other, Path(str(number)))

    def move(self, number: int, cold: bool) -> None:
        """The worker with the copy becomes the owner, and the owner keeps a copy from now on."""
        store = self.copy(number).hand_over()
        del self.copies[number]
        self.crash(number)
        path = Path(str(number))
        mine, others = self.disk.pop(path, None), self.other.pop(path, None)
        if others is not None:
            self.disk[path] = others
        if mine is not None:
            self.other[path] = mine
        if store is not None and not cold:
            self.taken[number] = store
            self.takeovers += 1
        self.owner(number)

    def _recovery(self, number: int, reset_to: bool = False) -> Recovery:
        changes = self.changes[number]
        start = changes.held[0].at if changes.held else changes.end
        extent = KafkaExtent("log", 0, len(self.logs[number]), start, changes.end, self._changes_id(number))
        copy = self.taken.pop(number, None)
        path = Path(str(number))
        return Recovery({}, self.definition, number, path, extent, starts_empty=reset_to, copy=copy)
