"""A subscription to records with an end or a rate: nodes feed it alone, as long as it lasts."""

import time

from sowline.serving.cooperative import first_of
from sowline.serving.query_slots import QuerySlot
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.service_lifecycle import ServiceSignal
from sowline.wire.request import Heartbeat, Subscribe
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.part import Part
from sowline_gateway.subscriptions.node_flow import Ending, FlowEnd, NodeFlow
from sowline_gateway.subscriptions.pacing import PacingOutlet
from sowline_gateway.subscriptions.record_subscription import RecordsOverNodes
from sowline_gateway.subscriptions.subscriber import RecordSubscriber


class PacedRecords(RecordsOverNodes):
    """A subscription whose changes are sent one by one. The nodes pause with it."""

    def __init__(
        self, subscriber: RecordSubscriber, snapshot_slot: QuerySlot, replaced: RecordsOverNodes | None
    ) -> None:
        """Prepare a subscription; stop the one that it replaces."""
        outbox, request = subscriber.outbox, subscriber.request
        gate = ClientGate(outbox)
        self._pacing = PacingOutlet(outbox, request, subscriber.definitions, gate.wait)
        super().__init__(subscriber, self._pacing, gate, snapshot_slot, replaced)

    async def _serve(self) -> bytes:
        request: Subscribe = self.request
        while True:
            began = time.monotonic()
            ending = await self._serve_at_nodes(request)
            if ending is FlowEnd.OVER:
                self.tell(ServiceSignal.REACHED)
                return self._completed()
            request = await self._again(ending, began)

    async def _turn_to_catch_up(self) -> None:
        """Do not wait: it has subscriptions at nodes all the time."""

    async def _follow(self, flow: NodeFlow) -> Ending:
        # The client may have paused or resumed while there was no flow to tell
        # (test_pause_and_resume_while_the_snapshot_is_sent).
        if flow.began_paused != self.machine.is_paused:
            flow.tell_soon("resume" if flow.began_paused else "pause")
        return await first_of([self._run_to_end(), *flow.followed()])

    async def _run_to_end(self) -> Ending:
        await self._pacing.run()
        return FlowEnd.OVER

    async def take(self, part: Part, received: NodeMessage) -> bool:
        """Send a change, or the bookmark of an idle node, in its turn."""
        await self._pacing.take(part, received)
        return True

    # the interface of a session

    def pause(self) -> None:
        """Send nothing more until `resume`."""
        super().pause()
        if self._flow is not None:
            self._flow.tell_soon("pause")

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        super().resume()
        if self._flow is not None:
            self._flow.tell_soon("resume")

    async def prove(self, request: Heartbeat) -> None:
        """Raise `not supported`."""
        self.tell(ServiceSignal.PROVE)
