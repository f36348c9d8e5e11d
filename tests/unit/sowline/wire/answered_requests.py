"""Answers requests as a query service and a gateway do, without Kafka and sockets, and with a clock of its own."""

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from urllib.parse import quote, urlencode

import orjson
from starlette.applications import Starlette
from starlette.routing import Route
from websockets.protocol import State

from sowline.commands.command import Origin
from sowline.config.credentials import Credentials
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.model.bookmark_range import parse_bookmark_range
from sowline.model.select import parse_select
from sowline.runtime.connections import Connections
from sowline.serving import worker_thread
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.access.login_session import LoginSession
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read, to_write
from sowline.serving.authorization.identity import ANYBODY, Identity
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.event_stream import EventStreamApi
from sowline.serving.sessions.open_sessions import OpenSessions
from sowline.serving.sessions.session import Session
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.command_writer import CommandWriter
from sowline.wire.options import Options, parse_options
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.connections import ConnectionPool, NodeConnection
from sowline_gateway.nodes.http import NodeAnswer, NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import AnnouncedTopic, Announcement
from sowline_gateway.server.commands import GatewayCommands
from sowline_gateway.server.http_api import GatewayHttpApi
from sowline_query_service.query.timeline_read import TimelineAnswer, TimelineReader, TimelineRequest
from sowline_query_service.server.commands import ServiceCommands
from sowline_query_service.server.http_api import HttpApi
from sowline_query_service.subscriptions import bookmark_resolver, end
from tests.property.clock import ClockLoop, at_once
from tests.sessions import session_of
from tests.unit.query_service import sessions
from tests.unit.sowline.wire.recorded_requests import Asked, Json, recorded
from tests.waiting import loop_turns

RECORDED = Path(__file__).parent / "data" / "answers.jsonl.gz"
TOPICS = (
    "{name: orders, key: /id, partitions: 2, history: {window: 1h}, hash_indexes: [[/s]]},"
    " {name: prices, key: {from: header}, partitions: 1}, {name: docs, key: /id, documents: true, partitions: 1},"
    " {name: plain, sow: false, partitions: 1}"
)
SETTINGS = Settings()
SEEN = Entitlement("orders", select=parse_select("[-/,+/id,+/a]"))
READER = Rights(to_read(SEEN), to_write(SEEN))
NODE = "http://node"
SECONDS = 13_000
"""Milliseconds after which each wait for freshness is over."""


