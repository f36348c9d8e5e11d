"""The disks that are played: what was committed outlives a process, and a power cut takes the last of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from weakref import ref

from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import DiskFull
from sowline_materializer.store.interface import NO_EXPIRIES, SortedEntries
from tests.memory_store import MemoryStore
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
        for path, files in self.files.items():
            if path.parts[1] != name or not files.before:
                continue
            for _ in range(min(commits, len(files.before))):
                files.now = files.before.pop()
            checkpoint = files.now.get("_checkpoint")
            self.processes[name].trace.note(
                "restore", partition=int(path.name), by=name, checkpoint=checkpoint
            )

    def wipe(self, name: str) -> None:
        """Lose a worker's disk."""
        self.processes[name].trace.note("wipe", by=name)
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
        return type("Store", (PlayedStore,), {"disks": self})


class PlayedStore(MemoryStore):
    """A store on one of the disks that its class has."""

    disks: ClassVar[Disks]

    def __init__(self, path: Path, *, create: bool) -> None:
        super().__init__()
        self._process = self.disks.processes[path.parts[1]]
        self._process.boundary("open")
        self._path = path
        held = self.disks.files.get(path)
        self._note("open", create=create or held is None)
        if held is not None and held.opened_by() is not None:
            raise AssertionError(f"{path} is opened twice")
        if create or held is None:
            self.disks.check_room(path.parts[1])
            self.disks.files[path] = Files()
        self._files = self.disks.files[path]
        self._files.opened_by = ref(self)
        self._load()

    def _note(self, event: str, **fields: object) -> None:
        self._process.trace.note(event, partition=int(self._path.name), by=self._process.name, **fields)

    def _load(self) -> None:
        now = self._files.now
        self._entries = dict(now.get("_entries", {}))
        self._expiries = set(now.get("_expiries", ()))
        self._checkpoint, self._checksum = now.get("_checkpoint"), now.get("_checksum", Checksum())

    @classmethod
    def exists(cls, path: Path) -> bool:
        """Whether a finished store lies there."""
        return path in cls.disks.files and cls.disks.files[path].finished

    def get(self, key: bytes) -> bytes | None:
        """Read one entry, where the disk reads."""
        self._check()
        return super().get(key)

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Read all entries from a key on, where the disk reads."""
        self._check()
        return super().scan(start)

    def _check(self) -> None:
        if self._files.fails:
            self._files.fails = False
            raise StoreDamaged("does not read")

    def commit(
        self,
        writes: Mapping[bytes, bytes | None],
        checksum: Checksum,
        checkpoint: bytes,
        expiries: Mapping[bytes, bool] = NO_EXPIRIES,
    ) -> None:
        """Commit; the process may end just before or after it."""
        self._process.boundary("commit")
        self.disks.check_room(self._path.parts[1])
        files = self._files
        files.before = [*files.before, files.now][-UNDONE_MAX:]
        super().commit(writes, checksum, checkpoint, expiries)
        files.now = {
            "_entries": dict(self._entries),
            "_expiries": set(self._expiries),
            "_checkpoint": self._checkpoint,
            "_checksum": self._checksum,
        }
        self._note("commit", checkpoint=checkpoint)
        self.disks.on_commit(self._path, self)
        self._process.boundary("committed")

    def load(self, entries: SortedEntries, checksum: Checksum) -> None:
        """Write a part of a load; the process may end just before it."""
        self._process.boundary("load")
        self.disks.check_room(self._path.parts[1])
        super().load(entries, checksum)

    def mark_finished(self) -> None:
        """Mark the store as whole; what is whole is on the disk for good."""
        self._process.boundary("mark")
        self.disks.check_room(self._path.parts[1])
        self._files.finished = True
        self._files.before = []

    def close(self) -> None:
        """Let another open it; a process that was killed closes nothing."""
        if not self._process.is_dead:
            self._note("close")
            self._files.opened_by = lambda: None
