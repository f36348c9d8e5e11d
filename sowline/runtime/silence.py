"""Tells a connection whose client has vanished from one whose client only reads slowly. Linux only."""

import socket
import struct
import sys
from typing import Protocol

UNANSWERED_MIN = 2
"""Unanswered attempts of the kernel after which a client counts as silent.

For a client that reads nothing the kernel waits up to two minutes between two probes. Such a client has answered
nothing for long, and one attempt may be on its way (test_a_client_that_reads_nothing_is_not_silent).
"""

_TCP_INFO = struct.Struct("=2xBB52xI")
"""Of Linux's `struct tcp_info`: retransmissions and probes without an answer, and the last answer's age in ms."""


class TcpSocket(Protocol):
    """The method used of a socket."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return an option; raise OSError if the socket is closed."""


def is_silent(of: TcpSocket, seconds_max: float) -> bool:
    """Whether the peer has acknowledged nothing for so long, although the kernel has sent or probed repeatedly.

    TCP_USER_TIMEOUT would also end connections to clients that read nothing but acknowledge each probe.
    """
    if sys.platform != "linux":
        return False
    try:
        info = of.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return False  # closed, or no TCP
    retransmitted, probed, silent_ms = _TCP_INFO.unpack(info)
    return bool(silent_ms > seconds_max * 1000 and max(retransmitted, probed) >= UNANSWERED_MIN)
