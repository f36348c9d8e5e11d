"""A client's subscription to a page or to groups: each node sends its part, and the gateway sends the differences.

The gateway always knows what the client holds, and what the nodes show now. After each step of a node it sends the
difference at once, if the client keeps up. Otherwise, and with conflation, it sends one difference for all steps
since. If a node is lost, all partitions are read again, at nodes that are at least as far, and the client gets one
difference, too.
"""

import asyncio
import time
from collections.abc import Sequence

from sowline.errors import SowlineError
from sowline.model.bookmark import format_bookmark
from sowline.serving.cooperative import first_of, together
from sowline.serving.flag import Flag
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.subscriptions.engine.conflation import adapted
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.led_subscription import LedSubscription
from sowline.subscriptions.live.request_checks import check_window_replaced
from sowline.subscriptions.service_lifecycle import (
    CaughtUp,
    FellBehind,
    Held,
    Opening,
    SendOpening,
    ServiceSignal,
    ServiceState,
    Start,
)
from sowline.subscriptions.service_machine import LifeTerms
from sowline.wire.options import AUTO
from sowline.wire.request import Heartbeat
from sowline_gateway.nodes.failover import AGAIN_SECONDS
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.subscriptions.held_window import HeldWindow
from sowline_gateway.subscriptions.window_outlet import WindowOutlet
from sowline_gateway.subscriptions.window_parts import WindowParts, WindowSubscriber


