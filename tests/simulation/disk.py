"""The disks that are played: what was committed outlives a process, and a power cut takes the last of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import ref

from materializer.damage import DiskFull, StoreDamaged
from materializer.store import NO_DUES, MemoryStore, Tally
from tests.simulation.process import Process

UNDONE_MAX = 4
"""Commits that a power cut may take."""


@dataclass
class Files:
    """One partition's store as it lies on disk."""

    now: dict[str, Any] = field(default_factory=dict)
    before: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False
    opened_by: Callable[[], object] = lambda: None
    fails: bool = False


@dataclass
class Disks:
    """The disks of all workers. `on_commit` is told of the store after each commit."""

    processes: Mapping[str, Process]
    on_commit: Callable[[Path, MemoryStore], None]
    files: dict[Path, Files] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    """The workers whose disks take no more."""

    def of(self, name: str) -> list[Files]:
        """Return what lies on a worker's disk."""
        return [files for path, files in self.files.items() if path.parts[1] == name]

    def check_room(self, name: str) -> None:
        """Raise what a store raises on a disk that is full."""
        if name in self.full:
            raise DiskFull("No space left on device")

    def released(self, name: str) -> None:
        """The process has ended, and what it held open is not any more."""
        for files in self.of(name):
            files.opened_by, files.fails = (lambda: None), False

    def cut_power(self, name: str, commits: int) -> None:
        """Go back to an older state."""
        for files in self.of(name):
            for _ in range(min(commits, len(files.before))):
                files.now = files.before.pop()

    def wipe(self, name: str) -> None:
        """Lose a worker's disk."""
        self.files = {path: files for path, files in self.files.items() if path.parts[1] != name}

    def damage(self, name: str, nth: int) -> None:
        """Let one entry of each store go, or be another, without a word."""
        for files in self.of(name):
            entries = dict(files.now.get("_entries", {}))
            if entries:
                key = sorted(entries)[nth % len(entries)]
                data = entries.pop(key)
                if nth % 2:
                    entries[key] = data[:-1] + bytes([data[-1] ^ 1])
                files.now = files.now | {"_entries": entries}

    def store_class(self) -> type[MemoryStore]:
        """Return what stands in for `RocksStore`."""
        disks = self

        class Store(MemoryStore):
            def __init__(self, path: Path, *, create: bool) -> None:
                super().__init__()
                self._process = disks.processes[path.parts[1]]
                self._process.boundary("open")
                self._path = path
                held = disks.files.get(path)
                if held is not None and held.opened_by() is not None:
                    raise AssertionError(f"{path} is opened twice")
                if create or held is None:
                    disks.check_room(path.parts[1])
                    disks.files[path] = Files()
                self._files = disks.files[path]
                self._files.opened_by = ref(self)
                self._load()

            def _load(self) -> None:
                now = self._files.now
                self._entries = dict(now.get("_entries", {}))
                self._dues = set(now.get("_dues", ()))
                self._head, self._tally = now.get("_head"), now.get("_tally", Tally())

            @staticmethod
            def exists(path: Path) -> bool:
                return path in disks.files and disks.files[path].finished

            def get(self, key: bytes) -> bytes | None:
                self._check()
                return super().get(key)

            def scan(self) -> Iterator[tuple[bytes, bytes]]:
                self._check()
                return super().scan()

            def _check(self) -> None:
                if self._files.fails:
                    self._files.fails = False
                    raise StoreDamaged("does not read")

            def commit(
                self,
                writes: Mapping[bytes, bytes | None],
                tally: Tally,
                head: bytes,
                dues: Mapping[bytes, bool] = NO_DUES,
            ) -> None:
                self._process.boundary("commit")
                disks.check_room(self._path.parts[1])
                files = self._files
                files.before = [*files.before, files.now][-UNDONE_MAX:]
                super().commit(writes, tally, head, dues)
                files.now = {
                    "_entries": dict(self._entries),
                    "_dues": set(self._dues),
                    "_head": self._head,
                    "_tally": self._tally,
                }
                disks.on_commit(self._path, self)
                self._process.boundary("committed")

            def mark_finished(self) -> None:
                self._process.boundary("mark")
                disks.check_room(self._path.parts[1])
                self._files.finished = True
                self._files.before = []

            def close(self) -> None:
                if not self._process.is_dead:
                    self._files.opened_by = lambda: None

        return Store
