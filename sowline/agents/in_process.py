"""Sends requests of an HTTP client to an application of the same process, with an identity that is known already."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any
from urllib.parse import unquote

import httpx2
from starlette.types import ASGIApp, Scope

Message = MutableMapping[str, Any]


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Passes each request to an application, with the client and the identity of an outer request.

    The application is within the authentication, so the outer request must have passed it.
    """

    def __init__(self, app: ASGIApp, outer: Scope) -> None:
        self._app = app
        self._outer = outer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response once its status is known; its body follows as it is read."""
        exchange = _Exchange(self._app, self._scope(request), await request.aread())
        status, headers = await exchange.wait_started()
        return httpx2.Response(status, headers=headers, stream=exchange)

    def _scope(self, request: httpx2.Request) -> Scope:
        path, _, query = request.url.raw_path.partition(b"?")
        agent = [header for header in self._outer["headers"] if header[0] == b"user-agent"]
        names = (b"accept", b"content-type", b"content-length", b"host")
        own = [(name.lower(), value) for name, value in request.headers.raw if name.lower() in names]
        state = self._outer["state"]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [*own, *agent],
            "client": self._outer.get("client"),
            "server": self._outer.get("server"),
            # Not the connection: it stays one of requests, and does not become a session with its first subscription.
            "state": {name: state[name] for name in ("identity", "credentials")},
        }


class _Exchange(httpx2.AsyncByteStream):
    """One request and its response. To close the stream is to disconnect."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._body: bytes | None = body
        self._closed = asyncio.Event()
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = loop.create_future()
        self._task = loop.create_task(self._run(app, scope))

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            if not self._started.done():
                self._started.cancel()
            await self._put(None)

    async def wait_started(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return the status and the headers; raise what the application raises before it has them."""
        try:
            await asyncio.wait((self._started, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if self._started.cancelled():
            await self._task
            raise httpx2.RemoteProtocolError("the application ended without a response")
        return await self._started

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started.set_result((message["status"], [*message["headers"]]))
        elif message.get("body"):
            await self._put(message["body"])

    async def _put(self, chunk: bytes | None) -> None:
        # The queue holds one chunk, so the application works no faster than the client reads.
        if not self._closed.is_set():
            await self._chunks.put(chunk)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk
        await self._task

    async def aclose(self) -> None:
        """Disconnect, and end the application's work on the request."""
        self._closed.set()
        self._task.cancel()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            # Retrieved, because the loop would log an error of an answer that nobody reads any more.
            self._task.exception()
