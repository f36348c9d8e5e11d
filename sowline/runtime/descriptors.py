"""File descriptors: raises the limit of the process, and divides it among connections and Kafka readers."""

import os
import resource
import sys
from pathlib import Path
from typing import NamedTuple

import structlog

log = structlog.get_logger()

RAISED_MAX = 1 << 20
"""No service needs more. Some systems have a hard limit of a billion: programs that loop up to the limit hang."""

RESERVE_MIN = 96
RESERVE_MAX = 1024
"""Bounds of the reserve for the service itself: its files, Kafka clients, and readers for slow subscriptions."""

REQUESTS_MIN = 16
REQUESTS_MAX = 256
"""Bounds of the connections reserved for HTTP, which can use more while there are fewer sessions."""

READER = 24
"""Descriptors of one thread that reads from Kafka: a client needs three for each broker, and a few more."""

READERS_MIN, READERS_MAX = 2, 32


class Budget(NamedTuple):
    """The shares of a service's descriptors."""

    descriptors_max: int
    """The maximum number of open descriptors of the process."""
    connections: int
    """The maximum number of client connections."""
    requests: int
    """The number of them that can't be sessions."""
    sessions: int
    """The maximum number of WebSocket sessions."""
    readers: int
    """The maximum number of threads that read from Kafka for subscriptions, besides those that follow topics."""


def share_out(descriptors_max: int, sessions_max: int, cores: int = 1) -> Budget:
    """Return the shares of a limit of descriptors; connections leave a reserve free.

    With a limit hardly above the reserve, there are no sessions.
    """
    reserve = max(RESERVE_MIN, min(RESERVE_MAX, descriptors_max // 2))
    requests = max(REQUESTS_MIN, min(REQUESTS_MAX, descriptors_max // 8))
    readers = max(READERS_MIN, min(READERS_MAX, cores + 4, reserve // READER - 1))
    connections = max(requests, descriptors_max - reserve)
    return Budget(descriptors_max, connections, requests, min(sessions_max, connections - requests), readers)


def raise_limit() -> int:
    """Raise the soft limit of descriptors to the hard limit, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RAISED_MAX if hard == resource.RLIM_INFINITY else min(hard, RAISED_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # macOS has another, lower limit
            log.warning("file descriptor limit not raised", limit=soft, wanted=wanted, why=str(error))
    return limit()


def limit() -> int:
    """Return the maximum number of descriptors of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return RAISED_MAX if soft == resource.RLIM_INFINITY else min(soft, RAISED_MAX)


def in_use() -> int | None:
    """Return the number of open descriptors; None if it can't be determined, or none is left."""
    try:
        return len(list(Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()))
    except OSError:
        return None


class Spares:
    """Descriptors held in reserve, to be closed for a new connection when no others are free."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: list[int] = []
        self.refill()

    def refill(self) -> None:
        """Open the missing descriptors, as many as the system allows."""
        try:
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return

    def give_up(self) -> bool:
        """Close one descriptor; return whether one was held."""
        if not self._held:
            return False
        os.close(self._held.pop())
        return True

    def close(self) -> None:
        """Close all descriptors."""
        self._count = 0
        while self.give_up():
            continue
