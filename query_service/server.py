"""The doors: WebSocket `/v1`, and HTTP for queries, topics, health and metrics."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from query_service.access.door import Door, payer_of
from query_service.access.guard import Guard
from query_service.access.origins import Origins, is_loopback, read_origins
from query_service.access.rates import Rates
from query_service.access.visit import Visit, Visits
from query_service.access.watched import WatchedFile
from query_service.address import Address, read_address
from query_service.answers import refused
from query_service.aside import FILTER_CHAR_BYTES, aside, reading_bytes
from query_service.asking import asked_of, one_topic, query_of
from query_service.backend import Backend
from query_service.clients import Clients
from query_service.deltas import KEY, posted_deltas, posted_lines
from query_service.grouping import GroupedQuery
from query_service.outbox import Backlogs, Outbox
from query_service.places import wait_for_past, wait_for_replica
from query_service.query import Query
from query_service.quiet import TICKS
from query_service.record import read_record
from query_service.rights import NOT_ENTITLED, Entitlements, Rights
from query_service.rounds import Rounds
from query_service.session import Session
from query_service.state import State, TopicState
from query_service.static import Console
from query_service.timeline_answer import wanted_of
from query_service.writing import PARAMETERS, SELECTORS, Way, Writing, posted_writes
from sowline import __version__
from sowline.command import DELTA, DELTA_PUBLISH, PUBLISH, SOW_DELETE
from sowline.errors import SowlineError
from sowline.health import Service, health_routes, nothing
from sowline.settings import Settings
from sowline.traceparent import TRACEPARENT, read_traceparent
from sowline.tracing import begin
from sowline.wire import Request, join_frame, one_line, read_request

METHODS = ("GET", "POST")
HEADERS = ("authorization", "content-type")
TOLD = ("sowline-bookmark",)
"""What pages of other origins may ask with, and may read of an answer's headers."""

GOING_AWAY = 1001
POLICY = 1008
REASON_CHARS_MAX = 120
"""A WebSocket's close has room for 123 bytes."""

GOODBYE_SECONDS_MAX = 1.0
NDJSON = "application/x-ndjson"
SOW_FIELDS = ("bookmark", "filter", "condition", "options", "order_by", "top_n", "skip_n", "sow_keys")
NUMBERS = ("top_n", "skip_n")
TIMELINE_PARAMETERS = ("bookmark", "up_to", "limit", "reversed")
TRUTHS = {"true": True, "false": False}


