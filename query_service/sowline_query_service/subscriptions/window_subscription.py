"""Serves one subscription to a page or to groups: first the current window, then its changes."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.model.bookmark_range import BookmarkRange
from sowline.model.key import hash_of
from sowline.serving.cooperative import together
from sowline.serving.outbox.group import put_group, send_group
from sowline.serving.result import Result
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.subscriptions.engine.delivery import whole_payload
from sowline.subscriptions.engine.shown import ShownRecord, in_order, no_longer_shown
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.led_subscription import LedSubscription
from sowline.subscriptions.live.progress import ProgressTimer, put_window_checksum
from sowline.subscriptions.live.put_payload import put_payload
from sowline.subscriptions.live.request_checks import check_endless, check_window_replaced
from sowline.subscriptions.live.shown_records import records_relayed, records_shown
from sowline.subscriptions.service_lifecycle import (
    Action,
    CaughtUp,
    FellBehind,
    Held,
    Opening,
    SendOpening,
    ServiceSignal,
    Start,
)
from sowline.subscriptions.service_machine import LifeTerms
from sowline.wire.request import Heartbeat, Subscribe
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.group_windows import GroupWindow
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.query.read_request import is_certain
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.unknown_fields import warnings_of
from sowline_query_service.subscriptions.open_windows import OpenWindows
from sowline_query_service.subscriptions.progress import positions_between
from sowline_query_service.subscriptions.window_start import WindowStart
from sowline_query_service.topics.topic_state import TopicState, lag_seconds


class WindowSubscription(LedSubscription):
    """A session's subscription to a window; `run` it in a separate task.

    It stops the subscription that it replaces. If the request is invalid, it raises before that.
    """

    def __init__(
        self,
        context: ServiceContext,
        runner: CommandRunner,
        request: Subscribe,
        topic: TopicState,
        selection: Selection,
        bookmark_range: BookmarkRange,
        replaced: "WindowSubscription | None" = None,
    ) -> None:
        check_endless(request)
        self._context = context
        outbox = runner.outbox_for(selection.options)
        self._slot = runner.new_slot()
        self.topic = topic
        self.selection = selection
        self._start = WindowStart(context, self._slot, topic, selection, bookmark_range)
        self._progress_timer = ProgressTimer()
        self._is_page = request.skip_n is not None
        holder = runner.holder_for(request)
        self.windows = OpenWindows(
            context, request, topic, selection, runner.new_fill_slot, holder, is_page=self._is_page
        )
        self.viewer = Viewer(
            outbox,
            request.id_of_subscription,
            topic,
            selection,
            context.views,
            holder,
            delta=request.is_delta,
            rank_of=self.windows.rank_of,
            away=context.dispatcher.away_in(topic.definition.name),
        )
        self._replaced_window: LiveWindow | None = None
        """The window of the subscription that is replaced."""
        terms = LifeTerms.of(
            request,
            begins_now=self._start.begins_now,
            replaced=None if replaced is None else self._held_by(replaced),
            # Of groups with a limit, a client gets only the first ones, which the window does not record.
            is_certain=self._is_page or is_certain(selection),
        )
        super().__init__(request, ClientGate(outbox), terms)
        if replaced is not None:
            self._take_over(replaced)

    def _held_by(self, replaced: "WindowSubscription") -> Held:
        """End live delivery of the replaced subscription; return what is known of what its client holds."""
        check_window_replaced(replaced.topic.definition.name, self.topic.definition.name)
        held = replaced.stand_still()
        was_grouped, is_grouped = replaced.selection.options.projection, self.selection.options.projection
        # Records and groups have different SOW keys. Compared with each other, everything would leave and everything
        # would be new: a reset is shorter (test_groups_instead_of_a_page).
        return held if bool(was_grouped) == bool(is_grouped) else Held.UNKNOWN

    def _take_over(self, replaced: "WindowSubscription") -> None:
        """Take over the window of the replaced subscription's client, if that is known."""
        if self.machine.begin.start is Start.HELD:
            self.viewer.take_from(replaced.viewer)
        is_same_order = replaced.selection.order == self.selection.order
        if not replaced.selection.options.shows_like(self.selection.options, is_same_order=is_same_order):
            self.viewer.forget_form()
        # Keep the old window open until the new one is entered. Often it is the same, with another page: it would
        # otherwise be closed and filled again (test_a_page_instead_of_a_page).
        self.windows.take_from(replaced.windows)
        self._replaced_window = replaced.shown_window

    @property
    def shown_window(self) -> LiveWindow | None:
        """The window at its client: until this subscription has entered one, that of the replaced subscription."""
        return self.windows.window if self.windows.window is not None else self._replaced_window

    def stand_still(self) -> Held:
        """End live delivery; return what is known of the window that the client holds."""
        self._halt()
        # A viewer that fails forgets the window of its client.
        return self.machine.held if self.viewer.failed is None else Held.UNKNOWN

    def _halt(self) -> None:
        super()._halt()
        # Keep only what the client holds, not the changes during the pause. However long it is, the client then gets
        # one difference (test_pages_and_groups_pause).
        window, viewer = self.windows.window, self.viewer
        if window is not None and viewer in window:
            window.fall_behind(viewer, self.topic.positions)

    def quiet_position(self) -> PositionsByLog | None:
        """Return the client's positions if it should get a progress message now; None if not."""
        viewer, window = self.viewer, self.windows.window
        if window is None or viewer not in window:
            return None
        was_sent, viewer.was_sent = viewer.was_sent, False
        sent = {
            self.topic.definition.log: self.topic.positions
            if viewer.conflated is None
            else viewer.conflated.sent
        }
        return sent if self._progress_timer.look(was_sent, sent) else None

    @property
    def _behind_by(self) -> tuple[int, float]:
        viewer, held = self.viewer, self.topic.positions
        if not self.has_begun:
            return 0, 0.0
        if viewer.live.is_set():
            sent = held if viewer.conflated is None else viewer.conflated.sent
            return positions_between(sent, held), 0.0
        return positions_between(viewer.positions, held), time.monotonic() - viewer.level_at

    async def prove(self, request: Heartbeat) -> None:
        """Send the checksum of the window that the client should hold, in order with the messages.

        Raise `not supported` while the subscription is paused.
        """
        viewer = self.viewer
        self.tell(ServiceSignal.PROVE)
        await viewer.live.wait()
        assert self.windows.window is not None, "what is live has its window"
        # Everything from here on happens in one instant. Held-back messages go out first: the client compares its
        # window at the bookmark of the checksum, and would lack them (test_a_view_can_be_proved).
        if viewer.conflated is not None:
            viewer.conflated.flush()
        shown = self._shown(self.windows.window)
        bookmark = self.topic.bookmark(self.topic.positions)
        put_window_checksum(self._outbox, request, bookmark, len(shown), hash_of(shown))

    async def run(self) -> bytes | None:
        """Serve until cancelled; raise if it can't continue. It never returns: a window has no end.

        The return type is that of all served subscriptions.
        """
        # Resolve the bookmark first: filling a window takes long, and an invalid or expired bookmark is refused at
        # once.
        async with self._slot:
            positions = await self._find_positions()
            window = await self.windows.enter()
            assert window.filling is not None, "a window that was entered is being filled, or was"
            # Other subscriptions may wait for the same window. Without the shield, a client that unsubscribes now
            # would cancel the filling for all of them. The last one that leaves cancels it.
            await asyncio.shield(window.filling)
            window.check(self.viewer)
            if (refusal := window.bytes.refusal(self.viewer.holder)) is not None:
                raise refusal
            if positions is None or not await self._came_back(window, positions):
                await self._begin_in_turn(window)
        conflated = self.viewer.conflated
        if conflated is None:
            await self._stay_live(window)
        else:
            await together([self._stay_live(window), conflated.run(self._context.dispatcher.count)])
        return None

    async def _begin_in_turn(self, window: LiveWindow) -> None:
        """Send what it begins with when no other group is being sent, and be live from then on."""
        # The group is computed after the wait, and the viewer is live from the same instant. If it were computed
        # before, changes during the wait would be neither in the group nor sent live.
        async with self._outbox.group(), self._reaching(window):
            window.check(self.viewer)
            self._begin(window)

    def _reaching(self, window: LiveWindow) -> AbstractAsyncContextManager[None]:
        """Wait until the window has the records of the page, and keep them within the block."""
        # Finding them may take a turn. Those who wait with one would wait for each other.
        self._slot.free()
        return window.reaching(self.viewer.page.end)

    async def _stay_live(self, window: LiveWindow) -> None:
        """Send the difference whenever the client was too slow for live messages."""
        while True:
            await self.viewer.behind.wait()
            self.tell(FellBehind())
            # It ends at once, with the reason, if its window fails: in a pause, too
            # (test_too_many_groups_end_the_subscription, test_a_view_that_has_failed_takes_no_memory).
            await together([self._catch_up_in_turn(window), self.viewer.wait_live()])

    async def _catch_up_in_turn(self, window: LiveWindow) -> None:
        while True:
            await self._gate.wait()
            if window.reaches(self.viewer.page.end):
                break
            # The gate may be shut by now.
            async with window.reaching(self.viewer.page.end):
                pass
        window.check(self.viewer)
        self._catch_up(window)

    def stop(self) -> None:
        """Send nothing more, and leave the window; the last subscription that leaves closes it."""
        self.windows.stop(self.viewer)
        self.viewer.held = {}
        self.tell(ServiceSignal.LEAVE)

    def _begin(self, window: LiveWindow) -> None:
        window.check(self.viewer)
        shown, positions = self._shown(window), self.topic.positions
        due = self._begin_at(positions)
        assert isinstance(due, SendOpening), "it begins with a group"
        if due.opening is Opening.REPLACE:
            lacked = self._send_leaving(window)
            shown = {key: of for key, of in shown.items() if key in lacked}
        records, result = _group_of(self.windows, self.topic, self.selection, shown)
        bookmark = self.topic.bookmark(positions)
        put_group(self._outbox, self.request, bookmark, records, result, due.opening.mark)
        # First that nothing is left to catch up with: the group is what is completed, also where the client came back
        # with a bookmark that is gone (test_a_view_whose_bookmark_is_gone_is_completed_by_its_group).
        self.tell(CaughtUp())
        self.note_sent(result)
        window.add(self.viewer)
        # Paused while the group waited: the client holds the group, and gets the difference after `resume`.
        if self.machine.is_paused:
            window.fall_behind(self.viewer, positions)

    def _send_leaving(self, window: LiveWindow) -> set[bytes]:
        """Send which records leave the client's window; return those that it lacks."""
        viewer, topic = self.viewer, self.topic
        bookmark = topic.bookmark(viewer.positions)
        lacked: set[bytes] = set()
        for key, delivery in window.difference(viewer):
            if delivery.command == PUBLISH:
                lacked.add(key)
                continue
            # Another window knows only its own groups. A group of the replaced window that it lacks was not deleted:
            # it is no longer part of what the client sees.
            left = delivery if window is self._replaced_window else self._left(key, viewer.held[key].body)
            left = viewer.leaving(key, left)
            # These messages and the group are one step. They have the bookmark before it, so a client that loses its
            # connection within the step resumes before it (test_a_page_instead_of_a_page).
            payload = whole_payload(key, left, viewer.form, None)
            put_payload(viewer, topic.definition.name, payload, bookmark, more=True)
        viewer.held = {}
        return lacked

    def _left(self, key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for a record or group that only the replaced window shows."""
        if isinstance(self._replaced_window, GroupWindow):
            return Delivery(OOF, body, MATCH, body)
        return no_longer_shown(body, self.topic.rows.body(key), self.topic.rows.known(key))

    def _shown(self, window: LiveWindow) -> dict[bytes, ShownRecord]:
        shown = window.shown_to(self.viewer)
        selection = self.selection
        if self._is_page:
            return shown
        return in_order(shown, selection.order, selection.skip_n, selection.end)

    async def _find_positions(self) -> Positions | None:
        """Return the positions to start at; None for now."""
        if not self.machine.terms.replays:
            return None
        try:
            return await self._start.find()
        except SowlineError as error:
            self._instead(error)
            return None

    async def _came_back(self, window: LiveWindow, positions: Positions) -> bool:
        """Send the difference from the window at the client's bookmark; return False if a new group is due instead.

        The group of a time is sent first.
        """
        try:
            query = await self._start.go_back(window, self.viewer, positions)
        except SowlineError as error:
            self._instead(error)
            return False
        due = self._begin_at(self.viewer.positions)
        # The group of the past goes out as fast as the client reads. Changes that arrive until then need no care: the
        # difference below is computed afterwards, from the window at the bookmark to the window of that instant.
        if query is not None and isinstance(due, SendOpening):
            await send_group(self._outbox, self.request, query)
            self.note_sent(query.result)
        self.tell(ServiceSignal.COUNTED, Result())
        async with self._reaching(window):
            window.check(self.viewer)
            # Paused: `_stay_live` sends the difference after `resume`
            # (test_a_page_that_comes_back_says_when_that_is_completed).
            if not self.machine.is_paused:
                self._catch_up(window)
        return True

    def _catch_up(self, window: LiveWindow) -> None:
        """Send the difference, and be live."""
        window.catch_up(self.viewer)
        self.tell(CaughtUp())

    def _begin_at(self, positions: Positions) -> Action | None:
        """Report that the start is found at these positions; return what is due there."""
        counts = {"topic_matches": len(self.topic.rows)} if self.selection.merges else {}
        return self.tell(ServiceSignal.BEGUN, bookmark=self.topic.bookmark(positions), **counts)

    @property
    def _bookmark(self) -> str:
        return self.topic.bookmark(self.topic.positions)


def _group_of(
    windows: OpenWindows, topic: TopicState, selection: Selection, shown: dict[bytes, ShownRecord]
) -> tuple[list[bytes], Result]:
    """Return the records of a group of what is shown, in the form that is sent, and their counts."""
    if selection.merges:
        records = records_relayed(selection.options.select, shown)
    else:
        records = records_shown(topic.definition, selection.options, shown, windows.rank_of)
    warnings = warnings_of([topic], selection)
    assert windows.window is not None, "it was entered"
    result = Result(
        len(topic.rows), windows.window.matches, lag_seconds=lag_seconds([topic]), warnings=warnings
    )
    result.count(len(records), sum(map(len, records)), hash_of(shown))
    return records, result
