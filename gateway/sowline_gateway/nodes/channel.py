"""A connection to a node for many requests at a time, each with one answer, and for many subscriptions.

The gateway reads it as fast as the node sends. Code that takes a message must not wait for a client.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol

import structlog
from msgspec import structs

from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import EVERYTHING, Rights
from sowline.wire.node_queries import NodeQuery, end_of
from sowline_gateway.nodes.connections import ConnectionPool, NodeConnection, NodeLost
from sowline_gateway.nodes.node_message import NodeMessage

log = structlog.get_logger()

UNUSED_SECONDS = 1.0
"""How long a new channel may be without a user."""


class Follower(Protocol):
    """One subscription at a node."""

    def note_begun(self, message: NodeMessage) -> None:
        """Note that the subscription has begun, with the acknowledgement."""

    def note_lost(self) -> None:
        """Note that no more messages follow: the node was lost, or has ended the subscription."""


Deliver = Callable[[NodeMessage, Sequence[Any]], None]
"""Takes a message of one subscription or several, with their followers; at once, and in the order of the node."""


def not_followed(message: NodeMessage, followers: Sequence[Follower]) -> None:
    """Do nothing: no subscription is followed on these channels."""


class NodeChannel:
    """An open connection. Call `close`."""

    def __init__(
        self, name: tuple[str, str], connection: NodeConnection, lease: AsyncExitStack, deliver: Deliver
    ) -> None:
        self.name = name
        self.url = connection.url
        assert connection.is_idle, "no answer to an earlier command is on its way"
        # The pool must close it afterwards: late answers would go to the next user.
        connection.is_idle = False
        self.users = 0
        """The number of users; the last one that ends closes it."""
        self.is_closing = False
        self._lease = lease
        self._connection = connection
        self._deliver = deliver
        self._ids = map(str, itertools.count(1))
        self._answers: dict[str, asyncio.Future[NodeMessage]] = {}
        self._followers: dict[str, Follower] = {}
        self._lost: NodeLost | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._lost is not None

    async def ask(self, request: NodeQuery) -> NodeMessage:
        """Return the first message that answers a request; raise the node's error, or `NodeLost`."""
        return await self._ask(request, next(self._ids))

    async def _ask(self, request: NodeQuery, command_id: str) -> NodeMessage:
        if self._lost is not None:
            raise self._lost
        assert command_id not in self._answers, "each request has a number of its own"
        answer: asyncio.Future[NodeMessage] = asyncio.get_running_loop().create_future()
        self._answers[command_id] = answer
        try:
            await self._connection.send(request.named(command_id))
            return await answer
        finally:
            # Also after a cancellation: an answer that nobody takes would stay for as long as the channel.
            self._answers.pop(command_id, None)

    async def follow(self, request: NodeQuery, follower: Follower) -> str:
        """Begin a subscription, and return its name for `unfollow`; raise the node's error, or `NodeLost`.

        The follower gets its messages, the first ones before this returns.
        """
        name = next(self._ids)
        assert name not in self._followers, "each subscription has a name of its own"
        # Before the request: the first messages may be in the frame of the acknowledgement.
        self._followers[name] = follower
        try:
            await self._ask(structs.replace(request, sub_id=name, ack_type="processed"), name)
        except BaseException:
            self.unfollow(name)
            raise
        return name

    def unfollow(self, name: str) -> None:
        """End a subscription."""
        if self._followers.pop(name, None) is not None and not self.is_lost:
            self.send_soon(end_of(sub_id=name))

    def send_soon(self, request: NodeQuery) -> None:
        """Send a request whose answer does not matter."""
        task = asyncio.get_running_loop().create_task(self._send(request))
        # asyncio itself holds tasks weakly: one that nothing else refers to may vanish before it has sent anything.
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, request: NodeQuery) -> None:
        with contextlib.suppress(NodeLost):
            await self._connection.send(request.named(next(self._ids)))

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
            # A canceled request is still here until its task runs: setting its future would raise.
            if not answer.done():
                answer.set_exception(lost)
        # Taken out first: `note_lost` may call `unfollow`, which would change the dict while it is read.
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            follower.note_lost()
        assert not self._followers, "nobody follows a connection that has ended"

    def _take(self, message: NodeMessage) -> None:
        if message.sids:
            follower_of = self._followers.get
            found = [one for name in message.sids if (one := follower_of(name)) is not None]
            if found:
                self._deliver(message, found)
            return
        error = SowlineError(message.reason, message.message) if message.status == "failure" else None
        follower, answer = (
            self._followers.get(message.command_id),
            self._answers.get(message.command_id),
        )
        if answer is None or answer.done():
            # An error after the acknowledgement: the node has ended the subscription.
            if follower is not None and error is not None:
                del self._followers[message.command_id]
                follower.note_lost()
            return
        if error is not None:
            answer.set_exception(error)
            return
        if follower is not None:
            # At once: messages that need to know where it began may be in the same frame.
            follower.note_begun(message)
        answer.set_result(message)

    async def close(self) -> None:
        """Return the connection; requests without an answer get `NodeLost`, and followers, too."""
        self._reading.cancel()
        # `gather` would raise the cancellation, and the connection would never be returned.
        await asyncio.wait([self._reading, *self._sending])
        self._lose(NodeLost(f"{self.url}: the gateway stops"))
        await self._lease.aclose()


