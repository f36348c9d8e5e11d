"""The records of a partition as one batch sees them: the store, overlaid with the batch's own changes."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

from sowline_materializer.core.record import Record, decode_record, encode_record
from sowline_materializer.store.cache import RecordCache, Stored
from sowline_materializer.store.checksum import Checksum, entry_hash, expiry_entry, expiry_hash
from sowline_materializer.store.interface import Store


class PendingWrites(NamedTuple):
    """The writes of a batch, ready to be committed.

    `entries` are the bytes under each changed key, None for a removed one; those of the native core can only be
    listed. `expiries` are the changes of the expiry index; `checksum` is that of the store afterwards; `records` are
    the `entries`, decoded, of `bytes` in all.
    """

    entries: Mapping[bytes, bytes | None]
    expiries: dict[bytes, bool]
    checksum: Checksum
    records: dict[bytes, Stored | None]
    bytes: int


class Overlay:
    """Reads each record at most once, and keeps the batch's version of it until it is committed."""

    def __init__(self, store: Store, cache: RecordCache | None = None) -> None:
        self._store = store
        self._cache = cache or RecordCache()
        self._before: dict[bytes, Stored | None] = {}
        self._now: dict[bytes, Record | None] = {}

    def get(self, key: bytes) -> Record | None:
        """Return the entry of the SOW key: a record, the tombstone of a deleted record, or None."""
        if key in self._now:
            return self._now[key]
        if key in self._before:
            stored = self._before[key]
        else:
            stored = self._before[key] = self._cache.get(key) or self._read(key)
        return None if stored is None else stored[0]

    def _read(self, key: bytes) -> Stored | None:
        data = self._store.get(key)
        return None if data is None else (decode_record(data), entry_hash(key, data))

    def put(self, key: bytes, record: Record | None) -> None:
        """Store the record under a SOW key that was read before; None removes it."""
        # Without the entry before the batch, its hash would stay in the checksum
        # (test_a_record_is_read_before_it_is_written).
        assert key in self._before, "a record is read before it is written"
        self._now[key] = record

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield all live records from a SOW key on, in the order of the keys' bytes."""
        return ((key, record) for key, record in self.entries(start) if record.body is not None)

    def entries(self, start: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield all entries from a SOW key on, those of deleted records too, in the order of the keys' bytes."""
        # A delete by filter selects by the records as they are after the commands before it, in the same batch too
        # (test_a_delete_by_filter_sees_its_own_batch).
        changed = sorted((key for key in self._now if key >= start), reverse=True)
        for key, data in self._store.scan(start):
            while changed and changed[-1] < key:
                yield from self._changed(changed.pop())
            if changed and changed[-1] == key:
                yield from self._changed(changed.pop())
            else:
                yield key, decode_record(data)
        while changed:
            yield from self._changed(changed.pop())

    def _changed(self, key: bytes) -> Iterator[tuple[bytes, Record]]:
        assert key in self._before, "a record is read before it is written"
        record = self._now[key]
        if record is not None:
            yield key, record

    def written(self, checksum: Checksum) -> PendingWrites:
        """Return the writes to commit to a store with these counts."""
        entries: dict[bytes, bytes | None] = {}
        expiries: dict[bytes, bool] = {}
        records: dict[bytes, Stored | None] = {}
        assert self._now.keys() <= self._before.keys(), "a record is read before it is written"
        count, total = checksum
        written = 0
        for key, record in self._now.items():
            was = now = None
            before = self._before[key]
            if before is not None:
                was = before[0].expires
                count -= 1
                total -= before[1]
            if record is None:
                entries[key] = records[key] = None
            else:
                now = record.expires
                data = entries[key] = encode_record(record)
                hash = crc32(data, crc32(key))
                records[key] = record, hash
                count += 1
                total += hash
                written += len(data)
            # An unchanged due time is one key of `expiries`: removed and added, the checksum would count it twice.
            if was != now:
                if was is not None:
                    expiries[expiry_entry(was, key)] = False
                if now is not None:
                    expiries[expiry_entry(now, key)] = True
        for due, is_there in expiries.items():
            sign = 1 if is_there else -1
            count, total = count + sign, total + sign * expiry_hash(due)
        assert entries.keys() == records.keys() == self._now.keys(), "what is cached is what is written"
        return PendingWrites(entries, expiries, Checksum.of(count, total), records, written)
