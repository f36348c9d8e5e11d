"""The HTTP server: whose requests end where they seem to, and connections that never send the rest of one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import h11
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from sowline.runtime.connections import Connections
from sowline.runtime.http_server import HttpProtocol, HttpServer, StrictConnection, listening
from tests.waiting import pace

HOST = "127.0.0.1"
SECONDS = 0.3

lengths = st.lists(st.sampled_from(["5", "5", "0", "5, 5", "6"]), max_size=2)
codings = st.lists(st.sampled_from(["chunked", "Chunked", "identity", "gzip, chunked", ""]), max_size=2)


@given(lengths, codings, st.booleans(), st.sampled_from(["1.0", "1.1"]))
def test_the_length_of_a_body_is_reported_once(
    lengths: list[str], codings: list[str], length_first: bool, version: str
) -> None:
    """By a number, or by chunks; a request that says both is refused, and so are chunks before HTTP/1.1."""
    fields = [f"Content-Length: {one}" for one in lengths]
    more = [f"Transfer-Encoding: {one}" for one in codings]
    both = fields + more if length_first else more + fields
    head = "\r\n".join([f"POST / HTTP/{version}", "Host: localhost", *both, "", ""])
    connection = StrictConnection(h11.SERVER)
    connection.receive_data(head.encode())
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        assert connection.why
        return
    assert isinstance(event, h11.Request)
    assert not codings or (not lengths and version == "1.1" and codings[0].lower() == "chunked")


async def answers_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer without the body."""
    await PlainTextResponse("no", 401)(scope, receive, send)


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """Lend the port of a server that gives requests little time."""
    connections = Connections()
    config = uvicorn.Config(
        answers_at_once,
        http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]
        lifespan="off",
        log_config=None,
        log_level="warning",
    )
    server, listens = HttpServer(config, connections, SECONDS), listening(HOST, 0, connections)
    task = asyncio.create_task(server.serve(sockets=[listens]))
    try:
        yield listens.getsockname()[1]
    finally:
        server.should_exit = True
        await task


@pytest.mark.parametrize(
    "head", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"]
)
async def test_a_request_that_trickles_ends(head: bytes) -> None:
    """However often a byte of it comes, and also if it was answered without its body."""
    async with asyncio.timeout(60), serving() as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(head)
        reading = asyncio.create_task(reader.read())
        while not reading.done():
            writer.write(b"x" if head else b"")
            await pace(0.05)
        answer = b"" if reading.exception() is not None else reading.result()
        assert answer.partition(b"\r\n")[0][9:12] in (b"401" if head.startswith(b"POST") else b"408", b"")
        writer.close()
