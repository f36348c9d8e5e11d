"""Limits the memory of live pages and groups of a connection, a user and the service.

A window that several subscriptions share counts once: for the service, for each user and for each connection.
"""

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from sowline.errors import SowlineError

MIB = 1 << 20

WINDOW_BYTES = 7000
"""The memory of an empty window, without its subscriptions."""

HELD_BYTES = 150
"""The memory of a record or group that the client of one subscription holds, without its body."""

RECOUNTED = 64
RECOUNTED_BYTES = 1 << 12
"""A window is counted again when it has changed by one in this many of its bytes, and by as many as this."""

Name = TypeVar("Name", bound=Hashable)


class WindowLimits(NamedTuple):
    """The largest numbers of bytes of live windows."""

    service: int = 2048 * MIB
    user: int = 1024 * MIB
    connection: int = 512 * MIB


class WindowHolder(NamedTuple):
    """The client of a subscription to a window."""

    user: str
    connection: Hashable
    """None for a gateway, which has a connection for each of its clients' windows."""


class WindowMemory:
    """The estimated bytes of all live windows of a service, and of those that each user and each connection holds."""

    def __init__(self, limits: WindowLimits = WindowLimits()) -> None:
        self.limits = limits
        self.nbytes = 0
        self.of_user: Counter[Hashable] = Counter()
        self.of_connection: Counter[Hashable] = Counter()

    def count(self, holder: WindowHolder, change: int) -> None:
        """Count more bytes of one subscription, or fewer."""
        self.nbytes += change
        _change(self.of_user, holder.user, change)
        if holder.connection is not None:
            _change(self.of_connection, holder.connection, change)

    def excess(self, holder: WindowHolder) -> SowlineError | None:
        """Return `views too large` if the service or a client holds more than it may; None if not."""
        if self.nbytes > self.limits.service:
            return _too_large("of one service", self.limits.service, self.nbytes)
        return self.refusal(holder)

    def refusal(self, holder: WindowHolder) -> SowlineError | None:
        """Return `views too large` if a client holds more than it may; None if not."""
        limits, held = self.limits, self.of_connection[holder.connection]
        if held > limits.connection:
            return _too_large("on one connection", limits.connection, held)
        if self.of_user[holder.user] > limits.user:
            return _too_large("of one user", limits.user, self.of_user[holder.user])
        return None


class WindowBytes:
    """The estimated bytes of one live window, and its holders."""

    def __init__(self, memory: WindowMemory) -> None:
        self._memory = memory
        self._holders: Counter[WindowHolder] = Counter()
        self._users: Counter[Hashable] = Counter()
        self._connections: Counter[Hashable] = Counter()
        self.nbytes = 0

    def enter(self, holder: WindowHolder) -> None:
        """Count one more subscription of a client."""
        self._holders[holder] += 1
        self._count(holder, 1)

    def leave(self, holder: WindowHolder) -> None:
        """Count one subscription of a client less; with the last one, the window has ended."""
        self._count(holder, -1)
        _change(self._holders, holder, -1)
        # Otherwise the service would count the bytes of windows that are gone, and in the end refuse all others
        # (test_all_of_it_is_released).
        if not self._holders:
            self.clear()

    def _count(self, holder: WindowHolder, change: int) -> None:
        memory = self._memory
        for names, sums, name in (
            (self._users, memory.of_user, holder.user),
            (self._connections, memory.of_connection, holder.connection),
        ):
            before = names[name]
            # Only with the first subscription of a name, and after the last one: a window counts once for each of
            # its users and connections (test_a_connection_has_a_limit).
            _change(names, name, change)
            if name is not None and (not before or not names[name]):
                _change(sums, name, change * self.nbytes)

    def note(self, content: int) -> bool:
        """Note the size of the window's content, if that has changed enough; return whether it has grown.

        Raise `views too large`, without effect, if it has grown and the service has no room for it, or none of its
        clients has.
        """
        before, now = self.nbytes, WINDOW_BYTES + content
        if before and abs(now - before) <= max(before // RECOUNTED, RECOUNTED_BYTES):
            return False
        self._resize(now)
        if now > before and (refused := self._refused()) is not None:
            # It never counts while something is awaited. Until the refused subscription leaves, others would have no
            # room for what they hold, and would end too (test_what_is_refused_leaves_others_alone).
            self._resize(before)
            raise refused
        return now > before

    def clear(self) -> None:
        """Note that the window has ended."""
        self._resize(0)

    def _resize(self, nbytes: int) -> None:
        more, self.nbytes = nbytes - self.nbytes, nbytes
        self._memory.nbytes += more
        for user in self._users:
            _change(self._memory.of_user, user, more)
        for connection in self._connections:
            if connection is not None:
                _change(self._memory.of_connection, connection, more)

    def _refused(self) -> SowlineError | None:
        """Return `views too large` if the service has no room for the window, or none of its clients has."""
        refused = None
        for holder in self._holders:
            # One client with room is enough: the window would end for those within their limits
            # (test_what_two_users_share_ends_for_the_one_who_has_too_much).
            if (refused := self._memory.excess(holder)) is None:
                return None
        return refused

    def refusal(self, holder: WindowHolder) -> SowlineError | None:
        """Return `views too large` if a client holds more than it may; None if not."""
        return self._memory.refusal(holder)


def _change(counts: Counter[Name], name: Name, change: int) -> None:
    counts[name] += change
    # Every user and every connection that there ever was would stay in it (test_all_of_it_is_released).
    if not counts[name]:
        del counts[name]


def _too_large(whose: str, bytes_max: int, got: int) -> SowlineError:
    return SowlineError(
        "views too large",
        f"expected live pages and groups {whose} to take at most {bytes_max / MIB:.0f} MiB of memory,"
        f" got {got / MIB:.0f} MiB with this one; narrow the filter, unsubscribe others, or let several"
        " share one filter and order",
    )
