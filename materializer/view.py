"""The records of a partition as one batch sees them: the store, with the batch's own changes over it."""

from collections.abc import Iterator
from zlib import crc32

from materializer.record import Record, decode_record, due_time, encode_record
from materializer.store import Store, Tally


class View:
    """Reads each record at most once and keeps what the batch makes of it until it is committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: dict[bytes, bytes | None] = {}
        self._now: dict[bytes, Record | None] = {}
        self._put: set[bytes] = set()
        self._any_due = False

    def get(self, key: bytes) -> Record | None:
        """Return what is kept under the SOW key: a record, a deleted record's memory, or None."""
        if key in self._before:
            return self._now[key]
        data = self._before[key] = self._store.get(key)
        record = self._now[key] = None if data is None else decode_record(data)
        if record is not None and record.expires is not None:
            self._any_due = True
        return record

    def put(self, key: bytes, record: Record | None) -> None:
        """Keep the record, or nothing, under a SOW key that was read before."""
        assert key in self._before, "a record is read before it is written"
        self._now[key] = record
        self._put.add(key)
        if record is not None and record.expires is not None:
            self._any_due = True

    def scan(self) -> Iterator[tuple[bytes, Record]]:
        """Yield all live records in the order of their SOW keys' bytes."""
        changed = sorted(self._put, reverse=True)
        for key, data in self._store.scan():
            while changed and changed[-1] < key:
                yield from self._live(changed.pop())
            if changed and changed[-1] == key:
                yield from self._live(changed.pop())
            else:
                record = decode_record(data)
                if record.body is not None:
                    yield key, record
        while changed:
            yield from self._live(changed.pop())

    def _live(self, key: bytes) -> Iterator[tuple[bytes, Record]]:
        record = self._now[key]
        if record is not None and record.body is not None:
            yield key, record

    def writes(self) -> dict[bytes, bytes | None]:
        """Return what the batch leaves in the store: the bytes under each changed key, None where it goes."""
        return {key: None if (now := self._now[key]) is None else encode_record(now) for key in self._put}

    def dues(self, writes: dict[bytes, bytes | None]) -> dict[bytes, bool]:
        """Return what the writes change in the index of due times: which entries come, and which go."""
        dues: dict[bytes, bool] = {}
        if not self._any_due:
            return dues
        for key, after in writes.items():
            was, now = due_time(self._before[key]), due_time(after)
            if was != now:
                if was is not None:
                    dues[due_entry(was, key)] = False
                if now is not None:
                    dues[due_entry(now, key)] = True
        return dues

    def tally_after(self, tally: Tally, writes: dict[bytes, bytes | None], dues: dict[bytes, bool]) -> Tally:
        """Return the store's tally once the writes are in it."""
        count, checksum = tally
        for key, after in writes.items():
            before, start = self._before[key], crc32(key)
            if before is not None:
                count -= 1
                checksum -= crc32(before, start)
            if after is not None:
                count += 1
                checksum += crc32(after, start)
        for due, is_there in dues.items():
            sign = 1 if is_there else -1
            count, checksum = count + sign, checksum + sign * due_hash(due)
        return Tally(count, checksum & 0xFFFFFFFFFFFFFFFF)


def entry_hash(key: bytes, data: bytes) -> int:
    """Return the hash of one entry; the store's checksum is the sum of all, so that order does not matter."""
    return crc32(data, crc32(key))


def due_entry(due: int, key: bytes) -> bytes:
    """Return the entry of the index of due times for a record that is due then (ms of log time)."""
    return due.to_bytes(8, "big") + key


def due_hash(due: bytes) -> int:
    """Return the hash of one entry of the index of due times, a part of the checksum like those of records."""
    return crc32(due, 1)
