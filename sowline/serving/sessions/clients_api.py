"""The HTTP API of connected clients: lists them, and closes a connection."""

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sowline.errors import SowlineError
from sowline.serving.error_response import refused
from sowline.serving.http.requests import require_admin
from sowline.serving.sessions.clients import Clients


class ClientsApi:
    """Answers administrators."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @property
    def routes(self) -> list[Route]:
        """The routes of this API."""
        return [
            Route("/v1/clients", self.clients),
            Route("/v1/clients/{id:int}", self.disconnect, methods=["DELETE"]),
        ]

    async def clients(self, request: HttpRequest) -> Response:
        """List the connected clients."""
        try:
            require_admin(request)
        except SowlineError as error:
            return refused(error)
        return JSONResponse(await self._clients.list_all())

    async def disconnect(self, request: HttpRequest) -> Response:
        """Close the connection of a client; it reconnects, unless its program decides otherwise."""
        try:
            require_admin(request)
            number = request.path_params["id"]
            if not self._clients.disconnect(number):
                raise SowlineError("no client", f"expected the id of a connected client, got {number}")
        except SowlineError as error:
            return refused(error)
        return JSONResponse({"id": number})