class World:
    """A query service with some records, and a gateway over one that is the same."""

    def __init__(self, loop: ClockLoop) -> None:
        self._loop = loop
        self.written: list[Json] = []
        self.asked_of_nodes: list[Json] = []
        self.service, self.node = _server(), _server()
        topics = {topic.name: topic for topic in self.service.topics.topics}
        announcements = Announcements([NODE], NodeHttp(Credentials()))
        nodes = NodeSet(topics, announcements, ConnectionPool(Credentials()))
        announced = {
            name: AnnouncedTopic(self.node.state.topics[name].positions, lag_seconds=0.0) for name in topics
        }
        announcements._known[NODE] = Announcement(NODE, "0/1", announced)
        announcements._described[NODE] = {name: {"records": 0} for name in topics}
        self.gateway = GatewayContext.of(nodes, NodeHttp(Credentials()), self.service.limits, {})

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let nothing leave this process."""
        with ExitStack() as stack:
            stack.enter_context(self.service.patched())
            for target, name, instead in (
                (time, "monotonic", self._loop.time),
                (asyncio, "to_thread", at_once),
                (worker_thread, "_thread", _AtOnce()),
                (CommandWriter, "write", lambda writer, command: self._write(command)),
                (ConnectionPool, "connect", lambda pool, url, rights: self._connect(rights)),
                (NodeHttp, "get", self._get),
                (TimelineReader, "read", _timeline),
                (bookmark_resolver, "log_offsets_at", _offsets_at),
                (end, "log_offsets_at", _offsets_at),
                (bookmark_resolver, "first_offsets", lambda kafka, topic: dict.fromkeys(topic.partitions, 0)),
                (bookmark_resolver, "last_offsets", lambda kafka, topic: dict.fromkeys(topic.partitions, 3)),
            ):
                stack.enter_context(patch.object(target, name, instead))
            yield

    # what leaves a service

    def _write(self, command: CheckedCommand) -> "asyncio.Future[Origin]":
        fields = command._replace(topic=command.topic.name)._asdict()  # type: ignore[arg-type]
        self.written.append({name: repr(value) for name, value in fields.items()})
        written = self._loop.create_future()
        written.set_result(Origin(max(0, command.partition), 99))
        return written

    async def _connect(self, rights: Rights) -> NodeConnection:
        return NodeConnection(NODE, cast("Any", NodeSocket(self, rights)))

    async def _get(self, url: str, path: str, query: str, rights: Rights) -> NodeAnswer:
        write = {"path": path, "query": query}
        answer = {
            "sow_key": "1",
            "bookmark": "docs:0@0",
            "since": "1970-01-01T00:00:00.000Z",
            "writes": [write],
        }
        return NodeAnswer(200, orjson.dumps(answer), {"content-type": "application/json"})

    # asking

    async def answers(self, asked: Asked) -> list[str]:
        """Return what is sent for some frames, one after the other, and what leaves the service."""
        if asked.api in ("http", "gateway http", "stream"):
            sent = await self._over_http(asked)
        else:
            sent = await self._over_websocket(asked)
        left = [*self.written, *self.asked_of_nodes]
        return sent + [json.dumps(one, sort_keys=True) for one in left]

    async def _over_websocket(self, asked: Asked) -> list[str]:
        session = self._session(asked.api)
        for frame in asked.frames:
            receiving = asyncio.ensure_future(session.receive(frame))
            await self._loop.tick(1 if receiving.done() else SECONDS)
            assert receiving.done()
        sent = await _taken(session.outbox)
        for server in (self.service, self.node):
            server.put({"id": 1, "a": 7, "s": "y"}, partition=0)
            server.put({"id": 4, "a": 1, "s": "x"}, partition=1)
            server.put(None, key=2, partition=1)
        await self._loop.tick(600)
        sent += await _taken(session.outbox)
        session.close()
        return sent

    def _session(self, api: str) -> Session:
        outbox = Outbox(1 << 20)
        if api == "gateway":
            login = LoginSession(Identity("", (), EVERYTHING, ANYBODY.proof))
            return Session(GatewayCommands(self.gateway, outbox, login), outbox, login)
        delegated = EVERYTHING if api == "of a gateway" else None
        rights = READER if api == "reader" else EVERYTHING
        identity = None if api == "stranger" else replace(ANYBODY, own_rights=rights, delegated=delegated)
        return session_of(self.service.context, outbox, LoginSession(identity))

    async def _over_http(self, asked: Asked) -> list[str]:
        given = json.loads(asked.frames[0])
        is_gateway = asked.api == "gateway http"
        commands = (
            partial(GatewayCommands, self.gateway)
            if is_gateway
            else partial(ServiceCommands, self.service.context)
        )
        open_sessions = OpenSessions(SETTINGS, commands, Connections(), Authenticator(None))
        rates, backlogs = Rates(0), open_sessions.backlogs
        served = (
            GatewayHttpApi(SETTINGS, self.gateway, rates, backlogs)
            if is_gateway
            else HttpApi(SETTINGS, self.service.context, rates, backlogs)
        )
        stream = Route("/v1/topics/{topic:path}/subscribe", EventStreamApi(open_sessions).endpoint)
        app = Starlette(routes=[stream, *served.routes])
        return await _exchanged(self._loop, app, given)


class _AtOnce(Executor):
    """Does in the event loop what would run in the worker thread."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """Do it, and return its result."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:
            done.set_exception(error)
        return done


class NodeSocket:
    """A connection of the gateway to the node."""

    def __init__(self, world: World, rights: Rights) -> None:
        self._world = world
        self._outbox = Outbox(1 << 20)
        login = LoginSession(replace(ANYBODY, own_rights=EVERYTHING, delegated=rights))
        self._session = session_of(world.node.context, self._outbox, login)
        self.state = State.OPEN

    async def send(self, frame: bytes, *, text: bool) -> None:
        """Let the node take a request."""
        self._world.asked_of_nodes.append(meaning(json.loads(frame)))
        await self._session.receive(frame)

    async def recv(self, *, decode: bool) -> bytes:
        """Return the next messages of the node."""
        return b"[%s]" % b",".join(await self._outbox.take())

    async def close(self) -> None:
        """End the session."""
        self.state = State.CLOSED
        self._session.close()


