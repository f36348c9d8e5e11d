"""One node's part of an answer: its instant, its records, and its counts."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from gateway.nodes.connections import ConnectionPool, NodeLost, NodeMessage
from gateway.nodes.routing import Route, Share
from sowline.model.bookmark import Positions, parse_bookmark
from sowline.serving.authorization.entitlements import Rights


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
    """What a node counted: the same as `sowline.serving.result.Result`, of its partitions."""

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
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _messages: AsyncIterator[NodeMessage] | None = None

    @property
    def url(self) -> str:
        """The node's URL."""
        return self.route.node.url

    async def begin(self, pool: ConnectionPool, rights: Rights, request: dict[str, Any]) -> None:
        """Ask the node, and wait for its instant; raise the node's error, or `NodeLost`."""
        connection = await self._stack.enter_async_context(pool.lease(self.url, rights))
        self._messages = connection.ask(request, "stats")
        async for message in self._messages:
            if message.command == "ack" and message.ack_type == "processed":
                self.topic_matches = message.topic_matches
                self.positions_by_log = parse_bookmark(message.bookmark)
            elif message.command == "group_begin":
                self.warnings = message.warnings
                self.has_begun = True
                return
        raise NodeLost(f"{self.url}: the answer has no records")

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the records as they arrive, then note the counts; raise the node's error, or `NodeLost`."""
        assert self._messages is not None
        async for message in self._messages:
            if message.command == "sow" and isinstance(message.records, list):
                yield Batch(message.topic, [bytes(one) for one in message.records], message.ordering or [])
            elif message.command == "group_end":
                self.counts.hash = int(message.hash, 16)
            elif message.command == "ack" and message.ack_type == "stats":
                self.counts.topic_matches = message.topic_matches
                self.counts.matches = message.matches
                self.counts.lag_seconds = message.lag_seconds

    def answers_for(self, logs: dict[str, str]) -> Share:
        """Return the partitions that the node has answered for; `logs` names the topic of each log."""
        return frozenset(
            (logs[log], number) for log, positions in self.positions_by_log.items() for number in positions
        )

    async def close(self) -> None:
        """Return the connection; a node that is still answering stops."""
        await self._stack.aclose()
