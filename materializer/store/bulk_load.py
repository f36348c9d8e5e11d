"""The entries of a store while it is filled, a batch at a time: bytes, with their checksum and due times."""

from materializer.core.record import due_time
from materializer.store.checksum import Checksum, entry_hash, expiry_entry, expiry_hash
from materializer.store.interface import Store


class BulkLoad:
    """The entries of one batch of a load."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now: dict[bytes, bytes | None] = {}
        self._expiries: dict[bytes, bool] = {}
        self._count, self._checksum = store.checksum()

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the SOW key."""
        return self._now[key] if key in self._now else self._store.get(key)

    def put(self, key: bytes, before: bytes | None, now: bytes | None) -> None:
        """Replace the entry of a SOW key by a record's bytes, or delete it."""
        self._now[key] = now
        if before is not None:
            self._note(key, before, -1)
        if now is not None:
            self._note(key, now, 1)

    def _note(self, key: bytes, data: bytes, sign: int) -> None:
        self._count += sign
        self._checksum += sign * entry_hash(key, data)
        expires = due_time(data)
        if expires is not None:
            due = expiry_entry(expires, key)
            self._expiries[due] = sign > 0
            self._count += sign
            self._checksum += sign * expiry_hash(due)

    def commit(self) -> None:
        """Write all entries to the store, which has no checkpoint yet."""
        checksum = Checksum(self._count, self._checksum & 0xFFFFFFFFFFFFFFFF)
        self._store.commit(self._now, checksum, b"", self._expiries)
