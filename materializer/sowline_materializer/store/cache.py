"""The most recently written decoded records of a partition, so that a repeated update needs no read from disk."""

from collections.abc import Callable, Mapping
from typing import Final

from sowline_materializer.core.record import Record

Stored = tuple[Record, int]
"""A record as the store holds it, and its part in the store's checksum."""

ENTRY_BYTES: Final = 450
"""Approximate bytes of an entry in addition to its record's body."""


class RecordCache:
    """Keeps the most recently written records in two halves: when one is full, the older one is dropped."""

    def __init__(self, bytes_max: Callable[[], int] = lambda: 0) -> None:
        self.bytes_max = bytes_max
        self._young: dict[bytes, Stored | None] = {}
        self._old: dict[bytes, Stored | None] = {}
        self._young_bytes = 0

    def get(self, key: bytes) -> Stored | None:
        """Return the entry under the SOW key, if it was written recently."""
        young = self._young
        # None in the younger half is a record that is gone, and the older half may still have it
        # (test_what_went_stays_away_when_the_halves_change).
        return young[key] if key in young else self._old.get(key)

    def keep(self, written: Mapping[bytes, Stored | None], bytes_written: int) -> None:
        """Add the entries that were just committed, None for a deleted one; a record written twice counts twice."""
        half, more = self.bytes_max() // 2, bytes_written + ENTRY_BYTES * len(written)
        if self._young_bytes + more > half:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        # These entries are not kept. The older half may have earlier records of their keys, which a reader would take
        # for the newest.
        if more > half:
            self._old = {}
        else:
            self._young.update(written)
            self._young_bytes += more
        assert self._young_bytes <= half, "a half of the cache keeps to its limit"
