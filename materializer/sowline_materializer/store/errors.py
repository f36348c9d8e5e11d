"""Errors of a partition's store: it can't be trusted, its disk is full, or another process has it open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sowline.errors import StartAgain
from sowline_materializer.core.errors import StoreDamaged

NO_ROOM = ("No space left on device", "Disk quota exceeded")
"""The error texts of a full disk, from all libraries."""

IN_USE = ("lock hold by current process", "While lock file")
"""RocksDB's message for a store whose lock this process or another one holds."""


NO_DESCRIPTORS = ("Too many open files",)
"""The system's message when the process or the machine may open no more files."""


class DiskFull(StartAgain):
    """The disk is full. The committed state is intact: keep it, and continue when there is space."""


class NoDescriptors(StartAgain):
    """The process may open no more files. The committed state is intact: keep it, and try again later."""


class StoreInUse(StartAgain):
    """Another process has the store at `path` open, and may write to it: change and delete nothing."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


FORESEEN: Final = (StartAgain, MemoryError)
"""Errors that say nothing about the log record that is being applied: the worker starts again."""


@contextmanager
def judged(what: str) -> Iterator[None]:
    """Raise errors in the block as `DiskFull` or `NoDescriptors` if that is the cause, else as `StoreDamaged`."""
    try:
        yield
    except Exception as error:
        raise judgment(f"{what}: {error}") from error


def judgment(why: str) -> StoreDamaged | DiskFull | NoDescriptors:
    """Return the exception for an error of a store, by its text."""
    # RocksDB's binding raises one exception for all causes.
    if any(words in why for words in NO_ROOM):
        return DiskFull(why)
    if any(words in why for words in NO_DESCRIPTORS):
        return NoDescriptors(why)
    return StoreDamaged(why)


@contextmanager
def judged_alone(path: Path, what: str) -> Iterator[None]:
    """Raise errors in the block as `judged` does, but as `StoreInUse` if the lock at `path` is held."""
    try:
        with judged(f"{path} {what}"):
            yield
    except StoreDamaged as error:
        if any(words in str(error) for words in IN_USE):
            raise StoreInUse(path, str(error)) from error
        raise