class Server:
    """The application over one state: sessions come and go, the state stays."""

    def __init__(
        self,
        settings: Settings,
        backend: Backend,
        service: Service,
        note: Callable[[], str | None] = nothing,
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._state = backend.state
        self._sockets: set[WebSocket] = set()
        self._clients = Clients()
        self._rounds = Rounds()
        self._backlogs = Backlogs(settings.backlogs_bytes_max)
        self.refused_sessions = 0
        """Connections that were one too many."""
        self.guard = Guard(WatchedFile(Path(settings.access)) if settings.access else None)
        self._visits = Visits(self.guard, settings.sessions_per_user_max)
        self._inner = Starlette(
            routes=[
                WebSocketRoute("/v1", self._websocket),
                Route("/v1/topics", self._topics),
                Route("/v1/clients", self._of_clients),
                Route("/v1/topics/{topic:path}/sow", self._sow, methods=["POST"]),
                Route("/v1/topics/{topic:path}/explain", self._explain, methods=["POST"]),
                *(
                    Route(
                        f"/v1/topics/{{topic:path}}/{command}",
                        partial(self._write, command),
                        methods=["POST"],
                    )
                    for command in (PUBLISH, DELTA_PUBLISH, DELTA, SOW_DELETE)
                ),
                Route("/v1/topics/{topic:path}/records/{key:path}", self._of_record),
                *health_routes(service, note),
                *Console().routes,
            ],
            exception_handlers={HTTPException: _no_such_request},
        )
        self.rates = Rates(settings.commands_per_second_max)
        door: ASGIApp = Door(
            self._inner, self.guard, self.rates, certificate_required=settings.tls_client_required
        )
        origins = read_origins(settings.origins)
        if origins:
            door = CORSMiddleware(
                door, origins, allow_methods=METHODS, allow_headers=HEADERS, expose_headers=TOLD
            )
        self.app = Origins(door, origins, is_local=is_loopback(settings.host))

    async def watch_access(self) -> None:
        """Take in what changes in the access file: whose rights change is sent away; returns where there is none."""
        await self.guard.watch(self._visits.reconsider)

    @property
    def sessions(self) -> int:
        """The number of connected clients."""
        return len(self._sockets)

    # WebSocket

    async def _websocket(self, socket: WebSocket) -> None:
        if len(self._sockets) >= self._settings.sessions_max:
            await self._refuse(socket)
            return
        self._sockets.add(socket)
        self._backlogs.outboxes = len(self._sockets)
        try:
            with contextlib.ExitStack() as staying:
                entering = self._visits.enter(socket.state.identity, socket.state.credentials)
                try:
                    visit = staying.enter_context(entering)
                except SowlineError as error:
                    await socket.send_denial_response(refused(error))
                    return
                await socket.accept(headers=_about(visit))
                await self._serve(socket, visit)
        finally:
            self._sockets.discard(socket)
            self._backlogs.outboxes = len(self._sockets)

    async def _refuse(self, socket: WebSocket) -> None:
        self.refused_sessions += 1
        error = SowlineError(
            "busy",
            f"expected at most {self._settings.sessions_max} connections, and so many are there; try again later,"
            " or another query service",
        )
        await socket.send_denial_response(refused(error, 503))

    async def _serve(self, socket: WebSocket, visit: Visit) -> None:
        outbox = Outbox(self._settings.backlog_bytes_max, self._rounds, self._backlogs)
        session = Session(self._backend, outbox, visit)
        loop = asyncio.get_running_loop()
        writer = loop.create_task(_write(socket, outbox))
        progress = loop.create_task(_tell_progress(session, self._settings.progress_seconds))
        try:
            with self._clients.with_(_address_of(socket), socket.headers.get("user-agent", ""), session):
                why = await self._read_until_the_end(socket, session, visit)
        finally:
            session.close()
            writer.cancel()
            progress.cancel()
        if why is not None:
            await _send_away(socket, why)

    async def _read_until_the_end(
        self, socket: WebSocket, session: Session, visit: Visit
    ) -> SowlineError | None:
        """Read what the client asks for until it leaves; returns why where it has to."""
        if self.guard.is_open:
            await self._read(socket, session)
            return None
        reading = asyncio.create_task(self._read(socket, session))
        ending = asyncio.create_task(visit.ended(self._settings.logon_seconds_max))
        try:
            await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            ending.cancel()
        if reading.done():
            reading.result()
            return None
        return ending.result()

    async def _read(self, socket: WebSocket, session: Session) -> None:
        """Take what the client sends, no faster than it may send and takes what it is sent."""
        alone = f"\0{id(session)}"
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                received = await socket.receive()
                if received["type"] == "websocket.disconnect":
                    return
                frame = received.get("bytes") or (received.get("text") or "").encode()
                commands = await session.receive(frame)
                owed = self.rates.take(session.user or alone, commands, time.monotonic())
                if owed:
                    await asyncio.sleep(owed)
                await session.outbox.wait_drained()

    async def close_sessions(self) -> None:
        """Tell every client that this server goes away; they come back elsewhere with their bookmarks."""
        for socket in list(self._sockets):
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(GOING_AWAY, "the server is stopping")

    # HTTP

    async def _topics(self, request: HttpRequest) -> Response:
        rights, is_admin = _rights(request), request.state.identity.rights.is_admin
        kafka = self._settings.kafka_advertised or self._settings.kafka
        return JSONResponse(
            {
                "kafka": kafka,
                "topics": [
                    self._about(topic)
                    | {"select": _readable_fields(rights.read, name)}
                    | ({"indexes": topic.indexes.statistics()} if is_admin else {})
                    for name, topic in self._state.topics.items()
                    if name in rights.read or name in rights.write
                ],
            }
        )

    def _about(self, topic: TopicState) -> dict[str, Any]:
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
            "documents": definition.documents,
            "record_bytes_max": definition.record_bytes_max,
            "records": topic.size,
            "bookmark": topic.bookmark(topic.positions),
            "loading": topic.loading,
            "changes": topic.changes_applied,
            "lag": self._state.lag(topic),
            "newest_seconds": _seconds_since(topic.changed_time),
            "subscriptions": self._backend.hub.live_in(definition.name),
        }

    async def _of_clients(self, request: HttpRequest) -> Response:
        """Tell who is connected."""
        if not request.state.identity.rights.is_admin:
            return refused(SowlineError(NOT_ENTITLED, "expected a user with a role that is `admin`"))
        return JSONResponse(await self._clients.told())

    async def _sow(self, request: HttpRequest) -> Response:
        """Stream the records that match as NDJSON, one a line; the header Sowline-Bookmark names the instant."""
        try:
            query = await self._query(request)
            await query.begin()
            lines = _lines(query)
            first = await anext(lines, b"")
        except SowlineError as error:
            return refused(error)
        headers = {"Sowline-Bookmark": query.bookmark}
        body = _with_first(first, lines)
        return StreamingResponse(body, media_type=NDJSON, headers=headers)

    async def _explain(self, request: HttpRequest) -> Response:
        """Say which road a query would take in each topic, and what it would find there."""
        try:
            query = await self._query(request)
            roads = await query.explained()
        except SowlineError as error:
            return refused(error)
        return JSONResponse({"bookmark": query.bookmark, "roads": roads})

    async def _of_record(self, request: HttpRequest) -> Response:
        """Answer with one record by its key, or with what there is of it."""
        try:
            path = request.scope.get("raw_path", b"").decode("latin-1")
            address = read_address(path, self._state.topics)
            if address.what == "timeline":
                return await self._timeline(address, request)
            if address.what:
                raise HTTPException(404)
            return self._record(address, request)
        except SowlineError as error:
            return refused(error)

    def _record(self, address: Address, request: HttpRequest) -> Response:
        """Answer with the record; the header Sowline-Bookmark names the instant."""
        _parameters(request, ())
        rights = _rights(request)
        topic = one_topic(self._state, address.topic, rights.read)
        headers = {"Sowline-Bookmark": topic.bookmark(topic.positions)}
        return Response(
            read_record(topic, address.key, rights.read.of(address.topic)),
            media_type="application/json",
            headers=headers,
        )

    async def _timeline(self, address: Address, request: HttpRequest) -> Response:
        """Tell the timeline of a document."""
        wanted = wanted_of(self._state, _timeline_request(address, request), _rights(request))
        await wait_for_replica(self._state, wanted.topic, wanted.awaited)
        told = await self._backend.timelines.told(wanted)
        return Response(told.answer, media_type="application/json")

    async def _write(self, command: str, request: HttpRequest) -> Response:
        """Write commands, as a step of the trace that the request is part of, if it is."""
        parent = read_traceparent(request.headers.get(TRACEPARENT))
        if parent is None:
            return await self._written(command, request, {})
        topic = request.path_params["topic"]
        span = begin(command, topic, parent)
        status = 500
        try:
            place = parent if span is None else span.traceparent
            answer = await self._written(command, request, {TRACEPARENT: place})
            status = answer.status_code
        finally:
            if span is not None:
                span.end({"status": status}, None if status == 200 else f"answered with {status}")
        return answer

    async def _written(self, command: str, request: HttpRequest, more: Mapping[str, str]) -> Response:
        """Write commands; say where they are once Kafka has them, or what became of them once they are applied."""
        try:
            given = {**more} | _parameters(request, (*PARAMETERS, *_OWN_PARAMETERS.get(command, ()), "ack"))
            ack = given.pop("ack", "persisted")
            if ack not in ("persisted", "processed"):
                raise SowlineError("bad request", f"expected ack=persisted or ack=processed, got {ack!r}")
            body = await _body(request, self._settings.frame_bytes_max)
            topic, rights = request.path_params["topic"], _rights(request)
            size = len(body) + FILTER_CHAR_BYTES * len(given.get("filter", ""))
            writings = await aside(
                size, _posted, self._state, topic, command, given, body, _is_lines(request), rights
            )
        except SowlineError as error:
            return refused(error)
        self.rates.take(payer_of(request.scope), len(writings) - 1, time.monotonic())
        way = Way(self._backend.publishing, writings)
        try:
            await way.begin_with_turns()
            answer: dict[str, Any] = {"commands": len(writings), "bookmark": await way.persisted()}
            if ack == "processed":
                told = await way.told()
                answer |= {"outcomes": told.outcomes, "records_deleted": told.deleted}
                if command == DELTA:
                    answer["each"] = told.each
        except SowlineError as error:
            return refused(error)
        finally:
            way.end()
        return JSONResponse(answer)

    async def _query(self, request: HttpRequest) -> Query | GroupedQuery:
        fields = await _fields(request, self._settings.frame_bytes_max)
        asked = read_request(orjson.dumps({"command": "sow", "topic": request.path_params["topic"]} | fields))
        rights = _rights(request)
        about = await aside(reading_bytes(asked), asked_of, self._state, asked, rights)
        query = query_of(asked, about, self._backend.limits)
        await wait_for_past(self._backend, asked, rights)
        return query


