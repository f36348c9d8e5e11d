"""The connections of a server: how many there may be of each kind, and which are closed for new ones.

A connection waits (for its client to send a request, or the rest of one), works (a request is being answered), or
is a session (a WebSocket after its handshake). There is a fixed number of all. A new one that finds none free takes
the place of the one that has waited longest. For one that waits to be found, fewer may work, or be sessions, than
there may be: a share is for those that ask for health and metrics, which are always answered.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from sowline.runtime.descriptors import Budget

HEALTH_SHARE = 4
"""One in so many of the connections for requests is never one that works, nor a session."""

HELD_MAX = 4096
"""Connections that are no session: each new one may have to be compared with all of them."""

UNLIMITED = Budget(1 << 20, 1 << 20, 1 << 19, 1 << 19, 4)


class ConnectionUse(Protocol):
    """What is asked of a connection to decide whether it is closed for another one."""

    @property
    def since(self) -> float:
        """When it began to wait."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for its client."""


H = TypeVar("H", bound=ConnectionUse)


def longest_waiting(held: Iterable[H]) -> H | None:
    """Return the connection that has waited longest; None if none waits."""
    return min((one for one in held if one.is_waiting), key=lambda one: one.since, default=None)


class Socket(Protocol):
    """What is asked of a connection's socket."""

    def fileno(self) -> int:
        """Return its descriptor; -1 once it is closed."""

    def shutdown(self, how: int, /) -> object:
        """Let the connection end, so that the event loop closes it."""


class Connection:
    """One accepted connection. Its protocol says whether it waits, once there is one (TLS comes before)."""

    def __init__(self, held_by: "Connections", socket: Socket, since: float) -> None:
        self._all = held_by
        self._socket = socket
        self._is_closing = False
        self.number = socket.fileno()
        self.since = since
        self.waits: Callable[[], bool] = lambda: True
        self.time_out: Callable[[], None] = self.close
        """Called when a request took too long to come."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for its client, and is not being closed."""
        return not self._is_closing and self.waits()

    @property
    def is_open(self) -> bool:
        """Whether it still has a descriptor."""
        return self._socket.fileno() != -1

    def close(self) -> None:
        """Begin to close it."""
        self._is_closing = True
        self._all.note_closing(self)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def begin_work(self) -> bool:
        """Begin to answer a request; False where too many are being answered."""
        return self._all.begin_work(self)

    def end_work(self) -> None:
        """Say that the request is answered."""
        self._all.end_work(self)

    def become_session(self) -> None:
        """Count as a session from now on."""
        self._all.become_session(self)

    def closed(self) -> None:
        """Say that the connection is gone."""
        self._all.forget(self)


class Connections:
    """The connections that are open, of one server and for one event loop."""

    def __init__(self, budget: Budget = UNLIMITED) -> None:
        self.budget = budget
        self._busy_max = budget.connections - max(1, budget.requests // HEALTH_SHARE)
        self._held: dict[int, Connection] = {}
        """By descriptor, those that are no session."""
        self._closing: set[Connection] = set()
        """Of these, those that the event loop is about to close: they have given way already."""
        self._working: set[Connection] = set()
        self._sessions: set[Connection] = set()

    @property
    def sessions(self) -> int:
        """The number of sessions with a descriptor, including those that have ended and are not closed yet."""
        return len(self._sessions)

    @property
    def open(self) -> int:
        """The number of all connections."""
        return len(self._held) + len(self._sessions)

    def accept(self, socket: Socket, now: float | None = None) -> Connection:
        """Add a new connection; if there are too many, close the one that has waited longest."""
        made = Connection(self, socket, time.monotonic() if now is None else now)
        self._drop(made.number)  # one that ended before it had a protocol
        if self._is_full:
            for number in [number for number, one in self._held.items() if not one.is_open]:
                self._drop(number)
        must_close = self._is_full and not self.give_way()
        self._held[made.number] = made
        if must_close:
            made.close()
        return made

    @property
    def _is_full(self) -> bool:
        staying = len(self._held) - len(self._closing)
        return staying >= min(HELD_MAX, self.budget.connections - len(self._sessions))

    def _drop(self, number: int) -> None:
        found = self._held.pop(number, None)
        if found is not None:
            self._closing.discard(found)

    def note_closing(self, connection: Connection) -> None:
        """Note that a connection is about to be closed."""
        if self._held.get(connection.number) is connection:
            self._closing.add(connection)

    def of(self, socket: Socket) -> Connection:
        """Return the connection of a socket; one that nobody has taken in is taken in now."""
        return self._held.get(socket.fileno()) or self.accept(socket)

    def give_way(self) -> bool:
        """Close the connection that has waited longest; tell whether there was one."""
        found = longest_waiting(self._held.values())
        if found is not None:
            found.close()
        return found is not None

    def begin_work(self, connection: Connection) -> bool:
        """Let a request be answered; one that still waits for its body makes room. False if all others work."""
        if len(self._working) + len(self._sessions) >= self._busy_max:
            stuck = longest_waiting(self._working)
            if stuck is None:
                return False
            self._working.discard(stuck)
            stuck.close()
        self._working.add(connection)
        return True

    def end_work(self, connection: Connection) -> None:
        """Note that a request is answered."""
        self._working.discard(connection)

    def become_session(self, connection: Connection) -> None:
        """Count a connection as a session."""
        self.forget(connection)
        self._sessions.add(connection)

    def forget(self, connection: Connection) -> None:
        """Take out a connection that is gone."""
        self._working.discard(connection)
        self._sessions.discard(connection)
        if self._held.get(connection.number) is connection:
            self._drop(connection.number)

    def close_late(self, seconds_max: float, now: float) -> None:
        """End the connections that have waited for longer than that."""
        for one in list(self._held.values()):
            if one.is_waiting and now - one.since > seconds_max:
                one.time_out()
