"""File descriptors: the limit of the process, and what of it connections may take."""

import os
import resource
import sys
from typing import NamedTuple

import structlog

log = structlog.get_logger()

RAISED_MAX = 1 << 20
"""No service needs more. Some systems have a hard limit of a billion, which programs that walk it do not survive."""

RESERVE_MIN = 96
RESERVE_MAX = 1024
"""Kept for the service itself: its files, its clients of Kafka, and those that read for slow subscriptions."""

REQUESTS_MIN = 16
REQUESTS_MAX = 256
"""Connections that sessions leave free for HTTP, which may have more while there are fewer sessions."""

READER = 24
"""Descriptors of one thread that reads from Kafka: a client has three for each broker, and some more."""

READERS_MIN, READERS_MAX = 2, 32


class Budget(NamedTuple):
    """The shares of a service's descriptors."""

    limit: int
    """All that the process may have open."""
    connections: int
    """Connections of clients in all."""
    requests: int
    """Those of them that can't be sessions."""
    sessions: int
    """WebSocket sessions that there may be."""
    readers: int
    """Threads that may read from Kafka at a time, next to those that follow it."""


def share_out(limit: int, sessions_max: int, cores: int = 1) -> Budget:
    """Share out a limit of descriptors: the connections leave a reserve free.

    A limit that is hardly more than the reserve leaves no sessions.
    """
    reserve = max(RESERVE_MIN, min(RESERVE_MAX, limit // 2))
    requests = max(REQUESTS_MIN, min(REQUESTS_MAX, limit // 8))
    readers = max(READERS_MIN, min(READERS_MAX, cores + 4, reserve // READER - 1))
    connections = max(requests, limit - reserve)
    return Budget(limit, connections, requests, min(sessions_max, connections - requests), readers)


def raise_limit() -> int:
    """Raise the soft limit of descriptors to the hard one, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RAISED_MAX if hard == resource.RLIM_INFINITY else min(hard, RAISED_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # macOS has a lower limit of its own
            log.warning("file descriptor limit not raised", limit=soft, wanted=wanted, why=str(error))
    return limit()


def limit() -> int:
    """Return how many descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return RAISED_MAX if soft == resource.RLIM_INFINITY else min(soft, RAISED_MAX)


def in_use() -> int | None:
    """Return the number of open descriptors; None if it can't be determined, or none is left."""
    try:
        return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))
    except OSError:
        return None


class Spares:
    """Descriptors that are held so that they can be given up for a connection when there are no others."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: list[int] = []
        self.refill()

    def refill(self) -> None:
        """Take those that are missing, as far as there are any."""
        try:
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return

    def give_up(self) -> bool:
        """Close one, and tell whether one was held."""
        if not self._held:
            return False
        os.close(self._held.pop())
        return True

    def close(self) -> None:
        """Close all."""
        self._count = 0
        while self.give_up():
            continue
