"""The disks that a view's maps and indexes are tested with: RocksDB, and a dict."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sowline_views.core.spilling import SpillDisk
from sowline_views.spill_store import SpillStore

DISKS: Final = ("dict", "RocksDB")


class DictDisk:
    """A disk in memory."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        return self.entries.get(key)

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write entries; None removes one."""
        for key, value in entries:
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys begin with `prefix`, without it."""
        found = sorted(item for item in self.entries.items() if item[0].startswith(prefix))
        return ((key[len(prefix) :], value) for key, value in found)

    def remove(self, prefix: bytes) -> None:
        """Remove the entries whose keys begin with `prefix`."""
        self.entries = {key: value for key, value in self.entries.items() if not key.startswith(prefix)}


def opened_disk(name: str, stack: ExitStack) -> SpillDisk:
    """Return one of `DISKS`, without entries; `stack` closes it."""
    if name == "dict":
        return DictDisk()
    directory = Path(stack.enter_context(TemporaryDirectory()))
    return stack.enter_context(closing(SpillStore(directory / "store")))
