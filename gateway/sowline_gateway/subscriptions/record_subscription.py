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

from sowline.model.bookmark import PositionsByLog, format_bookmark, parse_bookmark
from sowline.serving.outbox.group import send_group
from sowline.serving.query_slots import QuerySlot, QueryTurn
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.led_subscription import LedSubscription
from sowline.subscriptions.service_lifecycle import (
    CaughtUp,
    Held,
    Opening,
    Renewed,
    SendOpening,
    ServiceSignal,
    ServiceState,
    Start,
)
from sowline.subscriptions.service_machine import LifeTerms
from sowline.wire.request import Heartbeat, Subscribe, from_now, returned, with_snapshot
from sowline_gateway.nodes.failover import AGAIN_SECONDS
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import newest
from sowline_gateway.subscriptions.node_flow import Ending, NodeFlow
from sowline_gateway.subscriptions.outlets import Outlet
from sowline_gateway.subscriptions.replacement import ClientRecords
from sowline_gateway.subscriptions.subscriber import RecordSubscriber


class RecordsOverNodes(LedSubscription, ABC):
    """A subscription of a client, over all nodes of its topics."""

    def __init__(
        self,
        subscriber: RecordSubscriber,
        outlet: Outlet,
        gate: ClientGate,
        snapshot_slot: QuerySlot,
        replaced: "RecordsOverNodes | None",
    ) -> None:
        """Prepare a subscription; stop the one that it replaces."""
        request = subscriber.request
        self._subscriber = subscriber
        self._outlet = outlet
        self._snapshot_slot = snapshot_slot
        self._flow: NodeFlow | None = None
        """Its own subscriptions at the nodes, once they have begun, and until they end."""
        self._up_to = ""
        """The bookmark of its end, if it has one that is known."""
        known: Held | None = None
        self._held: ClientRecords | None = None
        """The records that the client of the replaced subscription holds, if they are known."""
        if replaced is not None:
            known, self._held = replaced.hand_over()
        terms = LifeTerms.of(
            request,
            begins_now=request.bookmark_range.begins_now,
            replaced=known,
            is_certain=request.top_n is None,
        )
        super().__init__(request, gate, terms)

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

    async def _serve_at_nodes(self, request: Subscribe) -> Ending:
        """Begin at all nodes; send the group, if there is one, and the changes, until something ends them."""
        async with NodeFlow(self._subscriber, self._begun_as_due(request), self._outlet, self) as flow:
            if flow.has_group:
                async with self._snapshot_slot:
                    await self._snapshot_slot.take()
                    await self._begin(flow, self._snapshot_slot)
                    await self._send_group(flow)
            else:
                await self._begin(flow, await self._turn_to_catch_up())
            assert self._flow is None, "one flow at a time feeds the client"
            self._flow = flow
            try:
                self.note_acknowledged()
                return await self._follow(flow)
            finally:
                self._flow = None

    def _begun_as_due(self, request: Subscribe) -> Subscribe:
        """Return a request with a snapshot if a group is due that the client's command does not ask for."""
        if self.machine.begin.start is Start.HELD:
            # The subscriptions at nodes don't begin with what differs from what the client holds
            # (test_a_replacement_is_that_of_one_query_service with `up_to`).
            self.tell(ServiceSignal.GONE)
        # A client that was sent part of a group waits for a whole one, whatever it asks for next
        # (test_a_replacement_within_a_group_is_that_of_one_query_service).
        is_group_due = self.machine.begin.opening is not Opening.NOTHING
        return with_snapshot(request) if is_group_due and not request.has_snapshot else request

    async def _begin(self, flow: NodeFlow, turn: QueryTurn | None) -> None:
        await flow.begin(turn, is_paused=self.machine.is_paused)
        if self.machine.state is ServiceState.BEGINNING:
            if not self.has_begun:
                self._up_to = flow.up_to
            due = self.tell(ServiceSignal.BEGUN, up_to=flow.up_to)
            assert isinstance(due, SendOpening) == flow.has_group, "only the end of a group leaves that state"

    async def _send_group(self, flow: NodeFlow) -> None:
        await send_group(self._outbox, flow.request, flow.query, self.machine.begin.opening.mark)
        if flow.has_completed:
            self.tell(CaughtUp())
        self.note_sent(flow.query.result)

    @abstractmethod
    async def _turn_to_catch_up(self) -> QueryTurn | None:
        """Wait until it may have subscriptions at nodes without a group; return its turn, if it needs one."""

    @abstractmethod
    async def _follow(self, flow: NodeFlow) -> Ending:
        """Send the changes of all nodes until something ends them."""

    def note_acknowledged(self) -> None:
        """Send the acknowledgements that are due when all nodes have caught up, or have sent their counts."""
        flow = self._flow
        if flow is None:
            return
        if flow.has_completed:
            self.tell(CaughtUp())
            self._note_caught_up(flow)
        if (counts := flow.counts) is not None:
            self.tell(ServiceSignal.COUNTED, counts)

    def _note_caught_up(self, flow: NodeFlow) -> None:
        """Note that the nodes have sent everything from before their subscriptions began."""
        flow.caught_up.set()

    async def _again(self, ending: Ending, began: float) -> Subscribe:
        """Wait until it may begin at nodes again; return the request for that."""
        is_renewed = isinstance(ending, Renewed)
        self.tell(ending if isinstance(ending, Renewed) else ServiceSignal.LOST)
        await asyncio.sleep(max(0.0, began + AGAIN_SECONDS - time.monotonic()))
        # Otherwise continue where the client is, at the nodes that hold the partitions now.
        return self._afresh() if is_renewed else self._continued()

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
        return parse_bookmark(self._up_to) if self._up_to else None

    def _afresh(self) -> Subscribe:
        """Return the request of a new client, with a snapshot: it replaces what the client holds."""
        subscriber = self._subscriber
        floor = newest(subscriber.floor(subscriber.seen), self._outlet.sent)
        request = with_snapshot(from_now(self.request))
        return msgspec.structs.replace(request, at_least=floor, staleness_seconds_max=None)

    @abstractmethod
    async def take(self, part: Part, received: NodeMessage) -> bool:
        """Send a change, or the bookmark of an idle node; return False if it was not sent: the flow ends."""

    # the interface of a session

    def hand_over(self) -> tuple[Held, ClientRecords | None]:
        """Stop; return whether it is known what the client holds, and the records that it holds."""
        # Before `stop`, which changes the machine's state.
        known, has_begun = self.machine.held, self.has_begun
        self.stop()
        if known is Held.UNKNOWN:
            return known, None
        # It replaces another one, and was replaced before it has sent anything: the client still holds the records of
        # the first.
        if not has_begun:
            return known, self._held
        # Copies: a stream that others still follow advances its own.
        sent = {log: dict(of) for log, of in self._sent.items()}
        return known, ClientRecords(self.request, self._subscriber.topics, sent)

    @property
    def _sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""
        return self._outlet.sent

    @property
    def _bookmark(self) -> str:
        return format_bookmark(self._outlet.sent)

    @property
    def live_topics(self) -> Sequence[str]:
        """The topics in which it is live now."""
        return self._subscriber.topics if self.machine.status == "live" else ()

    @abstractmethod
    async def prove(self, request: Heartbeat) -> None:
        """Send a checksum of the records that the client should hold; raise if there can't be one."""
