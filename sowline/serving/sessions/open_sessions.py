"""The open sessions, over WebSocket and as event streams: their limit, and their shared parts."""

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Protocol

from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.runtime.connections import Connections
from sowline.serving.access.authenticator import Authenticator
from sowline.serving.access.login_session import LoginSession, LoginSessions
from sowline.serving.outbox.frame_batching import FrameBatching
from sowline.serving.outbox.outbox import Backlogs, Outbox
from sowline.serving.sessions.clients import Clients
from sowline.serving.sessions.session import NewCommands, Session
from sowline.serving.sessions.status import TICKS
from sowline.version import __version__

GOING_AWAY = 1001
CLOSE_SECONDS_MAX = 1.0


class Closable(Protocol):
    """The connection of a session, as a WebSocket or as an event stream."""

    async def close(self, code: int = ..., reason: str = ...) -> None:
        """Close the connection."""


class OpenSessions:
    """All sessions of a service."""

    def __init__(
        self,
        settings: Settings,
        new_commands: NewCommands,
        connections: Connections,
        authenticator: Authenticator,
    ) -> None:
        self._settings = settings
        self._new_commands = new_commands
        self._connections = connections
        self._open: set[Closable] = set()
        self._frame_batching = FrameBatching()
        self._backlogs = Backlogs(settings.backlogs_bytes_max)
        self.authenticator = authenticator
        self.logins = LoginSessions(authenticator, settings.sessions_per_user_max)
        self.clients = Clients()
        self.refused = 0
        """Connections that exceeded the limit."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def limit(self) -> int:
        """The limit of the settings, or less if the process has too few file descriptors."""
        return min(self._settings.sessions_max, self._connections.budget.sessions)

    @property
    def is_full(self) -> bool:
        """Whether another session would exceed the limit."""
        return max(len(self._open), self._connections.sessions) >= self.limit

    def refusal(self) -> SowlineError:
        """Count a connection that exceeds the limit; return the error for its client."""
        self.refused += 1
        return SowlineError(
            "busy",
            f"this query service already has {self.limit} connections, its limit; try again later,"
            " or use another query service",
        )

    def add(self, connection: Closable) -> None:
        """Count a connection as open."""
        self._open.add(connection)
        self._backlogs.outboxes = len(self._open)

    def discard(self, connection: Closable) -> None:
        """Stop counting a connection as open."""
        self._open.discard(connection)
        self._backlogs.outboxes = len(self._open)

    def new_session(self, login: LoginSession) -> Session:
        """Return a new session with a new outbox; the caller closes it."""
        outbox = Outbox(self._settings.backlog_bytes_max, self._frame_batching, self._backlogs)
        return Session(self._new_commands(outbox, login), outbox, login)

    @contextlib.contextmanager
    def served(self, connection: HTTPConnection, session: Session, closable: Closable) -> Iterator[None]:
        """For the time of the block, list the session's client and send it progress messages.

        `closable` is the client's connection, which an administrator may close.
        """
        client, agent = connection.client, connection.headers.get("user-agent", "")
        address = "" if client is None else f"{client.host}:{client.port}"
        sending = asyncio.get_running_loop().create_task(self._send_progress(session))
        try:
            with self.clients.with_(address, agent, session, partial(_send_away, closable)):
                yield
        finally:
            sending.cancel()

    async def _send_progress(self, session: Session) -> None:
        """Send progress for subscriptions that were sent no message for about `progress_seconds`."""
        while True:
            await asyncio.sleep(self._settings.progress_seconds / TICKS)
            await session.commands.send_progress()

    async def login_ended(self, login: LoginSession) -> SowlineError:
        """Wait until the client has to leave, and return why."""
        return await login.ended(self._settings.logon_seconds_max)

    async def close_all(self) -> None:
        """Tell every client that this server stops; they reconnect elsewhere with their bookmarks."""
        for connection in list(self._open):
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await connection.close(GOING_AWAY, "the server is stopping")


async def _send_away(connection: Closable) -> None:
    """Close a connection; do not wait for a client that does not read."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await connection.close(GOING_AWAY, "an administrator has closed this connection")


def login_headers(login: LoginSession) -> dict[str, str]:
    """Return the headers that answer a handshake: what a client that has logged on by then should know."""
    headers = {"Sowline-Version": __version__}
    if login.user is not None:
        headers["Sowline-Rights"] = login.identity.rights.digest
    if login.expires_in is not None:
        headers["Sowline-Expires-In"] = f"{login.expires_in:.3f}"
    return headers
