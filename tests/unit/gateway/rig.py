"""A gateway over nodes that hold shards, and one query service that holds everything, with the same changes.

The nodes are query services without Kafka, behind real HTTP and WebSockets on this machine.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from socket import IPPROTO_TCP
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
import uvicorn

from sowline.changes.event import Event
from sowline.config.credentials import Credentials
from sowline.config.settings import Settings
from sowline.config.shard import Shard
from sowline.model.key import partition_of
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.ports import free_port
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import EVERYTHING, Rights
from sowline.serving.authorization.identity import ANYBODY, Identity
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import QueryLimits
from sowline.serving.sessions.session import Session
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.connections import ConnectionPool
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import Announcement
from sowline_gateway.server.commands import GatewayCommands
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.server.server import server_of
from tests.described import checked_message
from tests.property.clock import at_once
from tests.unit.query_service.sessions import Server
from tests.waiting import until

Json = dict[str, Any]
HOST = "127.0.0.1"
TCP_REPAIR = 19
SECONDS_MAX = 20.0


class Node:
    """A query service that holds a shard, and its HTTP server while it runs."""

    def __init__(self, shard: Shard, partitions: int, **options: Any) -> None:
        self.server = Server(partitions, shard=shard, **options)
        self.shard = shard
        self.port = free_port()
        self.context = self.server.context
        self._uvicorn: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Answer requests."""
        settings = Settings(shard=self.shard)
        health = cast("Any", SimpleNamespace())
        config = uvicorn.Config(
            server_of(settings, self.context, health).app,
            host=HOST,
            port=self.port,
            http=HttpProtocol,
            ws=Handshake,
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        config.load()
        self._uvicorn = server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Without `serve`: it looks ten times a second whether it should end, and most tests take less than that.
        await server.startup()

    def take(self, event: Event, partition: int) -> None:
        """Apply an event of the changes topic, if the node holds its partition."""
        if partition in self.server.topic.partitions:
            portions = [EventAtOffset(len(self.server.written[partition]), event)]
            self.server.take(event, partition)
            self.context.destination.take({("orders.changes", partition): portions})

    def forget_connections(self) -> None:
        """End all connections without a word, as a host does that loses power, and answer new ones."""
        assert self._uvicorn is not None
        for protocol in list(self._uvicorn.server_state.connections):
            if protocol.transport is not None:
                tcp = protocol.transport.get_extra_info("socket")
                try:
                    tcp.setsockopt(IPPROTO_TCP, TCP_REPAIR, 1)
                except PermissionError:
                    pytest.skip("needs the capability CAP_NET_ADMIN to end a connection without a reset")
                protocol.transport.abort()

    async def stop(self) -> None:
        """Cut all connections, and answer no more."""
        if self._uvicorn is None:
            return
        server, self._uvicorn = self._uvicorn, None
        for listening in server.servers:
            listening.close()
        for protocol in list(server.server_state.connections):
            if protocol.transport is not None:
                protocol.transport.abort()
        await until(lambda: not server.server_state.tasks, "the answers of a node that stops")


class Rig:
    """The gateway, its nodes, and the one query service that it must equal."""

    def __init__(self, partitions: int, nodes: Sequence[Node], limits: QueryLimits, **options: Any) -> None:
        self.partitions = partitions
        self.nodes = list(nodes)
        self.whole = Server(partitions, limits=limits, **options)
        self.limits = limits
        self.http = NodeHttp(Credentials())
        self.node_set = NodeSet({}, Announcements([], self.http), ConnectionPool(Credentials()))
        self.sessions: list[Session] = []

    @property
    def announced(self) -> dict[str, Announcement]:
        """What the gateway knows of the nodes, by their URLs; tests may change it."""
        return self.node_set.announcements._known

    def loaded(self) -> "Rig":
        """Say that all partitions are loaded."""
        for server in (self.whole, *(node.server for node in self.nodes)):
            server.loaded()
        return self

    def put(self, body: Json | None, key: object = None, of: Collection[Node] | None = None) -> None:
        """Apply a change of a record, or its deletion, in the partition of its key, on all nodes or on some."""
        text = str(key if body is None else body["id"])
        number = partition_of(text, self.partitions)
        for server in (self.whole, *(node.server for node in self.nodes if of is None or node in of)):
            if number in server.topic.partitions:
                server.put(body, key, number)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Rig"]:
        """Run the nodes, and wait until the gateway knows them."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop)
            await asyncio.gather(*(node.start() for node in self.nodes))
            announcements = Announcements([node.url for node in self.nodes], self.http)
            topics = {topic.name: topic for topic in self.whole.topics.topics}
            self.node_set = NodeSet(topics, announcements, ConnectionPool(Credentials()))
            self.context = GatewayContext.of(self.node_set, self.http, self.limits, {})
            stack.push_async_callback(self.node_set.close)
            stack.push_async_callback(self.http.close)
            following = asyncio.create_task(announcements.follow())
            stack.push_async_callback(self._end, following)
            async with asyncio.timeout(SECONDS_MAX):
                while len(announcements.nodes) < len(self.nodes):
                    await announcements.wait_for_news(1)
            yield self

    async def _stop(self) -> None:
        """Stop all nodes."""
        await asyncio.gather(*(node.stop() for node in self.nodes))

    async def _end(self, following: asyncio.Task[None]) -> None:
        """End all clients and the announcements, and wait for their tasks: no socket may stay open."""
        for session in self.sessions:
            session.close()
        following.cancel()
        await asyncio.wait([following])
        await self.context.streams.close()
        await self.node_set.channels.close()
        commands = [task for task in asyncio.all_tasks() if _name(task).startswith("CommandRunner.")]
        if commands:
            await asyncio.wait(commands, timeout=SECONDS_MAX)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let subscriptions of the nodes read their changes topics in memory."""
        servers = {id(node.server.topic): node.server for node in self.nodes}

        def read_range(kafka: Any, topic: str, partition: int, *given: Any) -> Iterator[list[Any]]:
            server = next(one for one in servers.values() if partition in one.topic.partitions)
            return server.read_range(kafka, topic, partition, *given)

        with (
            patch("sowline_query_service.subscriptions.catch_up.read_range", read_range),
            patch("asyncio.to_thread", at_once),
        ):
            yield

    def client(self, rights: Rights = EVERYTHING) -> "RigClient":
        """Return a client of the gateway."""
        login = LoginSession(Identity("", (), rights, ANYBODY.proof))
        outbox = Outbox(1 << 20)
        session = Session(GatewayCommands(self.context, outbox, login), outbox, login)
        self.sessions.append(session)
        return RigClient(session)

    def whole_client(self, rights: Rights = EVERYTHING) -> "RigClient":
        """Return a client of the one query service."""
        return RigClient(self.whole.connect(rights).session)


class RigClient:
    """A client that asks one command after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def ask(self, command: str, **fields: Any) -> list[Json]:
        """Return all messages that answer a command; its last acknowledgement must be requested or a failure."""
        given = {
            "command": command,
            "command_id": "1",
            "topic": "orders",
            "ack_type": "processed,completed,stats",
        }
        request = {name: value for name, value in (given | fields).items() if value is not None}
        if (waiting := self.session.receive_one(json.dumps(request).encode())) is not None:
            await waiting
        messages: list[Json] = []
        async with asyncio.timeout(SECONDS_MAX):
            while not messages or not _is_last(messages[-1], request["ack_type"]):
                messages += [
                    checked_message(json.loads(message)) for message in await self.session.outbox.take()
                ]
        return messages


def _name(task: asyncio.Task[Any]) -> str:
    """Return the name of the function that a task runs."""
    return getattr(task.get_coro(), "__qualname__", "")


def _is_last(message: Json, asked: str) -> bool:
    if message["command"] != "ack":
        return False
    return bool(message["status"] == "failure" or message["ack_type"] == asked.rpartition(",")[2])


@asynccontextmanager
async def rig(
    shards: Sequence[str],
    partitions: int = 4,
    limits: QueryLimits = QueryLimits(),
    **options: Any,
) -> AsyncIterator[Rig]:
    """Lend a running rig whose nodes hold these shards, such as `0/2`."""
    nodes = [
        Node(Shard(*map(int, shard.split("/"))), partitions, limits=limits, **options) for shard in shards
    ]
    async with Rig(partitions, nodes, limits, **options).loaded().running() as made:
        yield made
    # A socket that is left open fails this test, not a later one of the same process.
    gc.collect()