class WindowOverNodes(LedSubscription):
    """A subscription of a client to a page or to groups. It stops the subscription that it replaces."""

    def __init__(
        self, subscriber: WindowSubscriber, outbox: Outbox, replaced: "WindowOverNodes | None" = None
    ) -> None:
        asked = subscriber.asked
        request = asked.request
        self._subscriber = subscriber
        self._asked = asked
        self._parts = WindowParts(subscriber)
        self._behind = Flag()
        """Set while the client lacks steps that must still be sent."""
        held, known = HeldWindow(asked), None
        if replaced is not None:
            check_window_replaced(replaced._asked.topic.name, asked.topic.name)
            known = replaced._held_for(self)
            if known is not Held.UNKNOWN:
                held = replaced._outlet.held.taken_over(asked)
            replaced.stop()
        self._outlet: WindowOutlet = WindowOutlet(outbox, asked, subscriber.seen, held)
        terms = LifeTerms.of(
            request, begins_now=asked.begins_now, replaced=known, is_certain=asked.is_held_whole
        )
        super().__init__(request, ClientGate(outbox), terms)

    def _held_for(self, other: "WindowOverNodes") -> Held:
        """Return what is known about the client's window, for a subscription that replaces this one."""
        # Records and groups have different SOW keys: compared with each other, everything would leave.
        is_alike = self._outlet.held.asked.is_grouped == other._asked.is_grouped
        return self.machine.held if is_alike else Held.UNKNOWN

    # the interface of a session

    def resume(self) -> None:
        """Send the difference from the client's window to the current one, and continue."""
        super().resume()
        self._behind.set()

    @property
    def live_topics(self) -> Sequence[str]:
        """Its topic, if it is live now."""
        return (self._asked.topic.name,) if self._is_live else ()

    @property
    def _is_live(self) -> bool:
        return self.machine.state is ServiceState.LIVE

    async def prove(self, request: Heartbeat) -> None:
        """Send the checksum of the window that the client should hold, in order with the messages.

        Raise `not supported` while the subscription is paused.
        """
        self.tell(ServiceSignal.PROVE)
        await self._gate.wait_opened()
        # At one instant: held-back changes go out first, because the client compares at the checksum's bookmark.
        self._send_difference()
        self._outlet.put_checksum(request)

    async def run(self) -> bytes | None:
        """Serve until cancelled; raise if it can't continue. It never returns: a window has no end."""
        subscriptions, slot = self._subscriber.context.subscriptions, self._subscriber.slot
        subscriptions.add(self)
        self._parts.enter()
        try:
            async with slot:
                await slot.take()
                await self._begin()
            await together([self._follow(), self._send_later()])
        finally:
            subscriptions.discard(self)
            await self._parts.close()
        return None

    # the start

    async def _begin(self) -> None:
        past = await self._past()
        try:
            if past is not None:
                await self._parts.hold_past(past, self._outlet.held)
            await self._parts.open(self._outlet.held, self.request.at_least)
            if past is not None and self._is_known(past):
                await self._come_back(past)
                return
        finally:
            if past is not None:
                await past.close()
        # The group, or what the replacement changes, is of the instant at which no other group is being sent.
        async with self._outbox.group():
            opened = self._parts.opened
            due = self.tell(ServiceSignal.BEGUN, bookmark=format_bookmark(opened.positions))
            if not isinstance(due, SendOpening):
                return
            is_difference = due.opening is Opening.REPLACE
            put = self._outlet.put_replacement if is_difference else self._outlet.put_first_group
            result = put(opened, due.opening.mark)
            # Before it is noted as sent: nothing from before the group may follow, even if the client asked for that
            # (test_a_view_whose_start_is_gone_begins_with_a_group).
            self.tell(CaughtUp())
            self.note_sent(result)
            self._catch_up()

    async def _past(self) -> ShardedQuery | None:
        """Return the query of the window at the client's bookmark or time, which it holds; None for a new group."""
        if self.machine.begin.start is not Start.REQUESTED or self._asked.begins_now:
            return None
        try:
            return await self._parts.past()
        except SowlineError as error:
            self._instead(error)
        return None

    def _is_known(self, past: ShardedQuery) -> bool:
        """Return whether it is known what the client holds; if not, start again, or raise `bookmark_expired`.

        The order of a page of groups may depend on the latest record of each. Nodes do not know which one that was
        before changes that they undo, so such a page might be another one than the client was shown
        (test_a_page_of_latest_fields_that_came_back).
        """
        is_guess = self._asked.page is not None and self._asked.tells_latest
        if not is_guess or past.positions == self._parts.opened.positions:
            return True
        self._instead(
            SowlineError(
                "bookmark_expired",
                f"it is not known which records were the latest of their groups at {past.bookmark}; start without a"
                " bookmark, or choose with bookmark_not_found=now or reset where to start instead",
            )
        )
        return False

    async def _come_back(self, past: ShardedQuery) -> None:
        """Start sending the difference from the client's window; before it, send the group of a time."""
        if isinstance(self.tell(ServiceSignal.BEGUN), SendOpening):
            async with self._outbox.group():
                result = self._outlet.put_past_group(past)
            self.note_sent(result)
        self.tell(ServiceSignal.COUNTED, Result())
        self._behind.set()

    # the changes

    async def _follow(self) -> None:
        """Follow the nodes; if one is lost, or can't continue, read all parts again."""
        while True:
            began = time.monotonic()
            await first_of(self._parts.followed(self, self._outlet.held))
            self.tell(ServiceSignal.LOST)
            await asyncio.sleep(max(0.0, began + AGAIN_SECONDS - time.monotonic()))
            await self._parts.open(self._outlet.held)
            self.tell(ServiceSignal.BEGUN)
            if self._gate.is_open and self._sends_at_once:
                self._send_difference()
            else:
                self._behind.set()

    @property
    def _sends_at_once(self) -> bool:
        return self.request.options.conflation is None and not self._outbox.full

    def note_step(self, when: int | None) -> None:
        """Send the difference that a step of a node makes, now or later."""
        if self._is_live and self._sends_at_once:
            self._send_difference(when)
            return
        if self._is_live:
            self.tell(FellBehind())
        self._behind.set()

    def note_idle(self) -> None:
        """Send the bookmark of an idle subscription, when a node has sent its own."""
        if self._is_live and not self._outbox.full:
            self._outlet.put_progress(self._parts.opened)

    async def _send_later(self) -> None:
        """Send one difference for all steps that the client lacks, whenever it has room and the interval is over."""
        conflation = self.request.options.conflation
        interval = 0 if conflation in (None, AUTO) else conflation or 0
        while True:
            await self._behind.wait()
            if conflation is not None:
                await asyncio.sleep(interval / 1000)
            # Read the backlog before waiting for room: afterwards a slow client would look like a fast one.
            backlog = self._outbox.unsent_bytes
            await self._outbox.wait_turn()
            if not self._gate.is_open:
                await self._gate.wait_opened()
                # Look again: a checksum that was requested after the pause may have sent the difference already.
                continue
            if conflation == AUTO:
                interval = adapted(interval, backlog)
            self._send_difference()

    def _send_difference(self, when: int | None = None) -> None:
        """Send the messages that turn the client's window into the nodes' window, as one step."""
        if not self._gate.is_open:
            return
        is_step = self.request.options.conflation is not None or self._is_live
        self._outlet.put_difference(self._parts.opened, when, is_step=is_step)
        self._catch_up()

    def _catch_up(self) -> None:
        """Note that the client holds the current window."""
        assert self._gate.is_open or not self._is_live, "what is paused is not live"
        self._behind.clear()
        if not self._is_live:
            self.tell(CaughtUp())

    @property
    def _bookmark(self) -> str:
        return format_bookmark(self._outlet.held.positions)
