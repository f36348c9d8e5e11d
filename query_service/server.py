"""The doors: WebSocket `/v1`, and HTTP for queries, topics, health and metrics."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from query_service.asking import query_of, topics_of
from query_service.backend import Backend
from query_service.grouping import GroupedQuery
from query_service.outbox import Outbox
from query_service.places import wait_for_past
from query_service.query import Query
from query_service.quiet import TICKS
from query_service.rounds import Rounds
from query_service.session import Session
from query_service.state import TopicState
from query_service.writing import PARAMETERS, SELECTORS, Way, posted_writes
from sowline.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE
from sowline.errors import SowlineError
from sowline.health import Service, health_routes
from sowline.settings import Settings
from sowline.wire import join_frame, one_line, read_request

GOING_AWAY = 1001
NDJSON = "application/x-ndjson"
SOW_FIELDS = ("bookmark", "filter", "options", "order_by", "top_n", "skip_n", "sow_keys")
NUMBERS = ("top_n", "skip_n")


class Server:
    """The application over one state: sessions come and go, the state stays."""

    def __init__(self, settings: Settings, backend: Backend, service: Service) -> None:
        self._settings = settings
        self._backend = backend
        self._state = backend.state
        self._sockets: set[WebSocket] = set()
        self._rounds = Rounds()
        self.app = Starlette(
            routes=[
                WebSocketRoute("/v1", self._websocket),
                Route("/v1/topics", self._topics),
                Route("/v1/topics/{topic:path}/sow", self._sow, methods=["POST"]),
                Route("/v1/topics/{topic:path}/explain", self._explain, methods=["POST"]),
                *(
                    Route(
                        f"/v1/topics/{{topic:path}}/{command}",
                        partial(self._write, command),
                        methods=["POST"],
                    )
                    for command in (PUBLISH, DELTA_PUBLISH, SOW_DELETE)
                ),
                *health_routes(service),
            ],
            exception_handlers={HTTPException: _no_such_request},
        )

    @property
    def sessions(self) -> int:
        """The number of connected clients."""
        return len(self._sockets)

    # WebSocket

    async def _websocket(self, socket: WebSocket) -> None:
        await socket.accept()
        outbox = Outbox(self._settings.backlog_bytes_max, self._rounds)
        session = Session(self._backend, outbox)
        loop = asyncio.get_running_loop()
        writer = loop.create_task(_write(socket, outbox))
        progress = loop.create_task(_tell_progress(session, self._settings.progress_seconds))
        self._sockets.add(socket)
        try:
            await _read(socket, session)
        finally:
            self._sockets.discard(socket)
            session.close()
            writer.cancel()
            progress.cancel()

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
            query = await self._query(request)
            await query.begin()
            lines = _lines(query)
            first = await anext(lines, b"")
        except SowlineError as error:
            return _refused(error)
        headers = {"Sowline-Bookmark": query.bookmark}
        body = _with_first(first, lines)
        return StreamingResponse(body, media_type=NDJSON, headers=headers)

    async def _explain(self, request: HttpRequest) -> Response:
        """Say which road a query would take in each topic, and what it would find there."""
        try:
            query = await self._query(request)
            roads = await query.explained()
        except SowlineError as error:
            return _refused(error)
        return JSONResponse({"bookmark": query.bookmark, "roads": roads})

    async def _write(self, command: str, request: HttpRequest) -> Response:
        """Write commands; say where they are once Kafka has them, or what became of them once they are applied."""
        try:
            given = _parameters(request, (*PARAMETERS, *(SELECTORS if command == SOW_DELETE else ()), "ack"))
            ack = given.pop("ack", "persisted")
            if ack not in ("persisted", "processed"):
                raise SowlineError("bad request", f"expected ack=persisted or ack=processed, got {ack!r}")
            bodies = _records(request, await _body(request, self._settings.frame_bytes_max))
            writings = posted_writes(self._state, request.path_params["topic"], command, given, bodies)
            way = Way(self._backend.publishing, writings)
        except SowlineError as error:
            return _refused(error)
        try:
            answer: dict[str, Any] = {"commands": len(writings), "bookmark": await way.persisted()}
            if ack == "processed":
                told = await way.told()
                answer |= {"outcomes": told.outcomes, "records_deleted": told.deleted}
        except SowlineError as error:
            return _refused(error)
        finally:
            way.end()
        return JSONResponse(answer)

    async def _query(self, request: HttpRequest) -> Query | GroupedQuery:
        fields = await _fields(request, self._settings.frame_bytes_max)
        asked = read_request(orjson.dumps({"command": "sow", "topic": request.path_params["topic"]} | fields))
        topics = topics_of(self._state, asked.topic)
        query = query_of(asked, topics, self._backend.limits)
        await wait_for_past(self._backend, asked)
        return query


async def _read(socket: WebSocket, session: Session) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            received = await socket.receive()
            if received["type"] == "websocket.disconnect":
                return
            frame = received.get("bytes") or (received.get("text") or "").encode()
            await session.receive(frame)
            await session.outbox.wait_drained()


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    """Send what the outbox holds, many messages a frame, at the pace at which the client takes it."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.send_text(join_frame(await outbox.take()).decode())


