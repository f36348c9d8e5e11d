"""Limits the connections of a server, and closes waiting connections in favor of new ones.

A connection is waiting (for its client to send a request, or the rest of one), working (a request is being answered),
or a session (a WebSocket after its handshake). The total is limited. If it is reached, a new connection replaces the
one that has waited longest. Working connections and sessions together have a smaller maximum. So there is always a
waiting one to replace, and requests for health and metrics are always answered.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import structlog

from sowline.runtime.descriptors import Budget
from sowline.runtime.silence import is_silent

log = structlog.get_logger()

HEALTH_SHARE = 4
"""One in this many of the connections for requests is never working, and never a session."""

HELD_MAX = 4096
"""The maximum number of connections that are not sessions: a new one may be compared with all of them."""

LOOKS = 10
"""A look for silent clients is at one in this many connections. All 10,000 at once would take 20 ms of the loop."""

UNLIMITED = Budget(1 << 20, 1 << 20, 1 << 19, 1 << 19, 4)


class ConnectionUse(Protocol):
    """The state of a connection that decides whether to close it for another one."""

    @property
    def since(self) -> float:
        """The time at which the connection started to wait."""

    @property
    def is_waiting(self) -> bool:
        """Whether the connection waits for its client."""


H = TypeVar("H", bound=ConnectionUse)


def longest_waiting(held: Iterable[H]) -> H | None:
    """Return the connection that has waited longest; None if none waits."""
    return min((one for one in held if one.is_waiting), key=lambda one: one.since, default=None)


class Socket(Protocol):
    """The methods used of a connection's socket."""

    def fileno(self) -> int:
        """Return the socket's descriptor; -1 after it was closed."""

    def shutdown(self, how: int, /) -> object:
        """Shut the connection down, so that the event loop closes it."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return an option."""


def _always() -> bool:
    return True


def _never() -> bool:
    return False


class Connection:
    """One accepted connection. Its protocol, created after the TLS handshake, sets `waits`."""

    __slots__ = ("_all", "_is_closing", "_socket", "number", "since", "time_out", "waits")

    def __init__(self, held_by: "Connections", socket: Socket, since: float) -> None:
        self._all = held_by
        self._socket = socket
        self._is_closing = False
        self.number = socket.fileno()
        self.since = since
        self.waits: Callable[[], bool] = _always
        self.time_out: Callable[[], None] | None = None
        """Called if a request does not arrive in time; None to close the connection."""

    @property
    def is_waiting(self) -> bool:
        """Whether the connection waits for its client and is not being closed."""
        return not self._is_closing and self.waits()

    @property
    def is_open(self) -> bool:
        """Whether the connection still has a descriptor."""
        return self._socket.fileno() != -1

    def is_silent(self, seconds_max: float) -> bool:
        """Whether the client's machine has acknowledged nothing for this many seconds."""
        return not self._is_closing and is_silent(self._socket, seconds_max)

    def close(self) -> None:
        """Start to close the connection."""
        self._is_closing = True
        self._all.note_closing(self)
        # The event loop closes the descriptor. Closed here, its number could be that of a new connection while the
        # loop still waits for events of the old one.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def begin_work(self) -> bool:
        """Start to answer a request; return False if too many are being answered."""
        return self._all.begin_work(self)

    def end_work(self) -> None:
        """Note that the request was answered."""
        self._all.end_work(self)

    def stay(self) -> None:
        """Do not wait from now on, and have no deadline: a WebSocket begins."""
        self.waits, self.time_out = _never, None

    def become_session(self) -> None:
        """Count the connection as a session from now on."""
        self._all.become_session(self)

    def closed(self) -> None:
        """Note that the connection was closed."""
        self._all.forget(self)


class Connections:
    """The open connections of one server, in one event loop."""

    def __init__(self, budget: Budget = UNLIMITED) -> None:
        self.budget = budget
        # Clients that do not read their answers could occupy all connections. Health probes would get none, and the
        # service would be restarted (test_answers_that_no_client_reads_leave_health).
        self._busy_max = budget.connections - max(1, budget.requests // HEALTH_SHARE)
        self._held: dict[int, Connection] = {}
        """The connections that are not sessions, by descriptor."""
        self._closing: set[Connection] = set()
        """The held connections that the event loop is about to close. They no longer count."""
        self._working: set[Connection] = set()
        self._sessions: set[Connection] = set()

    @property
    def sessions(self) -> int:
        """The number of sessions, including those that have ended and are not closed yet."""
        return len(self._sessions)

    @property
    def open(self) -> int:
        """The number of all connections."""
        return len(self._held) + len(self._sessions)

    def accept(self, socket: Socket, now: float | None = None) -> Connection:
        """Add a new connection. If there are too many, close the one that has waited longest, or else the new one."""
        made = Connection(self, socket, time.monotonic() if now is None else now)
        self._drop(made.number)  # a connection with this descriptor ended before it had a protocol
        if self._is_full:
            # A connection whose TLS handshake failed never had a protocol to report its end. It would count forever.
            for number in [number for number, one in self._held.items() if not one.is_open]:
                self._drop(number)
        must_close = self._is_full and not self.give_way()
        self._held[made.number] = made
        if must_close:
            made.close()
        return made

    @property
    def _is_full(self) -> bool:
        # A connection gives way and keeps its descriptor until the loop closes it. If it counted, the connection for
        # which it gave way would be closed, too (test_one_that_gave_way_to_a_request_has_given_way).
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
        """Return the connection of a socket; accept it now if it is unknown."""
        return self._held.get(socket.fileno()) or self.accept(socket)

    def give_way(self) -> bool:
        """Close the connection that has waited longest; return whether there was one."""
        found = longest_waiting(self._held.values())
        if found is not None:
            found.close()
        return found is not None

    def begin_work(self, connection: Connection) -> bool:
        """Start to answer a request; return False if the limit is reached and no connection can be closed for it.

        The connection closed for it is the one that has waited longest for the rest of its request.
        """
        if len(self._working) + len(self._sessions) >= self._busy_max:
            stuck = longest_waiting(self._working)
            if stuck is None:
                return False
            self._working.discard(stuck)
            stuck.close()
        self._working.add(connection)
        return True

    def end_work(self, connection: Connection) -> None:
        """Note that a request was answered."""
        self._working.discard(connection)

    def become_session(self, connection: Connection) -> None:
        """Count a connection as a session."""
        self.forget(connection)
        self._sessions.add(connection)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._working.discard(connection)
        self._sessions.discard(connection)
        # A newer connection may have got the number.
        if self._held.get(connection.number) is connection:
            self._drop(connection.number)

    def close_late(self, seconds_max: float, now: float) -> None:
        """Time out the connections that have waited for more than `seconds_max`."""
        for one in list(self._held.values()):
            if one.is_waiting and now - one.since > seconds_max:
                (one.time_out or one.close)()

    def close_silent(self, seconds_max: float, look: int) -> None:
        """Close the connections whose clients have vanished; `look` counts the calls, `LOOKS` of which see all."""
        looked_at = [
            one for one in (*self._held.values(), *self._sessions) if one.number % LOOKS == look % LOOKS
        ]
        silent = [one for one in looked_at if one.is_silent(seconds_max)]
        for one in silent:
            one.close()
        if silent:
            log.info("clients vanished", connections=len(silent), seconds=seconds_max)
