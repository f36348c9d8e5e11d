"""A subscription to records without an end or a rate: a shared stream feeds it, or nodes feed it alone.

A subscription that begins now joins the shared stream of all equal requests. It has its own subscriptions at the
nodes while its client lacks changes that the stream has passed: the client came back with a bookmark, was paused, or
is slow. Then the gateway reads no faster than the client. Once the client has what the members have, the
subscription joins the stream.
"""

import asyncio
import contextlib
import time

from sowline.model.bookmark import PositionsByLog
from sowline.serving.cooperative import first_of, running
from sowline.serving.flag import Flag
from sowline.serving.query_slots import QuerySlot
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.progress import put_window_checksum
from sowline.subscriptions.service_lifecycle import CaughtUp, FellBehind, Opening, ServiceSignal, Start
from sowline.wire.request import Heartbeat, Subscribe
from sowline_gateway.nodes.failover import FAILOVER_SECONDS
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.part import Part
from sowline_gateway.streams.catch_up_slot import CatchUpSlot
from sowline_gateway.subscriptions.node_flow import Ending, FlowEnd, NodeFlow, not_ready
from sowline_gateway.subscriptions.outlets import ConflatingOutlet, PassingOutlet
from sowline_gateway.subscriptions.record_subscription import RecordsOverNodes
from sowline_gateway.subscriptions.stream_membership import StreamMembership
from sowline_gateway.subscriptions.stream_start import StreamStart
from sowline_gateway.subscriptions.subscriber import RecordSubscriber

PATIENCE_SECONDS = 5.0
"""How long a subscription keeps its own connections to the nodes while its client reads nothing."""


