"""One client's login session: its user, when the logon expires, and when the client must disconnect."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator

from sowline.errors import SowlineError
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.authorization.identity import ANYBODY, Identity

STRANGERS_MAX = 1000
"""Limit of connections without a logon, so that they do not keep out users who log on."""


class LoginSession:
    """A connection and its user. `identity` is None until a user has logged on, if required."""

    def __init__(
        self,
        identity: Identity | None = ANYBODY,
        logins: "LoginSessions | None" = None,
        credentials: PresentedCredentials = PresentedCredentials(),  # noqa: B008
    ) -> None:
        self._identity = identity
        self._logins = logins
        self._credentials = credentials
        self._has_asked = False
        self._leaving: SowlineError | None = None
        self._changed = asyncio.Event()

    @property
    def identity(self) -> Identity:
        """The identity of the user; raises `logon required`."""
        if self._identity is None:
            raise SowlineError(
                "logon required", "expected the command logon with a token as the first command"
            )
        return self._identity

    @property
    def user(self) -> str | None:
        """The name of the user, empty if no logon is needed; None until a user has logged on."""
        return None if self._identity is None else self._identity.user

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
        if before is None or (self._credentials.token is None and not self._has_asked):
            self._logins.move(before, found)
            self._logins.strangers.discard(self)
        elif not before.may_become(found):
            raise SowlineError(
                "rights changed",
                "expected the same user with the same rights as before; open a new connection for another user",
            )
        self._credentials = given
        self._identity = found.acting_with(None if before is None else before.delegated)
        self._changed.set()
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
            self._changed.set()
        else:
            self._identity = now.acting_with(self._identity.delegated)

    async def ended(self, logon_seconds_max: float) -> SowlineError:
        """Wait until the client must disconnect; return the reason."""
        deadline = time.monotonic() + logon_seconds_max
        while self._leaving is None:
            self._changed.clear()
            left = self.expires_in if self._identity is not None else deadline - time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
                continue
            if self._identity is None:
                return SowlineError("logon required", f"no user has logged on within {logon_seconds_max:g} s")
            return SowlineError(
                "logon expired", "the token or certificate of the logon has expired; log on again"
            )
        return self._leaving


class LoginSessions:
    """All open connections, and their number for each user."""

    def __init__(self, authenticator: Authenticator, per_user_max: int = 0) -> None:
        self.authenticator = authenticator
        self._per_user_max = per_user_max
        self._logins: set[LoginSession] = set()
        self._of_user: Counter[str] = Counter()
        self.strangers: set[LoginSession] = set()
        """Connections on which no user has logged on yet."""

    @contextlib.contextmanager
    def enter(self, identity: Identity | None, credentials: PresentedCredentials) -> Iterator[LoginSession]:
        """Open the login session of a connection; raise `busy` if the user has too many, or too many have no user."""
        login = LoginSession(identity, self, credentials)
        self.move(None, identity)
        if identity is None:
            self._add_stranger(login)
        self._logins.add(login)
        login.reconsider()
        try:
            yield login
        finally:
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
