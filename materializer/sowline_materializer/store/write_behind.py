"""A store that is written behind: commits wait in memory, and reach the disk together in one sorted batch.

RocksDB sorts what it is given, and a batch that is sorted already costs it much less. A key that was written many
times in a second is written once. If the process dies, the disk holds an older commit, whole. The next owner applies
the log again from there, and emits no change that Kafka has already (`sowline_materializer.partition.recovery`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop
from types import ModuleType
from typing import Final, Generic, TypeVar

import structlog

from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import DiskFull, NoDescriptors
from sowline_materializer.store.interface import NO_EXPIRIES, DiskStore, LastCommit, in_key_order
from sowline_materializer.store.unflushed import Unflushed

log = structlog.get_logger()

StoreT = TypeVar("StoreT", bound=DiskStore)

EXPIRY_BYTES: Final = 200
"""Approximate bytes in memory of a pending due time."""

HALF_COMMITTED: Final = "a commit has failed in the middle"

_NONE_PENDING: Final = object()


class WriteBehindStore(LastCommit, Generic[StoreT]):
    """A store over another one, `disk`. Reads see all commits; the disk has those up to the last `flush`.

    `native` is the module of the native core, which then keeps the entries.
    It raises what `disk` raises. Records, due times, checksum and checkpoint of all commits since the last flush
    reach the disk in one atomic step, so no checkpoint is there without its records.
    """

    def __init__(self, disk: StoreT, native: ModuleType | None = None) -> None:
        super().__init__(disk.checkpoint(), disk.checksum())
        self.disk: Final = disk
        self._entries: Unflushed = Unflushed() if native is None else native.Unflushed()
        self._expiries: dict[bytes, bool] = {}
        self._is_flushed = True
        self._is_whole = True
        """Whether each commit is among the entries as a whole."""

    @property
    def pending_bytes(self) -> int:
        """The approximate memory of the commits that the disk does not have."""
        return self._entries.bytes + EXPIRY_BYTES * len(self._expiries)

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the key."""
        # None is an entry that a commit has removed: the disk still has it until the next flush.
        data: bytes | None = self._entries.get(key, _NONE_PENDING)
        return self.disk.get(key) if data is _NONE_PENDING else data

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes under each key, read together."""
        found = [self._entries.get(key, _NONE_PENDING) for key in keys]
        if others := [at for at, data in enumerate(found) if data is _NONE_PENDING]:
            for at, data in zip(others, self.disk.get_many([keys[at] for at in others]), strict=True):
                found[at] = data
        return found

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries from the key `start` on, in key order, as they were when the scan began."""
        pending = ((key, data) for key, data in self._entries.items() if key >= start)
        return merged(pending, self.disk.scan(start))

    def expiries(self, start: bytes = b"") -> Iterator[bytes]:
        """Yield the index of due times from `start` on: due time (8 bytes, the highest first) and key, in order."""
        pending = (
            (due, b"" if is_there else None) for due, is_there in self._expiries.items() if due >= start
        )
        stored = ((due, b"") for due in self.disk.expiries(start))
        return (due for due, _ in merged(pending, stored))

    def commit(
        self,
        writes: Mapping[bytes, bytes | None],
        checksum: Checksum,
        checkpoint: bytes,
        expiries: Mapping[bytes, bool] = NO_EXPIRIES,
    ) -> None:
        """Note entries (None removes one), due times (False removes one), checksum and checkpoint; write nothing."""
        # A failure in between, such as a panic of the native core, must not reach the disk
        # (test_a_commit_that_fails_in_the_middle_is_not_written).
        if not self._is_whole:
            raise StoreDamaged(HALF_COMMITTED)
        assert checkpoint, "a commit has a checkpoint"
        self._is_whole = self._is_flushed = False
        self._entries.update(writes)
        self._expiries.update(expiries)
        self._checksum, self._checkpoint = checksum, checkpoint
        self._is_whole = True

    def flush(self) -> None:
        """Write what was committed since the last flush to the disk, in one atomic step.

        If that fails, everything is still pending.
        """
        if self._is_flushed:
            return
        if not self._is_whole or self._checkpoint is None:
            raise StoreDamaged(HALF_COMMITTED)
        keys, data = self._entries.sorted()
        due_keys, due_data = in_key_order({}, self._expiries)
        assert len(keys) == len(data), "each key has its data"
        assert len(due_keys) == len(self._expiries), "each due time is written once"
        self.disk.commit_sorted(due_keys + keys, due_data + data, self._checksum, self._checkpoint)
        # Only after the write: what a full disk refuses must still be there for the next flush.
        self._entries.clear()
        self._expiries = {}
        self._is_flushed = True
        assert self.disk.checksum() == self._checksum, "the disk has the checksum of the last commit"

    def hand_over(self) -> StoreT | None:
        """Flush, and return the disk's store, still open; close it and return None if it does not take the writes.

        The next owner applies again what the disk does not take.
        """
        handed_over = None
        try:
            self.flush()
            handed_over = self.disk
        except (DiskFull, NoDescriptors, StoreDamaged) as error:
            log.warning("last commits not written", why=str(error))
        finally:
            # Also after any other error: the next owner in this process can't open a store that is still open.
            if handed_over is None:
                self.disk.close()
        return handed_over

    def close(self) -> None:
        """Flush, and close the files."""
        if (disk := self.hand_over()) is not None:
            disk.close()


def merged(
    pending: Iterable[tuple[bytes, bytes | None]], stored: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield stored entries in order, with the pending ones in their place; a pending None removes one."""
    # A heap, because a reader of due times takes the first few of many.
    heap = [(key, data) for key, data in pending]
    heapify(heap)
    for key, data in stored:
        while heap and heap[0][0] < key:
            yield from _live(heappop(heap))
        if heap and heap[0][0] == key:
            yield from _live(heappop(heap))
        else:
            yield key, data
    while heap:
        yield from _live(heappop(heap))


def _live(entry: tuple[bytes, bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    key, data = entry
    if data is not None:
        yield key, data
