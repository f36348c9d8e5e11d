"""The doors: WebSocket `/v1`, and HTTP for queries, topics, health and metrics."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from query_service.hub import Hub
from query_service.outbox import Outbox
from query_service.query import Query
from query_service.session import Session
from query_service.state import State, TopicState
from sowline.errors import SowlineError
from sowline.filter import compile_filter
from sowline.health import Service, health_routes
from sowline.options import parse_options
from sowline.settings import Settings
from sowline.wire import join_frame

GOING_AWAY = 1001
SOW_FIELDS = ("filter", "options")


class Server:
    """The application over one state: sessions come and go, the state stays."""

    def __init__(self, settings: Settings, state: State, hub: Hub, service: Service) -> None:
        self._settings = settings
        self._state = state
        self._hub = hub
        self._sockets: set[WebSocket] = set()
        self.app = Starlette(
            routes=[
                WebSocketRoute("/v1", self._websocket),
                Route("/v1/topics", self._topics),
                Route("/v1/topics/{topic:path}/sow", self._sow, methods=["POST"]),
                *health_routes(service),
            ]
        )

    @property
    def sessions(self) -> int:
        """The number of connected clients."""
        return len(self._sockets)

    # WebSocket

    async def _websocket(self, socket: WebSocket) -> None:
        await socket.accept()
        outbox = Outbox(self._settings.backlog_bytes_max)
        kafka = self._settings.kafka_client
        session = Session(self._state, self._hub, kafka, outbox, self._settings.result_records_max)
        writer = asyncio.get_running_loop().create_task(_write(socket, outbox))
        self._sockets.add(socket)
        try:
            await _read(socket, session)
        finally:
            self._sockets.discard(socket)
            session.close()
            writer.cancel()

    async def close_sessions(self) -> None:
        """Tell every client that this server goes away; they come back elsewhere with their bookmarks."""
        for socket in list(self._sockets):
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(GOING_AWAY, "the server is stopping")

    # HTTP

    async def _topics(self, request: HttpRequest) -> Response:
        kafka = self._settings.kafka_advertised or self._settings.kafka
        return JSONResponse(
            {"kafka": kafka, "topics": [_about(topic) for topic in self._state.topics.values()]}
        )

    async def _sow(self, request: HttpRequest) -> Response:
        """Stream the records that match as NDJSON, one a line; the header Sowline-Bookmark names the instant."""
        try:
            query = self._query(request.path_params["topic"], await _fields(request))
            chunks = query.chunks()
            first = next(chunks, [])
        except SowlineError as error:
            return JSONResponse({"reason": error.reason, "message": error.message}, _status(error))
        headers = {"Sowline-Bookmark": query.bookmark}
        return StreamingResponse(_lines(first, chunks), media_type="application/x-ndjson", headers=headers)

    def _query(self, name: str, fields: dict[str, str]) -> Query:
        topic = self._state.topics.get(name)
        if topic is None:
            known = ", ".join(self._state.topics) or "none"
            raise SowlineError("invalid topic", f"expected a topic ({known}), got {name!r}")
        if topic.loading:
            raise SowlineError("not ready", f"topic {name} is still being loaded; try again shortly")
        options = parse_options(fields.get("options", ""))
        return Query(
            topic, compile_filter(fields.get("filter", "")), options, self._settings.result_records_max
        )


async def _read(socket: WebSocket, session: Session) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            received = await socket.receive()
            if received["type"] == "websocket.disconnect":
                return
            frame = received.get("bytes") or (received.get("text") or "").encode()
            session.receive(frame)
            await session.outbox.wait_drained()


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    """Send what the outbox holds, many messages a frame, at the pace at which the client takes it."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.send_text(join_frame(await outbox.take()).decode())


async def _fields(request: HttpRequest) -> dict[str, str]:
    """Read a query's fields from the URL and the JSON body; raises `bad request` for unknown ones."""
    fields: dict[str, Any] = dict(request.query_params)
    if body := await request.body():
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise SowlineError("bad request", f"expected a JSON object as the body: {error}") from error
        if not isinstance(given, dict):
            raise SowlineError("bad request", "expected a JSON object as the body")
        fields |= given
    for name, value in fields.items():
        if name not in SOW_FIELDS or not isinstance(value, str):
            raise SowlineError(
                "bad request", f"expected the text fields {', '.join(SOW_FIELDS)}, got {name!r}"
            )
    return fields


async def _lines(first: list[bytes], chunks: Any) -> AsyncIterator[bytes]:
    for records in (first, *()):
        yield b"".join(record + b"\n" for record in records)
    for records in chunks:
        if records:
            yield b"".join(record + b"\n" for record in records)
        await asyncio.sleep(0)


def _status(error: SowlineError) -> int:
    return {"invalid topic": 404, "not ready": 503}.get(error.reason, 400)


def _about(topic: TopicState) -> dict[str, Any]:
    definition = topic.definition
    return {
        "name": definition.name,
        "message_type": definition.message_type,
        "key": list(definition.key),
        "key_domain": definition.key_domain,
        "log": definition.log,
        "partitions": definition.partitions,
        "record_bytes_max": definition.record_bytes_max,
        "records": topic.size,
        "bookmark": topic.bookmark(topic.positions),
        "loading": topic.loading,
    }
