"""Serves one subscription to a page or to groups: first the current view, then its changes."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.model.bookmark_range import BookmarkRange
from sowline.model.key import hash_of
from sowline.serving.cooperative import together
from sowline.serving.outbox.group import Mark, acknowledge, acknowledge_processed, put_group, send_group
from sowline.serving.result import Result
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.subscriptions.engine.delivery import whole_payload
from sowline.subscriptions.engine.shown import ShownRecord, in_order, no_longer_shown
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline.subscriptions.live.change_message import put_payload
from sowline.subscriptions.live.progress import ProgressTimer, put_view_checksum
from sowline.subscriptions.live.request_checks import GONE, check_endless, check_view_replaced
from sowline.subscriptions.live.shown_records import records_relayed, records_shown
from sowline.wire.request import Heartbeat, Subscribe
from sowline.wire.server_message import ack
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.group_views import GroupView
from sowline_query_service.live.view import LiveView, Viewer
from sowline_query_service.query.freshness import lag_seconds
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import past_of
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.unknown_fields import warnings_of
from sowline_query_service.subscriptions.bookmark_resolver import (
    begin_of,
    check_eras,
    wait_for_replica,
    wait_for_time,
)
from sowline_query_service.subscriptions.catch_up import BookmarkExpired, changes_since
from sowline_query_service.subscriptions.open_views import OpenViews
from sowline_query_service.subscriptions.progress import positions_between
from sowline_query_service.topics.topic_state import TopicState


class ViewSubscription:
    """A session's subscription to a view; `run` it in a separate task.

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
        replaced: "ViewSubscription | None" = None,
    ) -> None:
        check_endless(request)
        self._context = context
        self._outbox = outbox = runner.outbox_for(selection.options)
        self._slot = runner.new_slot()
        self.request = request
        self.topic = topic
        self.selection = selection
        self._bookmark_range = bookmark_range
        self._past = past_of(bookmark_range, selection.options, [topic])
        self._begins_now = bookmark_range.begins_now or (
            bookmark_range.moment is not None and self._past is None
        )
        self._is_replaying = False
        self._is_waiting = False
        self._progress_timer = ProgressTimer()
        self._going = asyncio.Event()
        if not selection.options.pause:
            self._going.set()
        self._is_page = request.skip_n is not None
        holder = runner.holder_for(request)
        self.viewer = Viewer(
            outbox,
            request.id_of_subscription,
            topic,
            selection,
            context.views,
            holder,
            delta=request.is_delta,
        )
        self.views = OpenViews(
            context, request, topic, selection, runner.new_fill_slot, holder, is_page=self._is_page
        )
        self.has_begun = False
        """Whether its command was acknowledged, if requested."""
        self._is_replacement = replaced is not None
        self._replaces = False
        self._replaced_view: LiveView | None = None
        """The view of the subscription that is replaced."""
        if replaced is not None:
            self._take_over(replaced)

    def _take_over(self, replaced: "ViewSubscription") -> None:
        """Stop the replaced subscription, and take over its client's view, if that is known."""
        check_view_replaced(replaced.topic.definition.name, self.topic.definition.name)
        was_grouped, is_grouped = (
            bool(replaced.selection.options.projection),
            bool(self.selection.options.projection),
        )
        # Records and groups have different SOW keys. Compared with each other, everything would leave and everything
        # would be new: a reset is shorter (test_groups_instead_of_a_page).
        self._replaces = replaced.stand_still() and was_grouped == is_grouped
        if self._replaces:
            self.viewer.take_from(replaced.viewer)
        if not replaced.selection.options.shows_like(self.selection.options):
            self.viewer.forget_form()
        # Keep the old view open until the new one is entered. Often it is the same: another window on one sorted set,
        # which would otherwise be closed and filled again (test_a_page_instead_of_a_page).
        self.views.take_from(replaced.views)
        self._replaced_view = replaced.shown_view

    @property
    def shown_view(self) -> LiveView | None:
        """The view at its client: until this subscription has entered a view, that of the replaced subscription."""
        return self.views.view if self.views.view is not None else self._replaced_view

    def stand_still(self) -> bool:
        """End live delivery; return whether the client's view is known, so that a replacement can start from it."""
        view, viewer = self.views.view, self.viewer
        if view is not None and viewer in view:
            view.fall_behind(viewer)
        # Without positions the client has not received its first group yet. What it holds is forgotten when it fails.
        # Of groups with a limit it received only the first ones, which the view does not record.
        is_known = viewer.failed is None and bool(viewer.positions)
        return is_known and (self._is_page or self.selection.top_n is None)

    @property
    def is_querying(self) -> bool:
        """Whether its group waits for other groups to end; then it is sent at once."""
        return self._is_waiting

    def pause(self) -> None:
        """Send nothing more until `resume`; the client keeps its view."""
        self._going.clear()
        # Keep only what the client holds, not the changes during the pause. However long it is, the client then gets
        # one difference (test_pages_and_groups_pause).
        view, viewer = self.views.view, self.viewer
        if view is not None and viewer in view:
            view.fall_behind(viewer)

    def resume(self) -> None:
        """Send the difference from the client's view to the current one, and continue."""
        self._going.set()

    def quiet_position(self) -> PositionsByLog | None:
        """Return the client's positions if it should get a progress message now; None if not."""
        viewer = self.viewer
        if not self.has_begun or self.views.view is None or viewer not in self.views.view:
            return None
        was_sent, viewer.was_sent = viewer.was_sent, False
        sent = {
            self.topic.definition.log: self.topic.positions
            if viewer.conflated is None
            else viewer.conflated.sent
        }
        return sent if self._progress_timer.look(was_sent, sent) else None

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live, or how far behind."""
        viewer, held = self.viewer, self.topic.positions
        if not self.has_begun:
            return SubscriptionStatus(self.request, "beginning", 0, 0.0)
        if viewer.live.is_set():
            sent = held if viewer.conflated is None else viewer.conflated.sent
            return SubscriptionStatus(self.request, "live", positions_between(sent, held), 0.0)
        behind = positions_between(viewer.positions, held)
        paused = not self._going.is_set()
        seconds = time.monotonic() - viewer.level_at
        return SubscriptionStatus(self.request, "paused" if paused else "catching up", behind, seconds)

    async def prove(self, request: Heartbeat) -> None:
        """Send the checksum of the view that the client should hold, in order with the messages.

        Raise `not supported` while the subscription is paused.
        """
        viewer = self.viewer
        if not self._going.is_set():
            raise SowlineError("not supported", "this subscription is paused: resume it first")
        await viewer.live.wait()
        assert self.views.view is not None
        # Everything from here on happens in one instant. Held-back messages go out first: the client compares its
        # view at the bookmark of the checksum, and would lack them (test_a_view_can_be_proved).
        if viewer.conflated is not None:
            viewer.conflated.flush()
        shown = self._shown(self.views.view)
        bookmark = self.topic.bookmark(self.topic.positions)
        put_view_checksum(self._outbox, request, bookmark, len(shown), hash_of(shown))

    async def run(self) -> bytes | None:
        """Serve until cancelled; raise if it can't continue. It never returns: a view has no end.

        The return type is that of all served subscriptions.
        """
        # Resolve the bookmark first: filling a view takes long, and an invalid or expired bookmark is refused at
        # once.
        async with self._slot:
            positions = await self._find_positions()
            view = await self.views.enter()
            assert view.filling is not None
            # Other subscriptions may wait for the same view. Without the shield, a client that unsubscribes now would
            # cancel the filling for all of them. The last one that leaves cancels it.
            await asyncio.shield(view.filling)
            self._check_for_failure(view)
            if (refusal := view.bytes.refusal(self.viewer.holder)) is not None:
                raise refusal
            if self._is_replacement:
                await self._in_turn(partial(self._replace, view))
            elif positions is None:
                await self._in_turn(partial(self._begin, view, None if self._begins_now else "reset"))
            elif not await self._came_back(view, positions):
                await self._in_turn(partial(self._begin, view, "reset"))
        conflated = self.viewer.conflated
        if conflated is None:
            await self._stay_live(view)
        else:
            await together([self._stay_live(view), conflated.run(self._context.dispatcher.count)])
        return None

    async def _in_turn(self, send: Callable[[], None]) -> None:
        """Call `send` when no other group is being sent."""
        # `send` computes the group after the wait, and makes the viewer live in the same instant. If the group were
        # computed before the wait, changes during it would be neither in the group nor sent live.
        self._is_waiting = True
        try:
            async with self._outbox.group():
                send()
        finally:
            self._is_waiting = False

    async def _stay_live(self, view: LiveView) -> None:
        """Send the difference whenever the client was too slow for live messages."""
        while True:
            await self.viewer.behind.wait()
            # It ends at once, with the reason, if its view fails: in a pause, too
            # (test_too_many_groups_end_the_subscription, test_a_view_that_has_failed_takes_no_memory).
            await together([self._catch_up_in_turn(view), self.viewer.until_live()])

    async def _catch_up_in_turn(self, view: LiveView) -> None:
        await self._outbox.wait_turn()
        await self._going.wait()
        self._check_for_failure(view)
        self._catch_up(view)

    def _check_for_failure(self, view: LiveView) -> None:
        """Raise the error with which the view, or this subscription to it, has failed."""
        if (failed := view.failed or self.viewer.failed) is not None:
            raise failed

    def stop(self) -> None:
        """Send nothing more, and leave the view; the last subscription that leaves closes it."""
        self.views.stop(self.viewer)
        self.viewer.held = {}

    def _begin(self, view: LiveView, mark: Mark) -> None:
        """Send the current view as a group, and be live from then on."""
        self._check_for_failure(view)
        self._acknowledge(self.topic.bookmark(self.topic.positions))
        self._put_group(view, self._shown(view), mark)

    def _replace(self, view: LiveView) -> None:
        """Send which records leave the client's view, and a group of those it lacks; be live from then on."""
        if not self._replaces:
            self._begin(view, "reset")
            return
        self._check_for_failure(view)
        viewer, topic = self.viewer, self.topic
        self._acknowledge(topic.bookmark(topic.positions))
        bookmark = topic.bookmark(viewer.positions)
        lacked = set()
        for key, delivery in view.difference(viewer):
            if delivery.command == PUBLISH:
                lacked.add(key)
                continue
            # Another view knows only its own groups. A group of the replaced view that it lacks was not deleted: it
            # is no longer part of the client's view.
            left = delivery if view is self._replaced_view else self._left(key, viewer.held[key].body)
            left = viewer.as_sent(left)
            # These messages and the group are one step. They have the bookmark before it, so a client that loses its
            # connection within the step resumes before it (test_a_page_instead_of_a_page).
            payload = whole_payload(key, left, viewer.form, None)
            put_payload(viewer, topic.definition.name, payload, bookmark, more=True)
        viewer.held = {}
        self._put_group(view, {key: of for key, of in self._shown(view).items() if key in lacked}, "replace")

    def _left(self, key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for a record or group that only the replaced view shows."""
        if isinstance(self._replaced_view, GroupView):
            return Delivery(OOF, body, MATCH, body)
        rows = self.topic.rows
        return no_longer_shown(body, rows.body(key), rows.known(key))

    def _shown(self, view: LiveView) -> dict[bytes, ShownRecord]:
        shown = view.shown_to(self.viewer)
        selection = self.selection
        if self._is_page:
            return shown
        return in_order(shown, selection.order, selection.skip_n, selection.end)

    def _put_group(self, view: LiveView, shown: dict[bytes, ShownRecord], mark: Mark) -> None:
        bookmark = self.topic.bookmark(self.topic.positions)
        if self.selection.merges:
            records = records_relayed(self.selection.options.select, shown)
        else:
            records = records_shown(self.topic.definition, self.selection.options, shown)
        result = Result(
            len(self.topic.rows),
            view.matches,
            lag_seconds=lag_seconds([self.topic]),
            warnings=warnings_of([self.topic], self.selection),
        )
        result.count(len(records), sum(map(len, records)), hash_of(shown))
        put_group(self._outbox, self.request, bookmark, records, result, mark)
        acknowledge(self._outbox, self.request, bookmark, result)
        view.add(self.viewer)
        # Paused while the group waited: the client holds the group, and gets the difference after `resume`.
        if not self._going.is_set():
            view.fall_behind(self.viewer)

    async def _find_positions(self) -> Positions | None:
        """Return the positions to start at; None for now."""
        if self._begins_now:
            return None
        topic, context = self.topic, self._context
        log = topic.definition.log
        try:
            if self._past is not None:
                await wait_for_time(context, [topic], self._past)
                return topic.past(self._past).positions
            await check_eras(context, [topic], self._bookmark_range)
            positions = (await begin_of(context, [topic], self._bookmark_range))[log]
            await wait_for_replica(context.state, topic, positions)
        except SowlineError as error:
            if error.reason not in GONE or not self._takes_fresh_group:
                raise
            return None
        return positions

    @property
    def _takes_fresh_group(self) -> bool:
        """Whether the client accepts a new group if its bookmark has expired."""
        return self.selection.options.bookmark_not_found in ("reset", "now")

    async def _begun_query(self) -> Query | GroupedQuery | None:
        """Return the query of the requested time, once its turn has come; None if no time was requested."""
        if self._past is None:
            return None
        # Not before: it would keep others from running while this one waits for its view, and to go back
        # (test_a_window_that_waits_to_go_back_holds_no_turn).
        await self._slot.take()
        query = self._query_of(self._past)
        await query.begin()
        return query

    def _query_of(self, past: int) -> Query | GroupedQuery:
        if self.selection.options.projection:
            return GroupedQuery(self.topic, self.selection, self._context.limits, past)
        return Query([self.topic], self.selection, self._context.limits, past)

    async def _came_back(self, view: LiveView, positions: Positions) -> bool:
        """Send the difference from the view at the client's bookmark; return False if a new group is due instead.

        The group of a time is sent first.
        """
        try:
            async with view.coming_back:
                await self._go_back(view, positions)
            query = await self._begun_query()
        except SowlineError as error:
            if error.reason not in GONE or not self._takes_fresh_group:
                raise
            return False
        if query is not None and (found := query.positions[self.topic.definition.log]) != positions:
            # The log took a record of that time late, from a broker whose clock is behind.
            self._slot.free()
            return await self._came_back(view, found)
        self._is_replaying = True
        self._acknowledge(self.topic.bookmark(positions))
        # The group of the past goes out as fast as the client reads. Changes that come meanwhile need no care: the
        # difference below is computed afterwards, from the view at the bookmark to the view of that instant.
        if query is not None:
            await send_group(self._outbox, self.request, query)
        result = Result() if query is None else query.result
        acknowledge(self._outbox, self.request, self.topic.bookmark(positions), result, is_completed=False)
        self._check_for_failure(view)
        # Paused: `_stay_live` sends the difference after `resume`
        # (test_a_page_that_comes_back_says_when_that_is_completed).
        if not self._going.is_set():
            return True
        self._catch_up(view)
        return True

    def _catch_up(self, view: LiveView) -> None:
        """Send the difference, and be live; after a replay acknowledge, once, that it is completed."""
        view.catch_up(self.viewer)
        if self._is_replaying and "completed" in self.request.acks:
            bookmark = self.topic.bookmark(self.topic.positions)
            sub_id = self.request.id_of_subscription
            completed = ack("completed", self.request.command_id, bookmark=bookmark, sub_id=sub_id)
            self._outbox.put(completed, (sub_id,))
        self._is_replaying = False

    async def _go_back(self, view: LiveView, positions: Positions) -> None:
        """Let the viewer hold the view as it was at the client's bookmark."""
        await asyncio.sleep(0)
        limits, kafka = self._context.limits, self._context.kafka
        [changes] = await changes_since(kafka, [(self.topic, positions)], limits.undo_max)
        # Nothing is awaited from here to the end. The changes are complete up to this instant, and undoing them in a
        # view that has moved on would give a view that never existed.
        self._check_for_failure(view)
        if changes and not view.can_go_back:
            number, change = changes[0]
            raise BookmarkExpired(self.topic, number, change.after)
        view.hold(self.viewer, positions, changes)

    def _acknowledge(self, bookmark: str) -> None:
        self.has_begun = True
        fields: dict[str, Any] = {"bookmark": bookmark, "sub_id": self.request.id_of_subscription}
        if self.selection.merges:
            fields["topic_matches"] = len(self.topic.rows)
        acknowledge_processed(self._outbox, self.request, **fields)
