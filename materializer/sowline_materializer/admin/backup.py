"""Backups: a topic's state in files, read from the compacted changes while all services run.

A backup is a directory with a manifest and a file of records for each partition. It gets its name once it is
complete.
"""

import errno
import gzip
import hashlib
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import orjson

from sowline.changes.partials import read_reflected
from sowline.changes.progress import Begin
from sowline.commands.stored_format import BY, FORMAT, TEMPLATE_FORMAT, require_format
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline.runtime.durable import sync, sync_directory
from sowline_materializer.admin.dump import checkpoint_fields
from sowline_materializer.admin.offline_copy import OfflineCopies, OfflineCopy
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.core.record import decode_record, encode_record

MANIFEST = "manifest.json"
COMPRESSION_LEVEL = 1
"""Compression at the lowest level: higher levels save little space, and are slower than reading from Kafka."""

_FRAME = Struct("<II")

Entry = tuple[bytes, bytes]
"""A SOW key, and a record's bytes as in the store."""


@dataclass(frozen=True, slots=True)
class BackupPart:
    """The part of a backup for one partition: its file, the expected content, and the checkpoint of the state."""

    file: str
    checksum: str
    entries: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Backup:
    """A whole backup in its directory."""

    directory: Path
    topic: str
    definition: str
    parts: list[BackupPart]

    @property
    def summary(self) -> dict[str, Any]:
        """A summary: the directory, and the position of each partition."""
        return {
            "topic": self.topic,
            "directory": str(self.directory),
            "records": sum(part.checkpoint.records for part in self.parts),
            "positions": {
                str(number): str(part.checkpoint.position) for number, part in enumerate(self.parts)
            },
        }


