"""A data directory belongs to one process and its children, and is free once they have ended, however they end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sowline.errors import SowlineError
from sowline.runtime import directory_lock
from sowline.runtime.directory_lock import DirectoryLock

HOLDER = """
import subprocess, sys
from pathlib import Path
from sowline.runtime.directory_lock import DirectoryLock

with DirectoryLock(Path(sys.argv[1])) as lock:
    lock.note(sys.argv[2])
    if sys.argv[3:]:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(lock.descriptor,), stdout=subprocess.DEVNULL)
        print(child.pid, flush=True)
    else:
        print("holds it", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(directory: Path, url: str = "", *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Let another process hold the lock; return the process, and what it has printed."""
    command = [sys.executable, "-c", HOLDER, str(directory), url, *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("url", "where"), [("http://127.0.0.1:8080", "http://127.0.0.1:8080"), ("", "which is starting")]
)
def test_a_second_process_learns_who_has_it(url: str, where: str, tmp_path: Path) -> None:
    """At once, with the first one's pid and URL, so that it can be used or stopped."""
    with held(tmp_path, url) as (process, _):
        with pytest.raises(SowlineError) as error, DirectoryLock(tmp_path):
            pass
        assert error.value.reason == "already running"
        assert error.value.message == f"pid {process.pid}, {where}; it uses {tmp_path}"


def test_a_killed_process_has_it_no_more(tmp_path: Path) -> None:
    """The kernel gives it back; the file stays, and is no lock."""
    with held(tmp_path) as (process, _):
        process.kill()
        process.wait()
        for _ in range(2):
            with DirectoryLock(tmp_path):
                pass


def test_the_children_of_a_killed_process_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may still write; the lock is free when the last of them has ended."""
    with held(tmp_path, "", "with a child") as (process, child):
        process.kill()
        process.wait()
        looks: list[float] = []

        def look(seconds: float) -> None:
            # The child ends while the lock is waited for.
            looks.append(seconds)
            os.kill(int(child), signal.SIGKILL)

        monkeypatch.setattr("sowline.runtime.directory_lock.time.sleep", look)
        with DirectoryLock(tmp_path):
            assert looks


def test_children_that_stay_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while the sentence says what to do."""
    monkeypatch.setattr(directory_lock, "LEFT_SECONDS_MAX", 0.1)
    with held(tmp_path, "", "with a child") as (process, child):
        process.kill()
        process.wait()
        try:
            with pytest.raises(SowlineError, match="a process that an earlier one had started still uses it"):
                DirectoryLock(tmp_path).__enter__()
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_damaged_file_is_no_lock(tmp_path: Path) -> None:
    """Only the kernel knows who has it."""
    (tmp_path / directory_lock.FILE_NAME).write_bytes(b"{")
    with DirectoryLock(tmp_path) as lock:
        lock.note("http://a")
        lock.note("")
        assert b"http" not in (tmp_path / directory_lock.FILE_NAME).read_bytes()


def test_a_directory_that_can_not_be_made(tmp_path: Path) -> None:
    """A sentence names it."""
    (tmp_path / "file").touch()
    with pytest.raises(
        SowlineError, match=f"expected a data directory that can be written, got {tmp_path}/file/x"
    ):
        DirectoryLock(tmp_path / "file" / "x").__enter__()
