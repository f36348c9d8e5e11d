"""Clients that vanish without a word, and clients that read nothing: only the first are dropped."""

import contextlib
import itertools
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sowline.runtime.connections import LOOKS, Connections
from sowline.runtime.http_server import listening
from sowline.runtime.silence import is_silent
from tests.unit.sowline.runtime.vanishing import vanish
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not report it")

HOST = "127.0.0.1"
SECONDS_MAX = 1.0


@contextlib.contextmanager
def connected(connections: Connections) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Lend a client with a small buffer, and its connection as a service has accepted it."""
    with listening(HOST, 0, connections) as listens, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listens.getsockname())
        accepted, _ = listens.accept()
        with accepted:
            accepted.setblocking(False)
            yield client, accepted


def fill(accepted: socket.socket) -> None:
    """Send until there is no room."""
    with contextlib.suppress(BlockingIOError):
        while True:
            accepted.send(bytes(1 << 16))


def probes_sent(accepted: socket.socket) -> int:
    """Return how often the kernel has asked a client that reads nothing whether it has room."""
    return accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 5)[4]


def test_a_client_that_vanishes_is_dropped() -> None:
    """Though it has read nothing before; the service's end is shut, so the loop closes it."""
    connections = Connections()
    with connected(connections) as (client, accepted):
        connections.of(accepted).become_session()
        fill(accepted)
        vanish(client)
        looks = itertools.count()

        def is_dropped() -> bool:
            connections.close_silent(SECONDS_MAX, next(looks))
            with contextlib.suppress(BlockingIOError):
                assert accepted.recv(1) == b""
                return True
            return False

        wait_for(is_dropped, "the connection to be dropped")
        assert next(looks) > LOOKS
        with pytest.raises(BrokenPipeError):
            accepted.send(b"x")


@dataclass
class Reported:
    """A socket of which the kernel reports this."""

    retransmitted: int
    probed: int
    silent_ms: int

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Return the first fields of `struct tcp_info`."""
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        return struct.pack("=BBBBBBBB13I", 1, 0, self.retransmitted, self.probed, *[0] * 16, self.silent_ms)[
            :size
        ]


@pytest.mark.parametrize(
    ("retransmitted", "probed", "silent_ms", "is_gone"),
    [
        (0, 0, 600_000, False),
        (3, 0, 600_000, False),
        (4, 0, 600_000, True),
        (9, 0, 60_000, False),
        (9, 0, 60_001, True),
        (0, 1, 119_000, False),
        (0, 2, 119_000, True),
        (0, 9, 60_000, False),
    ],
)
def test_what_the_kernel_reports(retransmitted: int, probed: int, silent_ms: int, is_gone: bool) -> None:
    """Neither an old answer to what was sent last is silence, nor are a few lost packets, nor is one probe."""
    assert is_silent(Reported(retransmitted, probed, silent_ms), 60) is is_gone


def test_a_client_that_reads_nothing_is_not_silent() -> None:
    """Its machine answers each probe, however rarely the kernel sends one."""
    connections = Connections()
    with connected(connections) as (client, accepted):
        fill(accepted)

        def is_probed() -> bool:
            assert not is_silent(accepted, SECONDS_MAX)
            return probes_sent(accepted) >= 4

        wait_for(is_probed, "the kernel to probe")
        for look in range(LOOKS):
            connections.close_silent(SECONDS_MAX, look)
        received = 0
        client.settimeout(10)
        while received < 1 << 16:
            received += len(client.recv(1 << 16))


def test_an_idle_client_is_not_silent() -> None:
    """Nothing was sent to it, so there is nothing to acknowledge."""
    with connected(Connections()) as (_, accepted):
        assert not is_silent(accepted, 0)


def test_a_socket_that_is_closed_is_not_silent() -> None:
    """The loop has seen its end already."""
    with connected(Connections()) as (_, accepted):
        accepted.close()
        assert not is_silent(accepted, 0)