def meaning(request: Json) -> Json:
    """Return a request of a node with what its texts mean, however they are written."""
    options = parse_options(request.pop("options", ""))
    given = {name: getattr(options, name) for name in Options.__annotations__}
    plain = Options()
    request["options"] = {
        name: str(getattr(value, "text", value))
        for name, value in given.items()
        if value != getattr(plain, name)
    }
    if "order_by" in request:
        request["order_by"] = parse_order(request["order_by"]).text
    bookmark, up_to = request.pop("bookmark", ""), request.pop("up_to", "")
    try:
        request["range"] = repr(parse_bookmark_range(bookmark, up_to))
    except SowlineError as error:
        request["range"] = error.message
    if "replaces" in request:
        request["replaces"] = meaning(request["replaces"])
    return {name: value for name, value in request.items() if value is not False}


def _server() -> sessions.Server:
    with patch.object(sessions, "parse_topics", _parsed):
        server = sessions.Server(2, definition=TOPICS)
    topics = server.state.topics.items()
    server.state.loaded(
        [(f"{name}.changes", number) for name, topic in topics for number in topic.partitions]
    )
    for number in range(4):
        server.put({"id": number, "a": number % 3, "s": "xy"[number % 2]}, partition=number % 2)
    server.put({"id": 2, "a": 5, "s": "x"}, partition=0)
    server.put({"id": 3, "a": 5, "s": "y"}, partition=1)
    return server


_parsed = cache(parse_topics)


async def _taken(outbox: Outbox) -> list[str]:
    sent: list[bytes] = []
    while found := outbox.take_now():
        sent += found
        await loop_turns()
    return [message.decode("utf-8", "backslashreplace") for message in sent]


async def _timeline(reader: TimelineReader, wanted: TimelineRequest) -> TimelineAnswer:
    shown = (wanted.key, wanted.bookmark_range, wanted.writes_max, wanted.newest_first)
    return TimelineAnswer(wanted, "docs:0@0", 0, [orjson.dumps(repr(shown))] * 2)


def _offsets_at(kafka: Any, topic: Any, ms: int) -> dict[int, Any]:
    return {n: bookmark_resolver.LogOffsets(part.next_offset, 0) for n, part in topic.partitions.items()}


async def _exchanged(loop: ClockLoop, app: Any, given: Json) -> list[str]:
    """Return the status, the headers and the body of an answer; the client leaves after a while."""
    body = orjson.dumps(given["body"]) if "body" in given else b""
    path = quote(given["path"], safe="/")
    leaving = asyncio.Event()
    sent: list[Json] = []
    coming = [{"type": "http.request", "body": body, "more_body": False}]
    scope: Json = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST" if "body" in given else "GET",
        "scheme": "http",
        "path": given["path"],
        "raw_path": path.encode(),
        "query_string": urlencode(given["query"], doseq=True).encode(),
        "headers": [(b"host", b"localhost"), (b"last-event-id", given.get("last", "").encode())],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "state": {"identity": ANYBODY, "credentials": PresentedCredentials()},
    }

    async def receive() -> Json:
        if coming:
            return coming.pop()
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def send(message: Json) -> None:
        sent.append(message)

    answering = asyncio.ensure_future(app(scope, receive, send))
    await loop.tick(1)
    if not answering.done():
        await loop.tick(SECONDS)
    leaving.set()
    await loop.tick(1)
    start: Json = sent[0] if sent else {"status": 0, "headers": []}
    headers = sorted((name.decode(), text.decode()) for name, text in start["headers"])
    content = b"".join(one.get("body", b"") for one in sent[1:])
    return [json.dumps([start["status"], headers]), content.decode("utf-8", "backslashreplace")]


async def _answered(loop: ClockLoop, asked: Asked) -> list[str]:
    world = World(loop)
    with world.patched():
        answers = await world.answers(asked)
        await loop.end()
    return answers


def answers_to(requests: Sequence[Asked]) -> Iterator[list[str]]:
    """Yield the answers to each request, in a world of its own."""
    for asked in requests:
        loop = ClockLoop()
        try:
            yield loop.run_until_complete(_answered(loop, asked))
        finally:
            loop.close()


def written_down() -> list[list[str]]:
    """Return the answers that were written down."""
    return [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


if __name__ == "__main__":
    lines = b"".join(orjson.dumps(answer) + b"\n" for answer in answers_to(recorded()))
    RECORDED.write_bytes(gzip.compress(lines, mtime=0))
