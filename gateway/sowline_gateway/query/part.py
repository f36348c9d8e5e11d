"""One node's part of an answer: its instant, its records, and its counts."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from sowline.model.bookmark import EPOCH, Positions, PositionsByLog, parse_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.wire.node_queries import COMMAND_ID, NodeQuery, fetch_of
from sowline.wire.request import Sow
from sowline_gateway.nodes.connections import (
    ConnectionPool,
    NodeConnection,
    NodeLost,
)
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.nodes.routing import Route, Share


def begun_at(message: NodeMessage) -> PositionsByLog:
    """Return the positions at which a node has begun, from its acknowledgement."""
    # Started again as another shard, it may hold no partition of these topics.
    return {} if message.bookmark == EPOCH else parse_bookmark(message.bookmark)


@dataclass(slots=True)
class Batch:
    """Some records of one topic.

    If they are sorted, `ordering` has for each its SOW key, then the values that it is sorted by; else it is empty.
    """

    topic: str
    records: list[bytes]
    ordering: list[list[Any]] = field(default_factory=list)


@dataclass(slots=True)
class PartCounts:
    """A node's counts: those of `sowline.serving.result.Result`, for its partitions."""

    topic_matches: int = 0
    matches: int = 0
    hash: int = 0
    lag_seconds: float | None = None


@dataclass(slots=True)
class Part:
    """The answer of one node to a query. `begin` it once, then read `batches` once; `close` it."""

    route: Route
    positions_by_log: dict[str, Positions] = field(default_factory=dict)
    topic_matches: int = 0
    warnings: tuple[str, ...] = ()
    counts: PartCounts = field(default_factory=PartCounts)
    has_begun: bool = False
    has_group: bool = True
    """Whether its answer begins with a group of records."""
    connection: NodeConnection | None = None
    up_to: str = ""
    """The bookmark of the end of a subscription, if it is known."""
    is_completed: bool = False
    """Whether the node has sent everything from before the query or the subscription began."""
    has_counts: bool = False
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _messages: AsyncIterator[NodeMessage] | None = None

    @property
    def url(self) -> str:
        """The node's URL."""
        return self.route.node.url

    @property
    def share(self) -> Share:
        """The partitions that the node answers for. They distinguish its groups from those of other parts.

        Two parts may have the same URL: a node began, was restarted as another shard, and was asked for that, too
        (test_groups_of_a_node_that_became_another_shard).
        """
        return self.route.share

    async def begin(self, pool: ConnectionPool, rights: Rights, request: NodeQuery) -> None:
        """Ask the node, and wait for its instant; raise the node's error, or `NodeLost`."""
        self.connection = await self._stack.enter_async_context(pool.lease(self.url, rights))
        # A subscription has no last acknowledgement: its messages continue until it is closed.
        self._messages = self.connection.ask(request, "stats" if request.command == Sow.command else "")
        async for message in self._messages:
            if message.command == "ack" and message.command_id == COMMAND_ID:
                self.topic_matches = message.topic_matches
                self.positions_by_log = begun_at(message)
                self.up_to = message.up_to
                if not self.has_group:
                    self.has_begun = True
                    return
            elif message.command == "group_begin":
                self.warnings = message.warnings
                self.has_begun = True
                return
        raise NodeLost(f"{self.url}: the answer ended before it began")

    async def samples(self) -> list[list[Any]]:
        """Return the topic, SOW key and sort values of each sample of a deep page; the node then waits for `fetch`.

        Raise the node's error, or `NodeLost`.
        """
        assert self._messages is not None
        async for message in self._messages:
            if message.command == "samples":
                return message.ordering or []
        raise NodeLost(f"{self.url}: the answer ended before its samples")

    async def fetch(self, first: int, count: int) -> None:
        """Let the node send `count` of its records, from number `first` on; raise `NodeLost`."""
        assert self.connection is not None
        await self.connection.send(fetch_of(first, count))

    async def leaving(self) -> AsyncIterator[NodeMessage]:
        """Yield the messages before the group: records that the client should drop."""
        assert self._messages is not None
        async for message in self._messages:
            if message.command == "group_begin":
                self.warnings = message.warnings
                return
            yield message

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the records as they arrive, then note the counts; raise the node's error, or `NodeLost`."""
        assert self._messages is not None
        async for message in self._messages:
            if message.command == "sow" and isinstance(message.records, list):
                # Copies: a `Raw` keeps its whole frame in memory.
                yield Batch(message.topic, [bytes(one) for one in message.records], message.ordering or [])
            elif message.command == "group_end":
                self.counts.hash = int(message.hash, 16)
            elif message.command == "ack":
                self.note_ack(message)
                # In a subscription, live messages follow: `live` reads them.
                if self.has_counts:
                    return

    def note_ack(self, message: NodeMessage) -> None:
        """Note an acknowledgement that follows the group."""
        if message.ack_type == "completed":
            self.is_completed = True
        elif message.ack_type == "stats":
            self.counts.topic_matches = message.topic_matches
            self.counts.matches = message.matches
            self.counts.lag_seconds = message.lag_seconds
            self.has_counts = True

    async def live(self) -> AsyncIterator[NodeMessage]:
        """Yield the messages after the group; raise the node's error, or `NodeLost`."""
        assert self._messages is not None
        async for message in self._messages:
            yield message
        # A node that shuts down ends its subscriptions in good order: for the client that is a loss, too.
        raise NodeLost(f"{self.url}: the subscription has ended")

    def answers_for(self, names: Mapping[str, str]) -> Share:
        """Return the partitions that the node has answered for; `names` are those of the topics, by log."""
        # A topic may have left the file since the node was asked: the next attempt reports that.
        return frozenset(
            (names[log], number)
            for log, positions in self.positions_by_log.items()
            if log in names
            for number in positions
        )

    async def close(self) -> None:
        """Return the connection; a node that is still answering stops."""
        await self._stack.aclose()


def longest_lag(parts: Iterable[Part]) -> float | None:
    """Return the largest lag of the nodes, in seconds; None if the lag of one is unknown."""
    lags = [part.counts.lag_seconds for part in parts]
    known = [lag for lag in lags if lag is not None]
    return max(known) if known and len(known) == len(lags) else None
