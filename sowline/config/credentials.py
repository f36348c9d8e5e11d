"""The credentials of a client: a token (or a function that returns one), and CA and certificate files for TLS."""

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from sowline.errors import SowlineError

Token = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or a function that returns one. The client calls the function again when it needs a fresh token."""

RENEW_AT = 0.75
"""The fraction of a token's lifetime after which it is renewed."""

RENEW_SECONDS_MIN = 1.0
"""The minimum time between two renewals, for functions that return the same token again."""


class Credentials:
    """The token and the TLS context of a client's connections. Errors never contain the token."""

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
        """Whether there may be another token when this one expires."""
        return callable(self._token)

    async def token(self, *, fresh: bool = False) -> str | None:
        """Return the token, from a new call of the function if `fresh`; raise `bad request` for an invalid token."""
        if self._token is None or isinstance(self._token, str):
            return None if self._token is None else checked_token(self._token)
        if fresh or self._held is None:
            self._held = checked_token(await _call(self._token))
        return self._held

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:
        """Return the HTTP headers that authenticate the client."""
        token = await self.token(fresh=fresh)
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context with the CA and the client's certificate; raise `bad request` for invalid files."""
        ca_file, cert_file, key_file = self._files
        try:
            context = ssl.create_default_context(cafile=ca_file)
            if cert_file is not None:
                context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            files = ", ".join(str(file) for file in self._files if file is not None)
            raise SowlineError(
                "bad request", f"expected certificates and a key without a password in {files}: {error}"
            ) from error
        return context


async def _call(token: Callable[[], str] | Callable[[], Awaitable[str]]) -> str:
    """Call the token function, in a worker thread unless it is a coroutine; raise `auth unavailable` if it fails."""
    # The error's text may contain the token. In the event loop, a function that waits for a network would hold up all
    # streams.
    try:
        given = token() if inspect.iscoroutinefunction(token) else await asyncio.to_thread(token)
        return str(await given if inspect.isawaitable(given) else given)
    except Exception as error:
        raise SowlineError("auth unavailable", f"the token function raised {type(error).__name__}") from error


def checked_token(token: str) -> str:
    """Return the token, stripped; raise `bad request` (without the token) if an HTTP header can't contain it."""
    # A token that is read from a file ends with a line break. A line break within one would begin another header
    # (test_what_can_be_no_token).
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise SowlineError(
            "bad request", "expected a token of printable ASCII characters, got other characters"
        )
    return token