def _rights(request: HttpRequest) -> Rights:
    """Return what whoever asks may do."""
    rights: Rights = request.state.identity.rights
    return rights


async def _send_away(socket: WebSocket, why: SowlineError) -> None:
    """Close a connection and say why; one that does not read its messages is not waited for."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS_MAX):
            await socket.close(POLICY, f"{why.reason}: {why.message}"[:REASON_CHARS_MAX])


def _about(visit: Visit) -> list[tuple[bytes, bytes]]:
    """Return the headers of a handshake's answer: what a client that has logged on by then should know."""
    about = {"Sowline-Version": __version__}
    if visit.user is not None:
        about["Sowline-Rights"] = visit.identity.rights.digest
    if visit.expires_in is not None:
        about["Sowline-Expires-In"] = f"{visit.expires_in:.3f}"
    return [(name.encode(), text.encode()) for name, text in about.items()]


def _address_of(socket: WebSocket) -> str:
    client = socket.client
    return "" if client is None else f"{client.host}:{client.port}"


def _readable_fields(read: Entitlements, topic: str) -> str | None:
    """Return the select list of what may be read of a topic's records; None where that is all, or nothing."""
    select = read.of(topic).select if topic in read else None
    return None if select is None else select.text


def _seconds_since(moment: int) -> float | None:
    """Return how long ago a time in ms since 1970 was, by this machine's clock; None where it is 0, for never."""
    return max(0.0, time.time() - moment / 1000) if moment else None


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


