"""The HTTP server of every service: uvicorn with strict framing, and with limits on requests and connections."""

import asyncio
import contextlib
import errno
import json
import socket
import sys
import time
from collections.abc import Generator
from typing import Any

import h11
import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from sowline.errors import SowlineError
from sowline.runtime.connections import Connection, Connections
from sowline.runtime.descriptors import Spares
from sowline.runtime.process import WAITING_CONNECTIONS_MAX, listener
from sowline.runtime.websocket_connection import LINGER_SECONDS
from sowline.runtime.websocket_handshake import Handshake

REQUEST_SECONDS_MAX = 30.0
"""The default limit, in seconds, for a request to arrive, and for a TLS handshake."""

SILENT_SECONDS_MAX = 60.0
"""The default limit, in seconds, for a client's machine to acknowledge nothing of what it is sent."""

ACCEPTED_A_TURN = 8
"""Connections accepted per turn of the event loop. A thousand at once would block the loop for too long. With one per
turn, a probe after two hundred clients waited for as many steps of their queries: 0.55 s, not 0.26 s (bench greedy).
"""

SPARES = 2
LOOK_TICKS = 10
"""Interval between checks for late requests, in uvicorn's ticks of 0.1 s."""


class StrictConnection(h11.Connection):
    """HTTP/1.1 that refuses requests whose body has no unambiguous length."""

    why = ""
    """The error in the request, set when `next_event` raises."""

    def next_event(self) -> Any:
        """Return the next event; raise `h11.RemoteProtocolError`, also if the length of a body is ambiguous."""
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                check_framing(event)
        except h11.RemoteProtocolError as error:
            self.why = str(error)
            raise
        return event


def check_framing(request: h11.Request) -> None:
    """Raise `h11.RemoteProtocolError` for a request whose end a proxy and this server could see differently."""
    # A proxy ends the request by its Content-Length, and this server by its Transfer-Encoding. The rest of the bytes
    # would be a second request, which the proxy never checked (test_the_length_of_a_body_is_reported_once).
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        raise h11.RemoteProtocolError("expected Content-Length or Transfer-Encoding, got both")
    if request.http_version < b"1.1":
        raise h11.RemoteProtocolError("expected no Transfer-Encoding before HTTP/1.1")


