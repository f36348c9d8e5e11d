"""One shared stream: a subscription at each node of its topics, whose messages go to all members at once."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

import structlog
from msgspec import structs

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, parse_bookmark, read_position
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.outbox.outbox import Outbox
from sowline.wire.node_queries import NodeQuery, options_of_stream
from sowline.wire.options import Options, options_text
from sowline.wire.request import DeltaSubscribe, Subscribe
from sowline.wire.request_fields import NO_KEYS, SowKeys
from sowline_gateway.nodes.channel import NodeChannel, NodeChannels
from sowline_gateway.nodes.failover import (
    AGAIN_SECONDS,
    NodesFailed,
    begin_each,
    replaceable,
    replaced,
    with_failover,
)
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import UNAVAILABLE, Route, Share, unavailable
from sowline_gateway.query.part import begun_at
from sowline_gateway.streams.member import HeldBytes, LiveMessage, Member, Sink, put_to_client

log = structlog.get_logger()

STUCK_SECONDS = 5.0
"""When a client joins, the stream leaves a node whose lag exceeds that of another node by this much."""


class StreamName(NamedTuple):
    """The properties that all members of a stream share. All of them get the same messages."""

    rights: str
    topics: tuple[str, ...]
    command: str
    filter: str
    condition: str
    options: Options
    sow_keys: SowKeys
    relays: bool

    @classmethod
    def of(cls, request: Subscribe, topics: Sequence[str], rights: Rights, *, relays: bool) -> "StreamName":
        """Return the name of the stream for a subscription; `relays` asks for whole changes."""
        return cls(
            rights.digest,
            tuple(topics),
            (DeltaSubscribe if request.is_delta else Subscribe).command,
            request.filter,
            request.condition,
            options_of_stream(request.options, relays=relays),
            request.sow_keys,
            relays,
        )

    def request(self, topic: str) -> NodeQuery:
        """Return the request for nodes; `topic` is the client's, a name or a pattern."""
        return NodeQuery(
            command=self.command,
            topic=topic,
            filter=self.filter,
            condition=self.condition,
            options=options_text(self.options),
            sow_keys=self.sow_keys or NO_KEYS,
            relays=self.relays,
            shares=True,
        )


class StreamPart:
    """One node's part of a stream."""

    __slots__ = ("_channel", "_name", "has_begun", "share", "stream", "url")

    def __init__(self, stream: "SharedStream", route: Route) -> None:
        self.stream = stream
        self.url = route.node.url
        self.share: Share = route.share
        self.has_begun = False
        self._channel: NodeChannel | None = None
        self._name = ""

    async def begin(self, channels: NodeChannels, rights: Rights, request: NodeQuery) -> None:
        """Begin at the node; raise its error, or `NodeLost`."""
        self._channel = await channels.to(self.url, rights)
        self._name = await self._channel.follow(request, self)

    def note_begun(self, message: NodeMessage) -> None:
        """Note where it has begun."""
        if self.stream.note_begun(self, begun_at(message)):
            self.has_begun = True

    def note_lost(self) -> None:
        """Note that no more messages follow."""
        if self.has_begun:
            self.has_begun = False
            self.stream.note_lost()

    def end(self, channels: NodeChannels) -> None:
        """End it; the node's messages are ignored from now on."""
        self.has_begun = False
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.unfollow(self._name)
            channels.end_use(channel)


