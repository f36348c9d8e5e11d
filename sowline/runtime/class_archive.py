"""Archives of loaded classes. A Java program that starts with one needs half of the CPU time until it is ready."""

import hashlib
import os
from pathlib import Path

from sowline.runtime.jars import cache_directory


class ClassArchive:
    """The archive of one program of one Java and class path. The first run of the program makes it at its end."""

    def __init__(self, java: Path, class_path: str, main: str) -> None:
        # The JVM ignores an archive of other classes, and the program would never get a new one.
        found = f"{java.resolve()}\n{java.stat().st_mtime_ns}\n{class_path}"
        digest = hashlib.sha256(found.encode()).hexdigest()[:16]
        self._path = cache_directory() / "classes" / f"{main}-{digest}.jsa"
        self._unfinished = self._path.with_suffix(f".{os.getpid()}-{id(self):x}")

    @property
    def is_missing(self) -> bool:
        """Whether no run of the program has made it."""
        return not self._path.is_file()

    def options(self) -> list[str]:
        """Return the options of the JVM: to start with the archive, or to make it."""
        if not self.is_missing:
            return [f"-XX:SharedArchiveFile={self._path}", "-Xlog:cds*=off"]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return []
        return [f"-XX:ArchiveClassesAtExit={self._unfinished}", "-Xlog:cds*=off"]

    def keep(self, status: int) -> None:
        """Keep the archive that the program made, by its exit status; a negative one is a signal that killed it."""
        if not self._unfinished.is_file():
            return
        if status < 0:
            # A JVM that was killed while it wrote leaves a part, on which the next one may crash.
            self._unfinished.unlink()
        else:
            # Another process may start with it at any moment (test_an_archive_is_never_seen_unfinished).
            self._unfinished.replace(self._path)
