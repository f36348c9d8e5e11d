"""A data directory that belongs to one process at a time, and to the processes that it has started.

The lock is the kernel's, on an open file: it ends with the processes that have the file open, however they end. The
file says which process has the lock, and where it answers.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from sowline.errors import SowlineError
from sowline.runtime.running_stack import start_of

FILE_NAME = "in-use.lock"

LEFT_SECONDS_MAX = 10.0
"""How long the processes that a killed process has started may take to end."""

LOOK_SECONDS = 0.05
_FILE_BYTES_MAX = 4096


class DirectoryLock:
    """The lock of a directory, for the time of a `with` block. Raise `already running` if another process holds it.

    Child processes that inherit `descriptor` keep the lock until they have ended, too.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.descriptor = -1

    def __enter__(self) -> Self:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(
                self._directory / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        except OSError as error:
            raise SowlineError(
                "bad configuration",
                f"expected a data directory that can be written, got {self._directory}: {error.strerror}",
            ) from error
        try:
            self._wait()
        except BaseException:
            os.close(self.descriptor)
            raise
        self.note("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def _wait(self) -> None:
        deadline = time.monotonic() + LEFT_SECONDS_MAX
        while not self._is_taken():
            if (holder := self._holder()) is not None:
                raise SowlineError("already running", f"{holder}; it uses {self._directory}")
            # The holder was killed, and the processes that it started are about to end
            # (test_the_children_of_a_killed_process_are_waited_for). Or a process has just taken the lock, and has
            # not noted that yet.
            if time.monotonic() > deadline:
                raise SowlineError(
                    "already running",
                    f"expected {self._directory} to be free, but a process that an earlier one had started still"
                    " uses it; end that process",
                )
            time.sleep(LOOK_SECONDS)

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def note(self, url: str) -> None:
        """Note in the file that this process has the lock, and where it answers; empty if it does not yet."""
        holder = {"pid": os.getpid(), "started": start_of(os.getpid()) or "", "url": url}
        os.truncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps(holder).encode(), 0)

    def _holder(self) -> str | None:
        """Return the process that has the lock and its URL, for a sentence; None if it has ended or noted nothing."""
        try:
            found = json.loads(os.pread(self.descriptor, _FILE_BYTES_MAX, 0))
            # An unrelated process may have the id by now: its start tells them apart.
            if start_of(found["pid"]) != found["started"]:
                return None
            return f"pid {found['pid']}, {found['url'] or 'which is starting'}"
        except (ValueError, TypeError, KeyError):
            return None