class NodeChannels:
    """One channel for each node and its rights, opened when it is first needed, and again after a loss."""

    def __init__(self, connections: ConnectionPool, deliver: Deliver = not_followed) -> None:
        self._connections = connections
        self._deliver = deliver
        self._open: dict[tuple[str, str], NodeChannel] = {}
        self._opening: dict[tuple[str, str], asyncio.Task[NodeChannel]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def to(self, url: str, rights: Rights = EVERYTHING) -> NodeChannel:
        """Return the channel to a node; raise `NodeLost`, or why the node refuses it.

        It stays open until `end_use` is called once for each call.
        """
        name = url, rights.digest
        channel = self._open.get(name)
        # During the wait, the channel may have been lost, or closed by its last user.
        while channel is None or channel.is_lost or channel.is_closing:
            opening = self._opening.get(name)
            if opening is None:
                opening = asyncio.get_running_loop().create_task(self._open_channel(name, url, rights))
                self._opening[name] = opening
                opening.add_done_callback(lambda done: self._note_opened(name, done))
            # One attempt for all waiters: otherwise each in turn would wait for a node that does not answer.
            channel = await asyncio.shield(opening)
        channel.users += 1
        return channel

    async def _open_channel(self, name: tuple[str, str], url: str, rights: Rights) -> NodeChannel:
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(self._connections.lease(url, rights))
        if (lost := self._open.get(name)) is not None:
            assert lost.is_lost, "a channel that can be used is not replaced"
            self._close(lost)
        channel = self._open[name] = NodeChannel(name, connection, stack, self._deliver)
        # All waiters may have given up.
        asyncio.get_running_loop().call_later(UNUSED_SECONDS, self._close_if_unused, channel)
        return channel

    def _note_opened(self, name: tuple[str, str], done: asyncio.Task[NodeChannel]) -> None:
        assert self._opening[name] is done, "there is one attempt at a time"
        del self._opening[name]
        if not done.cancelled():
            done.exception()  # each waiter gets it; without waiters, asyncio would log it

    def end_use(self, channel: NodeChannel) -> None:
        """Note that a user of a channel has ended; close the channel after the last one."""
        assert channel.users > 0, "each use ends once"
        channel.users -= 1
        self._close_if_unused(channel)

    def _close_if_unused(self, channel: NodeChannel) -> None:
        if not channel.users:
            self._close(channel)

    def _close(self, channel: NodeChannel) -> None:
        if self._open.get(channel.name) is channel:
            del self._open[channel.name]
        if not channel.is_closing:
            channel.is_closing = True
            task = asyncio.get_running_loop().create_task(channel.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all channels."""
        for opening in self._opening.values():
            opening.cancel()
        if self._opening:
            await asyncio.wait(list(self._opening.values()))
        # A copy: `_close` takes the channel out of the dict.
        for channel in list(self._open.values()):
            self._close(channel)
        while self._closing:
            await asyncio.wait(set(self._closing))
