"""Watches the access file while a service runs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from sowline.errors import SowlineError
from sowline.runtime.watched_file import WatchedFile
from sowline.serving.authorization.access_file import Access, Jwt, parse_access

log = structlog.get_logger()

LOOK_SECONDS = 2.0


class WatchedAccess(WatchedFile[Access]):
    """The last access file that could be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _read, "an access file")

    async def watch(self, changed: Callable[[], object]) -> None:
        """Check the file regularly, and report each change that was accepted, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await asyncio.to_thread(self.look):
                log.info("access file taken", path=str(self.path))
                changed()

    def log_refused(self, why: str) -> None:
        """Log that the current file is not used."""
        log.error("access file not taken", path=str(self.path), why=why)


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