async def _tell_progress(session: Session, seconds: float) -> None:
    """Tell quiet subscriptions where they stand, about so many seconds after they were told anything."""
    while True:
        await asyncio.sleep(seconds / TICKS)
        await session.tell_progress()


def _parameters(request: HttpRequest, known: Sequence[str]) -> dict[str, str]:
    """Return the query parameters; raises `bad request` for unknown ones."""
    given = dict(request.query_params)
    if unknown := given.keys() - set(known):
        raise SowlineError(
            "bad request", f"expected the parameters {', '.join(known)}, got {', '.join(sorted(unknown))}"
        )
    return given


def _records(request: HttpRequest, body: bytes) -> list[bytes]:
    """Return the records of a body: one as JSON, or with the type `application/x-ndjson` one a line."""
    if request.headers.get("content-type", "").partition(";")[0].strip() == NDJSON:
        return [line.strip() for line in body.splitlines() if line.strip()]
    return [body] if body.strip() else []


async def _fields(request: HttpRequest, bytes_max: int) -> dict[str, Any]:
    """Read a query's fields from the URL and the JSON body; raises `bad request` for unknown ones."""
    fields: dict[str, Any] = {
        name: int(text) if name in NUMBERS and text.isascii() and text.isdecimal() else text
        for name, text in request.query_params.items()
    }
    if body := await _body(request, bytes_max):
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise SowlineError("bad request", f"expected a JSON object as the body: {error}") from error
        if not isinstance(given, dict):
            raise SowlineError("bad request", "expected a JSON object as the body")
        fields |= given
    if unknown := fields.keys() - SOW_FIELDS:
        known = ", ".join(SOW_FIELDS)
        raise SowlineError("bad request", f"expected the fields {known}, got {', '.join(sorted(unknown))}")
    return fields


async def _body(request: HttpRequest, bytes_max: int) -> bytes:
    """Read the body; raises `too large` where it is, at its end: nobody hears an answer while still sending."""
    body, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= bytes_max:
            body += part
    if size > bytes_max:
        raise SowlineError("too large", f"expected a body of at most {bytes_max} bytes, got {size}")
    return bytes(body)


async def _lines(query: Query | GroupedQuery) -> AsyncIterator[bytes]:
    async for _, records in query.records():
        yield b"".join([one_line(record) for record in records])


async def _with_first(first: bytes, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for more in lines:
        yield more


async def _no_such_request(request: HttpRequest, error: Exception) -> Response:
    """Answer what no route takes as any other mistake is answered."""
    assert isinstance(error, HTTPException)
    sentence = f"{error.detail}: {request.method} {request.url.path}"
    return JSONResponse({"reason": "bad request", "message": sentence}, error.status_code)


def _refused(error: SowlineError) -> Response:
    return JSONResponse({"reason": error.reason, "message": error.message}, _status(error))


def _status(error: SowlineError) -> int:
    return _STATUSES.get(error.reason, 400)


_STATUSES = {
    "invalid topic": 404,
    "too large": 413,
    "busy": 429,
    "not ready": 503,
    "behind": 503,
    "not written": 503,
}


def _about(topic: TopicState) -> dict[str, Any]:
    definition = topic.definition
    return {
        "name": definition.name,
        "message_type": definition.message_type,
        "sow": definition.has_sow,
        "key": list(definition.key),
        "key_domain": definition.key_domain,
        "preprocessing": list(definition.preprocessing),
        "log": definition.log,
        "partitions": definition.partitions,
        "record_bytes_max": definition.record_bytes_max,
        "records": topic.size,
        "bookmark": topic.bookmark(topic.positions),
        "loading": topic.loading,
    }
