"""Limits the number of concurrent requests. Further ones are refused, except those for health and metrics."""

from starlette.types import ASGIApp, Receive, Scope, Send

from sowline.errors import SowlineError
from sowline.runtime.connections import Connection
from sowline.runtime.health import PATHS
from sowline.serving.access.middleware import refuse

_BUSY = SowlineError(
    "busy",
    "this service has no file descriptors left for more requests; retry later, or use another query service",
)


class RequestLimit:
    """An application around another: it counts requests, and WebSockets until they are sessions."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 503."""
        connection: Connection | None = scope.get("state", {}).get("connection")
        # Probes are answered at the limit, too: a service that is only busy would be restarted, and lose all its
        # clients.
        if connection is None or scope["path"] in PATHS:
            await self._app(scope, receive, send)
        elif connection.begin_work():
            try:
                await self._app(scope, receive, send)
            finally:
                connection.end_work()
        else:
            await refuse(_BUSY, scope, receive, send, status=503)
