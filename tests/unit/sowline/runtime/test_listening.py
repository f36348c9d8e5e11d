"""Listening: many connections at once, and clients that read nothing."""

import asyncio
import contextlib
import itertools
import socket
import sys
from contextlib import ExitStack

import pytest
import uvicorn
from starlette.applications import Starlette

from sowline.runtime.http_server import ACCEPTED_A_TURN, HttpServer, listening
from tests.waiting import as_soon_as, loop_turns

HOST = "127.0.0.1"
CROWD = 50
SENT_MAX = 1 << 20
"""What the kernel takes for a client that reads nothing: else it is several MiB, here."""


def test_what_is_sent_goes_at_once() -> None:
    """A small frame does not wait for the acknowledgement of the one before."""
    with ExitStack() as stack:
        listens = stack.enter_context(listening(HOST, 0))
        stack.enter_context(socket.create_connection(listens.getsockname(), timeout=5))
        accepted = stack.enter_context(listens.accept()[0])
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_crowd_is_let_in_a_few_at_a_time() -> None:
    """All may wait in the kernel; each turn of the loop takes some of them."""
    config = uvicorn.Config(Starlette(), backlog=ACCEPTED_A_TURN, log_level="critical")
    server = HttpServer(config)
    with ExitStack() as stack:
        listens = stack.enter_context(listening(HOST, 0))
        serving = asyncio.create_task(server.serve(sockets=[listens]))
        await as_soon_as(lambda: server.started)
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection(listens.getsockname(), timeout=5))
        connections, counts = server.server_state.connections, [0]
        async with asyncio.timeout(10):
            while len(connections) < CROWD:
                await loop_turns()
                counts.append(len(connections))
        assert max(after - before for before, after in itertools.pairwise(counts)) == ACCEPTED_A_TURN
        server.should_exit = True
        await serving


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have a buffer of a fixed size")
def test_little_waits_in_the_kernel_for_a_client_that_reads_nothing() -> None:
    """The sender soon finds that there is no room."""
    with listening(HOST, 0) as listens, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listens.getsockname())
        accepted, _ = listens.accept()
        with accepted:
            accepted.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 16 * SENT_MAX:
                    sent += accepted.send(bytes(1 << 16))
            assert sent < SENT_MAX
