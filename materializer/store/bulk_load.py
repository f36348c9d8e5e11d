"""The entries of a store while it is filled, a batch at a time: bytes, with their tally and due times."""

from materializer.record import due_time
from materializer.store import Store, Tally
from materializer.view import due_entry, due_hash, entry_hash


class Entries:
    """What a batch makes of a store's entries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now: dict[bytes, bytes | None] = {}
        self._dues: dict[bytes, bool] = {}
        self._count, self._checksum = store.tally()

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the SOW key."""
        return self._now[key] if key in self._now else self._store.get(key)

    def put(self, key: bytes, before: bytes | None, now: bytes | None) -> None:
        """Put a record's bytes, or nothing, in the place of what is under the SOW key before."""
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
            due = due_entry(expires, key)
            self._dues[due] = sign > 0
            self._count += sign
            self._checksum += sign * due_hash(due)

    def commit(self) -> None:
        """Write all of it to the store, which has no head by then."""
        tally = Tally(self._count, self._checksum & 0xFFFFFFFFFFFFFFFF)
        self._store.commit(self._now, tally, b"", self._dues)
