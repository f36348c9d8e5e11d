"""The files of snapshots: replaced in one step, removed when unused, used by one process."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sowline.model.position import Position
from sowline_query_service.replica.partition_replica import Head
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import FORMAT, Manifest, Unreadable


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[SnapshotDirectory]:
    """An empty directory."""
    directory = SnapshotDirectory(tmp_path / "snapshots")
    yield directory
    directory.close()


def write(directory: SnapshotDirectory, name: str, *blocks: bytes, number: int = 0) -> Manifest:
    """Write a snapshot of a partition; the last block is the index."""
    head = Head(Position(0, 1), 2, 3, 4)
    describe = partial(Manifest, "id", "digest", 600.0, 1.0, head, name)
    return directory.write("orders", number, name, blocks, describe)


def files(tmp_path: Path) -> set[str]:
    """Return the names of the files of a topic."""
    return {path.name for path in (tmp_path / "snapshots" / "topics" / "orders").iterdir()}


def test_there_is_none_at_first(directory: SnapshotDirectory) -> None:
    """Nothing was written."""
    assert directory.manifest("orders", 0) is None


def test_a_snapshot_is_read_as_it_was_written(directory: SnapshotDirectory) -> None:
    """The blocks in order, the index last."""
    manifest = write(directory, "0.1.data", b"one", b"", b"index")
    assert directory.manifest("orders", 0) == manifest
    assert list(directory.blocks("orders", manifest)) == [b"one", b"", b"index"]


def test_the_next_snapshot_replaces_the_last(directory: SnapshotDirectory, tmp_path: Path) -> None:
    """Those of other partitions stay, partition 10 beside partition 1 as well."""
    write(directory, "1.1.data", b"one", number=1)
    write(directory, "10.1.data", b"ten", number=10)
    newer = write(directory, "1.2.data", b"two", number=1)
    assert directory.manifest("orders", 1) == newer
    assert files(tmp_path) == {"1.manifest", "1.2.data", "10.manifest", "10.1.data"}


def test_a_snapshot_that_is_not_finished_leaves_the_last(
    directory: SnapshotDirectory, tmp_path: Path
) -> None:
    """The service ended while it was written, or the disk was full."""
    manifest = write(directory, "0.1.data", b"one")

    def blocks() -> Iterator[bytes]:
        yield b"two"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        directory.write("orders", 0, "0.2.data", blocks(), partial(pytest.fail, "it is not described"))
    assert directory.manifest("orders", 0) == manifest
    assert files(tmp_path) == {"0.manifest", "0.1.data"}


def test_what_a_crash_has_left_is_removed(directory: SnapshotDirectory, tmp_path: Path) -> None:
    """Before the next snapshot needs the space."""
    write(directory, "0.1.data", b"one")
    topic = tmp_path / "snapshots" / "topics" / "orders"
    for name in ("0.2.data", "0.new"):
        (topic / name).write_bytes(b"left over")
    found = list[set[str]]()

    def blocks() -> Iterator[bytes]:
        found.append(files(tmp_path))
        yield b"index"

    head = Head(Position(0, 1), 2, 3, 4)
    directory.write(
        "orders", 0, "0.3.data", blocks(), partial(Manifest, "id", "digest", 600.0, 1.0, head, "0.3.data")
    )
    assert found == [{"0.manifest", "0.1.data", "0.3.data"}]
    assert files(tmp_path) == {"0.manifest", "0.3.data"}


def test_a_topic_may_have_any_name(directory: SnapshotDirectory) -> None:
    """That of the lock, or of the directory of all topics."""
    for topic in ("lock", "topics"):
        assert directory.manifest(topic, 0) is None
        describe = partial(Manifest, "id", "digest", 600.0, 1.0, Head(Position(0, 1), 2, 3, 4), "0.1.data")
        manifest = directory.write(topic, 0, "0.1.data", [b"index"], describe)
        assert directory.manifest(topic, 0) == manifest


def test_damage_is_found(directory: SnapshotDirectory, tmp_path: Path) -> None:
    """A damaged or a missing data file, and a damaged manifest."""
    manifest = write(directory, "0.1.data", b"one", b"two")
    path = tmp_path / "snapshots" / "topics" / "orders" / "0.1.data"
    path.write_bytes(b"oneTwo")
    with pytest.raises(Unreadable, match="the block at byte 3"):
        list(directory.blocks("orders", manifest))
    with pytest.raises(Unreadable, match="No such file"):
        list(directory.blocks("orders", replace(manifest, data="0.2.data")))
    path.with_name("0.manifest").write_bytes(b"%d 5\n{}" % FORMAT)
    with pytest.raises(Unreadable, match="its manifest is damaged"):
        directory.manifest("orders", 0)


def test_one_process_uses_it(directory: SnapshotDirectory, tmp_path: Path) -> None:
    """A second one gets an error that says what to do."""
    code = f"""
from pathlib import Path
from sowline_query_service.snapshots.directory import SnapshotDirectory
SnapshotDirectory(Path({str(tmp_path / "snapshots")!r}))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "for this query service only, but another process uses it. Give each its own" in ended.stderr
