"""Begins a subscription to records in a shared stream: with a snapshot, or a difference from the client's records."""

from functools import partial

import msgspec

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog
from sowline.serving.outbox.group import send_group
from sowline.serving.query_slots import QueryTurn
from sowline.serving.result import Result
from sowline.subscriptions.live.led_subscription import LedSubscription
from sowline.subscriptions.live.request_checks import GONE
from sowline.subscriptions.service_lifecycle import Opening, ServiceSignal, Start
from sowline.wire.node_queries import difference_of, held_by
from sowline.wire.request import Subscribe, from_now
from sowline_gateway.query.seen import newest
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.streams.stream import SharedStream
from sowline_gateway.subscriptions.outlets import Outlet
from sowline_gateway.subscriptions.replacement import ClientRecords, send_leaving
from sowline_gateway.subscriptions.subscriber import RecordSubscriber


class StreamStart:
    """The start of one subscription, at the positions of its stream or later ones."""

    def __init__(
        self,
        subscriber: RecordSubscriber,
        outlet: Outlet,
        led: LedSubscription,
        turn: QueryTurn,
        stream: SharedStream,
    ) -> None:
        self._subscriber = subscriber
        self._outlet = outlet
        self._led = led
        self._turn = turn
        self._stream = stream
        seen, request = subscriber.seen, subscriber.request
        # The stream won't send its earlier messages again: the snapshot must have their changes.
        self._floor = newest(subscriber.floor(seen, request.at_least), stream.positions)

    async def send(self, held: ClientRecords | None) -> None:
        """Send the difference from the client's records, or the snapshot if one is due, and acknowledge them."""
        machine = self._led.machine
        if machine.begin.start is Start.HELD:
            if held is not None and await self._send_difference(held):
                return
            self._led.tell(ServiceSignal.GONE)
        if machine.begin.opening is Opening.NOTHING:
            self._begin(self._floor)
            self._led.tell(ServiceSignal.COUNTED, Result(lag_seconds=self._stream.lag_seconds()))
        else:
            await self._send_snapshot()

    async def _send_snapshot(self) -> None:
        request = from_now(self._subscriber.request)
        query = self._subscriber.query(request, self._floor)
        try:
            await query.begin(self._turn)
            self._begin(query.positions)
            await self._send_group(request, query)
        finally:
            await query.close()

    async def _send_difference(self, held: ClientRecords) -> bool:
        """Send which records the client should drop, and a group of those that it lacks.

        Return False if the nodes can't determine what the client holds; then nothing was sent.
        """
        subscriber = self._subscriber
        request = from_now(subscriber.request)
        if not request.has_snapshot:
            # Without a snapshot, the client gets only the records that leave.
            request = msgspec.structs.replace(request, top_n=0, skip_n=None)
        query = subscriber.query(
            request,
            self._floor,
            partial(difference_of, held=held_by(held.request, held.positions)),
            has_group=False,
            compared=[name for name in held.topics if name not in subscriber.topics],
        )
        try:
            try:
                await query.begin(self._turn)
            except SowlineError as error:
                # A node no longer knows the positions that the client holds: the client gets a new group instead.
                if error.reason not in GONE:
                    raise
                return False
            self._begin(query.positions)
            now = "" if request.has_snapshot else query.bookmark
            await send_leaving(subscriber.outbox, subscriber.sub_id, query, held.bookmark, now)
            if request.has_snapshot:
                await self._send_group(request, query)
            else:
                async for _ in query.records():
                    pass  # the counts follow
                self._led.note_sent(Result(lag_seconds=query.result.lag_seconds))
        finally:
            await query.close()
        return True

    async def _send_group(self, request: Subscribe, query: ShardedQuery) -> None:
        await send_group(self._subscriber.outbox, request, query, self._led.machine.begin.opening.mark)
        self._led.note_sent(query.result)

    def _begin(self, positions: PositionsByLog) -> None:
        """Note the positions at which it begins in the stream, and acknowledge the start."""
        self._outlet.begin((), positions)
        self._subscriber.seen.note(positions)
        self._led.tell(ServiceSignal.BEGUN)
