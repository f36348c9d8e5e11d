"""Sessions over WebSockets: the order of commands, a service's mistake, and what an idle connection takes."""

import asyncio
import gc
import json
import socket
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from sowline.config.settings import Settings
from sowline.runtime.connections import Connections
from sowline.runtime.health import ServiceHealth
from sowline.runtime.http_server import HttpProtocol, HttpServer, listening
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving import app
from sowline.serving.sessions import websocket_api
from sowline.serving.sessions.session import Session
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.server import server_of
from tests.unit.query_service.sessions import Server
from tests.waiting import pace, until

HOST = "127.0.0.1"
HANDSHAKE = (
    b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
IDLE_BYTES_MAX = 8 * 1024 if sys.version_info < (3, 13) else 9 * 1024
"""Of a connection without a subscription: what the interpreter allocates, without the socket in the kernel.

Python 3.13 was seen to take 8.5 KB.
"""


class Well(ServiceHealth):
    """A service that has nothing to say of its health."""

    def not_started(self) -> str | None:
        """It has started."""
        return None

    not_ready = not_alive = not_started

    def metrics(self) -> list[Any]:
        """It measures nothing."""
        return []


class Served:
    """The web application of a service, its connections, and its port."""

    def __init__(self, web: app.Server, connections: Connections, port: int) -> None:
        self.web = web
        self.connections = connections
        self.port = port
        self.url = f"ws://{HOST}:{port}/v1"

    async def all_gone(self) -> None:
        """Wait until no connection is open."""
        await until(lambda: not self.connections.open)


@asynccontextmanager
async def serving(**given: Any) -> AsyncIterator[Served]:
    """Lend a query service without Kafka."""
    server, connections, settings = Server().loaded(), Connections(), Settings(**given)
    context = ServiceContext(server.state, server.dispatcher, {})
    web = server_of(settings, context, Well(), connections=connections)
    listens = listening(HOST, 0, connections)
    config = uvicorn.Config(
        web.app,
        http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]
        ws=Handshake,
        lifespan="off",
        log_config=None,
        log_level="critical",
    )
    http = HttpServer(config, connections)
    task = asyncio.create_task(http.serve(sockets=[listens]))
    try:
        async with asyncio.timeout(50):
            yield Served(web, connections, listens.getsockname()[1])
    finally:
        web.sessions.close_all()
        http.should_exit = True
        await task


def heartbeat(number: int) -> str:
    """Return a command that is answered at once."""
    return json.dumps({"command": "heartbeat", "command_id": str(number), "ack_type": "completed"})


