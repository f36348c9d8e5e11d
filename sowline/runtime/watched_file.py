"""Watches a file: reads it at the start and after each change. An invalid new file is not used."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from sowline.errors import SowlineError

Content = TypeVar("Content")


class Stamp(NamedTuple):
    """Identifies a version of a file: it differs after each write."""

    inode: int
    size_bytes: int
    modified_ns: int


class WatchedFile(Generic[Content]):
    """The last content of a file that could be read. `read` returns it, or raises SowlineError."""

    def __init__(
        self, path: Path, read: Callable[[Path], Content], what: str, content: Content | None = None
    ) -> None:
        """Read the file; raise `bad configuration`, with `what` was expected.

        If its `content` was read before, the first look tells whether it is still that.
        """
        self.path = path
        self._read = read
        self._what = what
        self._stamp = stamp_of(path, what) if content is None else None
        self.content = read(path) if content is None else content
        self.problem: str | None = None
        """Why the current file is not used; None if it is."""

    @property
    def is_stale(self) -> bool:
        """Whether the current file can't be read."""
        return self.problem is not None

    def look(self) -> bool:
        """Read the file if it has changed; return whether its content was accepted, and is another one."""
        try:
            stamp = stamp_of(self.path, self._what)
            if stamp == self._stamp:
                return False
            # Before the read: a file that changes during the read has another stamp at the next look.
            self._stamp = stamp
            content = self._read(self.path)
        except SowlineError as error:
            # A file that is gone has no stamp, and would be reported at each look.
            if self.problem != error.message:
                self.problem = error.message
                self.log_refused(error.message)
            return False
        self.problem = None
        if content == self.content:
            return False
        self.content = content
        return True

    def log_refused(self, why: str) -> None:
        """Log that the current file is not used."""


def stamp_of(path: Path, what: str) -> Stamp:
    """Return a file's stamp; raise `bad configuration`, with `what` was expected."""
    try:
        found = path.stat()
    except OSError as error:
        raise SowlineError("bad configuration", f"expected {what} at {path}: {error.strerror}") from error
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
