"""The MCP endpoint of services that answer queries: `POST /mcp`, behind the same authentication as `/v1`."""

import asyncio
from functools import partial
from importlib import import_module

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Send

from sowline.agents.in_process import InProcessTransport
from sowline.agents.sdk import require_sdk
from sowline.agents.tools import AgentTools
from sowline.client.http_api import HttpClient
from sowline.config.credentials import Credentials
from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.serving.access.middleware import MCP_PATH
from sowline.serving.error_response import refused
from sowline.serving.http.queries import ServedAnswer

IN_PROCESS = "http://in-process"
"""The URL of requests to the own service; nothing looks its name up."""


class McpApi:
    """Answers each request independently of all others: there is no session."""

    def __init__(self, settings: Settings) -> None:
        self._body_bytes_max = settings.frame_bytes_max

    @property
    def routes(self) -> list[Route]:
        """The one route. The SDK's GET and DELETE are for sessions."""
        return [Route(MCP_PATH, self.answer, methods=["POST"])]

    async def answer(self, request: HttpRequest) -> Response:
        """Answer with what the SDK's server sends."""
        try:
            require_sdk()
        except SowlineError as error:
            return refused(error, 501)
        return ServedAnswer(partial(self._serve, request))

    async def _serve(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        # In a thread, because the first import of the SDK takes about a second, and would hold up all streams.
        server = await asyncio.to_thread(import_module, "sowline.agents.mcp_server")
        transport = InProcessTransport(request.app, request.scope)
        http = HttpClient(IN_PROCESS, Credentials(), lambda: None, transport)
        try:
            await server.serve_http(AgentTools(http), request.scope, receive, send, self._body_bytes_max)
        finally:
            await http.close()