async def test_a_message_that_comes_when_a_task_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is handled, though the task that read the message before it has ended and does not see it."""
    end_reading = websocket_api.ClientSocket._end_reading
    late = [heartbeat(2).encode()]

    def with_late(self: websocket_api.ClientSocket, task: Any) -> None:
        if late:
            self.received(late.pop())
        end_reading(self, task)

    monkeypatch.setattr(websocket_api.ClientSocket, "_end_reading", with_late)
    async with serving() as served, connect(served.url) as client:
        for number in (1, 3):
            await client.send(heartbeat(number))
        ids: list[str] = []
        while not {"1", "2", "3"} <= set(ids):
            answer = json.loads(await client.recv())
            ids += [one["command_id"] for one in (answer if isinstance(answer, list) else [answer])]


async def test_commands_are_handled_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """One frame after the other, even if one takes long and many come meanwhile."""
    receive = Session.receive

    async def slowly(self: Session, frame: bytes) -> int:
        await pace(0.001)
        return await receive(self, frame)

    monkeypatch.setattr(Session, "receive", slowly)
    async with serving() as served, connect(served.url) as client:
        for number in range(30):
            await client.send(heartbeat(number))
        answered: list[int] = []
        while len(answered) < 30:
            messages = json.loads(await client.recv())
            answered += [
                int(one["command_id"])
                for one in (messages if isinstance(messages, list) else [messages])
                if one["command"] == "ack"
            ]
        assert answered == list(range(30))


@pytest.mark.parametrize("is_cut", [True, False])
async def test_commands_before_the_end_are_handled(monkeypatch: pytest.MonkeyPatch, is_cut: bool) -> None:
    """Even if the client has read none of its answers when it leaves; then the session ends."""
    handled: list[bytes] = []
    receive = Session.receive

    async def slowly(self: Session, frame: bytes) -> int:
        await pace(0.001)
        handled.append(frame)
        self.outbox.put(b"x" * 100_000)
        return await receive(self, frame)

    monkeypatch.setattr(Session, "receive", slowly)
    frames = [Frame(Opcode.TEXT, heartbeat(number).encode()) for number in range(100)]
    if not is_cut:
        frames.append(Frame(Opcode.CLOSE, b""))
    async with serving(backlog_bytes_max=200_000) as served:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(HANDSHAKE + b"".join(frame.serialize(mask=True) for frame in frames))
        await reader.readuntil(b"\r\n\r\n")
        writer.close() if is_cut else writer.write_eof()
        await until(lambda: len(served.web.sessions) == 0)
        writer.close()
        assert len(handled) == 100
        await served.all_gone()


async def test_a_mistake_of_the_service_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the code for it; the session ends, and others go on."""

    async def fails(self: Session, frame: bytes) -> int:
        raise ValueError("a mistake")

    async with serving() as served, connect(served.url) as other:
        async with connect(served.url) as client:
            monkeypatch.setattr(Session, "receive", fails)
            await client.send(heartbeat(1))
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1011
            monkeypatch.undo()
        await other.send(heartbeat(2))
        assert b'"2"' in await other.recv(decode=False)
        assert len(served.web.sessions) == 1


async def test_an_idle_connection_is_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regularly, by one task for all."""
    monkeypatch.setattr(websocket_api, "PING_SECONDS", 0.05)
    async with serving() as served:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(4) == b"\x89\x00" * 2
        writer.close()
        await served.all_gone()


async def test_a_connection_that_was_sent_something_is_not_pinged() -> None:
    """Until nothing was sent for a whole interval."""
    async with serving() as served:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(HANDSHAKE + Frame(Opcode.TEXT, heartbeat(1).encode()).serialize(mask=True))
        await reader.readuntil(b"]")
        (served_socket,) = served.web.sessions._open
        assert isinstance(served_socket, websocket_api.ClientSocket)
        served_socket.ping_if_quiet()
        writer.write(Frame(Opcode.TEXT, heartbeat(2).encode()).serialize(mask=True))
        assert b"\x89" not in await reader.readuntil(b"]")
        served_socket.ping_if_quiet()
        served_socket.ping_if_quiet()
        assert await reader.readexactly(2) == b"\x89\x00"
        writer.close()
        await served.all_gone()


async def test_the_sessions_are_closed_at_once() -> None:
    """Each client gets a close frame, also one that reads nothing, and the server waits for none."""
    async with serving() as served:
        clients = [await connect(served.url) for _ in range(3)]
        assert (len(served.web.sessions), served.connections.sessions) == (3, 3)
        served.web.sessions.close_all()
        assert len(served.web.sessions) == 0
        for client in clients:
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert (client.close_code, client.close_reason) == (1001, "the server is stopping")
        await served.all_gone()


async def test_an_idle_connection_takes_little() -> None:
    """A service has thousands of them."""
    async with serving() as served:
        loop = asyncio.get_running_loop()

        async def open_some(count: int) -> list[socket.socket]:
            opened = []
            for _ in range(count):
                made = socket.create_connection((HOST, served.port))
                made.setblocking(False)
                await loop.sock_sendall(made, HANDSHAKE)
                assert (await loop.sock_recv(made, 1000)).startswith(b"HTTP/1.1 101")
                opened.append(made)
            return opened

        warm = await open_some(20)
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            opened = await open_some(100)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # Before it is judged: sockets that a failure leaves behind fail a later test of the process.
        for one in (*warm, *opened):
            one.close()
        assert (held - before) / 100 < IDLE_BYTES_MAX
        await served.all_gone()
        assert len(served.web.sessions) == 0
