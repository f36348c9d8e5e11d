"""Serving one subscription to a page or to groups: the view as it is, then what becomes of it."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from fanout.engine.delivery import whole_payload
from fanout.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from query_service.context import ServiceContext
from query_service.cooperative import together
from query_service.live.group_views import GroupView, shown_in_order
from query_service.live.view import LiveView, ShownRecord, Viewer, no_longer_shown
from query_service.outbox.change_message import put_payload
from query_service.outbox.group import Mark, acknowledge, acknowledge_processed, put_group, send_group
from query_service.outbox.outbox import Outbox
from query_service.query.grouping import GroupedQuery, hash_of
from query_service.query.query import Query
from query_service.query.read_request import PositionsByLog, past_of
from query_service.query.selection import Result, Selection
from query_service.subscriptions.bookmark_resolver import (
    begin_of,
    check_eras,
    wait_for_replica,
    wait_for_time,
)
from query_service.subscriptions.catch_up import BookmarkExpired, changes_since
from query_service.subscriptions.open_views import OpenViews
from query_service.subscriptions.progress import ProgressTimer, SubscriptionStatus, positions_between
from query_service.subscriptions.record_subscription import GONE
from query_service.subscriptions.replacement import check_page_restated
from query_service.subscriptions.view_checksum import put_view_checksum
from query_service.topics.state import TopicState
from sowline.emodb.writes import intrinsics_json
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, format_position
from sowline.model.bookmark_range import BookmarkRange
from sowline.protocol.request import Request
from sowline.protocol.server_message import ack, sow_record


class ViewSubscription:
    """One subscription of a session to a view; `run` it in a task of its own.

    It stops `replaced` and goes on in its stead; a mistake in the request is raised before that.
    """

    def __init__(
        self,
        context: ServiceContext,
        outbox: Outbox,
        request: Request,
        topic: TopicState,
        selection: Selection,
        bookmark_range: BookmarkRange,
        replaced: "ViewSubscription | None" = None,
    ) -> None:
        if bookmark_range.end is not None:
            raise SowlineError(
                "not supported", "a subscription to a page or to groups can't have an end (up_to, or a range)"
            )
        self._context = context
        self._outbox = outbox
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
        self.viewer = Viewer(outbox, request.id_of_subscription, topic, selection, delta=request.is_delta)
        self.views = OpenViews(context, topic, selection, is_page=self._is_page)
        self.has_begun = False
        """Whether its command was acknowledged, if requested."""
        self._is_replacement = replaced is not None
        self._replaces = False
        self._replaced_view: LiveView | None = None
        """The view of the subscription that is replaced."""
        if replaced is not None:
            self._take_over(replaced)

    def _take_over(self, replaced: "ViewSubscription") -> None:
        """Stop the replaced subscription, and take over the view that its client holds, if it is known."""
        if replaced.topic is not self.topic:
            raise SowlineError(
                "not supported",
                f"a subscription to a page or groups of {replaced.topic.definition.name} can't be replaced by one of"
                f" {self.topic.definition.name}; unsubscribe first",
            )
        check_page_restated(replaced.request, self.request)
        was_grouped, is_grouped = (
            bool(replaced.selection.options.projection),
            bool(self.selection.options.projection),
        )
        self._replaces = replaced.stand_still() and was_grouped == is_grouped
        if self._replaces:
            self.viewer.take_from(replaced.viewer)
        if not replaced.selection.options.shows_like(self.selection.options):
            self.viewer.forget_form()
        self.views.take_from(replaced.views)
        self._replaced_view = replaced.shown_view

    @property
    def shown_view(self) -> LiveView | None:
        """The view that its client sees; before it has entered its own, that of the one it replaces."""
        return self.views.view if self.views.view is not None else self._replaced_view

    def stand_still(self) -> bool:
        """Note the sent messages as the client's view; return False if the view is incomplete."""
        view, viewer = self.views.view, self.viewer
        if view is not None and viewer in view:
            view.fall_behind(viewer)
        return bool(viewer.positions) and (self._is_page or self.selection.top_n is None)

    @property
    def is_querying(self) -> bool:
        """Whether its group waits for the groups before it: then it is sent at once."""
        return self._is_waiting

    def pause(self) -> None:
        """Send nothing more; the client keeps its view."""
        self._going.clear()
        view, viewer = self.views.view, self.viewer
        if view is not None and viewer in view:
            view.fall_behind(viewer)

    def resume(self) -> None:
        """Send the difference from that view, and continue."""
        self._going.set()

    def quiet_position(self) -> PositionsByLog | None:
        """Return where the subscription stands, if the client should be sent that now; None if not."""
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
        """Return how it stands now."""
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

    async def prove(self, request: Request) -> None:
        """Send the size of the view that the client should hold, in order with the messages; raise if unknown."""
        viewer = self.viewer
        if not self._going.is_set():
            raise SowlineError("not supported", "this subscription is paused: resume it first")
        await viewer.live.wait()
        assert self.views.view is not None
        if viewer.conflated is not None:
            viewer.conflated.flush()
        shown = self._shown(self.views.view)
        bookmark = self.topic.bookmark(self.topic.positions)
        put_view_checksum(self._outbox, request, bookmark, len(shown), hash_of(shown))

    async def run(self) -> bytes | None:
        """Serve until cancelled; raise if it can't continue."""
        query, positions = await self._find_positions()
        view = await self.views.enter()
        assert view.filling is not None
        await asyncio.shield(view.filling)
        if self._is_replacement:
            await self._in_turn(partial(self._replace, view))
        elif positions is None:
            await self._in_turn(partial(self._begin, view, None if self._begins_now else "reset"))
        elif not await self._came_back(view, positions, query):
            await self._in_turn(partial(self._begin, view, "reset"))
        conflated = self.viewer.conflated
        if conflated is None:
            await self._stay_live(view)
        else:
            await together([self._stay_live(view), conflated.run(self._context.dispatcher.count)])
        return None

    async def _in_turn(self, send: Callable[[], None]) -> None:
        """Send the group as soon as no other is being sent; it is of the instant at which it is sent."""
        self._is_waiting = True
        try:
            async with self._outbox.group():
                send()
        finally:
            self._is_waiting = False

    async def _stay_live(self, view: LiveView) -> None:
        """Send the difference whenever the client was too slow for the steps."""
        while True:
            await self.viewer.behind.wait()
            await self._outbox.wait_turn()
            await self._going.wait()
            if view.failed is not None:
                raise view.failed
            self._catch_up(view)

    def stop(self) -> None:
        """Send nothing more; a view that no other subscription uses is closed."""
        self.views.stop(self.viewer)

    def _begin(self, view: LiveView, mark: Mark) -> None:
        """Send the view as it is, and be live from there on."""
        if view.failed is not None:
            raise view.failed
        self._acknowledge(self.topic.bookmark(self.topic.positions))
        self._put_group(view, self._shown(view), mark)

    def _replace(self, view: LiveView) -> None:
        """Send which records the client should drop, and those it lacks; be live from there on."""
        if not self._replaces:
            self._begin(view, "reset")
            return
        if view.failed is not None:
            raise view.failed
        viewer, topic = self.viewer, self.topic
        self._acknowledge(topic.bookmark(topic.positions))
        bookmark = topic.bookmark(viewer.positions)
        lacked = set()
        for key, delivery in view.difference(viewer):
            if delivery.command == PUBLISH:
                lacked.add(key)
                continue
            left = delivery if view is self._replaced_view else self._left(key, viewer.held[key].body)
            left = viewer.entitled(left)
            payload = whole_payload(key, left, viewer.form, None)
            put_payload(viewer, topic.definition.name, payload, bookmark, more=True)
        viewer.held = {}
        self._put_group(view, {key: of for key, of in self._shown(view).items() if key in lacked}, "replace")

    def _left(self, key: bytes, body: bytes) -> Delivery:
        """The message for a record or group of another view: that it is deleted, or no longer part of the view."""
        if isinstance(self._replaced_view, GroupView):
            return Delivery(OOF, body, MATCH, body)
        rows = self.topic.rows
        return no_longer_shown(body, rows.body(key), rows.known(key))

    def _shown(self, view: LiveView) -> dict[bytes, ShownRecord]:
        shown = view.shown_to(self.viewer)
        return shown if self._is_page else shown_in_order(shown, self.selection)

    def _put_group(self, view: LiveView, shown: dict[bytes, ShownRecord], mark: Mark) -> None:
        bookmark = self.topic.bookmark(self.topic.positions)
        records = self._records(shown)
        result = Result(len(self.topic.rows), view.matches)
        result.count(len(records), sum(map(len, records)), hash_of(shown))
        put_group(self._outbox, self.request, bookmark, records, result, mark)
        acknowledge(self._outbox, self.request, bookmark, result)
        self.viewer.behind.clear()
        view.add(self.viewer)
        if not self._going.is_set():
            view.fall_behind(self.viewer)

    async def _find_positions(self) -> tuple[Query | GroupedQuery | None, Positions | None]:
        """Return the client's position, None for now, and the query whose records are sent first."""
        if self._begins_now:
            return None, None
        topic, context = self.topic, self._context
        log = topic.definition.log
        try:
            if self._past is not None:
                await wait_for_time(context, [topic], self._past)
                query = self._query_of(self._past)
                await query.begin()
                return query, query.positions[log]
            await check_eras(context, [topic], self._bookmark_range)
            positions = (await begin_of(context, [topic], self._bookmark_range))[log]
            await wait_for_replica(context.state, topic, positions)
        except SowlineError as error:
            if error.reason not in GONE or not self._takes_fresh_group:
                raise
            return None, None
        return None, positions

    @property
    def _takes_fresh_group(self) -> bool:
        """Whether the current records may be sent if the bookmark expired; changes alone would be wrong."""
        return self.selection.options.bookmark_not_found in ("reset", "now")

    def _query_of(self, past: int) -> Query | GroupedQuery:
        if self.selection.options.projection:
            return GroupedQuery(self.topic, self.selection, self._context.limits, past)
        return Query([self.topic], self.selection, self._context.limits, past)

    async def _came_back(
        self, view: LiveView, positions: Positions, query: Query | GroupedQuery | None
    ) -> bool:
        """Send the client what has changed since its bookmark; return False where a fresh group has to do.

        Where a `query` of there is given, its group comes first.
        """
        try:
            async with view.coming_back:
                await self._go_back(view, positions)
        except BookmarkExpired:
            if not self._takes_fresh_group:
                raise
            return False
        self._is_replaying = True
        self._acknowledge(self.topic.bookmark(positions))
        if query is not None:
            await send_group(self._outbox, self.request, query)
        result = Result() if query is None else query.result
        acknowledge(self._outbox, self.request, self.topic.bookmark(positions), result, is_completed=False)
        if view.failed is not None:
            raise view.failed
        if not self._going.is_set():
            self.viewer.behind.set()
            return True
        self._catch_up(view)
        return True

    def _catch_up(self, view: LiveView) -> None:
        """Send what differs from what the client holds, and be live; once, acknowledge that a replay is completed."""
        view.catch_up(self.viewer)
        if self._is_replaying and "completed" in self.request.acks:
            bookmark = self.topic.bookmark(self.topic.positions)
            sub_id = self.request.id_of_subscription
            completed = ack("completed", self.request.command_id, bookmark=bookmark, sub_id=sub_id)
            self._outbox.put(completed, (sub_id,))
        self._is_replaying = False

    async def _go_back(self, view: LiveView, positions: Positions) -> None:
        """Let the viewer hold what the view showed at its bookmark."""
        await asyncio.sleep(0)
        limits, kafka = self._context.limits, self._context.kafka
        [changes] = await changes_since(kafka, [(self.topic, positions)], limits.undo_max)
        if view.failed is not None:
            raise view.failed
        if changes and not view.can_go_back:
            number, change = changes[0]
            raise BookmarkExpired(self.topic, number, change.after)
        view.hold(self.viewer, positions, changes)

    def _records(self, shown: dict[bytes, ShownRecord]) -> list[bytes]:
        """The records of the view in the form that is sent."""
        options, log, name = self.selection.options, self.topic.definition.log, self.topic.definition.name
        return [
            sow_record(
                None if options.no_sowkey else key,
                None if of.position is None else format_position(log, of.partition, of.position).encode(),
                of.body if options.select is None else options.select.apply(of.body),
                of.time if options.timestamp and of.position is not None else None,
                intrinsics_json(name, of.known, deleted=False) if options.intrinsics and of.known else None,
            )
            for key, of in shown.items()
        ]

    def _acknowledge(self, bookmark: str) -> None:
        self.has_begun = True
        sub_id = self.request.id_of_subscription
        acknowledge_processed(self._outbox, self.request, bookmark=bookmark, sub_id=sub_id)
