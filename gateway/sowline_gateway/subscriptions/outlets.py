"""How the changes that nodes send reach a client: as they come, conflated, or paced.

Conflated and paced messages are made here, from whole changes. So an interval is one step for all partitions, and a
replay is in the order of time across all nodes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.model.position import Position
from sowline.serving.cooperative import running, together
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.conflation import pending_of
from sowline.subscriptions.engine.delivery import Deltas, Form, payload_of
from sowline.subscriptions.engine.subscription import Delivery
from sowline.subscriptions.live.change_message import put_payload
from sowline.subscriptions.live.conflation import Conflated
from sowline.subscriptions.live.progress import put_progress
from sowline.subscriptions.live.relayed_change import read_relayed_change, relayed_delivery
from sowline.subscriptions.live.throttle import Throttle
from sowline.wire.node_queries import SUB_ID
from sowline.wire.request import Subscribe
from sowline_gateway.nodes.connections import NodeMessage
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import SentPositions
from sowline_gateway.streams.member import LiveMessage

_SIDS = b'"sids":["%s"]' % SUB_ID.encode()

Turn = Callable[[], Awaitable[None]]
"""Waits until the client is not paused and its outbox has room."""


class Outlet(Protocol):
    """Sends the changes of one subscription to its client."""

    relays: bool
    """Whether nodes must send whole changes."""

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""

    def begin(self, parts: Sequence[Part], positions: PositionsByLog) -> None:
        """Take messages of these nodes from now on, from these positions on; drop what was not sent."""

    async def take(self, part: Part, received: NodeMessage) -> None:
        """Take a change, or the bookmark of an idle node; wait while the client is slow."""

    async def catch_up(self, part: Part) -> None:
        """Note that a node has sent everything from before the subscription began."""

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Wait until the client was sent what a node has sent; with an end, that is everything.

        `received` is the node's acknowledgement.
        """

    def flush(self) -> None:
        """Send what conflation holds back."""

    async def run(self) -> None:
        """Send what is held back; return at the end, if there is one, else never."""


