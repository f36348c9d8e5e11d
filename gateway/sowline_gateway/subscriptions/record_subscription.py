"""A client's subscription to records, whatever feeds it: how it begins at nodes, continues, and is replaced.

The live messages of a record come from the node that holds its partition, in its order, and each message has the
bookmark of its partition. So they need no merging. The snapshot is one group, made of the groups of all nodes. The
live messages wait until it has been sent. If a node is lost, all partitions continue from the positions that the
client was sent, at the nodes that hold them now.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from sowline.model.bookmark import PositionsByLog
from sowline.serving.outbox.group import Mark, send_group
from sowline.serving.query_slots import QuerySlot, QueryTurn
from sowline.serving.sessions.status import State, SubscriptionStatus
from sowline.wire.request import Heartbeat, Subscribe, from_now, returned, with_snapshot
from sowline_gateway.nodes.connections import NodeMessage
from sowline_gateway.nodes.failover import AGAIN_SECONDS
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import newest
from sowline_gateway.subscriptions.acknowledgements import Acknowledgements
from sowline_gateway.subscriptions.node_flow import Ending, NodeFlow, Renewed
from sowline_gateway.subscriptions.outlets import Outlet
from sowline_gateway.subscriptions.replacement import HeldRecords
from sowline_gateway.subscriptions.subscriber import ClientGate, RecordSubscriber


class RecordSubscription(ABC):
    """A subscription of a client, over all nodes of its topics."""

    def __init__(
        self,
        subscriber: RecordSubscriber,
        outlet: Outlet,
        gate: ClientGate,
        snapshot_slot: QuerySlot,
        replaced: "RecordSubscription | None",
    ) -> None:
        """Prepare a subscription; stop the one that it replaces."""
        self.request = subscriber.request
        self.is_querying = False
        self._subscriber = subscriber
        self._outlet = outlet
        self._gate = gate
        self._snapshot_slot = snapshot_slot
        self._acknowledgements = Acknowledgements(subscriber.outbox, subscriber.request)
        self._flow: NodeFlow | None = None
        """Its own subscriptions at the nodes, once they have begun, and until they end."""
        self._first_mark: Mark = None if replaced is None else "reset"
        self._held = None if replaced is None else replaced.held()
        """What the client of the replaced subscription holds, if that is known."""

    # serving

    async def run(self) -> bytes | None:
        """Serve until cancelled, or until the requested end; raise if it can't continue.

        At the end return the `completed` acknowledgement.
        """
        subscriptions = self._subscriber.context.subscriptions
        subscriptions.add(self)
        try:
            return await self._serve()
        finally:
            subscriptions.discard(self)

    @abstractmethod
    async def _serve(self) -> bytes:
        """Serve until the requested end."""

    async def _serve_at_nodes(self, request: Subscribe, mark: Mark) -> Ending:
        """Begin at all nodes; send the group, if there is one, and the changes, until something ends them."""
        subscriber = self._subscriber
        async with NodeFlow(subscriber, request, self._outlet, self) as flow:
            if flow.has_group:
                self.is_querying = True
                async with self._snapshot_slot:
                    await self._snapshot_slot.take()
                    await self._begin(flow, self._snapshot_slot)
                    await send_group(subscriber.outbox, request, flow.query, mark)
                self.is_querying = False
            else:
                await self._begin(flow, await self._turn_to_catch_up())
            self._flow = flow
            try:
                self._acknowledge(flow, of_group=flow.has_group)
                return await self._follow(flow)
            finally:
                self._flow = None

    async def _begin(self, flow: NodeFlow, turn: QueryTurn | None) -> None:
        await flow.begin(turn, is_paused=not self._gate.is_open)
        if not self.has_begun:
            self._acknowledgements.begin(flow.query.bookmark, flow.up_to)

    @abstractmethod
    async def _turn_to_catch_up(self) -> QueryTurn | None:
        """Wait until it may have subscriptions at nodes without a group; return the turn, if there are any."""

    @abstractmethod
    async def _follow(self, flow: NodeFlow) -> Ending:
        """Send the changes of all nodes until something ends them."""

    def note_acknowledged(self) -> None:
        """Note that a node has acknowledged something."""
        if self._flow is not None:
            self._acknowledge(self._flow)

    def _acknowledge(self, flow: NodeFlow, *, of_group: bool = False) -> None:
        """Send the acknowledgements that are due: of a group that was sent, and of nodes that have caught up."""
        is_endless = self.request.bookmark_range.end is None
        if is_endless and flow.has_completed:
            if of_group:
                self._acknowledgements.complete_group(flow.query.bookmark)
            else:
                self._acknowledgements.complete(self._outlet.sent)
        if (counts := flow.counts) is not None:
            self._acknowledgements.count(counts)
        if flow.has_completed:
            self._note_caught_up(flow)

    def _note_caught_up(self, flow: NodeFlow) -> None:
        """Note that the nodes have sent everything from before their subscriptions began."""
        flow.caught_up.set()

    async def _again(self, ending: Ending, began: float) -> tuple[Subscribe, Mark]:
        """Wait until it may begin at nodes again; return the request for that, and how its client gets a group."""
        await asyncio.sleep(max(0.0, began + AGAIN_SECONDS - time.monotonic()))
        if isinstance(ending, Renewed):
            return self._afresh(), ending.mark
        # Continue where the client is, at the nodes that hold the partitions now.
        return self._continued(), None

    def _continued(self) -> Subscribe:
        """Return the request of a client that comes back with its bookmark."""
        request = self.request
        if not request.options.reset:
            # `now` and `epoch` are for the bookmark of the client's request. If changes are gone later, that is an
            # error: the client must learn of it.
            options = replace(request.options, bookmark_not_found="fail")
            request = msgspec.structs.replace(request, options=options)
        return returned(request, self._outlet.sent, self._end)

    @property
    def _end(self) -> PositionsByLog | None:
        """The positions of its end, if it has one and they are known."""
        return None

    def _afresh(self) -> Subscribe:
        """Return the request of a new client, with a snapshot: it replaces what the client holds."""
        subscriber = self._subscriber
        floor = newest(subscriber.floor(subscriber.seen), self._outlet.sent)
        request = with_snapshot(from_now(self.request))
        return msgspec.structs.replace(request, at_least=floor, staleness_seconds_max=None)

    @abstractmethod
    async def take(self, part: Part, received: NodeMessage) -> bool:
        """Send a change, or the bookmark of an idle node; return False if the client does not read it."""

    # the interface of a session

    @property
    def has_begun(self) -> bool:
        """Whether its command was acknowledged, if requested."""
        return self._acknowledgements.has_begun

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._gate.shut()

    def held(self) -> HeldRecords | None:
        """Stop, and return what the client holds; None if that is unknown."""
        self.stop()
        # It replaces another one, and was replaced before it has sent anything: the client still holds the records of
        # the first.
        if not self.has_begun:
            return self._held
        # Within a snapshot it is unknown which of its records the client has; and so it is after one with a limit.
        if self.is_querying or self.request.top_n is not None:
            return None
        sent = {log: dict(of) for log, of in self._sent.items()}
        return HeldRecords(self.request, self._subscriber.topics, sent)

    @property
    def _sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""
        return self._outlet.sent

    def pause(self) -> None:
        """Send nothing more until `resume`."""
        self._gate.shut()

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        self._gate.open()

    @abstractmethod
    def quiet_position(self) -> PositionsByLog | None:
        """Return its bookmark if the client should be sent that now."""

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live. The gateway does not know how far it is behind, and returns 0."""
        return SubscriptionStatus(self.request, self._state, 0, 0.0)

    @property
    def _state(self) -> State:
        if not self.has_begun:
            return "beginning"
        if self.is_querying:
            return "group"
        return self._state_of_changes if self._gate.is_open else "paused"

    @property
    @abstractmethod
    def _state_of_changes(self) -> State:
        """How it sends changes."""

    @property
    def live_topics(self) -> Sequence[str]:
        """The topics in which it is live now."""
        return self._subscriber.topics if self._state == "live" else ()

    @abstractmethod
    async def prove(self, request: Heartbeat) -> None:
        """Send a checksum of the records that the client should hold; raise if there can't be one."""