class SharedStream:
    """The changes that match one request, with the positions up to which its members were sent them."""

    # As in an outbox: a message to one of thousands fetches its stream from memory.
    __slots__ = (
        "_channels",
        "_ended",
        "_has_begun",
        "_held_bytes",
        "_nodes",
        "_parts",
        "_rights",
        "_topic",
        "_work",
        "is_over",
        "members",
        "name",
        "positions",
        "users",
    )

    def __init__(
        self,
        name: StreamName,
        topic: str,
        nodes: NodeSet,
        channels: NodeChannels,
        rights: Rights,
        held_bytes: HeldBytes,
        ended: Callable[["SharedStream"], None],
    ) -> None:
        self.name = name
        self.positions: PositionsByLog = {}
        self.members: dict[Member, None] = {}
        self.users = 0
        """The number of its members and of subscriptions that want to become one. Without any, it ends."""
        self._topic = topic
        self._nodes = nodes
        self._channels = channels
        self._rights = rights
        self._held_bytes = held_bytes
        self._ended = ended
        self._parts: list[StreamPart] = []
        self._work: asyncio.Task[None] | None = None
        self._has_begun = False
        """Whether it has begun at all nodes at least once."""
        self.is_over = False

    @property
    def urls(self) -> list[str]:
        """The nodes that it follows."""
        return [part.url for part in self._parts]

    async def wait_begun(self) -> None:
        """Wait until it has begun at all nodes; raise why it can't. Several may wait."""
        work = self._start(self._begin()) if self._work is None else self._work
        # The first to wait may be cancelled; the others still wait.
        await asyncio.shield(work)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._work = asyncio.get_running_loop().create_task(work)
        # Each client that waits for it gets its error; there may be none.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _begin(self) -> None:
        try:
            await self._follow_all()
        except BaseException:
            self.end()
            raise

    async def _follow_all(self) -> None:
        await with_failover(self._nodes, self._begin_parts)
        # A node may be lost again while others begin (test_members_at_any_time).
        while not all(part.has_begun for part in self._parts):
            await asyncio.sleep(AGAIN_SECONDS)
            await with_failover(self._nodes, self._begin_parts)
        self._has_begun = True

    async def _begin_parts(self, avoid: Collection[str]) -> None:
        """Begin at the nodes that are not followed yet, from the positions up to which messages were sent."""
        wanted = self._nodes.candidates(
            self.name.topics, self._nodes.by_topic(self.positions), avoid
        ).routes()
        dropped, self._parts = replaced(self._parts, wanted, lambda route: StreamPart(self, route))
        for part in dropped:
            part.end(self._channels)
        await begin_each(self._begin_part(part) for part in self._parts if not part.has_begun)

    async def _begin_part(self, part: StreamPart) -> None:
        request = self.name.request(self._topic)
        # Before all nodes have begun there are no members: a node that replaces another begins where it is now. With
        # a bookmark that lacks its partitions it would send all changes from the start
        # (test_a_node_fails_while_a_stream_begins).
        if self._has_begun:
            request = structs.replace(request, bookmark=format_bookmark(self.positions))
        try:
            async with replaceable(self._nodes, part.url, part.share):
                await part.begin(self._channels, self._rights, request)
        except BaseException:
            part.end(self._channels)
            raise
        if not part.has_begun:
            part.end(self._channels)
            # It holds other partitions than it announced: it was started again as another shard.
            raise NodesFailed([part.url], unavailable(part.share))

    def note_begun(self, part: StreamPart, positions: PositionsByLog) -> bool:
        """Take the positions at which a node has begun; return whether it holds what it has announced."""
        names = self._nodes.names
        held = frozenset((names.get(log, ""), number) for log, of in positions.items() for number in of)
        if held != part.share:
            return False
        if not self._has_begun:
            self.note(positions)
        return True

    def note(self, positions: PositionsByLog) -> None:
        """Note that its members were sent everything up to these positions."""
        for log, of in positions.items():
            mine = self.positions.get(log)
            if mine is None:
                self.positions[log] = dict(of)
            else:
                mine.update(of)

    def note_shown(self, url: str, positions: PositionsByLog) -> None:
        """Note that a node has shown these positions."""
        self._nodes.note_shown(url, positions)

    # members

    def join(self, outbox: Outbox, sub_id: str, sink: Sink | None) -> Member:
        """Add a member, whose messages wait from now on until its `release`. It must be a user of the stream."""
        member = Member(outbox, sub_id, sink, self.positions, self._held_bytes)
        self.members[member] = None
        return member

    def drop(self, member: Member) -> None:
        """Remove a member that has left."""
        self.members.pop(member, None)

    def lag_seconds(self) -> float | None:
        """Return the largest lag of its nodes in seconds; None if it is unknown."""
        return self._nodes.lag_seconds(self.urls, self.name.topics)

    # when nodes fail

    def note_lost(self) -> None:
        """Follow another node instead, or the same one again."""
        # Only the connection has ended, perhaps in good order: the next attempt shows whether the node is gone.
        if not self.is_over and (self._work is None or self._work.done()):
            self._start(self._resume())

    async def _resume(self) -> None:
        """Follow all partitions again; end with the error if that fails."""
        try:
            await asyncio.sleep(AGAIN_SECONDS)
            await self._follow_all()
        except SowlineError as error:
            self.end(error)
        except Exception:
            log.exception("a shared stream has failed", topics=self.name.topics)
            self.end()

    def leave_stuck_nodes(self) -> None:
        """Leave the nodes that lag far behind others, and follow these instead."""
        mine = self.lag_seconds()
        if not self._has_begun or self.is_over or (mine is not None and mine < STUCK_SECONDS):
            return
        try:
            wanted = self._nodes.candidates(self.name.topics, self._nodes.by_topic(self.positions)).routes()
        except SowlineError:
            return
        theirs = {route.share: route.node for route in wanted}
        for part in self._parts:
            node = theirs.get(part.share)
            lag = self._nodes.lag_seconds([part.url], self.name.topics)
            other = None if node is None else self._nodes.lag_seconds([node.url], self.name.topics)
            if other is not None and (lag is None or lag > other + STUCK_SECONDS):
                part.end(self._channels)
                self.note_lost()

    def end(self, error: SowlineError | None = None) -> None:
        """Stop following the nodes. The members continue on their own, or end if the error is `shard unavailable`."""
        if self.is_over:
            return
        self.is_over = True
        self._ended(self)
        if self._work is not None and self._work is not asyncio.current_task():
            self._work.cancel()
        for part in self._parts:
            part.end(self._channels)
        is_fatal = error is not None and error.reason == UNAVAILABLE
        for member in list(self.members):
            member.leave(error if is_fatal else None)
        self.members.clear()

    async def close(self) -> None:
        """End it, and wait for its task."""
        self.end()
        if self._work is not None:
            await asyncio.wait([self._work])