def _timeline_request(address: Address, request: HttpRequest) -> Request:
    """Return what a GET asks of a timeline; raises `bad request` for parameters that it does not have."""
    given: dict[str, Any] = dict(_parameters(request, TIMELINE_PARAMETERS))
    limit = given.get("limit", "")
    if limit.isascii() and limit.isdecimal():
        given["limit"] = int(limit)
    if given.get("reversed") in TRUTHS:
        given["reversed"] = TRUTHS[given["reversed"]]
    asked = {"command": "timeline", "topic": address.topic, "key": address.key, **given}
    return read_request(orjson.dumps(asked))


_OWN_PARAMETERS = {SOW_DELETE: SELECTORS, DELTA: (KEY,)}
"""Parameters of one command only."""


def _is_lines(request: HttpRequest) -> bool:
    """Whether a body is many records, one a line."""
    return request.headers.get("content-type", "").partition(";")[0].strip() == NDJSON


def _lines_of(body: bytes) -> list[bytes]:
    return [line.strip() for line in body.splitlines() if line.strip()]


def _posted(
    state: State,
    topic: str,
    command: str,
    given: Mapping[str, str],
    body: bytes,
    is_lines: bool,
    rights: Rights,
) -> list[Writing]:
    """Return the commands of a body: a record, or one a line; deltas for one document, or one a line."""
    if command != DELTA:
        records = _lines_of(body) if is_lines else [body] if body.strip() else []
        return posted_writes(state, topic, command, given, records, rights)
    if is_lines:
        return posted_lines(state, topic, given, _lines_of(body), rights)
    return posted_deltas(state, topic, given, body, rights)


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
