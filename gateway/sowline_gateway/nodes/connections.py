"""Connections to query services, each with the rights of the clients that it is used for.

A query has its own connection while it runs. So a client that reads slowly slows only its own query: the gateway
stops reading from that connection. Afterwards another client with the same rights may use it.
"""

import asyncio
import errno
import socket as kernel
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET, TCP_KEEPCNT, TCP_KEEPINTVL

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.protocol import State

from sowline.config.credentials import Credentials
from sowline.config.proxies import proxy_of, via
from sowline.errors import SowlineError
from sowline.serving.authorization.delegation import headers_of
from sowline.serving.authorization.entitlements import Rights
from sowline.wire.node_queries import COMMAND_ID, NodeQuery, encode
from sowline_gateway.nodes.node_message import NodeMessage, messages_of

PROBE_AFTER_SECONDS = 3
PROBE_SECONDS = 2
PROBES_MAX = 3
"""When the kernel probes a silent connection, how often, and after how many unanswered probes it ends."""

PROBE_AFTER: int = getattr(kernel, "TCP_KEEPIDLE", 0x10)
"""The socket option for the first of these; macOS calls it TCP_KEEPALIVE."""

CONNECT_SECONDS_MAX = 5.0
CLOSE_SECONDS_MAX = 1.0
QUEUED_FRAMES = 1
"""Frames of a node that may wait in the gateway; a frame has up to a megabyte, or one record."""

IDLE_MAX = 16
"""The maximum number of idle connections to one node with the same rights."""

IDLE_SECONDS_MAX = 30.0
"""After this time an idle connection is closed, at the latest after twice as long."""


class NodeLost(Exception):
    """A node can't be reached, or its connection has ended."""


class ReusedConnectionEnded(NodeLost):
    """An idle connection ended before it was used again: the node itself may be healthy."""


class NodeConnection:
    """A WebSocket to a node. `ask` is for one command at a time; a `NodeChannel` has many on one connection."""

    def __init__(self, url: str, socket: ClientConnection) -> None:
        self.url = url
        self.is_idle = True
        """Whether the answer to the last command was read to its end, and another command may follow."""
        self.idle_since = 0.0
        """When it was returned to the pool, in seconds of the monotonic clock."""
        self._socket = socket
        self._is_reused = False
        self._has_answered = False

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._socket.state is State.OPEN

    def use_again(self) -> None:
        """Note that another query uses the connection from now on."""
        assert self.is_idle, "the answer to the last command has ended"
        self._is_reused, self._has_answered = True, False

    async def ask(self, request: NodeQuery, last: str) -> AsyncIterator[NodeMessage]:
        """Send a command; yield its answer up to the acknowledgement of type `last`, without an end if that is empty.

        Raise the node's error as `SowlineError`, and `NodeLost`.
        """
        # Until the answer has ended. A canceled query must not leave messages for the next one.
        self.is_idle = is_over = False
        await self.send(request)
        while not is_over:
            for message in await self.receive():
                if message.command == "ack" and message.command_id == COMMAND_ID:
                    is_over = message.status == "failure" or message.ack_type == last
                    # After a subscription, answers to commands about it may still arrive.
                    self.is_idle = is_over and bool(last)
                    if message.status == "failure":
                        raise SowlineError(message.reason, message.message)
                yield message

    async def receive(self) -> list[NodeMessage]:
        """Return the messages of the next frame; raise `NodeLost`."""
        try:
            frame = await self._socket.recv(decode=False)
        except (ConnectionClosed, OSError) as error:
            raise self._lost(error) from error
        self._has_answered = True
        return messages_of(frame)

    def _lost(self, error: Exception) -> NodeLost:
        # A node that restarts ends its idle connections. The next request fails, although the node is healthy again
        # (test_connections_that_ended_while_they_were_idle).
        kind = ReusedConnectionEnded if self._is_reused and not self._has_answered else NodeLost
        return kind(f"{self.url}: {error}")

    async def send(self, request: NodeQuery) -> None:
        """Send a command; raise `NodeLost`."""
        try:
            await self._socket.send(encode(request), text=True)
        except (ConnectionClosed, OSError) as error:
            raise self._lost(error) from error

    def cut(self) -> None:
        """End the connection without a goodbye: its reader gets `NodeLost`."""
        self._socket.transport.abort()

    async def close(self) -> None:
        """End the connection."""
        await self._socket.close()


