"""The disk of the views service: each process has its own directory, and leaves nothing in it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sowline.errors import SowlineError
from sowline.model.limits import MIB
from sowline.runtime.store_memory import BYTES_MAX, MEMORY
from sowline_views.core.spilling import BYTES, SpillMap, SpillSpace
from sowline_views.spill_store import DIRECTORY, SpillDirectory, SpillStore

LIMIT = 16 * MIB


@pytest.fixture(autouse=True)
def shared_memory() -> Iterator[None]:
    """Restore the budget of the process."""
    yield
    MEMORY.limit(BYTES_MAX)
    MEMORY.share_among(1)


def fill(space: SpillSpace) -> SpillMap[bytes]:
    """Return a map in the space that is larger than its memory."""
    filled = SpillMap(space, BYTES)
    for number in range(20):
        filled[b"%d" % number] = bytes(MIB)
    return filled


def files(directory: Path) -> set[str]:
    """Return what is in the directory of the views, but locks."""
    return {path.name for path in (directory / DIRECTORY).iterdir() if path.suffix != ".lock"}


def test_a_view_leaves_no_files(tmp_path: Path) -> None:
    """Neither when it begins again nor when the process ends."""
    with closing(SpillDirectory(tmp_path, LIMIT, 1)) as directory:
        for _ in range(2):
            with directory.space("exposure") as space:
                assert not list((tmp_path / DIRECTORY).glob("*/*")), "it is made when it is needed"
                filled = fill(space)
                assert space.bytes < LIMIT
                assert filled.is_spilled
                assert [filled.get(b"%d" % number) for number in range(20)] == [bytes(MIB)] * 20
                assert list((tmp_path / DIRECTORY).glob("process-0/exposure-*/db"))
            assert not list((tmp_path / DIRECTORY).glob("*/*"))
    assert not files(tmp_path)


def test_processes_share_a_data_directory(tmp_path: Path) -> None:
    """Each takes a directory of its own, and deletes what a killed one has left there."""
    with closing(SpillDirectory(tmp_path, LIMIT, 1)) as first, first.space("exposure") as space:
        filled = fill(space)
        (tmp_path / DIRECTORY / "process-1" / "exposure").mkdir(parents=True)
        with closing(SpillDirectory(tmp_path, LIMIT, 1)):
            assert files(tmp_path) == {"process-0"}, "what was left is deleted"
            assert filled.get(b"0") == bytes(MIB)
        assert files(tmp_path) == {"process-0"}
    assert not files(tmp_path)


def test_views_share_the_memory(tmp_path: Path) -> None:
    """Half of it is for entries of all views that are in no store."""
    with (
        closing(SpillDirectory(tmp_path, LIMIT, 2)) as directory,
        directory.space("exposure") as one,
        directory.space("regions") as other,
    ):
        assert one.bytes_max == other.bytes_max == LIMIT // 4
        assert [fill(space).is_spilled for space in (one, other)] == [True, True]


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """The service says so when it starts."""
    (tmp_path / "file").touch()
    with pytest.raises(SowlineError, match="SOWLINE_DATA_DIR") as error:
        SpillDirectory(tmp_path / "file", LIMIT, 1)
    assert error.value.reason == "bad configuration"


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    """The view stops with a sentence that says what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(SowlineError, match="space for all joined topics") as error:
        SpillStore(tmp_path / "file" / "exposure")
    assert error.value.reason == "disk full"
