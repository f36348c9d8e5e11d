"""The web application of a query service: routes, middleware, and the sessions behind them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from query_service.access.authenticator import Authenticator
from query_service.access.middleware import AuthMiddleware
from query_service.access.origins import Origins, is_loopback, read_origins
from query_service.access.rate_limits import Rates
from query_service.access.request_limit import RequestLimit
from query_service.access.watched_file import WatchedFile
from query_service.context import ServiceContext
from query_service.query.tails import TailKind
from query_service.server.event_stream import EventStreamApi
from query_service.server.http_api import HttpApi
from query_service.server.open_sessions import OpenSessions
from query_service.server.static import Console
from query_service.server.websocket_api import WebSocketApi
from sowline.config.settings import Settings
from sowline.protocol.command import DELTA, DELTA_PUBLISH, PUBLISH, SOW_DELETE
from sowline.runtime.connections import Connections
from sowline.runtime.health import ServiceHealth, health_routes, no_details, nothing

METHODS = ("GET", "POST", "DELETE")
HEADERS = ("authorization", "content-type", "last-event-id")
EXPOSED_HEADERS = ("sowline-bookmark", "sowline-lag-seconds", "sowline-warning")
"""Headers that pages of other origins may send in a request, and may read in a response."""


class Server:
    """The application over one state: sessions come and go, the state stays."""

    def __init__(
        self,
        settings: Settings,
        context: ServiceContext,
        service: ServiceHealth,
        note: Callable[[], str | None] = nothing,
        connections: Connections | None = None,
        details: Callable[[], dict[str, Any]] = no_details,
    ) -> None:
        self._settings = settings
        self._details = details
        self._connections = connections or Connections()
        self.authenticator = Authenticator(WatchedFile(Path(settings.access)) if settings.access else None)
        self.rates = Rates(settings.commands_per_second_max)
        self.sessions = OpenSessions(settings, context, self._connections, self.authenticator)
        http = HttpApi(settings, context, self.sessions.clients, self.rates)
        self._inner = Starlette(
            routes=[
                WebSocketRoute("/v1", WebSocketApi(self.sessions, self.rates).endpoint),
                Route("/v1/topics", http.topics),
                Route("/v1/clients", http.clients),
                Route("/v1/clients/{id:int}", http.disconnect, methods=["DELETE"]),
                Route("/v1/topics/{topic:path}/fields", http.fields),
                Route("/v1/topics/{topic:path}/kafka", http.kafka),
                *(
                    Route(f"/v1/topics/{{topic:path}}/{kind.value}", partial(http.tail, kind))
                    for kind in TailKind
                ),
                Route("/v1/topics/{topic:path}/sow", http.sow, methods=["POST"]),
                Route("/v1/topics/{topic:path}/explain", http.explain, methods=["POST"]),
                *(
                    Route(
                        f"/v1/topics/{{topic:path}}/{command}",
                        partial(http.write, command),
                        methods=["POST"],
                    )
                    for command in (PUBLISH, DELTA_PUBLISH, DELTA, SOW_DELETE)
                ),
                Route("/v1/topics/{topic:path}/subscribe", EventStreamApi(self.sessions).endpoint),
                Route("/v1/topics/{topic:path}/records/{key:path}", http.record),
                *health_routes(service, note, self._status),
                *Console().routes,
            ],
            exception_handlers={HTTPException: _no_such_request},
        )
        auth_middleware: ASGIApp = RequestLimit(
            AuthMiddleware(
                self._inner, self.authenticator, self.rates, certificate_required=settings.tls_client_required
            )
        )
        origins = read_origins(settings.origins)
        if origins:
            auth_middleware = CORSMiddleware(
                auth_middleware,
                origins,
                allow_methods=METHODS,
                allow_headers=HEADERS,
                expose_headers=EXPOSED_HEADERS,
            )
        self.app = Origins(auth_middleware, origins, is_local=is_loopback(settings.host))

    async def watch_access(self) -> None:
        """Follow the access file: clients whose rights change have to leave; returns where there is no such file."""
        await self.authenticator.watch(self.sessions.logins.reconsider)

    def _status(self) -> dict[str, Any]:
        """Return what `/status` reports of connections, and further details."""
        return {
            "sessions": {
                "max": self.sessions.limit,
                "configured": self._settings.sessions_max,
                "open": len(self.sessions),
                "refused": self.sessions.refused,
            },
            "connections": {"max": self._connections.budget.connections, "open": self._connections.open},
            **self._details(),
        }


async def _no_such_request(request: HttpRequest, error: Exception) -> Response:
    """Answer what no route takes as any other mistake is answered."""
    assert isinstance(error, HTTPException)
    sentence = f"{error.detail}: {request.method} {request.url.path}"
    return JSONResponse({"reason": "bad request", "message": sentence}, error.status_code)
