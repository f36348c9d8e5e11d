"""The files of a backup: what is read back, and what is found to be wrong with them."""

import errno
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline_materializer.admin.backup import MANIFEST, Backup, back_up, open_backup, read_entries
from sowline_materializer.admin.offline_copy import OfflineCopy
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.record import decode_record
from tests.unit.materializer.admin.test_dump import CHECKPOINT, DEFINITION, RECORDS, copy_of


class Played:
    """What makes copies of a partition, without a Kafka."""

    definition = DEFINITION

    def __init__(self, partition: int, copy: OfflineCopy | None) -> None:
        self.partition = partition
        self.name = f"orders [{partition}]"
        self._copy = copy

    def extent(self) -> None:
        """Return nothing: there is no Kafka."""

    def from_changes(self, extent: None) -> OfflineCopy:
        """Return the copy, or fail during the work."""
        if self._copy is None:
            raise SowlineError("changes incomplete", "no rest")
        return self._copy


def made(directory: Path, *copies: OfflineCopy | None) -> Backup:
    """Write a backup of partitions with these states."""
    asides: Any = [Played(number, copy) for number, copy in enumerate(copies)]
    return back_up(DEFINITION, asides, directory)


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """A backup of two partitions."""
    empty = copy_of({}, CHECKPOINT.new_era("log", 10))
    digest = DEFINITION.digest
    copies = [OfflineCopy(one.store, _of(one, digest)) for one in (copy_of(RECORDS), empty)]
    return made(tmp_path / "b", *copies)


def _of(copy: OfflineCopy, digest: str) -> Checkpoint:
    live = sum(record.body is not None for _, record in copy.records())
    return replace(copy.checkpoint, definition=digest, records=live)


def test_a_backup_reads_back(backup: Backup) -> None:
    """Records and heads are what they were; all is to be written again; what counts no more is left out."""
    read = open_backup(backup.directory)
    first, second = read.parts
    entries = {key: decode_record(data) for key, data in read_entries(read, first)}
    assert entries == {key: record for key, record in RECORDS.items() if key != b"4"}
    assert list(read_entries(read, second)) == []
    for part, was in zip(read.parts, backup.parts, strict=True):
        assert part.checkpoint.stale_keys == {EVERYTHING}
        for name in (
            "position",
            "last_change",
            "time",
            "origins",
            "log_id",
            "limits",
            "numbers_since",
            "begin",
        ):
            assert getattr(part.checkpoint, name) == getattr(was.checkpoint, name)
    assert read.summary == {
        "topic": "orders",
        "directory": str(backup.directory),
        "records": 2,
        "positions": {"0": "1/9", "1": "2/9"},
    }


def test_a_backup_that_fails_leaves_nothing(backup: Backup, tmp_path: Path) -> None:
    """Neither by its name nor by another: half a backup is none."""
    whole = copy_of(RECORDS)
    with pytest.raises(SowlineError, match="no rest"):
        made(tmp_path / "half", OfflineCopy(whole.store, _of(whole, DEFINITION.digest)), None)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_backup_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the disk, which is not that of the temporary files, and leaves nothing on it."""

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sowline_materializer.admin.backup.sync", full)
    whole = copy_of(RECORDS)
    with pytest.raises(SowlineError, match=f"room for the backup in {tmp_path}: No space") as error:
        made(tmp_path / "b", OfflineCopy(whole.store, _of(whole, DEFINITION.digest)))
    assert error.value.reason == "disk full"
    assert list(tmp_path.iterdir()) == []


def test_a_backup_does_not_replace_another(backup: Backup) -> None:
    """What lies there stays."""
    with pytest.raises(SowlineError) as error:
        made(backup.directory, None)
    assert error.value.reason == "directory taken"
    assert open_backup(backup.directory).parts


@pytest.mark.parametrize("of", [Path.touch, lambda path: back_up(DEFINITION, [], path)])
def test_two_backups_at_one_time(tmp_path: Path, of: Callable[[Path], object]) -> None:
    """The one that is done first stays whole; the other one says what to do."""
    directory, whole = tmp_path / "b", copy_of(RECORDS)
    copy = OfflineCopy(whole.store, _of(whole, DEFINITION.digest))

    def asides() -> Iterator[Played]:
        yield Played(0, copy)
        of(directory)

    with pytest.raises(SowlineError, match=r"use that one; or back up into another directory") as error:
        back_up(DEFINITION, asides(), directory)  # type: ignore[arg-type]
    assert error.value.reason == "directory taken"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert directory.is_file() or open_backup(directory).parts == []


def test_state_of_another_definition_is_not_kept(tmp_path: Path) -> None:
    """It could not be restored under the definition that the manifest names."""
    with pytest.raises(SowlineError) as error:
        made(tmp_path / "b", copy_of(RECORDS))
    assert error.value.reason == "definition changed"


def flip(file: Path) -> None:
    """Change one byte in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def cut(file: Path) -> None:
    """Let the end be gone."""
    file.write_bytes(file.read_bytes()[:-5])


def change_position(file: Path) -> None:
    """Change one number of the manifest, and leave it readable."""
    file.write_text(file.read_text().replace('"1/9"', '"1/8"'))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("0.records.gz", flip),
        ("0.records.gz", cut),
        ("1.records.gz", Path.unlink),
        (MANIFEST, cut),
        (MANIFEST, change_position),
    ],
)
def test_damage_is_found(backup: Backup, file: str, damage: Callable[[Path], None]) -> None:
    """In whichever file, before anything is restored."""
    damage(backup.directory / file)
    with pytest.raises(SowlineError) as error:
        open_backup(backup.directory)
    assert error.value.reason == "backup damaged"


def test_a_backup_of_an_unknown_format_is_refused(backup: Backup) -> None:
    """It says which version wrote it, whatever else is in it."""
    manifest = backup.directory / MANIFEST
    whole = json.loads(manifest.read_text())
    whole["manifest"] = {"format": 4, "by": "4.5"}
    manifest.write_text(json.dumps(whole))
    with pytest.raises(
        SowlineError, match=r"expected a backup of format 1 to 3, got one of format 4.*Sowline 4\.5"
    ) as error:
        open_backup(backup.directory)
    assert error.value.reason == "unknown format"


def test_what_is_no_backup_is_none(tmp_path: Path) -> None:
    """The sentence names what was looked for."""
    with pytest.raises(SowlineError, match=r"no manifest\.json") as error:
        open_backup(tmp_path)
    assert error.value.reason == "no backup"
