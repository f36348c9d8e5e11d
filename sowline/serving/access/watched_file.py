"""Watches the access file: reads it at the start and after each change. An invalid new file is not used."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import structlog

from sowline.errors import SowlineError
from sowline.serving.authorization.access_file import Access, Jwt, parse_access

log = structlog.get_logger()

LOOK_SECONDS = 2.0


class Stamp(NamedTuple):
    """Identifies a version of a file: it differs after each write."""

    inode: int
    size: int
    modified_ns: int


class WatchedFile:
    """The last access file that could be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = stamp_of(path)
        self.access = _read(path)
        self.is_stale = False
        """Whether the current file can't be read."""

    async def watch(self, changed: Callable[[], object]) -> None:
        """Check the file regularly, and report each change that was accepted, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await asyncio.to_thread(self.look):
                changed()

    def look(self) -> bool:
        """Read the file if it has changed; return whether its content was accepted."""
        try:
            stamp = stamp_of(self._path)
            if stamp == self._stamp:
                return False
            # Before the read: a file that changes during the read has another stamp at the next look.
            self._stamp = stamp
            access = _read(self._path)
        except SowlineError as error:
            self._note_stale(error)
            return False
        self.is_stale = False
        if access == self.access:
            return False
        self.access = access
        log.info("access file taken", path=str(self._path))
        return True

    def _note_stale(self, error: SowlineError) -> None:
        if not self.is_stale or error.reason != "bad configuration":
            log.error("access file not taken", path=str(self._path), why=error.message)
        self.is_stale = True


def stamp_of(path: Path, what: str = "an access file") -> Stamp:
    """Return a file's stamp; raise `bad configuration`, with `what` was expected."""
    try:
        found = path.stat()
    except OSError as error:
        raise SowlineError("bad configuration", f"expected {what} at {path}: {error.strerror}") from error
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def _read(path: Path) -> Access:
    """Read the file; paths in it are relative to it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SowlineError("bad configuration", f"expected an access file at {path}: {error}") from error
    access = parse_access(text, str(path))
    return (
        access if access.jwt is None else access.model_copy(update={"jwt": _placed(access.jwt, path.parent)})
    )


def _placed(rules: Jwt, directory: Path) -> Jwt:
    jwks = rules.jwks if "://" in rules.jwks else str(directory / rules.jwks)
    ca_file = None if rules.ca_file is None else directory / rules.ca_file
    return rules.model_copy(update={"jwks": jwks, "ca_file": ca_file})
