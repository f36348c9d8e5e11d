"""The web application of a service: routes, middleware, and sessions."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from sowline.config.settings import Settings
from sowline.runtime.connections import Connections
from sowline.runtime.health import ServiceHealth, health_routes, no_details, nothing
from sowline.serving.access.authenticator import Authenticator
from sowline.serving.access.middleware import AuthenticationMiddleware
from sowline.serving.access.origins import Origins, is_loopback, read_origins
from sowline.serving.access.rate_limits import Rates
from sowline.serving.access.request_limit import RequestLimit
from sowline.serving.access.watched_access import WatchedAccess
from sowline.serving.backlogs import Backlogs
from sowline.serving.http.static import Console
from sowline.serving.sessions.clients_api import ClientsApi
from sowline.serving.sessions.event_stream import EventStreamApi
from sowline.serving.sessions.open_sessions import OpenSessions
from sowline.serving.sessions.session import NewCommands
from sowline.serving.sessions.websocket_api import WebSocketApi

METHODS = ("GET", "POST", "DELETE")
HEADERS = (
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
)
EXPOSED_HEADERS = ("sowline-bookmark", "sowline-lag-seconds", "sowline-warning")
"""Headers that pages of other origins may send in a request, and may read in a response."""


class Server:
    """The application of one service, for all its sessions."""

    def __init__(
        self,
        settings: Settings,
        new_commands: NewCommands,
        routes_of: Callable[[Rates, Backlogs], Iterable[BaseRoute]],
        service: ServiceHealth,
        note: Callable[[], str | None] = nothing,
        connections: Connections | None = None,
        details: Callable[[], dict[str, Any]] = no_details,
        gateway_required: str = "",
    ) -> None:
        """Serve sessions with `new_commands`, and the service's own routes.

        These may take from a client's rate, and count unread answers.

        `gateway_required` is why only gateways may use the service; empty if every client may.
        """
        self._settings = settings
        self._details = details
        self._connections = connections or Connections()
        self.authenticator = Authenticator(WatchedAccess(Path(settings.access)) if settings.access else None)
        self.rates = Rates(settings.commands_per_second_max)
        self.sessions = OpenSessions(settings, new_commands, self._connections, self.authenticator)
        self._inner = Starlette(
            routes=[
                WebSocketRoute("/v1", WebSocketApi(self.sessions, self.rates).endpoint),
                *ClientsApi(self.sessions.clients).routes,
                Route("/v1/topics/{topic:path}/subscribe", EventStreamApi(self.sessions).endpoint),
                *routes_of(self.rates, self.sessions.backlogs),
                *health_routes(service, note, self._status),
                *Console().routes,
            ],
            exception_handlers={HTTPException: _no_such_request},
        )
        authenticated: ASGIApp = RequestLimit(
            AuthenticationMiddleware(
                self._inner,
                self.authenticator,
                self.rates,
                certificate_required=settings.tls_client_required,
                gateway_required=gateway_required,
            )
        )
        origins = read_origins(settings.origins)
        if origins:
            # Around the authentication: a browser first asks by OPTIONS, without the token, what the page may send.
            authenticated = CORSMiddleware(
                authenticated,
                origins,
                allow_methods=METHODS,
                allow_headers=HEADERS,
                expose_headers=EXPOSED_HEADERS,
            )
        self.app = Origins(authenticated, origins, is_local=is_loopback(settings.host))

    async def watch_access(self) -> None:
        """Follow the access file: clients whose rights change must leave. Return if there is no access file."""
        await self.authenticator.watch(self.sessions.logins.reconsider)

    def _status(self) -> dict[str, Any]:
        """Return what `/status` reports of connections, and further details."""
        return {
            "sessions": {
                "max": self.sessions.sessions_max,
                "configured": self._settings.sessions_max,
                "open": len(self.sessions),
                "refused": self.sessions.refused,
            },
            "connections": {"max": self._connections.budget.connections, "open": self._connections.open},
            **self._details(),
        }


async def _no_such_request(request: HttpRequest, error: Exception) -> Response:
    """Answer a request without a route in the form of all other errors."""
    assert isinstance(error, HTTPException)
    sentence = f"{error.detail}: {request.method} {request.url.path}"
    return JSONResponse({"reason": "bad request", "message": sentence}, error.status_code)
