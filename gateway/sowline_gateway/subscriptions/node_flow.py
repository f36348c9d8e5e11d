"""The subscriptions at nodes that feed only one client's subscription to records.

Everything about these subscriptions ends with them, including a checksum that the client waits for.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, lay_over, parse_bookmark
from sowline.serving.flag import Flag
from sowline.serving.query_slots import QueryTurn
from sowline.serving.result import Result
from sowline.subscriptions.service_lifecycle import Renewed
from sowline.wire.node_queries import COMMAND_ID, about_subscription, subscription_of
from sowline.wire.request import Subscribe
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.nodes.routing import UNAVAILABLE
from sowline_gateway.query.part import Part, longest_lag
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.subscriptions.checksum import NodeChecksums
from sowline_gateway.subscriptions.outlets import Outlet
from sowline_gateway.subscriptions.subscriber import RecordSubscriber

LATER_ID = "later"
"""The id of a command about a subscription at a node."""


class FlowEnd(Enum):
    """Why the subscriptions at the nodes end."""

    OVER = auto()
    """The client was sent everything up to its end."""
    JOINED = auto()
    """From now on the client is fed by a stream."""
    INTERRUPTED = auto()
    """The client wants no messages for now, or does not read them, or has joined a stream."""
    LOST = auto()
    """A node is lost."""


Ending = FlowEnd | Renewed
"""Why they end. If they are renewed, the gateway takes a new group of all nodes, too."""


class Fed(Protocol):
    """The subscription of a client that is fed by nodes."""

    async def take(self, part: Part, received: NodeMessage) -> bool:
        """Send a change, or the bookmark of an idle node; return False if it was not sent: the flow ends."""
        ...

    def note_acknowledged(self) -> None:
        """Note that a node has acknowledged something."""


class NodeFlow:
    """A subscription at each node of the topics. `begin` it once, then `follow` each part; it ends with its block."""

    def __init__(self, subscriber: RecordSubscriber, request: Subscribe, outlet: Outlet, fed: Fed) -> None:
        """Prepare the subscriptions for this request, which continues the client's request."""
        self.request = request
        self.has_group = request.has_snapshot and not request.bookmark_range.is_return
        """Whether it begins with a group."""
        self.began_paused = False
        """Whether the nodes began paused."""
        self.caught_up = Flag()
        """Whether the nodes have sent everything from before it began."""
        self._subscriber = subscriber
        self._outlet = outlet
        self._fed = fed
        self._query: ShardedQuery | None = None
        self._interrupted = Flag()
        self._checksum: NodeChecksums | None = None
        self._numbers = itertools.count(1)
        self._sending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Begin the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the subscriptions at the nodes, and a checksum of them that the client waits for."""
        self._fail_checksum(not_ready())
        for task in self._sending:
            task.cancel()
        if self._query is not None:
            await self._query.close()

    async def begin(self, turn: QueryTurn | None, *, is_paused: bool) -> None:
        """Begin at all nodes, paused or not; others may use the turn while it waits for nodes."""
        assert self._query is None, "a flow begins once"
        self.began_paused = is_paused
        subscriber, request, relays = self._subscriber, self.request, self._outlet.relays
        # A bookmark may be older than positions that the connection was sent: nodes need not have reached those.
        seen = subscriber.seen if request.bookmark_range.begins_now else SeenPositions()
        # Kept before it begins: if one node fails, `__aexit__` must still close it at the others.
        self._query = query = subscriber.query(
            request,
            subscriber.floor(seen, request.at_least),
            partial(subscription_of, request=request, is_paused=is_paused, relays=relays),
            has_group=self.has_group,
        )
        await query.begin(turn)
        self._outlet.begin(query.parts, query.positions)
        # Also those of a bookmark: the client has seen them.
        subscriber.seen.note(query.positions)

    @property
    def query(self) -> ShardedQuery:
        """The subscriptions at the nodes."""
        assert self._query is not None, "it has begun"
        return self._query

    @property
    def has_completed(self) -> bool:
        """Whether all nodes have sent everything from before it began."""
        return all(part.is_completed for part in self.query.parts)

    @property
    def counts(self) -> Result | None:
        """The counts of its start; None until all nodes have sent theirs."""
        if self.has_group:
            return self.query.result
        parts = self.query.parts
        return Result(lag_seconds=longest_lag(parts)) if all(part.has_counts for part in parts) else None

    @property
    def up_to(self) -> str:
        """The bookmark of the end; empty if a node does not know it."""
        parts = self.query.parts
        if not all(part.up_to for part in parts):
            return ""
        positions: PositionsByLog = {}
        for part in parts:
            positions = lay_over(positions, parse_bookmark(part.up_to))
        return format_bookmark(positions)

    # the messages

    def followed(self) -> list[Coroutine[Any, Any, Ending]]:
        """Return coroutines: one per node reads its messages until they end, and one waits for `interrupt`."""
        return [*map(self._follow, self.query.parts), self._wait_interrupted()]

    def interrupt(self) -> None:
        """Let the subscriptions at the nodes end."""
        self._interrupted.set()

    async def _wait_interrupted(self) -> Ending:
        await self._interrupted.wait()
        return FlowEnd.INTERRUPTED

    async def _follow(self, part: Part) -> Ending:
        try:
            async for received in part.live():
                if (ending := await self._pass_on(part, received)) is not None:
                    return ending
        except NodeLost:
            self._fail_checksum(_lost())
        return FlowEnd.LOST

    async def _pass_on(self, part: Part, received: NodeMessage) -> Ending | None:
        """Take a message of a node; return why the subscriptions end, if they do."""
        match received.command:
            case "progress" if received.command_id:
                # A checksum that was requested before may arrive late: its command has failed.
                if (checksum := self._checksum_of(received)) is not None:
                    await checksum.add(received)
            case "publish" | "oof" | "progress":
                return await self._take(received, part)
            case "caught_up":
                await self._outlet.catch_up(part)
            case "ack":
                await self._note_ack(part, received)
            case "group_begin":
                return Renewed(received.reset)
            case _:
                pass
        return None

    async def _take(self, received: NodeMessage, part: Part) -> Ending | None:
        if not await self._fed.take(part, received):
            return FlowEnd.INTERRUPTED
        positions = parse_bookmark(received.bookmark)
        self._subscriber.seen.note(positions)
        self._subscriber.context.nodes.note_shown(part.url, positions)
        return None

    async def _note_ack(self, part: Part, received: NodeMessage) -> None:
        if received.command_id != COMMAND_ID:
            if (checksum := self._checksum_of(received)) is not None and received.status == "failure":
                checksum.fail(SowlineError(received.reason, received.message))
            return
        if received.ack_type == "completed":
            # First, because the client gets its acknowledgement after the changes from before it.
            await self._outlet.complete(part, received)
        part.note_ack(received)
        self._fed.note_acknowledged()

    # commands about it

    async def tell(self, command: str, command_id: str = LATER_ID) -> None:
        """Send a command about the subscription to all nodes; raise `NodeLost`."""
        request = about_subscription(command, command_id)
        for part in self.query.parts:
            if part.connection is not None:
                await part.connection.send(request)

    def tell_soon(self, command: str) -> None:
        """Send a command about the subscription to all nodes, in a task."""
        task = asyncio.ensure_future(self._tell_if_possible(command))
        # asyncio itself holds tasks weakly: a pause that nothing else refers to might never be sent.
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _tell_if_possible(self, command: str) -> None:
        # A lost part begins at another node in the right state.
        with suppress(NodeLost):
            await self.tell(command)

    # checksums

    @asynccontextmanager
    async def checksum(self) -> AsyncGenerator[NodeChecksums, None]:
        """Lend the checksum of the records that the client should hold; messages of the nodes wait during the block.

        Raise `shard unavailable`, `not ready`, or the error of a node.
        """
        assert self._checksum is None, "the messages of the nodes wait for one checksum at a time"
        checksum = NodeChecksums(f"checksum {next(self._numbers)}", len(self.query.parts))
        self._checksum = checksum
        try:
            await self.tell("heartbeat", checksum.command_id)
            await checksum.wait()
            yield checksum
        except NodeLost:
            raise _lost() from None
        finally:
            self._checksum = None
            # Also after an error: the messages of the nodes wait for it.
            checksum.is_sent.set()

    def _checksum_of(self, received: NodeMessage) -> NodeChecksums | None:
        """Return the checksum that a message is about, if it is still wanted."""
        checksum = self._checksum
        return checksum if checksum is not None and checksum.command_id == received.command_id else None

    def _fail_checksum(self, error: SowlineError) -> None:
        if self._checksum is not None:
            self._checksum.fail(error)


def not_ready() -> SowlineError:
    """Return the error of a checksum while there are no subscriptions at the nodes."""
    return SowlineError("not ready", "the subscription is beginning at its query services; retry shortly")


def _lost() -> SowlineError:
    return SowlineError(UNAVAILABLE, "a query service was lost while it made a checksum; ask again")
