"""The usage of processes and all their children so far, from /proc: CPU seconds and peak memory."""

import os
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_AFTER_NAME = 11
"""Where utime, stime, cutime and cstime begin in `/proc/<pid>/stat`, counted after the name in brackets."""


class Usage(NamedTuple):
    """CPU seconds, of user and system, of all threads; the sum of each process's peak resident memory."""

    cpu_seconds: float
    rss_bytes_max: int


def resident_bytes(*pids: int) -> int:
    """Return the resident memory of these processes now."""
    return sum(int(_text(Path(f"/proc/{pid}/statm")).split()[1]) for pid in pids) * resource.getpagesize()


def usage(pids: Iterable[int]) -> Usage:
    """Return the usage of these processes and their children; children that were waited for count by their CPU."""
    family = [process for pid in pids for process in _family(pid)]
    return Usage(sum(map(_cpu_seconds, family)), sum(map(_rss_bytes_max, family)))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _text(task).split():
            yield from _family(int(child))


def _cpu_seconds(pid: int) -> float:
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[_AFTER_NAME : _AFTER_NAME + 4])) / _TICKS_A_SECOND


def _rss_bytes_max(pid: int) -> int:
    for line in _text(Path(f"/proc/{pid}/status")).splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _text(path: Path) -> str:
    """Return the content of a file in /proc; empty once its process or thread is gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
