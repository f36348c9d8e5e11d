"""The web pages that may send requests: those of the service itself, and those of the configured origins.

A browser sends the requests of any page with the user's credentials; the header `Origin` has the origin of the page.
An attacker may also give the name of a page the address of this machine (DNS rebinding). So a service that only this
machine can reach accepts only the names of this machine.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from sowline.errors import SowlineError
from sowline.serving.access.host import read_host
from sowline.serving.access.middleware import is_guarded, refuse

log = structlog.get_logger()

READING = ("GET", "HEAD")
"""Methods that change nothing. They are allowed, because a page of another origin can't see the answer."""

STREAMS = "/subscribe"
"""The end of paths whose answers stay open, as a WebSocket does; they are checked like a WebSocket."""

REPORTED_MAX = 100
"""Different refusals to log."""

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Origins:
    """An ASGI application around another one: it refuses requests from pages that are not allowed."""

    def __init__(self, app: ASGIApp, allowed: Iterable[str], *, is_local: bool) -> None:
        self._app = app
        self._allowed = frozenset(allowed)
        self._hosts = frozenset(urlsplit(origin).hostname for origin in self._allowed)
        self._is_local = is_local
        self._reported: set[tuple[str, str]] = set()
        self.refused = 0
        """Requests that were refused."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] in ("http", "websocket") and is_guarded(scope["path"]):
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            reads = (
                scope["type"] == "http" and scope["method"] in READING and not scope["path"].endswith(STREAMS)
            )
            if (error := self._check_host(host) or self._check_origin(host, origin, reads=reads)) is not None:
                self.refused += 1
                self._report(origin or "", host, error)
                await refuse(error, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _report(self, origin: str, host: str, error: SowlineError) -> None:
        """Log the first refusal of an origin; a page that tries again and again must not fill the log."""
        if (origin, host) not in self._reported and len(self._reported) < REPORTED_MAX:
            self._reported.add((origin, host))
            log.warning("origin refused", origin=origin[:100], host=host[:100], why=error.message)

    def _check_host(self, host: str) -> SowlineError | None:
        """Return the error for the host name of a request, or None."""
        asked = read_host(host)
        if not self._is_local:
            return None if asked is not None or not host else _not_a_host(host)
        name = "" if asked is None else asked.name
        if is_loopback(name) or name in self._hosts:
            return None
        return _error(
            f"expected a Host that names this machine (localhost), got {host[:100]!r}; if it is yours, add its origin"
            " to SOWLINE_ORIGINS"
        )

    def _check_origin(self, host: str, origin: str | None, *, reads: bool) -> SowlineError | None:
        """Return the error for the origin of a request, or None."""
        if origin is None or reads or origin in self._allowed or _is_same(origin, host):
            return None
        return _error(
            f"a page of {origin[:100]!r} may not send requests here; if you trust it, add it to SOWLINE_ORIGINS"
        )


def _error(sentence: str) -> SowlineError:
    return SowlineError("origin refused", sentence)


def _not_a_host(text: str) -> SowlineError:
    return SowlineError(
        "bad request", f"expected a host name or an address with an optional port in Host, got {text[:100]!r}"
    )


def _is_same(origin: str, host: str) -> bool:
    """Tell whether this service served the page: the same name and port, with any scheme, because a proxy may end
    TLS.
    """
    scheme, separator, netloc = origin.partition("://")
    page, asked, usual = read_host(netloc), read_host(host), _PORTS.get(scheme)
    if page is None or asked is None or not separator:
        return False
    # A browser leaves out the usual port of a scheme in one header, and a proxy may add it to the other
    # (test_on_this_machine_only).
    return (page.name, page.port or usual) == (asked.name, asked.port or usual)


def _split(url: str) -> SplitResult | None:
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError:
        return None
    return found


def is_loopback(name: str) -> bool:
    """Tell whether a name or an address is one that only this machine can reach."""
    # Browsers resolve the names below it to this machine, too (test_names_of_this_machine).
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def read_origins(text: str) -> tuple[str, ...]:
    """Return the origins that a setting lists, with commas between; raises `bad configuration`."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for origin in found:
        url = _split(origin)
        if (
            url is None
            or url.scheme not in ("http", "https")
            # Browsers send an origin without a path: a slash at its end would match no page, and nobody would see why
            # (test_what_is_no_origin).
            or f"{url.scheme}://{url.netloc}" != origin
            or "@" in origin
        ):
            raise SowlineError(
                "bad configuration",
                f"expected origins such as https://desk.example, with commas between, in SOWLINE_ORIGINS,"
                f" got {origin!r}",
            )
    return found
