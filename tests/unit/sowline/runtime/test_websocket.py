"""A WebSocket over a socket: its handshake, its messages, a client that does not read, and all ways to end."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from sowline.runtime import websocket_connection
from sowline.runtime.connections import Connections
from sowline.runtime.http_server import HttpProtocol, HttpServer, listening
from sowline.runtime.websocket_connection import WebSocketConnection
from sowline.runtime.websocket_handshake import Handshake
from tests.unit.sowline.runtime.vanishing import vanish
from tests.waiting import loop_turns, until

HOST = "127.0.0.1"
BYTES_MAX = 100_000
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


class Echo(WebSocketConnection):
    """Answers each message with itself, and notes what happens."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.times_resumed = 0
        self.end = asyncio.Event()
        self.times_ended = 0

    def received(self, message: bytes) -> None:
        """Answer."""
        self.taken.append(message)
        self.send(message)

    def resumed(self) -> None:
        """Count."""
        self.times_resumed += 1

    def ended(self) -> None:
        """Note the end."""
        self.times_ended += 1
        self.end.set()


class Site:
    """A server, and the connections that its application has accepted."""

    def __init__(self, connections: Connections, port: int) -> None:
        self.connections = connections
        self.port = port
        self.asked = 0
        self.accepted: list[Echo] = []
        self.may_accept = asyncio.Event()
        self.may_accept.set()

    @property
    def url(self) -> str:
        """The address for WebSockets."""
        return f"ws://{HOST}:{self.port}/"

    async def accept(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept every client as a session, once that may be."""
        self.asked += 1
        await self.may_accept.wait()
        scope["state"]["connection"].become_session()
        self.accepted.append(Echo())
        scope["state"]["handshake"].accept(self.accepted[-1], [(b"Sowline-Test", b"yes")])

    async def all_gone(self) -> None:
        """Wait until no connection is open."""
        await until(lambda: not self.connections.open)


@asynccontextmanager
async def site(app: ASGIApp | None = None) -> AsyncIterator[Site]:
    """Lend a server with this application, or with one that accepts everybody."""
    connections = Connections()
    listens = listening(HOST, 0, connections)
    made = Site(connections, listens.getsockname()[1])
    config = uvicorn.Config(
        app or made.accept,
        http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]
        ws=Handshake,
        ws_max_size=BYTES_MAX,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="critical",
    )
    server = HttpServer(config, connections)
    task = asyncio.create_task(server.serve(sockets=[listens]))
    try:
        async with asyncio.timeout(50):
            yield made
    finally:
        server.should_exit = True
        await task


async def closed(client: ClientConnection) -> tuple[int, str]:
    """Wait until the server closes, and return its code and reason."""
    with pytest.raises(ConnectionClosed):
        await client.recv()
    assert client.close_code is not None
    return client.close_code, client.close_reason or ""


async def test_messages_go_both_ways() -> None:
    """Also large ones, cut ones, and between pings; then the client leaves."""
    async with site() as server:
        async with connect(server.url, compression=None) as client:
            assert client.response is not None
            assert client.response.headers["Sowline-Test"] == "yes"
            assert len(client.response.headers.get_all("Date")) == 1
            texts = ["small", "ä" * 300, "large" * 15_000]
            for text in texts:
                await client.send(text)
                await (await client.ping())
                assert await client.recv() == text
            await client.send(["in ", "parts"])
            assert await client.recv() == "in parts"
            assert server.connections.sessions == 1
        (echo,) = server.accepted
        assert (client.close_code, echo.times_ended) == (1000, 1)
        await server.all_gone()
        assert echo.times_ended == 1


async def test_the_service_closes() -> None:
    """With a code and a reason, behind what was sent; what the client says then is not heard."""
    async with site() as server, connect(server.url) as client:
        await client.send("first")
        assert await client.recv() == "first"
        (echo,) = server.accepted
        echo.send(b"last")
        echo.close(1008, "rights changed")
        echo.close(1001, "again")
        echo.ping()
        assert await client.recv() == "last"
        assert await closed(client) == (1008, "rights changed")
        await server.all_gone()
        assert (echo.taken, echo.times_ended) == ([b"first"], 1)


async def test_a_ping_reaches_the_client() -> None:
    """Which answers it, and stays."""
    async with site() as server, connect(server.url) as client:
        await client.send("first")
        await client.recv()
        server.accepted[0].ping()
        await client.send("second")
        assert await client.recv() == "second"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (Frame(Opcode.TEXT, b"\xff"), 1007),
        (Frame(Opcode.CONT, b""), 1002),
        (Frame(Opcode.BINARY, b"x" * (BYTES_MAX + 1)), 1009),
    ],
)
async def test_a_broken_frame_ends_the_connection(frame: Frame, code: int) -> None:
    """With the code that says what was wrong with it."""
    async with site() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(REQUEST + b"\r\n" + frame.serialize(mask=True))
        answer = await reader.read()
        assert answer.partition(b"\r\n\r\n")[2][2:4] == code.to_bytes(2, "big")
        await server.all_gone()
        assert (server.accepted[0].taken, server.accepted[0].times_ended) == ([], 1)
        writer.close()


async def test_what_comes_before_the_answer_is_kept() -> None:
    """With the request, and while the application thinks."""
    async with site() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        frames = [Frame(Opcode.TEXT, text).serialize(mask=True) for text in (b"one", b"two", b"three")]
        server.may_accept.clear()
        writer.write(REQUEST + b"\r\n" + frames[0][:4])
        await until(lambda: server.asked)
        writer.write(frames[0][4:] + frames[1])
        await loop_turns(10)
        server.may_accept.set()
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frames[2])
        expected = b"\x81\x03one\x81\x03two\x81\x05three"
        assert await reader.readexactly(len(expected)) == expected
        writer.transport.abort()
        await server.accepted[0].end.wait()
        await server.all_gone()


async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds back what is sent to it. When it has to leave, it gets some time to read the last bytes, and no more."""
    monkeypatch.setattr(websocket_connection, "LINGER_SECONDS", 0.1)
    async with site() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port, limit=1000)
        writer.write(REQUEST + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        (echo,) = server.accepted
        while echo.can_write:
            echo.send(b"x" * 50_000)
            await loop_turns()
        echo.ping()
        taken = len(head)
        while not echo.can_write:
            taken += len(await reader.read(1 << 20))
        assert echo.times_resumed == 1
        while echo.can_write:
            echo.send(b"x" * 50_000)
            await loop_turns()
        echo.close(1008, "too slow")
        assert echo.times_ended == 1
        await server.all_gone()
        assert (echo.times_resumed, echo.times_ended) == (1, 1)
        writer.transport.abort()


async def test_a_client_that_has_gone_before_the_answer() -> None:
    """Is accepted into nothing: its session ends at once."""
    async with site() as server:
        _, writer = await asyncio.open_connection(HOST, server.port)
        server.may_accept.clear()
        writer.write(REQUEST + b"\r\n")
        await until(lambda: server.asked)
        writer.transport.abort()
        await loop_turns(10)
        server.may_accept.set()
        await until(lambda: server.accepted)
        await server.accepted[0].end.wait()
        await server.all_gone()
        assert server.accepted[0].times_ended == 1


async def deny(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse with a status and a body."""
    assert (await receive())["type"] == "websocket.connect"
    headers = [(b"content-length", b"4"), (b"content-type", b"text/plain")]
    await send({"type": "websocket.http.response.start", "status": 503, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b"bu", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"sy"})
    assert (await receive())["type"] == "websocket.disconnect"


async def forbid(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse as routers do that have no such path."""
    await send({"type": "websocket.close"})


async def fail(scope: Scope, receive: Receive, send: Send) -> None:
    """Raise."""
    raise ValueError("a mistake")


async def forget(scope: Scope, receive: Receive, send: Send) -> None:
    """Give no answer."""


@pytest.mark.parametrize(
    ("app", "status", "body"),
    [
        (deny, 503, b"busy"),
        (forbid, 403, b""),
        (fail, 500, b"Internal Server Error"),
        (forget, 500, b"Internal Server Error"),
    ],
)
async def test_refusals(app: Callable[..., Awaitable[Any]], status: int, body: bytes) -> None:
    """Are answers of HTTP, also if the application has a mistake."""
    async with site(app) as server:
        with pytest.raises(InvalidStatus) as error:
            await connect(server.url)
        answer = error.value.response
        assert (answer.status_code, answer.body) == (status, body)
        assert answer.headers["Connection"] == "close"
        assert len(answer.headers.get_all("Date")) == 1
        await server.all_gone()


@pytest.mark.parametrize("reason", ["origin refused: a page", None])
async def test_accepted_only_to_be_closed(reason: str | None) -> None:
    """As a browser needs it to see the reason; also if the application forgets to close."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        if reason is not None:
            await send({"type": "websocket.close", "code": 4403, "reason": reason})

    async with site(app) as server, connect(server.url) as client:
        assert await closed(client) == ((1000, "") if reason is None else (4403, reason))
        await server.all_gone()


@pytest.mark.parametrize(
    ("request_line", "more", "status"),
    [
        (b"GET / HTTP/1.1", b"Content-Length: 5\r\n", b"400"),
        (b"GET / HTTP/1.1", b"Transfer-Encoding: chunked\r\n", b"400"),
        (b"GET / HTTP/1.1", b"Sec-WebSocket-Key: BBBBBBBBBBBBBBBBBBBBBB==\r\n", b"400"),
        (b"GET / HTTP/1.1", b"Content-Length: 0\r\n", b"101"),
        (b"POST / HTTP/1.1", b"Content-Length: 0\r\n", b"405"),
        (b"GET / HTTP/1.0", b"", b"505"),
    ],
)
async def test_a_handshake_is_a_plain_request(request_line: bytes, more: bytes, status: bytes) -> None:
    """Without a body, and with one key."""
    async with site() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(request_line + REQUEST[14:] + more + b"\r\n")
        assert (await reader.readline())[9:12] == status
        writer.close()
        await server.all_gone()


async def test_the_server_stops() -> None:
    """Connected clients get a close frame, and connections whose handshake is not complete are aborted."""
    stuck = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stuck":
            stuck.set()
            assert (await receive())["type"] == "websocket.connect"
            await receive()
        else:
            scope["state"]["handshake"].accept(Echo())

    async with site(app) as server:
        client = await connect(server.url)
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(REQUEST.replace(b"/", b"/stuck", 1) + b"\r\n")
        await stuck.wait()
    assert await closed(client) == (1012, "")
    assert await reader.read() == b""
    writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not report it")
@pytest.mark.parametrize("bytes_sent", [1, 1 << 22], ids=["idle", "more than fits"])
async def test_a_client_that_vanishes_is_gone(bytes_sent: int) -> None:
    """Its session ends, and so does its connection, also if much waits for it."""
    async with site() as server:
        client = await connect(server.url, compression=None)
        (echo,) = server.accepted
        vanish(client.transport.get_extra_info("socket"))
        echo.send(bytes(bytes_sent))
        assert echo.can_write == (bytes_sent == 1)
        looks = itertools.count()

        def has_ended() -> bool:
            server.connections.close_silent(1.0, next(looks))
            return echo.end.is_set()

        await until(has_ended)
        await server.all_gone()
        client.transport.abort()
