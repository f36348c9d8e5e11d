"""The store: what both kinds promise, and how damage on disk is found."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.checksum import Checksum, entry_hash, expiry_hash
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.interface import Store
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore

Make = Callable[[], Store]


@pytest.fixture(params=["memory", "rocks", "memory written behind", "rocks written behind"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A maker of new stores of one kind."""
    disk, _, is_behind = request.param.partition(" ")
    if disk == "memory":
        return (lambda: WriteBehindStore(MemoryStore())) if is_behind else MemoryStore
    made: list[RocksStore] = []

    def rocks() -> Store:
        made.append(RocksStore(tmp_path / str(len(made)), create=True))
        return WriteBehindStore(made[-1]) if is_behind else made[-1]

    return rocks


def expected_checksum(entries: dict[bytes, bytes]) -> Checksum:
    """Return the tally that belongs to these entries."""
    return Checksum(len(entries), sum(entry_hash(k, v) for k, v in entries.items()) & 0xFFFFFFFFFFFFFFFF)


def filled(store: Store, count: int) -> dict[bytes, bytes]:
    """Commit some entries with their tally and return them."""
    entries = {b"%d" % number: b"body of %d" % number * 20 for number in range(count)}
    store.commit(dict(entries), expected_checksum(entries), b"head")
    return entries


def test_a_new_store_is_empty(make: Make) -> None:
    """Nothing was ever committed: no head, no entries, a tally of nothing."""
    store = make()
    assert (store.checkpoint(), store.checksum(), list(store.scan()), store.get(b"1")) == (
        None,
        Checksum(),
        [],
        None,
    )


def test_entries_checksum_and_head_are_written_together(make: Make) -> None:
    """A commit writes and removes entries and replaces tally and head."""
    store = make()
    store.commit({b"1": b"a", b"2": b"b"}, Checksum(2, 5), b"first")
    store.commit({b"1": None, b"2": b"c", b"3": b"", b"9": None}, Checksum(2, 6), b"second")
    assert dict(store.scan()) == {b"2": b"c", b"3": b""}
    assert (store.get(b"1"), store.get(b"2"), store.get(b"3")) == (None, b"c", b"")
    assert store.get_many([b"2", b"1", b"3", b"2"]) == [b"c", None, b"", b"c"]
    assert store.get_many([]) == []
    assert (store.checkpoint(), store.checksum()) == (b"second", Checksum(2, 6))


def test_a_scan_is_in_key_order(make: Make) -> None:
    """Entries come in the order of their keys' bytes; neither head nor tally is among them."""
    store = make()
    keys = [b"10", b"9", b"1", b"\xff\xff", b"", b"\x00"]
    store.commit(dict.fromkeys(keys, b"x"), Checksum(), b"head")
    assert [key for key, _ in store.scan()] == sorted(keys)


def test_a_scan_does_not_see_what_is_committed_while_it_runs(make: Make) -> None:
    """A scan is of the instant at which it began."""
    store = make()
    entries = filled(store, 10)
    scan = store.scan()
    first = next(scan)
    store.commit({**dict.fromkeys(entries), b"new": b"x"}, Checksum(), b"head")
    assert dict([first, *scan]) == entries


def test_due_times_are_in_order(make: Make) -> None:
    """They come and go with the entries, stand beside them, and are read from anywhere."""
    store = make()
    store.commit(
        {b"1": b"a"}, Checksum(), b"head", {b"\0\2a": True, b"\0\1b": True, b"\1": True, b"\xff": True}
    )
    store.commit({}, Checksum(), b"head", {b"\1": False, b"\0\1c": True, b"\7": False})
    assert list(store.expiries()) == [b"\0\1b", b"\0\1c", b"\0\2a", b"\xff"]
    assert list(store.expiries(b"\0\1c")) == [b"\0\1c", b"\0\2a", b"\xff"]
    assert dict(store.scan()) == {b"1": b"a"}


def test_a_due_time_that_went_missing_does_not_fit_the_checksum(make: Make) -> None:
    """A record that would never expire, or one that is due at another time, is found."""
    for wrong in ({b"5": False}, {b"6": True}, {b"5": False, b"6": True}):
        store = make()
        store.commit({}, Checksum(1, expiry_hash(b"5")), b"head", {b"5": True})
        assert survey(store).checksum == store.checksum()
        store.commit({}, store.checksum(), b"head", wrong)
        assert survey(store).checksum != store.checksum()


def test_keys_of_any_bytes_do_not_meet_the_head(make: Make) -> None:
    """A SOW key that looks like the store's own keys is an entry like any other."""
    store = make()
    store.commit({b"h": b"1", b"t": b"2", b"r": b"3"}, Checksum(3, 1), b"head")
    assert (store.checkpoint(), store.checksum().entries, store.get(b"h")) == (b"head", 3, b"1")


