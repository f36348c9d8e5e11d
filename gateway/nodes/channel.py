"""A connection to a node on which the gateway itself sends many requests at a time, each with one answer."""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import structlog

from gateway.nodes.connections import ConnectionPool, NodeConnection, NodeLost, NodeMessage
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import EVERYTHING

log = structlog.get_logger()


class NodeChannel:
    """An open connection. Call `close`."""

    def __init__(self, connection: NodeConnection, lease: AsyncExitStack) -> None:
        self.url = connection.url
        connection.is_idle = False
        self._lease = lease
        self._connection = connection
        self._ids = map(str, itertools.count(1))
        self._answers: dict[str, asyncio.Future[NodeMessage]] = {}
        self._lost: NodeLost | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._lost is not None

    async def ask(self, request: Mapping[str, Any]) -> NodeMessage:
        """Return the first message that answers a request; raise the node's error, or `NodeLost`."""
        if self._lost is not None:
            raise self._lost
        command_id = next(self._ids)
        answer: asyncio.Future[NodeMessage] = asyncio.get_running_loop().create_future()
        self._answers[command_id] = answer
        try:
            await self._connection.send({**request, "command_id": command_id})
            return await answer
        finally:
            self._answers.pop(command_id, None)

    def send_soon(self, request: Mapping[str, Any]) -> None:
        """Send a request whose answer does not matter."""
        task = asyncio.get_running_loop().create_task(self._send(request))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, request: Mapping[str, Any]) -> None:
        with contextlib.suppress(NodeLost):
            await self._connection.send({**request, "command_id": next(self._ids)})

    async def _read(self) -> None:
        try:
            while True:
                for message in await self._connection.receive():
                    self._take(message)
        except NodeLost as lost:
            self._lose(lost)
        except Exception as error:
            log.exception("a query service sent what can't be read", url=self.url)
            self._lose(NodeLost(f"{self.url}: {error!r}"))

    def _lose(self, lost: NodeLost) -> None:
        self._lost = lost
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(lost)

    def _take(self, message: NodeMessage) -> None:
        answer = self._answers.get(message.command_id)
        if answer is None or answer.done():
            return
        if message.status == "failure":
            answer.set_exception(SowlineError(message.reason, message.message))
        else:
            answer.set_result(message)

    async def close(self) -> None:
        """Return the connection; requests without an answer get `NodeLost`."""
        self._reading.cancel()
        await asyncio.wait([self._reading, *self._sending])
        self._lose(NodeLost(f"{self.url}: the gateway stops"))
        await self._lease.aclose()


class NodeChannels:
    """A channel to each node, opened when it is first needed, and again after it was lost."""

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._open: dict[str, NodeChannel] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def to(self, url: str) -> NodeChannel:
        """Return the channel to a node; raise `NodeLost`, or why the node refuses it."""
        async with self._opening.setdefault(url, asyncio.Lock()):
            channel = self._open.get(url)
            if channel is None or channel.is_lost:
                await self._end(url)
                stack = AsyncExitStack()
                connection = await stack.enter_async_context(self._connections.lease(url, EVERYTHING))
                channel = self._open[url] = NodeChannel(connection, stack)
            return channel

    async def _end(self, url: str) -> None:
        if (channel := self._open.pop(url, None)) is not None:
            await channel.close()

    async def close(self) -> None:
        """End all channels."""
        for url in list(self._open):
            await self._end(url)