class SharedRecords(RecordsOverNodes):
    """A subscription that is a member of a stream, or has its own subscriptions at the nodes until it joins."""

    def __init__(
        self,
        subscriber: RecordSubscriber,
        snapshot_slot: QuerySlot,
        slot: CatchUpSlot,
        replaced: RecordsOverNodes | None,
    ) -> None:
        """Prepare a subscription; stop the one that it replaces."""
        outbox, request = subscriber.outbox, subscriber.request
        gate = ClientGate(outbox)
        self._shared: PassingOutlet | ConflatingOutlet = (
            PassingOutlet(outbox, subscriber.sub_id, gate.wait)
            if request.options.conflation is None
            else ConflatingOutlet(outbox, request, subscriber.definitions, gate.wait)
        )
        self._membership = StreamMembership(subscriber, self._shared)
        self._slot = slot
        self._has_flow = Flag()
        """Whether it has its own subscriptions at the nodes."""
        self._taking = 0
        """Messages that wait for the client now."""
        self._checking = asyncio.Lock()
        super().__init__(subscriber, self._shared, gate, snapshot_slot, replaced)

    async def _serve(self) -> bytes:
        request: Subscribe = self.request
        try:
            if self._joins_at_once:
                await self._begin_in_stream()
                request = await self._returned()
            while True:
                began = time.monotonic()
                try:
                    ending = await self._serve_at_nodes(request)
                finally:
                    self._slot.free()
                if ending in (FlowEnd.JOINED, FlowEnd.INTERRUPTED):
                    request = await self._returned()
                else:
                    request = await self._again(ending, began)
        finally:
            self._membership.end()

    # as a member of a shared stream

    @property
    def _joins_at_once(self) -> bool:
        """Whether it can begin in a shared stream. One that comes back has to catch up first, on its own."""
        request = self.request
        if not request.bookmark_range.begins_now:
            return False
        # Also without a snapshot: a client may be owed a group by the subscription that this one replaces
        # (test_a_replacement_within_a_group_is_that_of_one_query_service).
        if self.machine.begin.opening in (Opening.GROUP, Opening.RESET, Opening.REPLACE):
            return all(topic.has_sow for topic in self._subscriber.definitions.values())
        return not request.demands_fresh or self.machine.begin.start is Start.HELD

    async def _returned(self) -> Subscribe:
        """Wait until a member has to leave the stream, and until the client has room; return the next request."""
        if self._membership.is_member:
            await self._membership.wait_left()
        self.tell(FellBehind())
        await self._gate.wait()
        return self._continued()

    async def _begin_in_stream(self) -> None:
        """Join the stream. Send the snapshot or the difference, if any, at the stream's positions or later ones."""
        # First the stream, which may have to wait for nodes: others run in the meantime.
        await self._membership.hold_stream()
        async with self._snapshot_slot:
            if self.is_querying:
                await self._snapshot_slot.take()
            stream = await self._membership.join()
            start = StreamStart(self._subscriber, self._shared, self, self._snapshot_slot, stream)
            await start.send(self._held)
        if self.machine.is_paused or self.machine.is_over:
            self._membership.leave()
        else:
            self.tell(CaughtUp())
        self._membership.release()

    def _join_if_level(self) -> None:
        # A change that waits for the client now would be sent by the stream, too.
        flow, is_held = self._flow, self._taking or self._checking.locked() or not self._gate.is_open
        if flow is None or not flow.caught_up.is_set() or is_held:
            return
        if self._membership.join_if_level():
            # From this instant on: the flow ends soon, and makes no checksum any more.
            assert self._membership.is_member, "the stream takes over from the flow"
            self._flow = None
            self._has_flow.clear()

    async def _join_when_level(self, flow: NodeFlow) -> Ending:
        """Join the stream once the client was sent as much as its members."""
        membership = self._membership
        while not membership.is_member:
            # First the stream: its positions are then such that the client will soon reach them.
            await membership.wait_for_stream()
            await flow.caught_up.wait()
            self._join_if_level()
            await membership.settled.wait()
            if not membership.is_member:
                membership.end()
        return FlowEnd.JOINED

    # with its own subscriptions

    async def _turn_to_catch_up(self) -> CatchUpSlot:
        await self._slot.take()
        return self._slot

    async def _follow(self, flow: NodeFlow) -> Ending:
        if flow.began_paused or not self._gate.is_open:
            # The client has paused or resumed it while it began (test_a_pause_ends_while_a_subscription_begins).
            return FlowEnd.INTERRUPTED
        assert not self._membership.is_member, "the flow feeds the client until it is a member"
        self._has_flow.set()
        try:
            async with running(self._shared.background()):
                ending = await first_of([self._join_when_level(flow), *flow.followed()])
        finally:
            self._has_flow.clear()
            self._membership.give_up_joining()
        # It may have joined as a node was lost.
        return FlowEnd.JOINED if self._membership.is_member else ending

    async def take(self, part: Part, received: NodeMessage) -> bool:
        """Send a change, or the bookmark of an idle node; return False if it was not sent: the flow ends."""
        if self._membership.is_member:
            # The stream sends it: the client has not seen it yet
            # (test_what_the_stream_is_to_send_counts_as_seen_when_it_was_sent).
            return False
        self._taking += 1
        try:
            # A client that reads nothing must not keep connections: there may be many such clients.
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._shared.take(part, received)
        except TimeoutError:
            return False
        finally:
            self._taking -= 1
            assert self._taking >= 0, "what waited was counted"
        self._join_if_level()
        return True

    def _note_caught_up(self, flow: NodeFlow) -> None:
        super()._note_caught_up(flow)
        self._slot.free()

    # the interface of a session

    def _halt(self) -> None:
        super()._halt()
        # Its own subscriptions read the messages that wait in the stream again.
        self._membership.leave()
        if self._flow is not None:
            self._flow.interrupt()

    @property
    def _sent(self) -> PositionsByLog:
        return self._membership.sent

    def quiet_position(self) -> PositionsByLog | None:
        """Return its bookmark if the client should be sent that now: if it is idle in a stream.

        Otherwise return None: the nodes send the bookmarks of idle subscriptions, and these are passed on.
        """
        return self._membership.quiet_position()

    async def prove(self, request: Heartbeat) -> None:
        """Send a checksum of the records that the client should hold; raise if there can't be one."""
        try:
            async with self._checking:
                self.tell(ServiceSignal.PROVE)
                await self._prove_at(await self._own_flow(), request)
        finally:
            self._join_if_level()

    async def _own_flow(self) -> NodeFlow:
        """Return its own subscriptions at the nodes: checksums are in order with the messages of one client."""
        if self._membership.is_member:
            self._membership.leave()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAILOVER_SECONDS):
                    await self._has_flow.wait()
        if self._flow is None:
            raise not_ready()
        return self._flow

    async def _prove_at(self, flow: NodeFlow, request: Heartbeat) -> None:
        async with flow.checksum() as checksum:
            # The client compares at the bookmark of the checksum, and needs what was held back.
            self._shared.flush()
            put_window_checksum(self._outbox, request, checksum.bookmark, checksum.records, checksum.hash)
            self._subscriber.seen.note(checksum.positions)
            self._shared.note(checksum.positions)