class PassingOutlet:
    """Passes messages on as they come: those of a partition are in order, and have its position as bookmark."""

    relays = False

    def __init__(self, outbox: Outbox, sub_id: str, turn: Turn) -> None:
        self._outbox = outbox
        self._sub_id = sub_id
        self._turn = turn
        self._sids = b'"sids":%s' % msgspec.json.encode([sub_id])
        self._sent = SentPositions()

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""
        return self._sent.positions

    @property
    def received(self) -> PositionsByLog:
        """The positions up to which everything was taken."""
        return self._sent.positions

    def begin(self, parts: Sequence[Part], positions: PositionsByLog) -> None:
        """Continue from these positions."""
        self._sent.note(positions)

    def note(self, positions: PositionsByLog) -> None:
        """Note that the client was sent everything up to these positions."""
        self._sent.note(positions)

    async def take(self, part: Part, received: NodeMessage) -> None:
        """Pass a message on; wait while the outbox is full, and so read no more from the node."""
        await self._turn()
        self._sent.note(parse_bookmark(received.bookmark))
        if received.command == "progress":
            # A client may take its bookmark for that of all partitions, as from one query service.
            put_progress(self._outbox, self._sub_id, self.sent)
        else:
            self._outbox.put_behind(received.raw.replace(_SIDS, self._sids, 1), (self._sub_id,))

    async def catch_up(self, part: Part) -> None:
        """Do nothing: no other node waits for this one."""

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Do nothing: what was sent before is in the outbox."""

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    async def run(self) -> None:
        """Wait forever: nothing is held back."""
        await asyncio.get_running_loop().create_future()


class _Change:
    """A change that a node has sent whole."""

    __slots__ = (
        "after",
        "bookmark",
        "delivery",
        "deltas",
        "log",
        "number",
        "position",
        "replay_time",
        "sow_key",
        "time",
        "topic",
    )

    def __init__(self, topic: TopicDefinition, received: NodeMessage) -> None:
        relayed = read_relayed_change(received.relayed)
        self.topic = topic
        self.bookmark = received.bookmark
        ((self.log, positions),) = parse_bookmark(received.bookmark).items()
        ((self.number, self.position),) = positions.items()
        self.sow_key = received.sow_key.encode()
        self.after: Position = relayed.after
        self.time = relayed.time
        self.replay_time = relayed.time if relayed.replay_time is None else relayed.replay_time
        self.deltas = Deltas(topic.key_fields)
        reason, body = received.reason or None, bytes(received.data)
        self.delivery: Delivery = relayed_delivery(
            received.command, body, reason, received.correlation_id, relayed
        )


def _form_of(request: Subscribe, topic: TopicDefinition) -> Form:
    return Form.live(request.options, topic, delta=request.is_delta)


class ConflatingOutlet:
    """Sends the outcome of each interval, with bookmarks of all partitions."""

    relays = True

    def __init__(
        self, outbox: Outbox, request: Subscribe, topics: Mapping[str, TopicDefinition], turn: Turn
    ) -> None:
        """Prepare an interval for each topic; raise `invalid options` for a key that would merge records."""
        options = request.options
        assert options.conflation is not None
        self._outbox = outbox
        self._sub_id = request.id_of_subscription
        self._topics = topics
        self._turn = turn
        self._received = SentPositions()
        of_each = options.oof or request.is_delta
        self._conflated: dict[str, Conflated] = {}
        for name, topic in topics.items():
            form, keys = _form_of(request, topic), topic.identified_by
            self._conflated[name] = Conflated(
                outbox,
                request.id_of_subscription,
                topic,
                form,
                pending_of(options, form, keys, of_each=of_each),
                options.conflation,
                lambda log=topic.log: dict(self._received.positions.get(log, {})),  # type: ignore[misc]
                turn,
            )

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""
        return {topic.log: self._conflated[name].sent for name, topic in self._topics.items()}

    def begin(self, parts: Sequence[Part], positions: PositionsByLog) -> None:
        """Continue from these positions; the changes that were held back are read again."""
        for conflated in self._conflated.values():
            conflated.forget()
        self._received.note(positions)

    async def take(self, part: Part, received: NodeMessage) -> None:
        """Add a change to the interval; wait for the client only if too much is held back."""
        if received.command == "progress":
            self.note(parse_bookmark(received.bookmark))
            self._send_progress()
            return
        await self.add(_Change(self._topics[received.topic], received))

    async def add(self, change: "_Change") -> None:
        """Add a change to the interval; wait for the client only if too much is held back."""
        conflated = self._conflated[change.topic.name]
        if conflated.is_large:
            await self._turn()
            conflated.flush()
        self._add(change)

    def take_now(self, message: LiveMessage) -> None:
        """Add a change of a shared stream."""
        if message.change is None:
            message.change = _Change(self._topics[message.received.topic], message.received)
        self._add(message.change)

    def _add(self, change: "_Change") -> None:
        each = [(change.sow_key, change.delivery, change.deltas)]
        # The snapshot may be of another node, which was further than this one before the change.
        received = self._received.positions.get(change.log, {}).get(change.number, change.after)
        after = max(change.after, received)
        self._conflated[change.topic.name].take(change.number, after, change.time, each)
        self._received.note({change.log: {change.number: change.position}})

    @property
    def is_large(self) -> bool:
        """Whether more is held back than an outbox may hold."""
        return any(conflated.is_large for conflated in self._conflated.values())

    @property
    def received(self) -> PositionsByLog:
        """The positions up to which everything was taken."""
        return self._received.positions

    def note(self, positions: PositionsByLog) -> None:
        """Note that nodes have sent everything up to these positions."""
        self._received.note(positions)

    def _send_progress(self) -> None:
        """Send the bookmark of an idle subscription, when a node has sent its own."""
        sent = self.sent
        if sent == self._received.positions and not self._outbox.full:
            put_progress(self._outbox, self._sub_id, sent)

    async def catch_up(self, part: Part) -> None:
        """Do nothing: no other node waits for this one."""

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Do nothing: an interval may end after the acknowledgement."""

    def flush(self) -> None:
        """Send what is held back."""
        for conflated in self._conflated.values():
            conflated.flush()

    async def run(self) -> None:
        """Send the outcome of each interval."""
        await together(conflated.run(lambda count: None) for conflated in self._conflated.values())


