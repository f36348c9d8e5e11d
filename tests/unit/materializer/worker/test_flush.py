"""When the stores of a worker are flushed."""

from typing import Any

import pytest

from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.write_behind import WriteBehindStore
from sowline_materializer.worker import flush as module
from sowline_materializer.worker.counts import Counts
from sowline_materializer.worker.flush import FLUSH_BYTES_MAX, FLUSH_SECONDS, Flush
from sowline_materializer.worker.owned import OwnedPartitions
from tests.memory_store import MemoryStore


class Clock:
    """A clock that stands still."""

    now = 100.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    perf_counter = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that flushes go by."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_stores_are_flushed_every_second(clock: Clock) -> None:
    """All of them, whenever their commits were made."""
    owned, disks = OwnedPartitions({}), [MemoryStore(), MemoryStore()]
    stores: Any = {("orders", number): WriteBehindStore(disk) for number, disk in enumerate(disks)}
    owned.stores.update(stores)
    flush = Flush(owned, Counts())
    flush.flush_due()
    for store in owned.stores.values():
        store.commit({b"a": b"1"}, Checksum(1, 1), b"one")
    clock.now += FLUSH_SECONDS - 0.1
    flush.flush_due()
    assert [disk.checkpoint() for disk in disks] == [None, None]
    clock.now += 0.1
    flush.flush_due()
    assert [disk.checkpoint() for disk in disks] == [b"one", b"one"]


def test_much_is_flushed_at_once(clock: Clock) -> None:
    """Memory is bounded for all partitions together, whatever the clock says."""
    owned, disks = OwnedPartitions({}), [MemoryStore(), MemoryStore()]
    stores: Any = {("orders", number): WriteBehindStore(disk) for number, disk in enumerate(disks)}
    owned.stores.update(stores)
    flush = Flush(owned, Counts())
    flush.flush_due()
    for store in owned.stores.values():
        store.commit({b"a": bytes(FLUSH_BYTES_MAX // 2)}, Checksum(1, 1), b"one")
    flush.flush_due()
    assert [disk.checkpoint() for disk in disks] == [b"one", b"one"]


def test_freed_memory_is_returned_every_five_seconds(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time takes some milliseconds, so not with every flush."""
    returned: list[float] = []
    monkeypatch.setattr(module, "return_freed_memory", lambda: returned.append(clock.now))
    flush = Flush(OwnedPartitions({}), Counts())
    while clock.now < 125:
        flush.flush_due()
        clock.now += FLUSH_SECONDS
    assert returned == [100, 105, 110, 115, 120]