def back_up(definition: TopicDefinition, asides: Iterable[OfflineCopies], directory: Path) -> Backup:
    """Write a backup of all partitions; raise `directory taken` if the directory exists."""
    if directory.exists():
        raise SowlineError(
            "directory taken", f"expected a new directory for the backup, but {directory} is there"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Next to its destination: only a rename within a file system is atomic, so no part of a backup ever has its name
    # (test_a_backup_that_fails_leaves_nothing).
    making = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        parts = [_write_part(making, offline) for offline in asides]
        backup = Backup(directory, definition.name, definition.digest, parts)
        _write_manifest(making, definition, backup)
        _name(making, directory)
        # Without this, a power failure could undo the rename after the command has reported success.
        sync_directory(directory.parent)
    except BaseException as error:
        shutil.rmtree(making, ignore_errors=True)
        # The other disk that fills up is that of the temporary files.
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SowlineError(
                "disk full", f"expected room for the backup in {directory.parent}: {error.strerror}"
            ) from error
        raise
    return backup


def _name(making: Path, directory: Path) -> None:
    """Give a complete backup its name; raise `directory taken` if something else has it by now."""
    try:
        making.rename(directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise SowlineError(
            "directory taken",
            f"expected no other process to make {directory} meanwhile, but it is there. If another backup wrote it,"
            " use that one; or back up into another directory",
        ) from error


def _write_part(making: Path, offline: OfflineCopies) -> BackupPart:
    copy = offline.from_changes(offline.extent())
    if copy.checkpoint.under(offline.definition) is None:
        raise SowlineError(
            "definition changed",
            f"expected the definition under which the state of {offline.name} was made, got another in topics.yaml."
            " Restore the first one",
        )
    file = making / f"{offline.partition}.records.gz"
    with file.open("wb") as raw:
        # Without a name and a time, so that equal states make equal files.
        with gzip.GzipFile("", "wb", COMPRESSION_LEVEL, raw, mtime=0) as packed:
            entries = _write_entries(packed, copy)
        sync(raw)
    return BackupPart(file.name, _checksum(file), entries, copy.checkpoint)


def _write_entries(packed: gzip.GzipFile, copy: OfflineCopy) -> int:
    entries = 0
    for key, record in copy.records():
        data = encode_record(record)
        packed.write(b"".join((_FRAME.pack(len(key), len(data)), key, data)))
        entries += 1
    assert entries >= copy.checkpoint.records, "each live record has an entry"
    return entries


def _write_manifest(making: Path, definition: TopicDefinition, backup: Backup) -> None:
    manifest = {
        # Versions that know no templates can't read limits with one.
        "format": TEMPLATE_FORMAT
        if any(part.checkpoint.limits.template for part in backup.parts)
        else FORMAT,
        "by": BY,
        "topic": backup.topic,
        "definition": backup.definition,
        "partitions": [
            {
                "file": part.file,
                "checksum": part.checksum,
                "entries": part.entries,
                "state": {
                    **checkpoint_fields(definition, number, part.checkpoint),
                    "log_id": part.checkpoint.log_id,
                    "begin": None if part.checkpoint.begin is None else part.checkpoint.begin.fields(),
                },
            }
            for number, part in enumerate(backup.parts)
        ],
    }
    whole = {"manifest": manifest, "checksum": _manifest_checksum(manifest)}
    with (making / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        sync(file)
    sync_directory(making)


def _manifest_checksum(manifest: Any) -> str:
    return hashlib.blake2b(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "blake2b").hexdigest()


def open_backup(directory: Path) -> Backup:
    """Return a backup after checking that its files are unchanged. Raise `no backup`, `backup damaged`, or `unknown
    format`.
    """
    try:
        text = (directory / MANIFEST).read_bytes()
    except OSError as error:
        raise SowlineError(
            "no backup", f"expected a backup in {directory}, found no {MANIFEST}: {error.strerror}"
        ) from error
    backup = _read_manifest(directory, text)
    for part in backup.parts:
        file = directory / part.file
        if not file.exists() or _checksum(file) != part.checksum:
            raise _damaged(directory, f"{part.file} is not what was written")
    return backup


def _read_manifest(directory: Path, text: bytes) -> Backup:
    try:
        whole = orjson.loads(text)
        manifest = whole["manifest"]
        require_format("a backup", manifest["format"], manifest["by"])
        if whole["checksum"] != _manifest_checksum(manifest):
            raise ValueError("its checksum differs")
        parts = [_part(given) for given in manifest["partitions"]]
        return Backup(directory, manifest["topic"], manifest["definition"], parts)
    except (ValueError, LookupError, TypeError) as error:
        raise _damaged(directory, f"{MANIFEST} is not what was written: {error}") from error


def _part(given: dict[str, Any]) -> BackupPart:
    state = given["state"]
    reflected, taken = read_reflected(state)
    checkpoint = Checkpoint(
        position=Position.parse(state["position"]),
        last_change=Position.parse(state["last_change"]),
        time=state["time"],
        origins={int(number): offset for number, offset in state["origins"].items()},
        definition=state["definition"],
        log_id=state["log_id"],
        stale_keys=frozenset({EVERYTHING}),
        limits=Limits.read(state["limits"]),
        numbers_since=state["numbers_since"],
        records=state["records"],
        reflected=reflected,
        taken=taken,
        begin=None if state["begin"] is None else Begin(*state["begin"]),
    )
    return BackupPart(given["file"], given["checksum"], given["entries"], checkpoint)


def read_entries(backup: Backup, part: BackupPart) -> Iterator[Entry]:
    """Yield the records of a part, in SOW-key order; raise `backup damaged` if any is missing."""
    entries = records = 0
    try:
        with gzip.open(backup.directory / part.file) as packed:
            while frame := packed.read(_FRAME.size):
                key_bytes, data_bytes = _FRAME.unpack(frame)
                key, data = packed.read(key_bytes), packed.read(data_bytes)
                records += decode_record(data).body is not None
                entries += 1
                yield key, data
    except (OSError, EOFError, struct.error, StoreDamaged) as error:
        raise _damaged(backup.directory, f"{part.file}: {error}") from error
    if (entries, records) != (part.entries, part.checkpoint.records):
        raise _damaged(
            backup.directory, f"{part.file} has {records} records, expected {part.checkpoint.records}"
        )


def _damaged(directory: Path, why: str) -> SowlineError:
    return SowlineError(
        "backup damaged", f"the backup in {directory} can't be restored: {why}; use another backup"
    )
