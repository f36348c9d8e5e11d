"""One client's login session: its user, when the logon expires, and when the client must disconnect."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from sowline.errors import SowlineError
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.authorization.identity import ANYBODY, Identity

STRANGERS_MAX = 1000
"""Limit of connections without a logon, so that they do not keep out users who log on."""


Leave = Callable[[SowlineError], None]


class LoginSession:
    """A connection and its user. `identity` is None until a user has logged on, if required."""

    __slots__ = (
        "_begun",
        "_credentials",
        "_has_asked",
        "_identity",
        "_leave",
        "_leaving",
        "_logins",
        "_logon_seconds_max",
        "_timer",
    )

    def __init__(
        self,
        identity: Identity | None = ANYBODY,
        logins: "LoginSessions | None" = None,
        credentials: PresentedCredentials = PresentedCredentials(),
    ) -> None:
        self._identity = identity
        self._logins = logins
        self._credentials = credentials
        self._has_asked = False
        self._leaving: SowlineError | None = None
        self._leave: Leave | None = None
        self._begun = self._logon_seconds_max = 0.0
        self._timer: asyncio.Handle | None = None

    @property
    def identity(self) -> Identity:
        """The identity of the user; raises `logon required`."""
        if self._identity is None:
            raise SowlineError("logon required", "expected the command logon with a token first, got another")
        return self._identity

    @property
    def user(self) -> str | None:
        """The name of the user, empty if no logon is needed; None until a user has logged on."""
        return None if self._identity is None else self._identity.user

    @property
    def payer(self) -> str:
        """The name whose limits apply: the user, or the address if none is known; raises `logon required`."""
        return self._credentials.payer(self.identity.user)

    @property
    def expires_in(self) -> float | None:
        """Seconds until the credentials of the logon expire; None if they do not."""
        expires = None if self._identity is None else self._identity.proof.expires
        return None if expires is None else max(0.0, expires - time.time())

    def ask(self) -> None:
        """Check that a command other than a logon is allowed; raises `logon required`."""
        self._has_asked = self.identity is not None

    async def log_on(self, token: str) -> Identity:
        """Accept a token of a new user, or a renewed one of the same user.

        Raise `logon required`, `auth failure` or `auth unavailable`; `busy` if the user has too many connections; and
        `rights changed` if the token is of another user or has other rights.
        """
        if self._logins is None:
            return self.identity
        given = self._credentials._replace(token=token) if token else self._credentials
        found = await self._logins.authenticator.identify(given)
        before = self._identity
        # A browser with a certificate sends its token first. After another command, a connection keeps its
        # rights: its subscriptions were checked against them (test_who_came_in_without_a_token_may_bring_one_first).
        if before is None or (self._credentials.token is None and not self._has_asked):
            self._logins.move(before, found)
            # Counted on, a thousand users who have logged on would keep out all who come without a token
            # (test_so_many_connections_of_strangers).
            self._logins.strangers.discard(self)
        elif not before.may_become(found):
            raise SowlineError(
                "rights changed",
                "expected the same user with the same rights as before; open a new connection for another user",
            )
        self._credentials = given
        # A gateway that renews its token still acts with the rights of its client
        # (test_a_gateway_stays_connected_with_the_rights_it_acts_with).
        self._identity = found.acting_with(None if before is None else before.delegated)
        self._look()
        return found

    def reconsider(self) -> None:
        """Check the user against the current access file; a client whose rights have changed must disconnect."""
        if self._logins is None or self._identity is None:
            return
        now = self._logins.authenticator.again(self._identity)
        if now is None or not self._identity.may_become(now):
            self._leaving = SowlineError(
                "rights changed", "this user's rights have changed; open a new connection"
            )
            self._look()
        else:
            self._identity = now.acting_with(self._identity.delegated)

    def watch(self, logon_seconds_max: float, leave: Leave) -> None:
        """Call `leave` with the reason, once, when the client must disconnect; not after `close`."""
        self._leave = leave
        self._begun, self._logon_seconds_max = time.monotonic(), logon_seconds_max
        self._look()

    def _look(self) -> None:
        """Set a timer for the moment at which the client must disconnect, as far as that is known now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._leave is not None and (left := self._seconds_left()) is not None:
            self._timer = asyncio.get_running_loop().call_later(left, self._end)

    def _seconds_left(self) -> float | None:
        if self._leaving is not None:
            return 0.0
        if self._identity is not None:
            return self.expires_in
        return max(0.0, self._begun + self._logon_seconds_max - time.monotonic())

    def _end(self) -> None:
        """Let the client leave, unless its time is not over yet: the clock of a logon is not that of the timer."""
        leave = self._leave
        if leave is None or self._seconds_left() != 0.0:
            self._look()
            return
        self._leave = None
        if self._leaving is not None:
            leave(self._leaving)
        elif self._identity is None:
            leave(
                SowlineError("logon required", f"no user has logged on within {self._logon_seconds_max:g} s")
            )
        else:
            leave(
                SowlineError(
                    "logon expired", "the token or certificate of the logon has expired; log on again"
                )
            )

    def close(self) -> None:
        """End the login session: its connection ends."""
        self._leave = None
        self._look()
        if self._logins is not None:
            self._logins.forget(self)


class LoginSessions:
    """All open connections, and their number for each user."""

    def __init__(self, authenticator: Authenticator, per_user_max: int = 0) -> None:
        self.authenticator = authenticator
        self._per_user_max = per_user_max
        self._logins: set[LoginSession] = set()
        self._of_user: Counter[str] = Counter()
        self.strangers: set[LoginSession] = set()
        """Connections on which no user has logged on yet."""

    def open(self, identity: Identity | None, credentials: PresentedCredentials) -> LoginSession:
        """Return the login session of a new connection, which the caller closes.

        Raise `busy` if the user has too many, or too many have no user.
        """
        login = LoginSession(identity, self, credentials)
        self.move(None, identity)
        if identity is None:
            self._add_stranger(login)
        self._logins.add(login)
        # The access file may have changed since the client was identified, and that change is reported only to the
        # connections of then (test_a_change_between_connection_and_logon_counts).
        login.reconsider()
        return login

    def forget(self, login: LoginSession) -> None:
        """Note that a connection has ended."""
        if login in self._logins:
            self._logins.discard(login)
            self.strangers.discard(login)
            self._leave(login.user)

    def _add_stranger(self, login: LoginSession) -> None:
        if len(self.strangers) >= STRANGERS_MAX:
            raise SowlineError(
                "busy",
                f"there are already {STRANGERS_MAX} connections without a logon, the limit; send a token"
                " with the handshake, or retry later",
            )
        self.strangers.add(login)

    def move(self, before: Identity | None, now: Identity | None) -> None:
        """Move a connection to another user's count; raises `busy` if that user has too many."""
        # At the limit, the user would be refused the place that this connection has already
        # (test_a_user_at_the_limit_may_send_their_own_token).
        if before is not None and now is not None and before.user == now.user:
            return
        if now is not None and now.user:
            if 0 < self._per_user_max <= self._of_user[now.user]:
                raise SowlineError(
                    "busy",
                    f"this user already has {self._per_user_max} connections, the limit; close one",
                )
            self._of_user[now.user] += 1
        self._leave(None if before is None else before.user)

    def _leave(self, user: str | None) -> None:
        if user:
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]

    def reconsider(self) -> None:
        """Check every client against the current access file."""
        for login in list(self._logins):
            login.reconsider()
