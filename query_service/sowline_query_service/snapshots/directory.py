"""The files of snapshots: for each partition one manifest, and the data file that it names.

`topics/TOPIC/PARTITION.manifest` is replaced in one step once its data is on the disk. So a crash leaves the previous
snapshot, whole, and at most a data file that no manifest names.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Final
from zlib import crc32

from sowline.runtime.durable import sync, sync_directory
from sowline_query_service.snapshots.manifest import BlockAt, Manifest, Unreadable, read, written

MANIFEST: Final = "manifest"


class DirectoryInUse(Exception):
    """Another process uses the directory."""


class SnapshotDirectory:
    """The directory of a query service's snapshots. Only one process uses it at a time."""

    def __init__(self, path: Path) -> None:
        """Make the directory and lock it. Raise `DirectoryInUse` and OSError."""
        path.mkdir(parents=True, exist_ok=True)
        # A topic may have any name, that of the lock's file too.
        self._topics = path / "topics"
        # Kept open, because closing the file would release the lock.
        self._lock = (path / "lock").open("w")
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise DirectoryInUse(
                f"expected {path} for this query service only, but another process uses it. Give each its own"
                " SOWLINE_SNAPSHOT_DIR",
            ) from error

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def manifest(self, topic: str, partition: int) -> Manifest | None:
        """Return the manifest of a partition's snapshot; None if there is none. Raise `Unreadable`."""
        try:
            return read(self._file(topic, f"{partition}.{MANIFEST}").read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(str(error)) from error

    def blocks(self, topic: str, manifest: Manifest) -> Iterator[bytes]:
        """Yield the bytes of each block, checked, and then those of the index. Raise `Unreadable`."""
        try:
            with self._file(topic, manifest.data).open("rb") as file:
                for block in (*manifest.blocks, manifest.index):
                    file.seek(block.start)
                    yield block.require_whole(file.read(block.size))
        except OSError as error:
            raise Unreadable(str(error)) from error

    def write(
        self,
        topic: str,
        partition: int,
        data: str,
        blocks: Iterable[bytes],
        describe: Callable[[list[BlockAt], BlockAt], Manifest],
    ) -> Manifest:
        """Replace the snapshot of a partition: write its data, then the manifest that `describe` returns.

        `describe` gets where the blocks are in the file `data`, and where the last one is, the index. If `blocks` or
        the disk fails, the previous snapshot stays. Files left by an earlier failure are removed first.
        """
        path = self._file(topic, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._remove_unused(topic, partition)
        try:
            with path.open("wb") as file:
                *at, index = [_append(file, block) for block in blocks]
                sync(file)
            manifest = describe(at, index)
            self.write_manifest(topic, partition, manifest)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._remove_unused(topic, partition)
        return manifest

    def write_manifest(self, topic: str, partition: int, manifest: Manifest) -> None:
        """Replace the manifest of a partition; its data must be on the disk."""
        path = self._file(topic, f"{partition}.{MANIFEST}")
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(written(manifest))
            sync(file)
        # Without the sync of the directory, a power failure may bring back the old manifest. The data file that it
        # names is removed next.
        new.replace(path)
        sync_directory(path.parent)

    def _remove_unused(self, topic: str, partition: int) -> None:
        """Remove the files of a partition that do not belong to its snapshot."""
        try:
            manifest = self.manifest(topic, partition)
        except Unreadable:
            manifest = None
        used: set[str] = set() if manifest is None else {f"{partition}.{MANIFEST}", manifest.data}
        for path in (self._topics / topic).glob(f"{partition}.*"):
            if path.name not in used:
                path.unlink(missing_ok=True)

    def _file(self, topic: str, name: str) -> Path:
        return self._topics / topic / name


def _append(file: IO[bytes], block: bytes) -> BlockAt:
    start = file.tell()
    file.write(block)
    return BlockAt(start, len(block), crc32(block))
