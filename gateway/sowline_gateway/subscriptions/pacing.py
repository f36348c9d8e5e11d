"""Sends changes one by one in the order of their time, across all nodes: up to an end, or at a rate."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.serving.cooperative import running
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.delivery import payload_of
from sowline.subscriptions.live.progress import put_progress
from sowline.subscriptions.live.put_payload import put_payload
from sowline.subscriptions.live.throttle import Throttle
from sowline.wire.request import Subscribe
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import SentPositions
from sowline_gateway.subscriptions.outlets import ConflatingOutlet, Turn, WholeChange, form_of


class PacingOutlet:
    """Merges the changes of all nodes by time, and sends each in its turn."""

    relays = True

    def __init__(
        self, outbox: Outbox, request: Subscribe, topics: Mapping[str, TopicDefinition], turn: Turn
    ) -> None:
        bookmark_range, rate = request.bookmark_range, request.options.rate
        self.outbox = outbox
        self.sub_id = request.id_of_subscription
        self._topics = topics
        self._turn = turn
        self._forms = {name: form_of(request, topic) for name, topic in topics.items()}
        self._has_end = bookmark_range.end is not None
        self._begins_now = bookmark_range.begins_now
        self._throttle = None if rate is None else Throttle(rate, time.monotonic, time.time_ns)
        is_conflated = request.options.conflation is not None
        self._conflating = ConflatingOutlet(outbox, request, topics, turn) if is_conflated else None
        self._sent = SentPositions()
        self._queues: dict[int, asyncio.Queue[WholeChange | _Mark]] = {}
        self._heads: dict[int, WholeChange] = {}
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
        # One change per node: a node whose next change is late in time must wait, and not fill the gateway.
        self._queues = {id(part): asyncio.Queue(1) for part in parts}
        assert len(self._queues) == len(parts), "each node has a queue"
        self._heads = {}
        # Without changes from before the start, no node has to be waited for.
        self._idle = set(self._queues) if self._begins_now else set()
        self._over = set()
        self._sent.note(positions)
        if self._conflating is not None:
            self._conflating.begin(parts, positions)

    async def take(self, part: Part, received: NodeMessage) -> None:
        """Take a change once the one before it was sent."""
        if received.command == "progress":
            await self._put(part, _Mark(received.bookmark, is_progress=True))
        else:
            await self._put(part, WholeChange(self._topics[received.topic], received))

    async def catch_up(self, part: Part) -> None:
        """Note that a node has sent everything from before the subscription began."""
        await self._put(part, _Mark())

    async def complete(self, part: Part, received: NodeMessage) -> None:
        """Note that a node has sent everything, and wait until the client was sent everything, too."""
        mark = _Mark(received.bookmark, is_over=self._has_end)
        await self._put(part, mark)
        # The client gets the acknowledgement after the changes that the node sent before it.
        await mark.is_reached.wait()

    async def _put(self, part: Part, item: "WholeChange | _Mark") -> None:
        assert id(part) not in self._over, "after its end a node sends nothing"
        await self._queues[id(part)].put(item)
        self._news.set()

    def flush(self) -> None:
        """Send the changes that conflation holds back."""
        if self._conflating is not None:
            self._conflating.flush()

    async def run(self) -> None:
        """Send the changes; return at the end, if there is one."""
        if self._conflating is None:
            await self._merge()
            return
        async with running(self._conflating.background()):
            await self._merge()
        self._conflating.flush()

    async def _merge(self) -> None:
        while True:
            self._news.clear()
            self._look()
            missing = self._queues.keys() - self._heads.keys() - self._over
            # A node that still sends past changes may have an earlier one (test_a_replay_is_in_the_order_of_time).
            if self._heads and missing <= self._idle:
                await self._send_next()
            elif len(self._over) == len(self._queues):
                return
            else:
                await self._news.wait()

    def _look(self) -> None:
        """Take the next change of each node that has sent one."""
        for node, queue in self._queues.items():
            while node not in self._heads and not queue.empty():
                item = queue.get_nowait()
                if isinstance(item, WholeChange):
                    self._heads[node] = item
                    continue
                self._reach(node, item)

    def _reach(self, node: int, mark: "_Mark") -> None:
        """Note that the client was sent all of a node's changes before a mark."""
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
            await asyncio.sleep(self._throttle.take(len(change.delivery.body), change.replay_time))
        await self._turn()
        assert self._heads[node] is change, "what is sent is still the node's next change"
        self.form = self._forms[change.topic.name]
        payload = payload_of(change.sow_key, change.delivery, self.form, change.deltas, change.time)
        if payload is not None:
            put_payload(self, change.topic.name, payload, change.bookmark, more=False)
        self._sent.note({change.log: {change.number: change.position}})
        del self._heads[node]


class _Mark:
    """A mark between a node's changes: those before it are part of a replay, or are before a bookmark."""

    def __init__(self, bookmark: str = "", *, is_over: bool = False, is_progress: bool = False) -> None:
        self.bookmark = bookmark
        self.is_over = is_over
        self.is_progress = is_progress
        self.is_reached = asyncio.Event()