def deliver(message: NodeMessage, parts: Sequence[StreamPart]) -> None:
    """Send a message of a node to the members of all streams that it is for: one message for each client."""
    live = None
    if message.command in ("publish", "oof"):
        log, number, position = read_position(message.bookmark)
        positions = {log: {number: position}}
        live = LiveMessage(message, log, number, position)
    else:
        positions = parse_bookmark(message.bookmark)
    parts[0].stream.note_shown(parts[0].url, positions)
    streams = [part.stream for part in parts if part.has_begun]
    if live is not None:
        for members in _due(live, streams):
            put_to_client(live, members)
    for stream in streams:
        # Last: a member that leaves during the delivery was not sent this message, so its position excludes it.
        stream.note(positions)
        if message.command == "progress" and stream.name.relays:
            for member in stream.members:
                member.note(positions)


def _due(live: LiveMessage, streams: Sequence[SharedStream]) -> Iterable[list[Member]]:
    """Return the members to which a message is passed on, by client; let the others take it."""
    wanting = [
        member for stream in streams for member in list(stream.members) if member.is_in and member.wants(live)
    ]
    if len(wanting) == 1 and wanting[0].sink is None:
        return (wanting,)
    due: dict[Outbox, list[Member]] = defaultdict(list)
    for member in wanting:
        if member.sink is None:
            due[member.outbox].append(member)
        else:
            _take(member, live)
    return due.values()


def _take(member: Member, live: LiveMessage) -> None:
    try:
        member.take(live)
    except Exception:
        # The other members must not fail with it: this one continues on its own, and reports the error.
        log.exception("a subscription can't take a message of its stream", sub_id=member.sub_id)
        member.leave()