class ConnectionPool:
    """The connections that are not in use, and new ones."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._idle: dict[tuple[str, str], list[NodeConnection]] = defaultdict(list)
        self._expiry: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._leased: set[NodeConnection] = set()

    @asynccontextmanager
    async def lease(self, url: str, rights: Rights) -> AsyncIterator[NodeConnection]:
        """Lend a connection to a node, which acts with these rights; raise `NodeLost`, or why it was refused."""
        key = url, rights.digest
        connection = self._reused(self._idle.get(key, [])) or await self.connect(url, rights)
        assert connection not in self._leased, "a connection has one user"
        self._leased.add(connection)
        try:
            yield connection
        finally:
            self._leased.discard(connection)
            if connection.is_idle and connection.is_open and len(self._idle[key]) < IDLE_MAX:
                self._keep(key, connection)
            else:
                self._start_closing(connection)

    def _keep(self, key: tuple[str, str], connection: NodeConnection) -> None:
        """Keep a connection for the next query with the same rights."""
        assert connection not in self._idle[key], "a connection is returned once"
        connection.idle_since = time.monotonic()
        self._idle[key].append(connection)
        if self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(IDLE_SECONDS_MAX, self._expire)

    @property
    def idle(self) -> int:
        """The number of connections that wait for a query."""
        return sum(map(len, self._idle.values()))

    def _expire(self) -> None:
        """Close the connections that were idle for too long.

        Rights change with the access file and with users: connections with those that nobody has any more would fill
        the sessions of all nodes (test_idle_connections_are_closed).
        """
        latest = time.monotonic() - IDLE_SECONDS_MAX
        for key, idle in list(self._idle.items()):
            # The newest is used first, so the oldest ones are in front.
            while idle and idle[0].idle_since <= latest:
                self._start_closing(idle.pop(0))
            if not idle:
                del self._idle[key]
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(IDLE_SECONDS_MAX, self._expire) if self._idle else None

    @staticmethod
    def _reused(idle: list[NodeConnection]) -> NodeConnection | None:
        while idle:
            connection = idle.pop()
            # A node that restarts ends its idle connections, and these stay in the list until they are popped.
            if connection.is_open:
                connection.use_again()
                return connection
        return None

    def cut(self, url: str) -> None:
        """End the connections of a node that has been silent for too long: it may be frozen."""
        for connection in self._leased:
            if connection.url == url:
                connection.cut()

    def forget(self, url: str) -> None:
        """Close the idle connections to a node that was lost."""
        for (of, _), idle in self._idle.items():
            if of == url:
                while idle:
                    self._start_closing(idle.pop())

    async def connect(self, url: str, rights: Rights) -> NodeConnection:
        """Return a new connection."""
        headers = [*(await self._credentials.headers(fresh=True)).items(), *headers_of(rights)]
        try:
            socket = await connect(
                f"ws{url.removeprefix('http')}/v1",
                additional_headers=headers,
                ssl=self._credentials.tls() if url.startswith("https:") else None,
                # A record that its topic allows must pass, whatever its size: nodes are trusted.
                max_size=None,
                max_queue=QUEUED_FRAMES,
                compression=None,
                proxy=proxy_of(url),
                # A gateway that waits for a slow client does not read: no pong would arrive. `cut` ends the
                # connections of a node that is frozen.
                ping_interval=None,
                open_timeout=CONNECT_SECONDS_MAX,
                close_timeout=CLOSE_SECONDS_MAX,
            )
            _probe(socket)
        except InvalidStatus as error:
            raise _refusal(error, url) from None
        except OSError as error:
            # The node is healthy: another node would be just as unreachable.
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise SowlineError(
                    "busy", "the gateway has no file descriptors left; try again later"
                ) from None
            raise NodeLost(f"{url}: {error}{via(url)}") from error
        except (InvalidHandshake, TimeoutError) as error:
            raise NodeLost(f"{url}: {error or type(error).__name__}{via(url)}") from error
        return NodeConnection(url, socket)

    def _start_closing(self, connection: NodeConnection) -> None:
        task = asyncio.get_running_loop().create_task(connection.close())
        # asyncio itself holds tasks weakly: without this, a connection might stay open.
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections, including those in use, and wait until they are closed."""
        if self._expiry is not None:
            self._expiry.cancel()
        for url in {url for url, _ in self._idle}:
            self.forget(url)
        for connection in self._leased:
            self._start_closing(connection)
        while self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)


def _probe(socket: ClientConnection) -> None:
    """Let the kernel probe the connection while nothing arrives.

    A node may vanish without a reset, and be back before it counts as silent: its subscriptions would hang
    (test_a_node_that_has_forgotten_its_connections).
    """
    tcp = socket.transport.get_extra_info("socket")
    tcp.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
    tcp.setsockopt(IPPROTO_TCP, PROBE_AFTER, PROBE_AFTER_SECONDS)
    tcp.setsockopt(IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS)
    tcp.setsockopt(IPPROTO_TCP, TCP_KEEPCNT, PROBES_MAX)


def _refusal(error: InvalidStatus, url: str) -> Exception:
    """Return the node's reason for a refused handshake."""
    try:
        answer = orjson.loads(error.response.body or b"")
        return SowlineError(answer["reason"], answer["message"])
    except (ValueError, LookupError, TypeError):
        return SowlineError("busy", f"a query service refused a connection of the gateway: {url}: {error}")
