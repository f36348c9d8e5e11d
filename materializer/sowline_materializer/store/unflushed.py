"""The entries of the commits that wait in memory for the next flush."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sowline_materializer.store.interface import in_key_order

ENTRY_BYTES: Final = 200
"""Approximate bytes in memory of a pending entry with its key, in addition to its data."""


class Unflushed:
    """Entries by key: their data, or None where one is removed. `sowline_native.Unflushed` is the same, faster."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes | None] = {}
        self.bytes = 0
        """The approximate memory of the entries. One that is written twice counts twice."""

    def update(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Add the entries of a commit."""
        self._entries.update(entries)
        self.bytes += ENTRY_BYTES * len(entries) + sum(map(len, filter(None, entries.values())))
        assert self.bytes >= ENTRY_BYTES * len(self._entries), "an entry takes memory at least once"

    def get(self, key: bytes, default: Any) -> Any:
        """Return the data under a key, None if it was removed, or `default` if it has no entry here."""
        return self._entries.get(key, default)

    def items(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Return pairs of a key and its data, or None, in any order."""
        return self._entries.items()

    def sorted(self) -> tuple[list[bytes], list[bytes | None]]:
        """Return the keys in order, each with its kind in front, and their data."""
        return in_key_order(self._entries)

    def clear(self) -> None:
        """Forget all entries."""
        self._entries, self.bytes = {}, 0
