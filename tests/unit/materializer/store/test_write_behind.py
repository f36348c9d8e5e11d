"""Write-behind: reads see every commit, the disk has whole ones, and nothing is written before a flush."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sowline.runtime.native import native_core
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import DiskFull
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore

sowline_native = native_core(None)
KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"\xff"])
ENTRIES = st.dictionaries(KEYS, st.none() | st.binary(max_size=2), max_size=4)
EXPIRIES = st.dictionaries(KEYS, st.booleans(), max_size=3)


def state_of(store: Any) -> tuple[Any, ...]:
    """Return everything that a store answers."""
    keys = [b"", b"a", b"b", b"c", b"\xff"]
    return (
        list(store.scan()),
        list(store.expiries()),
        list(store.expiries(b"b")),
        [store.get(key) for key in keys],
        store.get_many(keys),
        store.checkpoint(),
        store.checksum(),
    )


class WrittenBehind(RuleBasedStateMachine):
    """Commits, flushes and crashes: reads are those of the last commit, the disk is as of the last flush."""

    native: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.commits = self.new_disk(), 0
        self.store = WriteBehindStore(self.disk, self.native)
        self.expected, self.flushed = MemoryStore(), MemoryStore()
        self.made: list[tuple[Any, ...]] = []

    def new_disk(self) -> Any:
        """Return the store behind, with nothing in it."""
        return MemoryStore()

    @rule(entries=ENTRIES, expiries=EXPIRIES)
    def commit(self, entries: dict[bytes, bytes | None], expiries: dict[bytes, bool]) -> None:
        """Commit some entries and due times."""
        self.commits += 1
        made = (entries, Checksum(self.commits, 7), b"%d" % self.commits, expiries)
        self.store.commit(*made)
        self.expected.commit(*made)
        self.made.append(made)

    @rule()
    def flush(self) -> None:
        """Flush; then the disk has every commit."""
        self.store.flush()
        for made in self.made:
            self.flushed.commit(*made)
        self.made = []

    @rule()
    def crash(self) -> None:
        """Continue from the disk; the commits since the last flush are gone."""
        self.store, self.made = WriteBehindStore(self.disk, self.native), []
        self.expected = MemoryStore()
        entries, expiries = dict(self.flushed.scan()), dict.fromkeys(self.flushed.expiries(), True)
        if (checkpoint := self.flushed.checkpoint()) is not None:
            self.expected.commit(dict(entries), self.flushed.checksum(), checkpoint, expiries)

    @rule(steps=st.integers(0, 4), entries=ENTRIES, flushes=st.booleans())
    def commit_during_a_scan(self, steps: int, entries: dict[bytes, bytes | None], flushes: bool) -> None:
        """A scan that has begun is of its instant, also across a flush."""
        before = list(self.expected.scan())
        scan = self.store.scan()
        begun = [one for _, one in zip(range(steps), scan, strict=False)]
        if begun:
            self.commit(entries, {})
            if flushes:
                self.flush()
            assert begun + list(scan) == before

    @invariant()
    def reads_and_disk(self) -> None:
        """Reads see every commit; the disk has the last flush."""
        assert state_of(self.store) == state_of(self.expected)
        assert state_of(self.disk) == state_of(self.flushed)


class NativeWrittenBehind(WrittenBehind):
    """The same, where the native core keeps what is pending."""

    native = sowline_native


class WrittenToDisk(WrittenBehind):
    """The same over RocksDB."""

    def new_disk(self) -> RocksStore:
        """Return a store in a directory of its own."""
        self._directory = tempfile.TemporaryDirectory()
        return RocksStore(Path(self._directory.name) / "s", create=True)

    def teardown(self) -> None:
        """Close the store, and remove its directory."""
        self.disk.close()
        self._directory.cleanup()


test_write_behind = WrittenBehind.TestCase
test_write_behind_to_disk = WrittenToDisk.TestCase
test_write_behind_to_disk.settings = settings(max_examples=20, stateful_step_count=20)
test_write_behind_by_the_native_core = pytest.mark.skipif(sowline_native is None, reason="no native core")(
    NativeWrittenBehind.TestCase
)


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