def test_a_rocks_store_keeps_what_was_committed(tmp_path: Path) -> None:
    """What was committed before it was closed is there when it is opened again."""
    store = RocksStore(tmp_path / "s", create=True)
    entries = filled(store, 100)
    store.mark_finished()
    store.close()
    again = RocksStore(tmp_path / "s", create=False)
    assert dict(again.scan()) == entries
    assert survey(again).checksum == again.checksum()
    assert again.checkpoint() == b"head"
    again.close()


def test_a_finished_store_keeps_what_a_crash_leaves(tmp_path: Path) -> None:
    """From its mark on what was committed is there when its process dies, without a word to the store."""
    store = RocksStore(tmp_path / "s", create=True)
    entries: dict[bytes, bytes | None] = dict(filled(store, 100))
    store.mark_finished()
    store.commit({b"more": b"x"}, store.checksum(), b"next")
    shutil.copytree(tmp_path / "s", tmp_path / "left")
    store.close()
    left = RocksStore(tmp_path / "left", create=False)
    assert (dict(left.scan()), left.checkpoint()) == (entries | {b"more": b"x"}, b"next")
    left.close()


def test_a_store_is_finished_only_with_its_mark(tmp_path: Path) -> None:
    """A directory that a crash left half made is none of ours."""
    assert not RocksStore.exists(tmp_path / "s")
    store = RocksStore(tmp_path / "s", create=True)
    assert not RocksStore.exists(tmp_path / "s")
    store.mark_finished()
    assert RocksStore.exists(tmp_path / "s")
    store.close()


def test_creating_begins_again(tmp_path: Path) -> None:
    """A new store takes the place of whatever lay there."""
    store = RocksStore(tmp_path / "s", create=True)
    filled(store, 3)
    store.mark_finished()
    store.close()
    store = RocksStore(tmp_path / "s", create=True)
    assert (list(store.scan()), store.checkpoint(), RocksStore.exists(tmp_path / "s")) == ([], None, False)
    store.close()


def test_opening_what_is_not_there_is_damage(tmp_path: Path) -> None:
    """Nothing is made by accident where something was expected."""
    with pytest.raises(StoreDamaged, match="does not open"):
        RocksStore(tmp_path / "s", create=False)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """The path of a finished store with its entries in a table file."""
    store = RocksStore(tmp_path / "s", create=True)
    filled(store, 3000)
    store.mark_finished()
    store.close()
    return tmp_path / "s"


def is_sound(path: Path) -> bool:
    """Open a store and walk through it; tell whether all is as its tally says."""
    store = RocksStore(path, create=False)
    try:
        return survey(store).checksum == store.checksum() and store.checkpoint() is not None
    finally:
        store.close()


def test_a_whole_store_is_sound(closed: Path) -> None:
    """Without damage the walk finds what the tally says."""
    assert is_sound(closed)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_a_flipped_byte_in_a_table_is_found(closed: Path, share: float) -> None:
    """Wherever a block is damaged, the walk ends with `StoreDamaged`, not early and silently."""
    table = next(closed.glob("db/*.sst"))
    data = bytearray(table.read_bytes())
    data[int(len(data) * share)] ^= 0x55
    table.write_bytes(bytes(data))
    with pytest.raises(StoreDamaged):
        is_sound(closed)


@pytest.mark.parametrize("keep", [0, 30, 0.5])
def test_a_truncated_manifest_is_found(closed: Path, keep: float) -> None:
    """A store whose list of files was cut opens not at all, or with a tally that does not fit."""
    manifest = max(closed.glob("db/MANIFEST-*"))
    data = manifest.read_bytes()
    manifest.write_bytes(data[: int(keep * len(data)) if keep < 1 else int(keep)])
    try:
        sound = is_sound(closed)
    except StoreDamaged:
        sound = False
    assert not sound


def test_a_missing_table_is_found(closed: Path) -> None:
    """A store without one of its files does not open, or does not read."""
    next(closed.glob("db/*.sst")).unlink()
    with pytest.raises(StoreDamaged):
        is_sound(closed)


def test_entries_that_went_missing_do_not_fit_the_checksum(make: Make) -> None:
    """A hole, a changed body and a stray entry each show in the walk."""
    for wrong in ({b"5": None}, {b"5": b"other"}, {b"x": b"stray"}):
        store = make()
        entries = filled(store, 10)
        store.commit(wrong, expected_checksum(entries), b"head")
        assert survey(store).checksum != store.checksum()


def test_a_write_that_fails_is_damage(tmp_path: Path) -> None:
    """RocksDB refuses to write once it has found damage by itself; that ends the partition, not the process."""
    store = RocksStore(tmp_path / "s", create=True)
    store.close()
    with pytest.raises(StoreDamaged, match="does not write"):
        store.commit({b"1": b"x"}, Checksum(), b"head")
