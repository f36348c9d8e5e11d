"""Requests to nodes by HTTP."""

import asyncio
import gc

import pytest

from sowline.config.credentials import Credentials
from sowline.runtime.ports import HOST
from sowline_gateway.nodes import http
from sowline_gateway.nodes.http import NodeHttp
from tests.waiting import loop_turns, until


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancelled_request_leaves_no_connection_open(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request closes the connections that were idle for too long; it may be cancelled while it does."""
    servers = [await asyncio.start_server(answer, HOST, 0) for _ in range(3)]
    urls = [f"http://{HOST}:{server.sockets[0].getsockname()[1]}" for server in servers]
    nodes = NodeHttp(Credentials())
    await asyncio.gather(*(nodes.ask_announcement(url, 2) for url in urls))
    monkeypatch.setattr(http, "IDLE_SECONDS_MAX", -1.0)
    request = asyncio.create_task(nodes.ask_announcement(urls[0], 2))
    await loop_turns(steps)
    request.cancel()
    await asyncio.wait([request])
    await nodes.close()
    for server in servers:
        server.close()
    await until(lambda: len(asyncio.all_tasks()) == 1, "the servers' ends to be closed")
    await loop_turns(10)
    gc.collect()  # warns of a socket that is left open, which fails the test
