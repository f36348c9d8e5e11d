"""The store of one partition: records by SOW key, their due times, and a checkpoint, written in one atomic step.

`tests/memory_store.py` has the same contract, and passes the same tests.
"""

import fcntl
import shutil
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import orjson
import structlog
from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter, WriteBatch
from rocksdict import WriteOptions as RocksWriteOptions

from sowline.runtime.store_memory import MEMORY
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import DiskFull, judged, judged_alone, judgment
from sowline_materializer.store.interface import (
    EXPIRY,
    NO_EXPIRIES,
    PORTION_ENTRIES,
    RECORD,
    Portion,
    SortedEntries,
    in_key_order,
)

log = structlog.get_logger()

MARK = "INITIALISED"
_CHECKPOINT, _CHECKSUM = b"h", b"t"

LOADED_FILE: Final = "load.sst"
DEFAULT_FAMILY: Final = "default"


class RocksStore:
    """A store in RocksDB: one column family, raw bytes, write-ahead log on but not synced.

    Entries have the key prefix `r`, due times `d`; `h` is the checkpoint and `t` the checksum. A directory is a
    finished store only with its mark, which is written after the first commit. A directory without it is incomplete
    and is created again, so until then there is no write-ahead log.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open the store at `path`; with `create` a new, empty one, which replaces whatever exists there.

        Raises `StoreInUse` if it is open already, even in this process: then nothing is deleted.
        """
        self._path = path
        # Weak: a scan that its reader drops must end at once, because its iterator keeps the files open.
        self._scans: WeakSet[Generator[Any]] = WeakSet()
        if create:
            delete_store(path)
            with judged(f"{path} can't be made"):
                path.mkdir(parents=True)
        self._database = self._open(create)
        self._write_options = _write_options(with_log=not create)

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether a finished store exists at `path`."""
        return (path / MARK).exists()

    def _open(self, create: bool) -> Rdict:
        options = _options()
        options.create_if_missing(create)
        # RocksDB begins an own log file each time it opens a store, and keeps a thousand of them by default.
        options.set_keep_log_file_num(3)
        # For column families that exist already, even the default one, the options alone do not count
        # (test_stores_that_are_opened_again_use_their_memory).
        families = {DEFAULT_FAMILY: options}
        with judged_alone(self._path, "does not open"):
            return Rdict(str(self._path / "db"), options, families)

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the key."""
        return self._get(RECORD + key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes under each key, read together."""
        with judged(f"{self._path} does not read"):
            found: Any = self._database.get([RECORD + key for key in keys])
        assert len(found) == len(keys), "each key has its answer"
        data: list[bytes | None] = found
        return data

    def _get(self, key: bytes) -> bytes | None:
        try:
            data: bytes | None = self._database.get(key)
        except Exception as error:
            raise judgment(f"{self._path} does not read: {error}") from error
        return data

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries from the key `start` on, in key order, as they were when the scan began."""
        yield from self._range(RECORD, start)

    def expiries(self, start: bytes = b"") -> Iterator[bytes]:
        """Yield the index of due times from `start` on: due time (8 bytes, the highest first) and key, in order."""
        for due, _ in self._range(EXPIRY, start):
            yield due

    def portions(self) -> Iterator[Portion]:
        """Yield all that the checksum covers, due times first, `PORTION_ENTRIES` at a time."""
        return self._until_closed(self._walked())

    def _walked(self) -> Generator[Portion]:
        for kind in (EXPIRY, RECORD):
            yield from self._walked_kind(kind)

    def _walked_kind(self, kind: bytes) -> Generator[Portion]:
        """Yield the entries of a kind. One call of RocksDB's binding returns an entry; `scan` needs four."""
        assert len(kind) == 1, "a kind is one byte of each key"
        items: Iterator[Any] = self._database.items(from_key=kind)
        last = kind
        try:
            while portion := list(islice(items, PORTION_ENTRIES)):
                last = portion[-1][0]
                if not last.startswith(kind):
                    yield [pair for pair in portion if pair[0].startswith(kind)]
                    return
                yield portion
        finally:
            # At once: an iterator keeps the files open (test_a_store_closes_while_it_is_read).
            del items
        self._require_end(kind, last)

    def _require_end(self, kind: bytes, last: bytes) -> None:
        """Raise unless the entries of a kind end after the key `last`: at a damaged block, `items` ends too."""
        iterator = self._database.iter()
        # The least key after `last`. From `last` itself, the iterator would find it again, and count as unfinished.
        iterator.seek(last + b"\0")
        with judged(f"{self._path} does not read to its end"):
            iterator.status()
        if iterator.valid() and iterator.key().startswith(kind):
            raise StoreDamaged(f"{self._path} does not read to its end")

    def _range(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries with a prefix of one byte, from a key on; the iteration ends with the store."""
        return self._until_closed(self._scanned(prefix, start))

    def _until_closed(self, scan: Generator[Any]) -> Iterator[Any]:
        self._scans.add(scan)
        return scan

    def _scanned(self, prefix: bytes, start: bytes) -> Generator[tuple[bytes, bytes]]:
        """Yield the entries with a prefix; keep no iterator beyond that, because each keeps the files open.

        The iterator's status is checked at the end: at a damaged block it stops early without an error.
        """
        assert len(prefix) == 1, "a kind is one byte of each key"
        iterator = self._database.iter()
        try:
            iterator.seek(prefix + start)
            while iterator.valid():
                key = iterator.key()
                if key[:1] != prefix:
                    break
                yield key[1:], iterator.value()
                iterator.next()
            with judged(f"{self._path} does not read to its end"):
                iterator.status()
        finally:
            del iterator

    def checkpoint(self) -> bytes | None:
        """Return the checkpoint's bytes; None if nothing was ever committed."""
        return self._get(_CHECKPOINT)

    def checksum(self) -> Checksum:
        """Return the checksum of the last commit."""
        data = self._get(_CHECKSUM)
        try:
            return Checksum() if data is None else Checksum(*orjson.loads(data))
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"{self._path}: expected a checksum, got {data!r:.60}") from error

    def commit(
        self,
        writes: Mapping[bytes, bytes | None],
        checksum: Checksum,
        checkpoint: bytes,
        expiries: Mapping[bytes, bool] = NO_EXPIRIES,
    ) -> None:
        """Write entries (None removes one), due times (False removes one), checksum and checkpoint in one atomic
        step.
        """
        self.commit_sorted(*in_key_order(writes, expiries), checksum, checkpoint)

    def commit_sorted(
        self, keys: Sequence[bytes], data: Sequence[bytes | None], checksum: Checksum, checkpoint: bytes
    ) -> None:
        """Write entries, checksum and checkpoint in one atomic step; keys begin with their kinds, None removes."""
        assert len(keys) == len(data), "each key has its data"
        batch = WriteBatch(raw_mode=True)
        if None not in data:
            # No line of Python runs for a single entry.
            deque(map(batch.put, keys, data), maxlen=0)
        else:
            for key, one in zip(keys, data, strict=True):
                if one is None:
                    batch.delete(key)
                else:
                    batch.put(key, one)
        self._write(batch, checksum, checkpoint)

    def _write(self, batch: WriteBatch, checksum: Checksum, checkpoint: bytes) -> None:
        assert checkpoint, "a commit has a checkpoint: without one the store would be damaged"
        data = orjson.dumps(list(checksum))
        assert Checksum(*orjson.loads(data)) == checksum, "a checksum reads back"
        batch.put(_CHECKSUM, data)
        batch.put(_CHECKPOINT, checkpoint)
        with judged(f"{self._path} does not write"):
            self._database.write(batch, self._write_options)

    def load(self, entries: SortedEntries, checksum: Checksum) -> None:
        """Write entries into a new store.

        They become a file of the store at once. Through a write buffer they would be sorted again, and written twice.
        """
        assert self.checkpoint() is None, "only a new store is loaded"
        path = str(self._path / LOADED_FILE)
        with judged(f"{self._path} does not write"):
            # RocksDB refuses a file without entries.
            if entries:
                writer = SstFileWriter(_options())
                writer.open(path)
                entries.write_to(writer)
                writer.finish()
                options = IngestExternalFileOptions()
                # Otherwise RocksDB copies the file, and a load writes everything twice.
                options.set_move_files(True)
                self._database.ingest_external_file([path], options)
            self._database.put(_CHECKSUM, orjson.dumps(list(checksum)), self._write_options)

    def mark_finished(self) -> None:
        """Mark the store as complete; everything written before is then on disk."""
        with judged(f"{self._path} does not write"):
            # In this order: a store with a mark but without its writes would be opened as complete
            # (test_a_store_is_finished_only_with_its_mark).
            self._database.flush()
            (self._path / MARK).touch()
        self._write_options = _write_options(with_log=True)

    def close(self) -> None:
        """Close the files, which ends all iterations. Writes that a full disk refused were never committed."""
        # A copy: a scan that ends leaves the set.
        for scan in list(self._scans):
            scan.close()
        try:
            self._database.close()
        except Exception as error:
            log.warning("store closed with an error", path=str(self._path), why=str(error))


def _options() -> Options:
    options = Options(raw_mode=True)
    MEMORY.set_up(options)
    return options


def _write_options(*, with_log: bool) -> RocksWriteOptions:
    options = RocksWriteOptions()
    options.disable_wal = not with_log  # type: ignore[method-assign, assignment]  # its stubs say a method
    return options


def delete_store(path: Path) -> None:
    """Delete the directory at `path`, if it exists; raise `StoreInUse` if that store is open."""
    if (path / "db").is_dir():
        # A damaged store is deleted all the same; only one that is open stays
        # (test_what_another_process_has_open_is_let_be).
        with suppress(StoreDamaged, DiskFull), judged_alone(path, "can't be deleted"):
            _try_lock(path)
    # What can't be deleted is found where it matters: the new store's `mkdir` fails while the directory exists.
    shutil.rmtree(path, ignore_errors=True)


def _try_lock(path: Path) -> None:
    """Let RocksDB try the lock of a store: if it gets the lock, it fails for another reason, because the store
    exists.
    """
    options = Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_error_if_exists(True)
    Rdict(str(path / "db"), options).close()


def is_in_use(path: Path) -> bool:
    """Return whether another process has the store at `path` open.

    Call it only if this process doesn't have it open: the system would release its lock.
    """
    try:
        with (path / "db" / "LOCK").open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
