"""Tells a connection whose client has vanished from one whose client only reads slowly. Linux only."""

import socket
import struct
import sys
from typing import Protocol

RETRANSMITTED_MIN = 4
"""Retransmissions without an answer after which a client counts as silent: three seconds of them, at least.

The answer to a query that has waited for its turn may be the first that is sent for a minute. A packet of it may be
lost, and the last answer is old then (test_what_the_kernel_reports).
"""

PROBED_MIN = 2
"""Unanswered probes after which a client that reads nothing counts as silent.

The kernel waits up to two minutes between two probes. The client has answered nothing for that long, and one probe
may be on its way (test_what_the_kernel_reports).
"""

_TCP_INFO = struct.Struct("=2xBB52xI")
"""Fields of Linux's `struct tcp_info`: unanswered retransmissions and probes, and the last answer's age in ms."""


class TcpSocket(Protocol):
    """The method used of a socket."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return an option; raise OSError if the socket is closed."""


def is_silent(of: TcpSocket, seconds_max: float) -> bool:
    """Whether the peer has acknowledged nothing for this many seconds, although the kernel has sent or probed.

    TCP_USER_TIMEOUT would also end connections to clients that read nothing but acknowledge each probe.
    """
    if sys.platform != "linux":
        return False
    try:
        info = of.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return False  # closed, or no TCP
    retransmitted, probed, silent_ms = _TCP_INFO.unpack(info)
    is_unanswered = retransmitted >= RETRANSMITTED_MIN or probed >= PROBED_MIN
    return bool(is_unanswered and silent_ms > seconds_max * 1000)