class PacingOutlet:
    """Sends changes one by one in the order of their time, across all nodes: up to an end, or at a rate."""

    relays = True

    def __init__(
        self, outbox: Outbox, request: Subscribe, topics: Mapping[str, TopicDefinition], turn: Turn
    ) -> None:
        bookmark_range, rate = request.bookmark_range, request.options.rate
        self.outbox = outbox
        self.sub_id = request.id_of_subscription
        self._topics = topics
        self._turn = turn
        self._forms = {name: _form_of(request, topic) for name, topic in topics.items()}
        self._has_end = bookmark_range.end is not None
        self._begins_now = bookmark_range.begins_now
        self._throttle = None if rate is None else Throttle(rate)
        is_conflated = request.options.conflation is not None
        self._conflating = ConflatingOutlet(outbox, request, topics, turn) if is_conflated else None
        self._sent = SentPositions()
        self._queues: dict[int, asyncio.Queue[_Change | _Mark]] = {}
        self._heads: dict[int, _Change] = {}
        """By node, its next change."""
        self._idle: set[int] = set()
        """The nodes that have sent all changes from before the subscription began: others do not wait for them."""
        self._over: set[int] = set()
        self._news = asyncio.Event()

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""
        return self._sent.positions if self._conflating is None else self._conflating.sent

    def begin(self, parts: Sequence[Part], positions: PositionsByLog) -> None:
        """Merge the changes of these nodes from now on."""
        self._queues = {id(part): asyncio.Queue(1) for part in parts}
        self._heads = {}
        self._idle = set(self._queues) if self._begins_now else set()
        self._over = set()
        self._sent.note(positions)
        if self._conflating is not None:
            self._conflating.begin(parts, positions)

    async def take(self, part: Part, received: NodeMessage) -> None:
        """Take a change, when the one before it was sent."""
        if received.command == "progress":
            await self._put(part, _Mark(received.bookmark, is_progress=True))
        else:
            await self._put(part, _Change(self._topics[received.topic], received))

    async def catch_up(self, part: Part) -> None:
        """Note that a node has sent everything from before the subscription began."""
        await self._put(part, _Mark())

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Note that a node has sent everything, and wait until the client was sent it, too."""
        mark = _Mark(received.bookmark, is_over=self._has_end)
        await self._put(part, mark)
        await mark.is_reached.wait()

    async def _put(self, part: Part, item: "_Change | _Mark") -> None:
        await self._queues[id(part)].put(item)
        self._news.set()

    def flush(self) -> None:
        """Send what conflation holds back."""
        if self._conflating is not None:
            self._conflating.flush()

    async def run(self) -> None:
        """Send the changes; return at the end, if there is one."""
        if self._conflating is None:
            await self._merge()
            return
        async with running([self._conflating.run()]):
            await self._merge()
        self._conflating.flush()

    async def _merge(self) -> None:
        while True:
            self._news.clear()
            self._look()
            missing = self._queues.keys() - self._heads.keys() - self._over
            if self._heads and missing <= self._idle:
                await self._send_next()
            elif len(self._over) == len(self._queues):
                return
            else:
                await self._news.wait()

    def _look(self) -> None:
        """Take the next change of each node, if it is there."""
        for node, queue in self._queues.items():
            while node not in self._heads and not queue.empty():
                item = queue.get_nowait()
                if isinstance(item, _Change):
                    self._heads[node] = item
                    continue
                self._reach(node, item)

    def _reach(self, node: int, mark: "_Mark") -> None:
        """Note that the client was sent everything of a node that stands before a mark."""
        mark.is_reached.set()
        positions = parse_bookmark(mark.bookmark) if mark.bookmark else {}
        self._sent.note(positions)
        if self._conflating is not None:
            self._conflating.note(positions)
        if not mark.is_progress:
            (self._over if mark.is_over else self._idle).add(node)
        elif self._conflating is None and not self.outbox.full:
            put_progress(self.outbox, self.sub_id, self.sent)

    async def _send_next(self) -> None:
        """Send the earliest change."""
        node, change = min(self._heads.items(), key=lambda head: head[1].replay_time)
        if self._conflating is not None:
            await self._conflating.add(change)
            del self._heads[node]
            return
        if self._throttle is not None:
            await asyncio.sleep(self._throttle.seconds(len(change.delivery.body), change.replay_time))
        await self._turn()
        self.form = self._forms[change.topic.name]
        payload = payload_of(change.sow_key, change.delivery, self.form, change.deltas, change.time)
        if payload is not None:
            put_payload(self, change.topic.name, payload, change.bookmark, more=False)
        self._sent.note({change.log: {change.number: change.position}})
        del self._heads[node]


class _Mark:
    """Stands between the changes of a node: all before it are part of a replay, or are before a bookmark."""

    def __init__(self, bookmark: str = "", *, is_over: bool = False, is_progress: bool = False) -> None:
        self.bookmark = bookmark
        self.is_over = is_over
        self.is_progress = is_progress
        self.is_reached = asyncio.Event()


def outlet_of(
    outbox: Outbox, request: Subscribe, topics: Mapping[str, TopicDefinition], turn: Turn
) -> Outlet:
    """Return the outlet that a subscription to records asks for; raise `invalid options`."""
    options = request.options
    if options.rate is not None or request.bookmark_range.end is not None:
        return PacingOutlet(outbox, request, topics, turn)
    if options.conflation is not None:
        return ConflatingOutlet(outbox, request, topics, turn)
    return PassingOutlet(outbox, request.id_of_subscription, turn)
