"""Authentication of all requests: the user is in the request's state before anything else is looked at.

Paths outside of `/v1` contain no records, and are open: health, metrics and the console's own files.
"""

import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from sowline.errors import SowlineError
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.delegation import HEADER, acting
from sowline.serving.authorization.identity import Identity
from sowline.serving.error_response import refused

GUARDED = "/v1"
MCP_PATH = "/mcp"
"""The endpoint for agents, which is guarded, too."""

OPEN_TO_ALL = (f"{GUARDED}/topics", f"{GUARDED}/clients")
"""The paths that a service which requires a gateway answers to other clients, too."""

CLOSE_CODES = 4000
"""A refused handshake of a browser is closed with this plus the HTTP status: 4403 for an origin that is refused."""

REASON_BYTES_MAX = 123

_BEARER = "bearer "
_TOO_FAST = SowlineError("busy", "too many commands per second; the limit is SOWLINE_COMMANDS_PER_SECOND_MAX")


class AuthenticationMiddleware:
    """An ASGI application around another one: it answers requests that are not allowed."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        rates: Rates,
        *,
        certificate_required: bool = False,
        gateway_required: str = "",
    ) -> None:
        """Guard an application. `gateway_required` is why only gateways may use it; empty if every client may."""
        self._app = app
        self._gateway_required = gateway_required
        self._authenticator = authenticator
        self._rates = rates
        self._certificate_required = certificate_required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] in ("http", "websocket") and is_guarded(scope["path"]):
            credentials = credentials_of(scope)
            scope.setdefault("state", {})["credentials"] = credentials
            try:
                # Before the token is looked at: none counts without a certificate
                # (test_a_certificate_that_is_required).
                self._check_certificate(credentials)
                identity = await self._authenticator.identify(credentials)
                if handed_down := Headers(scope=scope).getlist(HEADER):
                    identity = acting(identity, handed_down)
                self._check_gateway(scope["path"], identity)
                scope["state"]["identity"] = identity
            except SowlineError as error:
                if scope["type"] == "http" or not self._may_log_on_later(credentials, error):
                    await refuse(error, scope, receive, send)
                    return
                scope["state"]["identity"] = None
            # A refused request does not count: a client that tries again too early would never be let in.
            if scope["type"] == "http" and (owed := self._rates.owed(payer_of(scope), time.monotonic())):
                await refuse(_TOO_FAST, scope, receive, send, retry_seconds=owed)
                return
            if scope["type"] == "http":
                self._rates.take(payer_of(scope), 1, time.monotonic())
        await self._app(scope, receive, send)

    def _check_certificate(self, given: PresentedCredentials) -> None:
        if self._certificate_required and given.certificate is None:
            raise SowlineError("auth failure", "expected a client certificate, got none")

    def _check_gateway(self, path: str, identity: Identity) -> None:
        # An answer of one shard lacks the records of the others, and does not show it
        # (test_a_shard_answers_gateways_only).
        if self._gateway_required and identity.delegated is None and path not in OPEN_TO_ALL:
            raise SowlineError("gateway required", self._gateway_required)

    def _may_log_on_later(self, given: PresentedCredentials, error: SowlineError) -> bool:
        """Whether a WebSocket without a token may send it with its first command: browsers can't send it before."""
        return given.token is None and error.reason == "logon required" and not self._gateway_required


def payer_of(scope: Scope) -> str:
    """Return the name whose limits apply to a request."""
    credentials: PresentedCredentials = scope["state"]["credentials"]
    return credentials.payer(scope["state"]["identity"].user)


def is_guarded(path: str) -> bool:
    """Return whether a path gives access to records."""
    return path in (GUARDED, MCP_PATH) or path.startswith(f"{GUARDED}/")


def credentials_of(scope: Scope) -> PresentedCredentials:
    """Return the credentials of a request."""
    header = Headers(scope=scope).get("authorization")
    token = header[len(_BEARER) :].strip() if header and header.lower().startswith(_BEARER) else header
    client = scope.get("client")
    certificate = scope.get("state", {}).get("certificate")
    return PresentedCredentials(token, certificate, "" if client is None else str(client[0]))


async def refuse(
    error: SowlineError,
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int | None = None,
    retry_seconds: float = 0.0,
) -> None:
    """Answer the request with an error."""
    if scope["type"] == "websocket":
        await refuse_handshake(WebSocket(scope, receive, send), error, status)
    else:
        await refused(error, status, retry_seconds)(scope, receive, send)


async def refuse_handshake(socket: WebSocket, error: SowlineError, status: int | None = None) -> None:
    """Refuse a WebSocket in a way that its client can read: the status and the reason."""
    answer = refused(error, status)
    if "origin" not in socket.headers:
        await socket.send_denial_response(answer)
        return
    # The scripts of a page never see the answer to a refused handshake, only that it failed. So a browser's handshake
    # is accepted and closed at once, with a code and a reason that scripts can read.
    await socket.accept()
    await socket.close(CLOSE_CODES + answer.status_code, close_reason(error))


def close_reason(error: SowlineError) -> str:
    """Return a reason as a WebSocket's close may hold it: 123 bytes."""
    # The cut may fall within a character, and a close frame with half of one is invalid.
    return f"{error.reason}: {error.message}".encode()[:REASON_BYTES_MAX].decode(errors="ignore")
