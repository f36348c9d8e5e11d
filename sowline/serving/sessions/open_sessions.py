"""The open sessions, over WebSocket and as event streams: their limit, and their shared parts."""

from functools import partial
from typing import Protocol

from starlette.requests import HTTPConnection

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.runtime.connections import Connections
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.access.login_session import Leave, LoginSession, LoginSessions
from sowline.serving.authorization.identity import Identity
from sowline.serving.backlogs import Backlogs
from sowline.serving.outbox.frame_batching import FrameBatching
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.clients import Clients
from sowline.serving.sessions.rounds import Rounds
from sowline.serving.sessions.session import NewCommands, Session
from sowline.serving.sessions.status import TICKS
from sowline.version import __version__

GOING_AWAY = 1001


class Closable(Protocol):
    """The connection of a session, as a WebSocket or as an event stream."""

    def close(self, code: int = ..., reason: str = ...) -> None:
        """Close the connection, without waiting for its client."""


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
        self.backlogs = Backlogs(settings.backlogs_bytes_max)
        self.authenticator = authenticator
        self.logins = LoginSessions(authenticator, settings.sessions_per_user_max)
        self.clients = Clients()
        self._progress_seconds = settings.progress_seconds / TICKS
        self._progress = Rounds(self._progress_seconds, self._send_progress)
        self.refused = 0
        """Connections that exceeded the limit."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def sessions_max(self) -> int:
        """The limit of the settings, or less if the process has too few file descriptors."""
        return min(self._settings.sessions_max, self._connections.budget.sessions)

    @property
    def is_full(self) -> bool:
        """Whether another session would exceed the limit."""
        # A session that has ended keeps its descriptor until the loop has closed its connection.
        return max(len(self._open), self._connections.sessions) >= self.sessions_max

    def refuse(self) -> SowlineError:
        """Count a connection that exceeds the limit; return the error for its client."""
        self.refused += 1
        return SowlineError(
            "busy",
            f"this query service already has {self.sessions_max} connections, its limit; try again later,"
            " or use another query service",
        )

    def open(self, identity: Identity | None, credentials: PresentedCredentials) -> "OpenSession":
        """Return a new session with a new outbox, which the caller ends; raise `busy`."""
        login = self.logins.open(identity, credentials)
        outbox = Outbox(self._settings.backlog_bytes_max, self._frame_batching, self.backlogs)
        return OpenSession(self, login, Session(self._new_commands(outbox, login), outbox, login))

    def count(self, connection: Closable) -> None:
        """Count a connection as open."""
        self._open.add(connection)
        self.backlogs.divide(len(self._open))

    def discard(self, connection: Closable) -> None:
        """Stop counting a connection as open."""
        self._open.discard(connection)
        self.backlogs.divide(len(self._open))

    def list_client(self, client: HTTPConnection, session: Session, connection: Closable) -> int:
        """List the client of a session, send it progress from now on, and return its number in the list."""
        agent = client.headers.get("user-agent", "")
        address = "" if client.client is None else f"{client.client.host}:{client.client.port}"
        self._progress.add(session)
        return self.clients.add(address, agent, session, partial(_send_away, connection))

    def unlist_client(self, number: int, session: Session) -> None:
        """Remove the client of a session from the list, and send it no more progress."""
        self._progress.discard(session)
        self.clients.remove(number)

    def _send_progress(self, session: Session) -> None:
        """Send progress for subscriptions that were sent no message for about `progress_seconds`."""
        session.commands.send_progress(self._progress_seconds)

    def watch_login(self, login: LoginSession, leave: Leave) -> None:
        """Call `leave` with the reason, once, when the client must disconnect."""
        if not self.authenticator.is_open:
            login.watch(self._settings.logon_seconds_max, leave)

    def close_all(self) -> None:
        """Tell every client that this server stops; they reconnect elsewhere with their bookmarks."""
        # A copy, because a connection that is closed leaves the set.
        for connection in [*self._open]:
            connection.close(GOING_AWAY, "the server is stopping")


class OpenSession:
    """The session of one client, its login and its connection of any kind. `end` ends all of them."""

    __slots__ = ("_connection", "_number", "_sessions", "login", "session")

    def __init__(self, sessions: OpenSessions, login: LoginSession, session: Session) -> None:
        self._sessions = sessions
        self.login = login
        self.session = session
        self._connection: Closable | None = None
        self._number = 0

    def count(self, connection: Closable) -> None:
        """Count the session's connection as open."""
        self._connection = connection
        self._sessions.count(connection)

    def list_client(self, client: HTTPConnection) -> None:
        """List the client, and send it progress messages; its connection, which is counted, may be closed."""
        assert self._connection is not None
        self._number = self._sessions.list_client(client, self.session, self._connection)

    def watch_login(self, leave: Leave) -> None:
        """Call `leave` with the reason, once, when the client must disconnect."""
        self._sessions.watch_login(self.login, leave)

    def end(self) -> None:
        """End the session and its login."""
        self.session.close()
        self.session.outbox.close()
        if self._number:
            self._sessions.unlist_client(self._number, self.session)
        if self._connection is not None:
            self._sessions.discard(self._connection)
            self._connection = None
        self.login.close()


def _send_away(connection: Closable) -> None:
    connection.close(GOING_AWAY, "an administrator has closed this connection")


def login_headers(login: LoginSession) -> dict[str, str]:
    """Return the headers that answer a handshake: facts for a client that has logged on by then."""
    headers = {"Sowline-Version": __version__}
    if login.user is not None:
        headers["Sowline-Rights"] = login.identity.rights.digest
    if login.expires_in is not None:
        headers["Sowline-Expires-In"] = f"{login.expires_in:.3f}"
    return headers
