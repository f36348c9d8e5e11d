"""The entries of a store while it is filled: kept in memory up to a size, and written in the order of their keys."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from sowline.model.difference import Keys
from sowline.model.limits import MIB
from sowline.model.position import Position
from sowline_materializer.core.record import due_time
from sowline_materializer.store.checksum import Checksum, entry_hash, expiry_entry, expiry_hash
from sowline_materializer.store.interface import DiskStore, EntryFile, in_key_order

PENDING_BYTES_MAX: Final = 64 * MIB
"""The bytes that a load keeps in memory. They become a file of the store, and many files would be merged again."""

ENTRY_BYTES: Final = 200
"""Approximate bytes in memory of an entry with its key, in addition to its data."""


class LoadedEntries:
    """Entries in the order of their keys; the native core has its own."""

    def __init__(self, keys: Sequence[bytes], data: Sequence[bytes | None]) -> None:
        assert len(keys) == len(data), "each key has its data"
        self._keys, self._data = keys, data

    def __len__(self) -> int:
        return len(self._keys)

    def write_to(self, file: EntryFile) -> None:
        """Write all of them to a file; one whose data is None is removed."""
        for key, data in zip(self._keys, self._data, strict=True):
            if data is None:
                del file[key]
            else:
                file[key] = data


class BulkLoad:
    """The entries of a new store. They are complete in the store after `finish`, and the commit that follows it."""

    def __init__(self, store: DiskStore, pending_bytes_max: int = PENDING_BYTES_MAX) -> None:
        self._store = store
        self._pending_bytes_max = pending_bytes_max
        self._now: dict[bytes, bytes | None] = {}
        self._expiries: dict[bytes, bool] = {}
        self._count, self._sum = store.checksum()
        self._bytes = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the SOW key."""
        # None in `_now` is a removal: an earlier portion may have written the entry to the store.
        return self._now[key] if key in self._now else self._store.get(key)

    def put(self, key: bytes, before: bytes | None, now: bytes | None) -> None:
        """Replace the entry of a SOW key, which was read before, by a record's bytes, or delete it."""
        assert key, "no SOW key is empty"
        self._now[key] = now
        # In this order: an unchanged due time is removed and added again. The reverse would lose it.
        if before is not None:
            self._note(key, before, -1)
        if now is not None:
            self._note(key, now, 1)
            self._bytes += ENTRY_BYTES + len(now)
        if self._bytes > self._pending_bytes_max:
            self.finish()

    def _note(self, key: bytes, data: bytes, sign: int) -> None:
        assert sign in (-1, 1), "an entry is added or removed"
        self._count += sign
        self._sum += sign * entry_hash(key, data)
        expires = due_time(data)
        if expires is not None:
            due = expiry_entry(expires, key)
            self._expiries[due] = sign > 0
            self._count += sign
            self._sum += sign * expiry_hash(due)

    def finish(self) -> None:
        """Write all pending entries to the store."""
        if not self._now:
            return
        assert self._count >= 0, "a count of entries is never negative"
        checksum = Checksum.of(self._count, self._sum)
        self._store.load(LoadedEntries(*in_key_order(self._now, self._expiries)), checksum)
        self._now, self._expiries, self._bytes = {}, {}, 0


class LoadState(NamedTuple):
    """The state of a load that the native core needs and changes."""

    era: int
    newest: Position | None
    """The position of the newest change."""
    time: int
    """Log time."""
    live: int
    """The number of live records."""
    wholeness: tuple[Position, int, bool]


class NativeBulkLoad:
    """The same, kept by the native core, which also loads plain changes into it.

    `key_paths` are those of the topic's key fields. `BulkLoad` is the specification, together with
    `sowline_materializer.partition.changes_loader` (tests/property/test_native_load.py).
    """

    def __init__(
        self,
        module: ModuleType,
        key_paths: Keys,
        store: DiskStore,
        pending_bytes_max: int = PENDING_BYTES_MAX,
    ) -> None:
        self._store = store
        self._pending_bytes_max = pending_bytes_max
        self._loader = module.Loader(key_paths, store.get_many)

    def load(
        self,
        messages: Any,
        start: int,
        state: LoadState,
        ranks: dict[bytes, Any],
        stale_keys: set[bytes],
    ) -> Any:
        """Load messages from `start` on, up to the first that only Python can load; return its index, `end`, and the
        state after them.

        `messages` are a batch of the native reader; or columns: Kafka keys, values, headers and offsets. Python loads
        the keys in `ranks` and `stale_keys`.
        """
        after = self._loader.load(messages, start, state, ranks, stale_keys)
        if self._loader.pending_bytes > self._pending_bytes_max:
            self.finish()
        return after

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the SOW key."""
        data: bytes | None = self._loader.get(key)
        return data

    def put(self, key: bytes, before: bytes | None, now: bytes | None) -> None:
        """Replace the entry of a SOW key, which was read before, by a record's bytes, or delete it."""
        # The native core has read the entry itself, so it takes `before` out of its own sum.
        self._loader.put(key, now)

    def finish(self) -> None:
        """Write all pending entries to the store."""
        entries, checksum = self._loader.written(self._store.checksum())
        if entries:
            self._store.load(entries, Checksum(*checksum))
