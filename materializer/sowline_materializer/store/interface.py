"""The interface of a partition's store: records by SOW key, the expiry index and the checkpoint."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from sowline_materializer.store.checksum import Checksum

NO_EXPIRIES: Mapping[bytes, bool] = {}

RECORD: Final = b"r"
EXPIRY: Final = b"d"
"""The kinds of entries in a portion: records, and entries of the index of due times."""

assert EXPIRY < RECORD, "due times sort before records: the keys of both are in order together"
PORTION_ENTRIES: Final = 1000
"""The maximum number of entries in a portion."""

Portion = list[tuple[bytes, bytes]]
"""Entries of one kind: keys, each with its kind in front, and data, which is empty for a due time."""


class EntryFile(Protocol):
    """A file of entries, which takes them in the order of their keys, each with its kind in front."""

    def __setitem__(self, key: bytes, data: bytes) -> None:
        """Write an entry."""

    def __delitem__(self, key: bytes) -> None:
        """Write that the entry no longer exists."""


class SortedEntries(Protocol):
    """The entries that a load writes, in the order of their keys."""

    def __len__(self) -> int:
        """Return the number of entries, removed ones included."""

    def write_to(self, file: EntryFile) -> None:
        """Write all of them."""


class Store(Protocol):
    """The interface that a partition needs from its store.

    Any read may raise `StoreDamaged` or `NoDescriptors`; any write may also raise `DiskFull`.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the key."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes under each key, read together."""

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries from the key `start` on, in key order, as they were when the scan began."""

    def expiries(self, start: bytes = b"") -> Iterator[bytes]:
        """Yield the index of due times from `start` on: due time (8 bytes, the highest first) and key, in order."""

    def portions(self) -> Iterator[Portion]:
        """Yield all that the checksum covers, due times first, `PORTION_ENTRIES` at a time."""

    def checkpoint(self) -> bytes | None:
        """Return the checkpoint's bytes; None if nothing was ever committed."""

    def checksum(self) -> Checksum:
        """Return the checksum of the last commit."""

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

    def close(self) -> None:
        """Close the files."""


class DiskStore(Store, Protocol):
    """A store on disk, which also takes sorted entries: keys in order, each with its kind in front."""

    def commit_sorted(
        self, keys: Sequence[bytes], data: Sequence[bytes | None], checksum: Checksum, checkpoint: bytes
    ) -> None:
        """Write entries (None removes one), checksum and checkpoint in one atomic step, as `commit` does."""

    def load(self, entries: SortedEntries, checksum: Checksum) -> None:
        """Write entries into a new store.

        The store has no checkpoint yet: whatever a load writes is worth nothing without the commit that follows it.
        """


def in_key_order(
    entries: Mapping[bytes, bytes | None], expiries: Mapping[bytes, bool] = NO_EXPIRIES
) -> tuple[list[bytes], list[bytes | None]]:
    """Return due times and entries as a `DiskStore` takes them: keys in order, with their kinds in front, and data.

    The data of an entry or due time that is removed is None.
    """
    # Keys are compared, not pairs of key and data, which takes Python three times as long.
    due_times, keys = sorted(expiries), sorted(entries)
    return (
        [*(EXPIRY + due for due in due_times), *(RECORD + key for key in keys)],
        [*(b"" if expiries[due] else None for due in due_times), *(entries[key] for key in keys)],
    )


class LastCommit(ABC):
    """The base of stores that keep the last checkpoint in memory, and have nothing faster than scans."""

    def __init__(self, checkpoint: bytes | None, checksum: Checksum) -> None:
        self._checkpoint = checkpoint
        self._checksum = checksum

    @abstractmethod
    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries from the key `start` on, in key order, as they were when the scan began."""

    @abstractmethod
    def expiries(self, start: bytes = b"") -> Iterator[bytes]:
        """Yield the index of due times from `start` on: due time (8 bytes, the highest first) and key, in order."""

    def portions(self) -> Iterator[Portion]:
        """Yield all that the checksum covers, due times first."""
        due_times = ((EXPIRY + due, b"") for due in self.expiries())
        records = ((RECORD + key, data) for key, data in self.scan())
        for entries in (due_times, records):
            while portion := list(islice(entries, PORTION_ENTRIES)):
                yield portion

    def checkpoint(self) -> bytes | None:
        """Return the checkpoint's bytes; None if nothing was ever committed."""
        return self._checkpoint

    def checksum(self) -> Checksum:
        """Return the checksum of the last commit."""
        return self._checksum
