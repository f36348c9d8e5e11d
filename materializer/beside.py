"""A look into a partition's store beside the worker that has it open: as it was at one instant, never written to."""

from pathlib import Path
from weakref import WeakSet

from rocksdict import AccessType, Options, Rdict

from materializer.damage import StoreDamaged
from materializer.head import Head
from materializer.recovery import checked_head
from materializer.store import RocksStore

LOOKS_MAX = 5
"""Looks that may come amid what the worker does to its files, before what is seen is taken for damage."""


class BesideStore(RocksStore):
    """A store as it was when this was made. `directory` takes what RocksDB writes of its own."""

    def __init__(self, path: Path, directory: Path) -> None:
        self._path = path
        self._directory = directory
        self._scans = WeakSet()
        directory.mkdir(parents=True)
        self._db = self._open(create=False)

    def _open(self, create: bool) -> Rdict:
        options = Options(raw_mode=True)
        options.set_max_open_files(-1)  # files that the worker deletes meanwhile stay readable
        options.set_keep_log_file_num(1)
        aside = AccessType.secondary(str(self._directory))
        try:
            return Rdict(str(self._path / "db"), options, access_type=aside)
        except Exception as error:
            raise StoreDamaged(f"{self._path} does not open: {error}") from error


def look(path: Path, directory: Path) -> tuple[BesideStore, Head]:
    """Return a whole store and its head, as they are now; raises `StoreDamaged`, or `unknown format`."""
    for number in range(1, LOOKS_MAX):
        try:
            return _look(path, directory / str(number))
        except StoreDamaged:
            continue
    return _look(path, directory / str(LOOKS_MAX))


def _look(path: Path, directory: Path) -> tuple[BesideStore, Head]:
    store = BesideStore(path, directory)
    try:
        return store, checked_head(store)
    except Exception:
        store.close()
        raise
