"""Damage on disk: whatever becomes of a file of a finished store, the partition ends in the state that it had."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sowline.commands.command import Headers
from sowline.config.topic_definition import define_topic
from sowline.model.key import sow_key
from sowline.runtime.store_memory import StoreMemory
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.rocksdb import RocksStore
from tests.property.world import World, dump

DEFINITION = define_topic(name="orders", key="/id", expiration="1h", records_max=900)
STORE = Path("0")
RECORDS = 250


class Disk:
    """A partition with everything that a store may hold, on a disk that can be damaged and put back."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.directory = directory
        self._fill(0)
        self.world.drain(100)
        self.world.store(0).mark_finished()  # type: ignore[attr-defined]
        self._fill(RECORDS)
        self.world.drain(100)
        shutil.copytree(STORE, directory / "killed")
        self.expected = self._state()
        self.close()
        shutil.copytree(STORE, directory / "closed")

    def _fill(self, start: int) -> None:
        for number in range(start, start + RECORDS):
            about: Headers = (
                [("sow.publisher", b"p"), ("sow.sequence", b"%d" % number)] if number % 3 == 0 else []
            )
            due: Headers = [("sow.expiration", b"%d" % (number % 7))] if number % 2 else []
            self.world.time += 1
            self.world.write(0, b'{"id":%d,"text":"%s"}' % (number, b"x" * (number % 90)), None, about + due)
        self.world.write(0, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"/id IN (3,4,5,6)")])
        self.world.write(0, b"{", None, [])

    def _state(self) -> Any:
        partition, store = self.world.owner(0), self.world.store(0)
        checkpoint = replace(partition.checkpoint, changes_end=0, stale_keys=frozenset())
        return checkpoint, dump(store, 0, 10**9), list(store.expiries())

    def put_back(self, kind: str) -> None:
        """Let the disk be as it was before any damage: after a clean end, or after a kill."""
        self.close()
        shutil.rmtree(STORE, ignore_errors=True)
        shutil.copytree(self.directory / kind, STORE)

    def files(self, kind: str) -> list[Path]:
        """Return the files of a store, relative to it."""
        base = self.directory / kind
        return sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())

    def is_whole(self) -> bool:
        """Open the partition and apply its log; tell whether all is as it was."""
        self.world.owner(0)
        self.world.drain(100)
        store = self.world.store(0)
        assert survey(store).checksum == store.checksum()
        return bool(self._state() == self.expected)

    def close(self) -> None:
        """End the owner."""
        if 0 in self.world.owners:
            self.world.owners[0].close()
        self.world.crash(0)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """One disk for all damages."""
    directory = tmp_path_factory.mktemp("disk")
    world = World(DEFINITION)
    with pytest.MonkeyPatch.context() as patcher, ExitStack() as stack:
        patcher.chdir(directory)
        for entered in world.patched()[1:]:
            stack.enter_context(entered)
        disk = Disk(world, directory)
        yield disk
        disk.close()


def flip(share: float) -> Callable[[Path], None]:
    """Return what changes one byte at that part of a file."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        if data:
            data[int((len(data) - 1) * share)] ^= 0x55
        path.write_bytes(bytes(data))

    return flip


def truncate(keep: float) -> Callable[[Path], None]:
    """Return what cuts a file."""

    def truncate(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * keep)])

    return truncate


DAMAGES = {
    **{f"flipped at {share}": flip(share) for share in (0.2, 0.5, 0.95)},
    **{f"cut to {keep}": truncate(keep) for keep in (0.0, 0.6)},
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("kind", ["closed", "killed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_is_found_or_harmless(disk: Disk, kind: str, damage: str) -> None:
    """A flipped byte, a cut, a missing file: the partition is what it was, from whichever source that takes."""
    files = disk.files(kind)
    assert {"CURRENT", "IDENTITY"} <= {path.name for path in files}
    assert any(path.suffix == ".sst" for path in files)
    logs = [path for path in files if path.suffix == ".log"]
    assert any((disk.directory / kind / path).stat().st_size for path in logs) == (kind == "killed")
    for path in files:
        disk.put_back(kind)
        DAMAGES[damage](STORE / path)
        assert disk.is_whole(), f"{path} {damage}"


@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_without_damage_the_local_state_is_taken(
    disk: Disk, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other recovery sources are for damage only: a store that is whole is not made again."""
    disk.put_back(kind)
    made: list[bool] = []
    init = RocksStore.__init__

    def noted(self: RocksStore, path: Path, *, create: bool) -> None:
        made.append(create)
        init(self, path, create=create)

    monkeypatch.setattr(RocksStore, "__init__", noted)
    assert disk.is_whole()
    assert made == [False]


@pytest.mark.parametrize("read", ["scan", "dues", "get", "get many"])
def test_damage_that_is_met_later_is_damage_too(
    disk: Disk, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a table lost after it was opened ends the partition when read; the next owner uses another source."""
    # Without the blocks that earlier stores have read from the same files.
    monkeypatch.setattr("sowline_materializer.store.rocksdb.MEMORY", StoreMemory())
    disk.put_back("closed")
    store = RocksStore(STORE, create=False)
    for table in STORE.glob("db/*.sst"):
        for tenth in range(1, 9):
            flip(tenth / 10)(table)
    try:
        with pytest.raises(StoreDamaged):
            read_all(store, read)
    finally:
        store.close()
    assert disk.is_whole()


def read_all(store: RocksStore, read: str) -> None:
    """Read everything in one of the ways that there are."""
    keys = [sow_key(DEFINITION.declared.domain_prefix, str(number)) for number in range(2 * RECORDS)]
    if read == "get":
        for key in keys:
            store.get(key)
    elif read == "get many":
        store.get_many(keys)
    else:
        list(store.scan() if read == "scan" else store.expiries())
