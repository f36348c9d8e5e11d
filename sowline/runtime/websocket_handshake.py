"""The handshake of a WebSocket, as an ASGI application answers it.

The application accepts the WebSocket by `scope["state"]["handshake"]`, with its own connection; then it returns.
Middleware and routing have ended by then: kept for a session, they would take more memory than the session itself.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, cast

import structlog
from uvicorn.config import Config
from uvicorn.server import ServerState
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from sowline.runtime.connections import Connection
from sowline.runtime.websocket_connection import WebSocketConnection

log = structlog.get_logger()

_RULES = ServerProtocol()
"""Checks handshakes; it offers no extensions and no subprotocols. No handshake leaves state in it."""

_Pairs = Iterable[tuple[bytes, bytes]]


class Handshake(asyncio.Protocol):
    """The connection of a client from its request for a WebSocket until the answer."""

    def __init__(self, config: Config, server_state: ServerState, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._config = config
        self._server_state = server_state
        self._answer: Response | None = None
        """The answer that accepts, or the refusal that the application has begun."""
        self._counted: Connection | None = None
        self._early = b""
        """The bytes that the client has sent before the answer."""
        self._is_asked = False
        """Whether the application knows of the request."""
        self._is_answered = False
        """Whether there is an answer."""
        self._lost = asyncio.Event()
        self._accepted: WebSocketConnection | None = None
        """A WebSocket that was accepted only to be closed."""

    def begin(self, scope: dict[str, Any], early: bytes) -> None:
        """Ask the application; `scope` is that of the HTTP request, and `early` the bytes after the request."""
        connections, tasks = self._server_state.connections, self._server_state.tasks
        # A server that stops ends what it knows of: an application that never answers would keep the client waiting
        # (test_the_server_stops).
        cast("set[Any]", connections).add(self)
        self._early = early
        self._counted = scope["state"].get("connection")
        answer = self._answer = _answer_to(scope)
        if answer.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._refuse(answer)
            return
        headers = scope["headers"]
        scope["state"]["handshake"] = self
        asked = scope | {
            "type": "websocket",
            "asgi": {**scope["asgi"], "spec_version": "2.4"},
            "scheme": "wss" if scope["scheme"] == "https" else "ws",
            "subprotocols": _all_of(headers, b"sec-websocket-protocol"),
            "extensions": {"websocket.http.response": {}},
        }
        del asked["method"]
        task = asyncio.get_running_loop().create_task(self._run(asked))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._config.loaded_app(
                cast("Any", scope), cast("Any", self._receive), cast("Any", self._send)
            )
        except Exception:
            log.exception("handshake failed")
        if not self._is_answered:
            self._refuse(_RULES.reject(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error"))
        elif self._accepted is not None:
            # An application that forgets to close it would leave a connection to nobody
            # (test_accepted_only_to_be_closed).
            self._accepted.close()

    # what the application does

    def accept(self, connection: WebSocketConnection, headers: _Pairs = ()) -> None:
        """Accept the WebSocket; from now on it belongs to this connection."""
        assert self._answer is not None
        assert not self._is_answered
        self._is_answered = True
        connections = cast("set[Any]", self._server_state.connections)
        connections.discard(self)
        connection.begin(self.transport, self._config.ws_max_size, connections, self._counted)
        # The client may have gone while the application decided. The event loop reports that only once, to the
        # handshake (test_a_client_that_has_gone_before_the_answer).
        if self._lost.is_set():
            connection.connection_lost(None)
            return
        self.transport.set_protocol(connection)
        more = (*self._server_state.default_headers, *headers)
        lines = b"".join(b"%b: %b\r\n" % (name, text) for name, text in more)
        self.transport.write(self._answer.serialize()[:-2] + lines + b"\r\n")
        # A client may send messages with its request (test_what_comes_before_the_answer_is_kept).
        if self._early:
            self.transport.resume_reading()
            connection.data_received(self._early)

    async def _receive(self) -> dict[str, Any]:
        """Return an ASGI event: the request, and then that the client has gone."""
        if not self._is_asked:
            self._is_asked = True
            return {"type": "websocket.connect"}
        await self._lost.wait()
        return {"type": "websocket.disconnect", "code": 1006}

    async def _send(self, event: dict[str, Any]) -> None:
        """Take an ASGI event: to refuse the WebSocket, or to accept it and close it at once."""
        kind = event["type"]
        if kind == "websocket.accept":
            self._accepted = WebSocketConnection()
            self.accept(self._accepted, event.get("headers", ()))
        elif kind == "websocket.close" and self._accepted is not None:
            self._accepted.close(event.get("code", 1000), event.get("reason") or "")
        elif kind == "websocket.close":
            self._refuse(_RULES.reject(HTTPStatus.FORBIDDEN, ""))
        elif kind == "websocket.http.response.start":
            status = HTTPStatus(event["status"])
            self._answer = Response(status.value, status.phrase, Headers(_decoded(event["headers"])), b"")
        elif kind == "websocket.http.response.body":
            assert self._answer is not None
            self._answer.body = bytes(self._answer.body) + event["body"]
            if not event.get("more_body", False):
                self._refuse(self._answer)
        else:
            raise RuntimeError(f"expected the answer to a handshake, got {kind!r}")

    def _refuse(self, answer: Response) -> None:
        self._is_answered = True
        answer.headers.setdefault("Connection", "close")
        for name, text in _decoded(self._server_state.default_headers):
            answer.headers.setdefault(name, text)
        self.transport.write(answer.serialize())
        self.transport.close()

    # from the event loop and the server

    def data_received(self, data: bytes) -> None:
        """Keep what the client sends before the answer, and read no more until then."""
        self._early += data
        self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the client has gone."""
        cast("set[Any]", self._server_state.connections).discard(self)
        if self._counted is not None:
            self._counted.closed()
        self._lost.set()

    def shutdown(self) -> None:
        """End because the server stops."""
        self.transport.close()


def _answer_to(scope: dict[str, Any]) -> Response:
    """Return the answer to a handshake that the application may accept, or the refusal of one that is invalid."""
    headers = scope["headers"]
    # h11 has read the request, so the library does not check these.
    if scope["method"] != "GET":
        return _RULES.reject(HTTPStatus.METHOD_NOT_ALLOWED, "expected GET for a WebSocket\n")
    if scope["http_version"] != "1.1":
        return _RULES.reject(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected HTTP/1.1 for a WebSocket\n")
    if _all_of(headers, b"transfer-encoding") or set(_all_of(headers, b"content-length")) - {"0"}:
        return _RULES.reject(HTTPStatus.BAD_REQUEST, "expected no body with a WebSocket handshake\n")
    answer = _RULES.accept(Request("", Headers(_decoded(headers))))
    del answer.headers["Date"]  # the server adds its own to every answer
    return answer


def _decoded(headers: _Pairs) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), text.decode("latin-1")) for name, text in headers]


def _all_of(headers: _Pairs, wanted: bytes) -> list[str]:
    """Return the parts, separated by commas, of all headers with this name."""
    found = [text.decode("latin-1") for name, text in headers if name == wanted]
    return [part.strip() for text in found for part in text.split(",")]
