"""The credentials of a client: a token or a function that returns one, and for TLS a CA file and a certificate."""

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from sowline.errors import SowlineError

Token = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or a function that returns one. The function is called again whenever a fresh token is needed."""

RENEW_AT = 0.75
"""The part of a token's time after which it is renewed."""

RENEW_SECONDS_MIN = 1.0
"""Between two renewals, where a function gives the same token again: it is renewed no more often than that."""


class Credentials:
    """The token and the TLS context of a client's connections; neither is ever part of an error."""

    def __init__(
        self,
        token: Token | None = None,
        ca_file: str | Path | None = None,
        cert_file: str | Path | None = None,
        key_file: str | Path | None = None,
    ) -> None:
        self._token = token
        self._held: str | None = None
        self._files = ca_file, cert_file, key_file

    @property
    def renews(self) -> bool:
        """Whether there may be another token when this one ends."""
        return callable(self._token)

    async def token(self, *, fresh: bool = False) -> str | None:
        """Return the token, asked for again if it is to be a `fresh` one; raises `bad request` if it can't be one."""
        if self._token is None or isinstance(self._token, str):
            return None if self._token is None else checked_token(self._token)
        if fresh or self._held is None:
            self._held = checked_token(await _called(self._token))
        return self._held

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:
        """Return the headers that say who asks."""
        token = await self.token(fresh=fresh)
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def tls(self) -> ssl.SSLContext:
        """Return how the service is known, and how this client is; raises `bad request` for files that are none."""
        ca_file, cert_file, key_file = self._files
        try:
            context = ssl.create_default_context(cafile=ca_file)
            if cert_file is not None:
                context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            files = ", ".join(str(file) for file in self._files if file is not None)
            raise SowlineError(
                "bad request", f"expected certificates, and the key without a password, in {files}: {error}"
            ) from error
        return context


async def _called(token: Callable[[], str] | Callable[[], Awaitable[str]]) -> str:
    """Call who gives tokens, aside if it is no coroutine; raises `auth unavailable` where that fails."""
    try:
        given = token() if inspect.iscoroutinefunction(token) else await asyncio.to_thread(token)
        return str(await given if inspect.isawaitable(given) else given)
    except Exception as error:
        raise SowlineError("auth unavailable", f"the token function raised {type(error).__name__}") from error


def checked_token(token: str) -> str:
    """Check that a header can hold the token; raises `bad request`, without showing it."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise SowlineError(
            "bad request", "expected a token of printable ASCII characters, got other characters"
        )
    return token
