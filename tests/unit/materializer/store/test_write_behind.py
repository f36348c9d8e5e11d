"""Write-behind: failures of a flush and of a commit. `test_every_store.py` compares it with the other stores."""

from pathlib import Path

import pytest

from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import DiskFull
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore


def test_a_flush_that_fails_is_tried_again() -> None:
    """Everything is still pending, and reads see it."""
    disk = MemoryStore()
    store = WriteBehindStore(disk)
    store.commit({b"a": b"1"}, Checksum(1, 1), b"one", {b"d": True})
    refusal = DiskFull("No space left on device")

    def refuse(*given: object) -> None:
        raise refusal

    disk.commit_sorted = refuse  # type: ignore[assignment, method-assign]
    with pytest.raises(DiskFull):
        store.flush()
    assert (store.get(b"a"), list(store.expiries()), disk.checkpoint()) == (b"1", [b"d"], None)
    del disk.commit_sorted
    store.flush()
    assert (disk.get(b"a"), list(disk.expiries()), disk.checkpoint()) == (b"1", [b"d"], b"one")


def one_behind(path: Path) -> WriteBehindStore[RocksStore]:
    """Return a store with two commits, of which the disk has the first."""
    disk = RocksStore(path, create=True)
    disk.commit({b"a": b"0"}, Checksum(1, 0), b"zero")
    disk.mark_finished()
    store = WriteBehindStore(disk)
    store.commit({b"a": b"1"}, Checksum(1, 1), b"one")
    return store


def test_a_commit_that_fails_in_the_middle_is_not_written(tmp_path: Path) -> None:
    """The disk keeps the commits of the last flush, and the store is not handed over."""
    store = one_behind(tmp_path / "s")
    with pytest.raises(TypeError):
        store.commit({b"a": b"2", b"b": 3}, Checksum(2, 2), b"two")  # type: ignore[dict-item]
    for go_on in (store.flush, lambda: store.commit({b"c": b"3"}, Checksum(3, 3), b"three")):
        with pytest.raises(StoreDamaged, match="a commit has failed in the middle"):
            go_on()
    assert store.hand_over() is None
    again = RocksStore(tmp_path / "s", create=False)
    assert (again.get(b"a"), again.get(b"b"), again.checkpoint()) == (b"0", None, b"zero")
    again.close()


def test_a_disk_that_refuses_is_closed(tmp_path: Path) -> None:
    """Then it is not handed over, and another process can open it."""
    store = one_behind(tmp_path / "s")

    def refuse(*given: object) -> None:
        raise DiskFull("No space left on device")

    store.disk.commit_sorted = refuse  # type: ignore[assignment, method-assign]
    assert store.hand_over() is None
    again = RocksStore(tmp_path / "s", create=False)
    assert (again.get(b"a"), again.checkpoint()) == (b"0", b"zero")
    again.close()


def test_what_is_closed_or_handed_over_is_on_disk(tmp_path: Path) -> None:
    """The next owner, in this process or another, has every commit."""
    store = WriteBehindStore(RocksStore(tmp_path / "s", create=True))
    store.disk.mark_finished()
    store.commit({b"a": b"1"}, Checksum(1, 1), b"one")
    assert store.hand_over() is store.disk
    assert (store.disk.get(b"a"), store.disk.checkpoint(), store.pending_bytes) == (b"1", b"one", 0)
    store.commit({b"a": None, b"b": b"2"}, Checksum(1, 2), b"two", {b"d": True})
    assert store.pending_bytes > 0
    store.close()
    again = RocksStore(tmp_path / "s", create=False)
    assert (dict(again.scan()), list(again.expiries()), again.checkpoint()) == ({b"b": b"2"}, [b"d"], b"two")
    again.close()
