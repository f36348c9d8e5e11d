"""A store in memory, for tests of the core and as the reference for the one on disk."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.interface import EXPIRY, NO_EXPIRIES, RECORD, LastCommit, SortedEntries


class _File:
    """A file of entries, which are None where one is removed. RocksDB also refuses what is not in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []

    def __setitem__(self, key: bytes, data: bytes) -> None:
        self._add(key, data)

    def __delitem__(self, key: bytes) -> None:
        self._add(key, None)

    def _add(self, key: bytes, data: bytes | None) -> None:
        assert not self.entries or self.entries[-1][0] < key
        self.entries.append((key, data))


class MemoryStore(LastCommit):
    """A store in memory, for tests of the core and as the measure of the one on disk."""

    def __init__(self) -> None:
        super().__init__(None, Checksum())
        self._entries: dict[bytes, bytes] = {}
        self._expiries: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the key."""
        return self._entries.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes under each key."""
        return [self.get(key) for key in keys]

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries from the key `start` on, in key order, as they were when the scan began."""
        return iter(sorted((key, data) for key, data in self._entries.items() if key >= start))

    def expiries(self, start: bytes = b"") -> Iterator[bytes]:
        """Yield the index of due times from `start` on: due time (8 bytes, the highest first) and key, in order."""
        return iter(sorted(due for due in self._expiries if due >= start))

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
        self._write(writes.items(), expiries.items())
        self._checksum, self._checkpoint = checksum, checkpoint

    def load(self, entries: SortedEntries, checksum: Checksum) -> None:
        """Write entries."""
        file = _File()
        entries.write_to(file)
        records, expiries = of_kinds([key for key, _ in file.entries], [data for _, data in file.entries])
        self._write(records.items(), expiries.items())
        self._checksum = checksum

    def commit_sorted(
        self, keys: Sequence[bytes], data: Sequence[bytes | None], checksum: Checksum, checkpoint: bytes
    ) -> None:
        """Write entries, checksum and checkpoint. Each key is behind its kind; None removes it."""
        entries, expiries = of_kinds(keys, data)
        self.commit(entries, checksum, checkpoint, expiries)

    def _write(
        self, entries: Iterable[tuple[bytes, bytes | None]], expiries: Iterable[tuple[bytes, bool]]
    ) -> None:
        for key, data in entries:
            if data is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = data
        for due, is_there in expiries:
            (self._expiries.add if is_there else self._expiries.discard)(due)

    def close(self) -> None:
        """Keep everything: there are no files."""


def of_kinds(
    keys: Sequence[bytes], data: Sequence[bytes | None]
) -> tuple[dict[bytes, bytes | None], dict[bytes, bool]]:
    """Return the records and the due times among entries whose keys are behind their kinds."""
    given = list(zip(keys, data, strict=True))
    entries = {key[1:]: one for key, one in given if key.startswith(RECORD)}
    return entries, {key[1:]: one is not None for key, one in given if key.startswith(EXPIRY)}
