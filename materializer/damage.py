"""What is raised where a partition's store can't be trusted, its disk is full, or somebody else has it open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = ("No space left on device", "Disk quota exceeded")
"""What a disk says that is full, whoever passes it on."""

IN_USE = ("lock hold by current process", "While lock file")
"""What RocksDB says of a store whose lock it does not get, because this process has it or another one."""


class StoreDamaged(Exception):
    """What the store holds can't be trusted any more: close it and recover the partition another way."""


class DiskFull(Exception):
    """The disk takes no more. What was committed is as good as before: let it be, and go on when there is room."""


class StoreInUse(Exception):
    """Somebody else has the store at `path` open, and may write to it: nothing of it may be changed or deleted."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


@contextmanager
def judged(what: str) -> Iterator[None]:
    """Raise whatever goes wrong within as `DiskFull` where that is why, else as `StoreDamaged`."""
    try:
        yield
    except Exception as error:
        kind = DiskFull if any(words in str(error) for words in NO_ROOM) else StoreDamaged
        raise kind(f"{what}: {error}") from error


@contextmanager
def judged_alone(path: Path, what: str) -> Iterator[None]:
    """Raise whatever goes wrong within as `judged` does, but as `StoreInUse` where the lock at `path` is held."""
    try:
        with judged(f"{path} {what}"):
            yield
    except StoreDamaged as error:
        if any(words in str(error) for words in IN_USE):
            raise StoreInUse(path, str(error)) from error
        raise
