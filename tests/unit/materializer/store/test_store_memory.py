"""The memory that stores share: it has one limit, whatever their number, and grows with no number of keys."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from bench.usage import resident_bytes
from sowline.model.limits import MIB
from sowline.runtime.store_memory import (
    WRITE_BUFFER_BYTES_MAX,
    WRITE_BUFFER_BYTES_MIN,
    StoreMemory,
    return_freed_memory,
)
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.rocksdb import RocksStore

BYTES_MAX = 8 * MIB
KEYS = 40_000
VALUE = b"x" * 500


@pytest.fixture
def memory() -> Iterator[StoreMemory]:
    """A small memory, which all stores of the test share."""
    shared = StoreMemory(BYTES_MAX)
    with patch("sowline_materializer.store.rocksdb.MEMORY", shared):
        yield shared


def fill(store: RocksStore, keys: range) -> None:
    """Write new keys in batches."""
    for start in keys[::1000]:
        entries: dict[bytes, bytes | None] = {
            b"%08d" % key: VALUE for key in range(start, min(start + 1000, keys.stop))
        }
        store.commit(entries, Checksum(), b"head")


@pytest.mark.parametrize("count", [1, 8])
def test_stores_stay_within_their_memory(memory: StoreMemory, tmp_path: Path, count: int) -> None:
    """Twenty megabytes of new keys, and all of them read again, whatever the number of stores."""
    memory.share_among(count)
    with ExitStack() as stack:
        stores = [RocksStore(tmp_path / str(number), create=True) for number in range(count)]
        for store in stores:
            stack.callback(store.close)
            store.mark_finished()
        highest = 0
        share = KEYS // count
        for start in range(0, share, share // 4):
            for store in stores:
                fill(store, range(start, start + share // 4))
                highest = max(highest, memory.used_bytes)
        for store in stores:
            assert sum(1 for _ in store.scan()) == share
            assert all(store.get(b"%08d" % key) == VALUE for key in range(0, share, 7))
            highest = max(highest, memory.used_bytes)
        # A write buffer takes a whole batch, and is counted beside the blocks until it is written to disk.
        assert BYTES_MAX * 5 / 8 <= memory.used_bytes <= highest <= BYTES_MAX * 3 / 2
        for store in stores:
            outside = int(store._database.property_value("rocksdb.estimate-table-readers-mem") or 0)
            files = len(store._database.live_files())
            assert outside <= files * 2300, "indexes and filters are not in the shared memory"


def test_stores_that_are_opened_again_use_their_memory(memory: StoreMemory, tmp_path: Path) -> None:
    """All of it, for what they read and for what they write."""
    memory.share_among(2)
    for reopened in (False, True):
        stores = [RocksStore(tmp_path / str(number), create=not reopened) for number in range(2)]
        for number, store in enumerate(stores):
            first = number * KEYS
            if not reopened:
                store.mark_finished()
                fill(store, range(first, first + KEYS))
            assert all(store.get(b"%08d" % key) == VALUE for key in range(first, first + KEYS, 7))
            options = max((tmp_path / str(number) / "db").glob("OPTIONS-*")).read_text()
            assert f"write_buffer_size={memory.write_buffer_bytes}\n" in options
        assert BYTES_MAX * 5 / 8 <= memory.used_bytes <= BYTES_MAX * 3 / 2
        for store in stores:
            store.close()
        memory.share_among(4)


def test_write_buffers_are_shared_out() -> None:
    """A quarter of the memory is for the buffers that are written to, as many as there are stores."""
    memory = StoreMemory(128 * MIB)
    sizes = []
    for stores in (1, 2, 32, 10_000):
        memory.share_among(stores)
        sizes.append(memory.write_buffer_bytes)
    assert sizes == [32 * MIB, 16 * MIB, MIB, WRITE_BUFFER_BYTES_MIN]
    memory.limit(1 << 40)
    memory.share_among(0)
    assert memory.write_buffer_bytes == WRITE_BUFFER_BYTES_MAX


def test_a_limit_may_change_under_open_stores(memory: StoreMemory, tmp_path: Path) -> None:
    """What is beyond a lower limit goes."""
    store = RocksStore(tmp_path / "0", create=True)
    try:
        fill(store, range(KEYS))
        store.mark_finished()
        assert sum(1 for _ in store.scan()) == KEYS
        memory.limit(MIB)
        assert memory.used_bytes <= 2 * MIB
        assert store.get(b"%08d" % 7) == VALUE
    finally:
        store.close()


def test_freed_memory_goes_back_to_the_system() -> None:
    """Also what lies between blocks that stay, which glibc by itself keeps for the process."""
    blocks = [bytes(1000) for _ in range(60_000)]
    kept = blocks[::100]
    del blocks
    before = resident_bytes(os.getpid())
    return_freed_memory()
    assert before - resident_bytes(os.getpid()) > 40 * MIB
    assert len(kept) == 600
