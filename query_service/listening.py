"""How the service listens: one new connection a turn, and little that waits in the kernel for a slow client."""

import socket
import sys

import uvicorn

from sowline.process import BACKLOG, listener

ACCEPTED_A_TURN = 1
"""Connections taken before others in the event loop get a turn: a thousand at once would else be one long step."""

UNSENT_BYTES_MAX = 128 << 10
"""Of a connection, which wait in the kernel: what is on its way to the client does not count."""


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises `no port`. Connections that it accepts have little unsent.

    By itself, Linux keeps some MiB for each: they are copied for a client that does not read, for nothing.
    """
    made = listener(host, port)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
    return made


class Accepting(uvicorn.Server):
    """A server that accepts `config.backlog` connections a turn, while others wait in the kernel, and not refused."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen; that sets how many may wait to the number a turn, which is put right."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)
