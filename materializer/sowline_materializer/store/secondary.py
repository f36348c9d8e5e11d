"""A read-only view of a partition's store at one instant, while a worker has the store open."""

from pathlib import Path
from weakref import WeakSet

from rocksdict import AccessType, Options, Rdict

from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.errors import judgment
from sowline_materializer.store.integrity import verified
from sowline_materializer.store.rocksdb import RocksStore

LOOKS_MAX = 5
"""Attempts that may collide with the worker's writes, before a failure counts as damage."""


class SecondaryStore(RocksStore):
    """A store as it was when this was created. `directory` is for RocksDB's own files."""

    def __init__(self, path: Path, directory: Path) -> None:
        # Not by the base's `__init__`, which would open the store to write to it.
        self._path = path
        self._directory = directory
        self._scans = WeakSet()
        directory.mkdir(parents=True)
        self._database = self._open(create=False)

    def _open(self, create: bool) -> Rdict:
        options = Options(raw_mode=True)
        options.set_max_open_files(-1)  # files that the worker deletes during the read stay readable
        options.set_keep_log_file_num(1)
        access = AccessType.secondary(str(self._directory))
        try:
            return Rdict(str(self._path / "db"), options, access_type=access)
        except Exception as error:
            raise judgment(f"{self._path} does not open: {error}") from error


def open_secondary(path: Path, directory: Path) -> tuple[SecondaryStore, Checkpoint]:
    """Return a complete store and its checkpoint, as they are now; raise `StoreDamaged`, or `unknown format`."""
    for number in range(1, LOOKS_MAX):
        try:
            return _look(path, directory / str(number))
        except StoreDamaged:
            continue
    return _look(path, directory / str(LOOKS_MAX))


def _look(path: Path, directory: Path) -> tuple[SecondaryStore, Checkpoint]:
    store = SecondaryStore(path, directory)
    try:
        return store, verified(store)[0]
    except Exception:
        store.close()
        raise
