"""The disk of the views service: the entries of joins beyond their memory, in a RocksDB store for each view.

It is a cache of the changes topics: each start fills it again. So there is no write-ahead log, and the files are
deleted at the start and at the end.
"""

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from rocksdict import Options, Rdict, WriteBatch
from rocksdict import WriteOptions as RocksWriteOptions

from sowline.errors import SowlineError
from sowline.runtime.store_memory import MEMORY
from sowline_views.core.spilling import SpillSpace

BATCH_ENTRIES: Final = 1000

DIRECTORY: Final = "+views"
"""Below the data directory. A materializer may share that; it names directories after logs, none of them this."""


class SpillStore:
    """The disk of one view's maps and indexes. A dict passes the same tests (test_spilling)."""

    def __init__(self, path: Path) -> None:
        """Create a new store at `path`. Raise `SowlineError` if that fails."""
        self._path = path
        options = Options(raw_mode=True)
        MEMORY.set_up(options)
        options.set_keep_log_file_num(1)
        with self._explained():
            path.mkdir(parents=True)
            self._database = Rdict(str(path / "db"), options)
        self._write_options = RocksWriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]  # its stubs say a method

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise SowlineError(
                "disk full",
                f"expected {self._path} to hold the joined records, got: {error}. Give the directory SOWLINE_DATA_DIR"
                " space for all joined topics, and restart the service",
            ) from error

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        data: bytes | None = self._database.get(key)
        return data

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write entries; None removes one. Raise `SowlineError` if the disk is full."""
        rest = iter(entries)
        # In portions, because a batch is in memory as a whole until it is written, next to the entries that it makes
        # room for.
        while portion := list(islice(rest, BATCH_ENTRIES)):
            batch = WriteBatch(raw_mode=True)
            for key, value in portion:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            with self._explained():
                self._database.write(batch, self._write_options)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys begin with `prefix`, without it, as they are when the scan begins."""
        # Here and not in the generator, which runs only once it is read: it would show entries of later writes.
        iterator = self._database.iter()
        iterator.seek(prefix)
        return self._scanned(iterator, prefix)

    def _scanned(self, iterator: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        length = len(prefix)
        while iterator.valid():
            key = iterator.key()
            if not key.startswith(prefix):
                return
            yield key[length:], iterator.value()
            iterator.next()
        # At a damaged block, an iterator ends early without an error.
        iterator.status()

    def remove(self, prefix: bytes) -> None:
        """Remove the entries whose keys begin with `prefix`."""
        end = (int.from_bytes(prefix) + 1).to_bytes(len(prefix))
        with self._explained():
            self._database.delete_range(prefix, end, self._write_options)

    def close(self) -> None:
        """Close the store, and delete its files."""
        self._database.close()
        shutil.rmtree(self._path, ignore_errors=True)


class SpillDirectory:
    """This process's directory for the stores of its views, below the service's directory.

    Several processes may have the same data directory. Each takes the first number that no other one has locked, and
    deletes what a process that was killed has left there.
    """

    def __init__(self, data_dir: Path, bytes_max: int, views: int) -> None:
        """Take a directory; `bytes_max` is the memory of all `views` with joins together. Raise `SowlineError`."""
        self._opened = count()
        self._bytes_max = bytes_max // 2
        """Half of the memory is for entries that are not on the disk, the rest for the memory of the stores."""
        self._spaces: dict[str, SpillSpace] = {}
        MEMORY.limit(bytes_max // 2)
        self.share_among(views)
        try:
            directory = data_dir / DIRECTORY
            directory.mkdir(parents=True, exist_ok=True)
            self._path, self._lock = _locked(directory)
            shutil.rmtree(self._path, ignore_errors=True)
        except OSError as error:
            raise SowlineError(
                "bad configuration",
                f"expected SOWLINE_DATA_DIR to name a directory for joined records, got {data_dir}: {error.strerror}",
            ) from error

    def share_among(self, views: int) -> None:
        """Set the number of views with joins: each has an equal share of the memory, also those that run."""
        self._share = self._bytes_max // max(1, views)
        MEMORY.share_among(views)
        for space in list(self._spaces.values()):
            space.bytes_max = self._share

    @contextmanager
    def space(self, view: str) -> Iterator[SpillSpace]:
        """Lend a space to a view, and delete all its entries at the end."""
        stores: list[SpillStore] = []

        def opened() -> SpillStore:
            # A new path each time: RocksDB refuses one whose last store an iterator still holds open.
            stores.append(SpillStore(self._path / f"{view}-{next(self._opened)}"))
            return stores[-1]

        # A view has one space at a time.
        space = self._spaces[view] = SpillSpace(opened, self._share)
        try:
            yield space
        finally:
            del self._spaces[view]
            for store in stores:
                store.close()

    def close(self) -> None:
        """Delete the directory. All spaces have ended."""
        shutil.rmtree(self._path, ignore_errors=True)
        # Last: another process could take the directory while it is being deleted.
        self._lock.close()


def _locked(directory: Path) -> tuple[Path, Any]:
    """Return the first directory that no process has locked, and the file that is its lock while it is open."""
    for number in count():
        lock = (directory / f"process-{number}.lock").open("w")
        try:
            # The kernel frees the lock of a killed process, so its files are found and deleted
            # (test_processes_share_a_data_directory).
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return directory / f"process-{number}", lock
    raise AssertionError("the numbers end")
