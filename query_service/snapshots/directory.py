"""The files of snapshots: for each partition one manifest, and the data file that it names.

`TOPIC/PARTITION.manifest` is replaced in one step once its data is on the disk. So a crash leaves the previous
snapshot, whole, and at most a data file that no manifest names.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final
from zlib import crc32

from query_service.snapshots.manifest import BlockAt, Manifest, Unreadable, read, written

MANIFEST: Final = "manifest"


class DirectoryInUse(Exception):
    """Another process uses the directory."""


class SnapshotDirectory:
    """The directory of a query service's snapshots. Only one process uses it at a time."""

    def __init__(self, path: Path) -> None:
        """Make the directory and lock it. Raise `DirectoryInUse` and OSError."""
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
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
            return read(self._file(topic, partition, MANIFEST).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(str(error)) from error

    def blocks(self, topic: str, manifest: Manifest) -> Iterator[bytes]:
        """Yield the bytes of each block, checked, and then those of the index. Raise `Unreadable`."""
        try:
            with (self._path / topic / manifest.data).open("rb") as file:
                for block in (*manifest.blocks, manifest.index):
                    file.seek(block.start)
                    yield block.require_whole(file.read(block.size))
        except OSError as error:
            raise Unreadable(str(error)) from error

    def write_data(self, topic: str, name: str, blocks: Iterable[bytes]) -> list[BlockAt]:
        """Write a data file; return where its blocks are. If `blocks` or the disk fails, no file is left."""
        path = self._path / topic / name
        path.parent.mkdir(exist_ok=True)
        try:
            with path.open("wb") as file:
                at = [_append(file, block) for block in blocks]
                _sync(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return at

    def write_manifest(self, topic: str, partition: int, manifest: Manifest) -> None:
        """Make a manifest, whose data is written, the partition's only one."""
        path = self._file(topic, partition, MANIFEST)
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(written(manifest))
            _sync(file)
        new.replace(path)
        _sync_directory(path.parent)
        self._remove(topic, partition, lambda name: name not in (path.name, manifest.data))

    def remove(self, topic: str, partition: int) -> None:
        """Remove the snapshot of a partition."""
        self._file(topic, partition, MANIFEST).unlink(missing_ok=True)
        self._remove(topic, partition, lambda name: True)

    def _remove(self, topic: str, partition: int, is_unused: Callable[[str], bool]) -> None:
        for path in (self._path / topic).glob(f"{partition}.*"):
            if is_unused(path.name):
                with suppress(OSError):
                    path.unlink()

    def _file(self, topic: str, partition: int, kind: str) -> Path:
        return self._path / topic / f"{partition}.{kind}"


def _append(file: IO[bytes], block: bytes) -> BlockAt:
    start = file.tell()
    file.write(block)
    return BlockAt(start, len(block), crc32(block))


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
