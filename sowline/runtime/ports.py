"""Ports on loopback: one that is free, and whether one is taken."""

import random
import socket

from sowline.errors import SowlineError

HOST = "127.0.0.1"
# Below the range that Linux takes outgoing connections' ports from, so that none of those takes the port between
# the choice and the use.
PORTS = range(20_000, 32_000)
TRIES_MAX = 100


_given: set[int] = set()


def free_port() -> int:
    """Return a loopback port that nothing is bound to now; none twice in one process, until all were given.

    The caller binds the port a moment later. A second caller with the same port would reach the first one's server.
    """
    if len(_given) > len(PORTS) - TRIES_MAX:
        _given.clear()
    for port in random.sample([port for port in PORTS if port not in _given], TRIES_MAX):
        if is_free(port):
            _given.add(port)
            return port
    raise SowlineError(
        "no port", f"expected a free port on {HOST}, but {TRIES_MAX} of {PORTS} were taken: free one"
    )


def is_free(port: int) -> bool:
    """Return whether a server could bind to `port` now; connections that linger from an earlier one don't count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def is_listening(port: int) -> bool:
    """Return whether a process accepts connections on `port` now."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
