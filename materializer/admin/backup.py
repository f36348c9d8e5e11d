"""Backups: a topic's state in files, taken out of the compacted changes while everything runs.

A backup is a directory with a manifest and a file of records for each partition. It gets its name when it is whole.
"""

import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Any, BinaryIO

import orjson

from materializer.aside import Aside, Copy
from materializer.damage import StoreDamaged
from materializer.dump import head_fields
from materializer.head import EVERYTHING, Head
from materializer.record import decode_record, encode_record
from sowline.errors import SowlineError
from sowline.format import BY, FORMAT, require_format
from sowline.limits import Limits
from sowline.position import Position
from sowline.topics import TopicDefinition

MANIFEST = "manifest.json"
COMPRESSION_LEVEL = 1
"""Records shrink to a fraction at any level, and only at the lowest as fast as Kafka reads."""

_FRAME = Struct("<II")

Entry = tuple[bytes, bytes]
"""A SOW key, and a record's bytes as in the store."""


@dataclass(frozen=True, slots=True)
class Part:
    """One partition's part of a backup: its file and what must be in it, and the head of the state."""

    file: str
    checksum: str
    entries: int
    head: Head


@dataclass(frozen=True, slots=True)
class Backup:
    """A whole backup in its directory."""

    directory: Path
    topic: str
    definition: str
    parts: list[Part]

    @property
    def summary(self) -> dict[str, Any]:
        """What to say of it: where it is, and how far each partition was."""
        return {
            "topic": self.topic,
            "directory": str(self.directory),
            "records": sum(part.head.records for part in self.parts),
            "positions": {str(number): str(part.head.position) for number, part in enumerate(self.parts)},
        }


def back_up(definition: TopicDefinition, asides: Iterable[Aside], directory: Path) -> Backup:
    """Write a backup of all partitions; raises `directory taken` where something is in its place."""
    if directory.exists():
        raise SowlineError(
            "directory taken", f"expected a new directory for the backup, but {directory} is there"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        parts = [_write_part(making, aside) for aside in asides]
        backup = Backup(directory, definition.name, definition.digest, parts)
        _write_manifest(making, definition, backup)
        making.rename(directory)
        _settle(directory.parent)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    return backup


def _write_part(making: Path, aside: Aside) -> Part:
    copy = aside.from_changes(aside.extent())
    if copy.head.definition != aside.definition.digest:
        raise SowlineError(
            "definition changed",
            f"the state of {aside.name} was made under another definition than that in topics.yaml. Restore "
            "that first",
        )
    file = making / f"{aside.partition}.records.gz"
    with file.open("wb") as raw:
        with gzip.GzipFile("", "wb", COMPRESSION_LEVEL, raw, mtime=0) as packed:
            entries = _write_entries(packed, copy)
        _sync(raw)
    return Part(file.name, _checksum(file), entries, copy.head)


def _write_entries(packed: gzip.GzipFile, copy: Copy) -> int:
    entries = 0
    for key, record in copy.records():
        data = encode_record(record)
        packed.write(b"".join((_FRAME.pack(len(key), len(data)), key, data)))
        entries += 1
    return entries


def _write_manifest(making: Path, definition: TopicDefinition, backup: Backup) -> None:
    manifest = {
        "format": FORMAT,
        "by": BY,
        "topic": backup.topic,
        "definition": backup.definition,
        "partitions": [
            {
                "file": part.file,
                "checksum": part.checksum,
                "entries": part.entries,
                "state": {
                    **head_fields(definition, number, part.head),
                    "log_id": part.head.log_id,
                    "begin": part.head.begin,
                },
            }
            for number, part in enumerate(backup.parts)
        ],
    }
    whole = {"manifest": manifest, "checksum": _manifest_checksum(manifest)}
    with (making / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        _sync(file)
    _settle(making)


def _manifest_checksum(manifest: Any) -> str:
    return hashlib.blake2b(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "blake2b").hexdigest()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _settle(directory: Path) -> None:
    """Wait until the names in a directory are on disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_backup(directory: Path) -> Backup:
    """Return a backup whose files are as they were written.

    Raises `no backup`, `backup damaged`, or `unknown format`.
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
            raise ValueError("its checksum is another")
        parts = [_part(given) for given in manifest["partitions"]]
        return Backup(directory, manifest["topic"], manifest["definition"], parts)
    except (ValueError, LookupError, TypeError) as error:
        raise _damaged(directory, f"{MANIFEST} is not what was written: {error}") from error


def _part(given: dict[str, Any]) -> Part:
    state = given["state"]
    head = Head(
        Position.parse(state["position"]),
        Position.parse(state["last_change"]),
        state["time"],
        {int(number): offset for number, offset in state["origins"].items()},
        state["definition"],
        state["log_id"],
        spoiled=frozenset({EVERYTHING}),
        limits=Limits.read(state["limits"]),
        numbers_since=state["numbers_since"],
        records=state["records"],
        begin=None if state["begin"] is None else (state["begin"][0], state["begin"][1]),
    )
    return Part(given["file"], given["checksum"], given["entries"], head)


def read_entries(backup: Backup, part: Part) -> Iterator[Entry]:
    """Yield the records of a part, in SOW-key order; raises `backup damaged` where they are none, or not all."""
    entries = records = 0
    try:
        with gzip.open(backup.directory / part.file) as packed:
            while frame := packed.read(_FRAME.size):
                key_bytes, data_bytes = _FRAME.unpack(frame)
                key, data = packed.read(key_bytes), packed.read(data_bytes)
                records += decode_record(data).body is not None
                entries += 1
                yield key, data
    except (OSError, EOFError, StructError, StoreDamaged) as error:
        raise _damaged(backup.directory, f"{part.file}: {error}") from error
    if (entries, records) != (part.entries, part.head.records):
        raise _damaged(backup.directory, f"{part.file} has {records} records, expected {part.head.records}")


def _damaged(directory: Path, why: str) -> SowlineError:
    return SowlineError(
        "backup damaged", f"the backup in {directory} can't be restored: {why}. Take another one"
    )
