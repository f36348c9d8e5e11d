"""Finds the records of a store that are due, without looking through its index of due times again and again."""

from collections.abc import Iterator, Mapping

from sowline.model.log_time import TIME_MAX
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.core.expiry import Due
from sowline_materializer.core.record import decode_record
from sowline_materializer.store.checksum import expiry_entry
from sowline_materializer.store.interface import Store

NOTHING_DUE = b"\xff" * 9
"""A key after all entries of the index of due times."""


class DueRecords:
    """The records of one store by their due times. Its owner calls `note` after each commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first = b""
        """No entry of the index is before this one."""
        self._may_have_unreachable = True
        """Whether the store may have due times after `TIME_MAX`, which no log time reaches: version 0.1 wrote
        such."""

    def note(self, expiries: Mapping[bytes, bool]) -> None:
        """Note the entries of the index that a commit has added (True) or removed."""
        # A record becomes due at 5, after `until` has looked and found 9 as the first. Searches that begin at 9 would
        # never find it (test_the_longest_due_goes_first_and_an_earlier_one_is_not_missed).
        added = (entry for entry, is_added in expiries.items() if is_added)
        self._first = min(self._first, min(added, default=NOTHING_DUE))

    def until(self, time: int) -> Iterator[Due]:
        """Yield the records that are due at a log time, the earliest due time first."""
        start, end = self._first, expiry_entry(time + 1, b"")
        if start < end:
            self._first = NOTHING_DUE
            for entry in self._store.expiries(start):
                self._first = min(entry, self._first)
                if entry >= end:
                    break
                yield self._due(entry)
        if self._may_have_unreachable:
            for entry in self._store.expiries(expiry_entry(TIME_MAX + 1, b"")):
                yield self._due(entry)
            self._may_have_unreachable = False

    def _due(self, entry: bytes) -> Due:
        key = entry[8:]
        assert key, "a due time is that of a record"
        data = self._store.get(key)
        if data is None:
            raise StoreDamaged(f"expected record {key!r}, which is due, got none")
        record = decode_record(data)
        return Due(int.from_bytes(entry[:8], "big"), record.key_text, record.position)