class HttpProtocol(H11Protocol):
    """One connection. An invalid request is answered with an error as JSON, and ends the connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        connections: Connections | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn: StrictConnection = StrictConnection(
            h11.SERVER, config.h11_max_incomplete_event_size or 16 * 1024
        )
        self._connections = connections or Connections()
        self._connection: Connection | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start, after the TLS handshake."""
        super().connection_made(transport)
        connection = self._connection = self._connections.of(transport.get_extra_info("socket"))
        connection.waits = self._waits
        connection.time_out = self._time_out
        self.app_state = {**self.app_state, "connection": connection}

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._connection is not None:
            self._connection.closed()
        super().connection_lost(exc)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _cut_later(self) -> None:
        """Abort the connection after `LINGER_SECONDS`, if its client does not read the last bytes."""
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if self._connection is not None:
            self._connection.since = time.monotonic()
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Pass the connection to a handshake."""
        if self._connection is not None:
            self._connection.stay()
        self.connections.discard(self)
        handshake = Handshake(self.config, self.server_state, self.transport)
        self.transport.set_protocol(handshake)
        handshake.begin(dict(self.scope), bytes(self.conn.trailing_data[0]))

    def _time_out(self) -> None:
        """End a connection whose request did not arrive in time."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        # An idle connection is closed without an answer: its client would take one for the answer to the request that
        # it sends next.
        has_begun = bool(self.conn.trailing_data[0]) or self.conn.our_state is h11.SEND_RESPONSE
        if has_begun:
            self._refuse(
                408,
                SowlineError(
                    "request timeout",
                    "expected the whole request within SOWLINE_REQUEST_SECONDS_MAX; send it again",
                ),
            )
        self.transport.close()
        self._cut_later()

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request, and end the connection."""
        self._refuse(400, SowlineError("bad request", self.conn.why or msg))

    def _refuse(self, status: int, error: SowlineError) -> None:
        # In any other state an answer has begun: the client would take this one for a part of its body.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"reason": error.reason, "message": error.message}).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            answer = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status])
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Listener(socket.socket):
    """A listening socket that can accept a connection even if no descriptor is free.

    It then closes the connection that has waited longest, and one of the spare descriptors that it holds for this.
    """

    def share(self, connections: Connections) -> None:
        """Count the connections accepted from now on in `connections`."""
        self._connections = connections
        self._spares = Spares(SPARES)
        self._ends_turn = False
        """Whether the next connection has to wait for another turn of the loop."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and its address; raise OSError, or BlockingIOError if one is free soon."""
        if self._ends_turn:
            self._ends_turn = False
            raise BlockingIOError
        try:
            accepted = super().accept()
            self._spares.refill()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            if self._spares.give_up():
                accepted = self._accept_with_spare()
            elif self._connections.give_way():
                raise BlockingIOError from None  # a descriptor is free once the loop has closed that connection
            else:
                raise
        self._connections.accept(accepted[0])
        return accepted

    def _accept_with_spare(self) -> tuple[socket.socket, Any]:
        # Without a free descriptor Linux does not say whether a client waits. If none does, no connection may give
        # way (test_health_is_answered_when_there_are_no_descriptors).
        try:
            accepted = super().accept()
        except BlockingIOError:
            self._spares.refill()
            raise
        self._connections.give_way()
        # The loop has not read the request of this connection yet. Another one would have it give way, unanswered.
        self._ends_turn = True
        return accepted

    def close(self) -> None:
        """Close the socket and its spare descriptors."""
        self._spares.close()
        super().close()


UNSENT_BYTES_MAX = 128 << 10
"""The maximum number of unsent bytes of a connection in the kernel. Bytes in flight do not count."""


def listening(host: str, port: int, connections: Connections | None = None) -> Listener:
    """Return a listening socket whose connections keep at most `UNSENT_BYTES_MAX` in the kernel; raise `no port`."""
    plain = listener(host, port)
    # Detached: the first object would close the descriptor when it is collected.
    made = Listener(plain.family, plain.type, plain.proto, plain.detach())
    made.share(connections or Connections())
    if sys.platform == "linux":
        # By default Linux buffers several MiB for each client that does not read
        # (test_little_waits_in_the_kernel_for_a_client_that_reads_nothing).
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
    return made


class HttpServer(uvicorn.Server):
    """A server that accepts `config.backlog` connections per turn of the event loop. Others wait in the kernel.

    The process handles signals, not the server.
    """

    def __init__(
        self,
        config: Config,
        connections: Connections | None = None,
        request_seconds_max: float = REQUEST_SECONDS_MAX,
        silent_seconds_max: float = SILENT_SECONDS_MAX,
    ) -> None:
        super().__init__(config)
        self._connections = connections or Connections()
        self._request_seconds_max = request_seconds_max
        self._silent_seconds_max = silent_seconds_max

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        # uvicorn has set the backlog to the number of connections per turn: restore it.
        for one in sockets or ():
            one.listen(WAITING_CONNECTIONS_MAX)

    def stop_listening(self) -> None:
        """Accept no further connection; those that exist stay until the server ends."""
        for server in getattr(self, "servers", ()):
            server.close()

    async def on_tick(self, counter: int) -> bool:
        """Time out connections whose request does not arrive or whose client is gone; return whether to stop."""
        if counter % LOOK_TICKS == 0:
            self._connections.close_late(self._request_seconds_max, time.monotonic())
            self._connections.close_silent(self._silent_seconds_max, counter // LOOK_TICKS)
        return await super().on_tick(counter)
