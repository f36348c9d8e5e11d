"""How the changes that nodes send reach a client: as they arrive, or conflated.

Conflated messages are made here, from whole changes. So an interval is one step for all partitions.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.conflation import pending_of
from sowline.subscriptions.engine.delivery import Deltas, Form
from sowline.subscriptions.engine.subscription import Delivery
from sowline.subscriptions.live.conflation import Conflated
from sowline.subscriptions.live.progress import put_progress
from sowline.subscriptions.live.relayed_change import read_relayed_change, relayed_delivery
from sowline.wire.node_queries import SUB_ID
from sowline.wire.request import Subscribe
from sowline_gateway.nodes.node_message import NodeMessage
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
        ...

    def begin(self, parts: Sequence[Part], positions: PositionsByLog) -> None:
        """Take the messages of these nodes from these positions on; drop changes that were not sent."""

    async def take(self, part: Part, received: NodeMessage) -> None:
        """Take a change, or the bookmark of an idle node; wait while the client is slow."""

    async def catch_up(self, part: Part) -> None:
        """Note that a node has sent everything from before the subscription began."""

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Wait until the client was sent everything that a node sent before `received`, its acknowledgement."""

    def flush(self) -> None:
        """Send the changes that conflation holds back."""


class PassingOutlet:
    """Passes messages on as they arrive: those of a partition are in order, and their bookmark is its position."""

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
        # After the wait: if the flow ends during it, this change was not sent, and must be read again.
        self._sent.note(parse_bookmark(received.bookmark))
        if received.command == "progress":
            # A client may take its bookmark for that of all partitions, as from one query service.
            put_progress(self._outbox, self._sub_id, self.sent)
        else:
            # The node writes the names before any text of a client, so the first match is the field.
            self._outbox.put_behind(received.raw.replace(_SIDS, self._sids, 1), (self._sub_id,))

    async def catch_up(self, part: Part) -> None:
        """Do nothing: no other node waits for this one."""

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Note the positions; everything sent before is in the outbox."""
        self.note(parse_bookmark(received.bookmark))

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return nothing: nothing is held back."""
        return []


class WholeChange:
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
        assert self.after < self.position, "a change moves its partition on"
        self.time = relayed.time
        self.replay_time = relayed.time if relayed.replay_time is None else relayed.replay_time
        self.deltas = Deltas(topic.key_fields)
        reason, body = received.reason or None, bytes(received.data)
        self.delivery: Delivery = relayed_delivery(
            received.command, body, reason, received.correlation_id, relayed
        )


def form_of(request: Subscribe, topic: TopicDefinition) -> Form:
    """Return the content of the messages about a topic."""
    return Form.live(request.options, topic, delta=request.is_delta)


class ConflatingOutlet:
    """Sends the outcome of each interval, with bookmarks of all partitions."""

    relays = True

    def __init__(
        self, outbox: Outbox, request: Subscribe, topics: Mapping[str, TopicDefinition], turn: Turn
    ) -> None:
        """Prepare an interval for each topic; raise `invalid options` for a key that would merge records."""
        options = request.options
        assert options.conflation is not None, "only a subscription with an interval holds changes back"
        self._outbox = outbox
        self._sub_id = request.id_of_subscription
        self._topics = topics
        self._turn = turn
        self._received = SentPositions()
        of_each = options.oof or request.is_delta
        self._conflated: dict[str, Conflated] = {}
        for name, topic in topics.items():
            form, keys = form_of(request, topic), topic.identified_by
            self._conflated[name] = Conflated(
                outbox,
                request.id_of_subscription,
                topic,
                form,
                pending_of(options, form, keys, of_each=of_each),
                options.conflation,
                # A default binds this topic's log now: all lambdas would otherwise see that of the last one.
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
        await self.add(WholeChange(self._topics[received.topic], received))

    async def add(self, change: "WholeChange") -> None:
        """Add a change to the interval; wait for the client only if too much is held back."""
        conflated = self._conflated[change.topic.name]
        if conflated.is_large:
            await self._turn()
            conflated.flush()
        self._add(change)

    def take_now(self, message: LiveMessage) -> None:
        """Add a change of a shared stream."""
        # Made once for all members of the stream.
        if message.change is None:
            message.change = WholeChange(self._topics[message.received.topic], message.received)
        self._add(message.change)

    def _add(self, change: "WholeChange") -> None:
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
        # While changes are held back, the client is not at the node's bookmark yet.
        if sent == self._received.positions and not self._outbox.full:
            put_progress(self._outbox, self._sub_id, sent)

    async def catch_up(self, part: Part) -> None:
        """Do nothing: no other node waits for this one."""

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Note the positions; an interval may end after the acknowledgement."""
        self.note(parse_bookmark(received.bookmark))

    def flush(self) -> None:
        """Send the changes that are held back."""
        for conflated in self._conflated.values():
            conflated.flush()

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that send the outcome of each interval, until they are cancelled."""
        return [conflated.run(lambda count: None) for conflated in self._conflated.values()]
