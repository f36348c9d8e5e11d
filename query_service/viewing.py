"""Serving one subscription to a page or to groups: the view as it is, then what becomes of it."""

import asyncio
import time

from fanout.subscription import MATCH, OOF, PUBLISH, Delivery
from fanout.telling import told_whole
from query_service.asking import Places, past_of
from query_service.backend import Backend
from query_service.catch_up import BookmarkExpired, changes_since
from query_service.group import Mark, acknowledge, acknowledge_processed, put_group, send_group
from query_service.group_views import GroupPageView, GroupView, shown_in_order
from query_service.grouping import GroupedQuery, hash_of
from query_service.hub import ViewName
from query_service.outbox import Outbox
from query_service.pace import together
from query_service.pages import PageView
from query_service.places import begin_of, wait_for_replica, wait_for_time
from query_service.proof import put_proof
from query_service.query import Query, Result, Selection
from query_service.quiet import Quiet
from query_service.serving import GONE
from query_service.standing import Standing, positions_between
from query_service.state import TopicState
from query_service.step import put_told
from query_service.views import GUESSED, Shown, View, Viewer, no_longer_shown
from sowline.bookmark import Positions, format_position
from sowline.document.writes import intrinsics_json
from sowline.errors import SowlineError
from sowline.span import Span
from sowline.wire import Request, ack, sow_record


class Viewing:
    """One subscription of a session to a view; `run` it in a task of its own.

    It takes the place of `replaced`, which is stopped then: whatever is wrong with the new one is raised before.
    """

    def __init__(
        self,
        backend: Backend,
        outbox: Outbox,
        request: Request,
        topic: TopicState,
        selection: Selection,
        span: Span,
        replaced: "Viewing | None" = None,
    ) -> None:
        if span.end is not None:
            raise SowlineError(
                "not supported", "expected no end of a subscription to a page or to groups: up_to, or a range"
            )
        self._backend = backend
        self._outbox = outbox
        self._request = request
        self._topic = topic
        self._selection = selection
        self._span = span
        self._past = past_of(span, selection.options, [topic])
        self._begins_now = span.begins_now or (span.moment is not None and self._past is None)
        self._is_replaying = False
        self._quiet = Quiet()
        self._going = asyncio.Event()
        if not selection.options.pause:
            self._going.set()
        self._is_page = request.skip_n is not None
        self._viewer = Viewer(outbox, request.id_of_subscription, topic, selection, delta=request.is_delta)
        self._view: View | None = None
        self.has_begun = False
        """Whether its command is acknowledged, where that was asked for."""
        self._open: dict[ViewName, View] = {}
        """The views that are kept for this subscription."""
        self._is_replacement = replaced is not None
        self._replaces = False
        self._before: View | None = None
        """The view of the subscription that is replaced."""
        if replaced is not None:
            self._take_over(replaced)

    def _take_over(self, replaced: "Viewing") -> None:
        """Stop the subscription before, and hold what its client holds, where that can be told."""
        if replaced._topic is not self._topic:
            raise SowlineError(
                "not supported",
                f"expected a page or groups of {replaced._topic.definition.name} to replace such a one, got one"
                f" of {self._topic.definition.name}; unsubscribe the other first",
            )
        was_grouped, is_grouped = (
            bool(replaced._selection.options.projection),
            bool(self._selection.options.projection),
        )
        self._replaces = replaced.stand_still() and was_grouped == is_grouped
        if self._replaces:
            before = replaced._viewer
            self._viewer.held, self._viewer.positions = before.held, before.positions
        if not replaced._selection.options.shows_like(self._selection.options):
            held = self._viewer.held.items()
            self._viewer.held = {key: of._replace(position=GUESSED) for key, of in held}
        self._open, replaced._open = replaced._open, {}
        self._before = replaced._view if replaced._view is not None else replaced._before

    def stand_still(self) -> bool:
        """Let what the client holds be what it was told; False where it holds no complete view."""
        view, viewer = self._view, self._viewer
        if view is not None and viewer in view:
            view.fall_behind(viewer)
        return bool(viewer.positions) and (self._is_page or self._selection.top_n is None)

    @property
    def _name(self) -> ViewName:
        options, filter = self._selection.options, self._selection.filter.text
        order = self._selection.order.text if self._is_page else ""
        return filter, ",".join(map(str, options.grouping)), options.projection, order, str(self._is_page)

    @property
    def is_querying(self) -> bool:
        """No: a view is sent at once."""
        return False

    def pause(self) -> None:
        """Tell nothing more, and let the client hold what it was told."""
        self._going.clear()
        view, viewer = self._view, self._viewer
        if view is not None and viewer in view:
            view.fall_behind(viewer)

    def resume(self) -> None:
        """Tell what differs from that, and go on."""
        self._going.set()

    def quiet_place(self) -> Places | None:
        """Return where the subscription stands, if the client is to be told that now; None if not."""
        viewer = self._viewer
        if not self.has_begun or self._view is None or viewer not in self._view:
            return None
        was_told, viewer.was_told = viewer.was_told, False
        told = self._topic.positions if viewer.conflated is None else viewer.conflated.told
        places = {self._topic.definition.log: told}
        return places if self._quiet.look(was_told, places) else None

    def standing(self) -> Standing:
        """Return how it stands now."""
        viewer, held = self._viewer, self._topic.positions
        if not self.has_begun:
            return Standing(self._request, "beginning", 0, 0.0)
        if viewer.live.is_set():
            told = held if viewer.conflated is None else viewer.conflated.told
            return Standing(self._request, "live", positions_between(told, held), 0.0)
        behind = positions_between(viewer.positions, held)
        paused = not self._going.is_set()
        seconds = time.monotonic() - viewer.level_at
        return Standing(self._request, "paused" if paused else "catching up", behind, seconds)

    async def prove(self, request: Request) -> None:
        """Tell how much the client should hold, in order with the messages; raises where it can't be told."""
        viewer = self._viewer
        if not self._going.is_set():
            raise SowlineError(
                "not supported", "expected a subscription that goes on, got one that is paused"
            )
        await viewer.live.wait()
        assert self._view is not None
        if viewer.conflated is not None:
            viewer.conflated.flush()
        shown = self._shown(self._view)
        bookmark = self._topic.bookmark(self._topic.positions)
        put_proof(self._outbox, request, bookmark, len(shown), hash_of(shown))

    async def run(self) -> bytes | None:
        """Serve until cancelled; raises where it can't go on."""
        query, place = await self._find_place()
        view = self._view = await self._enter()
        assert view.filling is not None
        await asyncio.shield(view.filling)
        if self._is_replacement:
            self._replace(view)
        elif place is None:
            self._begin(view, None if self._begins_now else "reset")
        elif not await self._came_back(view, place, query):
            self._begin(view, "reset")
        conflated = self._viewer.conflated
        if conflated is None:
            await self._stay_live(view)
        else:
            await together([self._stay_live(view), conflated.run(self._backend.hub.count)])
        return None

    async def _stay_live(self, view: View) -> None:
        """Be told the difference whenever the client was too slow for the steps."""
        while True:
            await self._viewer.behind.wait()
            await self._outbox.wait_drained()
            await self._going.wait()
            if view.failed is not None:
                raise view.failed
            self._catch_up(view)

    def stop(self) -> None:
        """Look at the view no more; whoever is the last closes it."""
        if self._view is not None:
            self._view.remove(self._viewer)
            self._view = None
        for name in list(self._open):
            self._leave(name)

    def _leave(self, name: ViewName) -> None:
        view = self._open.pop(name)
        view.users -= 1
        if not view.users:
            self._backend.hub.remove_view(self._topic.definition.name, name)
            if view.filling is not None:
                view.filling.cancel()

    async def _enter(self) -> View:
        """Return the view, and keep it open, and no other."""
        view = await self._view_of_topic()
        if self._open.get(self._name) is not view:
            view.users += 1
        others = [name for name, open in self._open.items() if open is not view]
        self._open = self._open | {self._name: view}
        for name in others:
            self._leave(name)
        return view

    async def _view_of_topic(self) -> View:
        """Return the view, which others may look at already; else it is made as of an instant, and filled."""
        hub, topic = self._backend.hub, self._topic
        if (view := hub.view(topic.definition.name, self._name)) is not None:
            return view
        query = Query([topic], Selection(self._selection.filter), self._backend.limits)
        await query.begin()
        if (view := hub.view(topic.definition.name, self._name)) is not None:
            return view
        made = self._new_view()
        hub.add_view(topic.definition.name, self._name, made)
        made.filling = asyncio.get_running_loop().create_task(made.fill(query))
        return made

    def _new_view(self) -> View:
        if not self._selection.options.projection:
            return PageView(self._topic, self._selection)
        kind = GroupPageView if self._is_page else GroupView
        return kind(self._topic, self._selection, self._backend.limits.groups_max)

    def _begin(self, view: View, mark: Mark) -> None:
        """Send the view as it is, and be live from there on."""
        if view.failed is not None:
            raise view.failed
        self._acknowledge(self._topic.bookmark(self._topic.positions))
        self._put_group(view, self._shown(view), mark)

    def _replace(self, view: View) -> None:
        """Tell what leaves what the client holds, send what it lacks of the view, and be live from there on."""
        if not self._replaces:
            self._begin(view, "reset")
            return
        if view.failed is not None:
            raise view.failed
        viewer, topic = self._viewer, self._topic
        self._acknowledge(topic.bookmark(topic.positions))
        place = topic.bookmark(viewer.positions)
        lacked = set()
        for key, said in view.difference(viewer):
            if said.command == PUBLISH:
                lacked.add(key)
                continue
            left = said if view is self._before else self._left(key, viewer.held[key].body)
            left = viewer.entitled(left)
            told = told_whole(key, left, viewer.form, None)
            put_told(self._outbox, viewer.sub_id, topic.definition.name, viewer.form, told, place, more=True)
        viewer.held = {}
        self._put_group(view, {key: of for key, of in self._shown(view).items() if key in lacked}, "replace")

    def _left(self, key: bytes, body: bytes) -> Delivery:
        """What is said of a record or group of another view: that it is gone, or else only not asked for any more."""
        if isinstance(self._before, GroupView):
            return Delivery(OOF, body, MATCH, body)
        rows = self._topic.rows
        return no_longer_shown(body, rows.body(key), rows.known(key))

    def _shown(self, view: View) -> dict[bytes, Shown]:
        shown = view.shown_to(self._viewer)
        return shown if self._is_page else shown_in_order(shown, self._selection)

    def _put_group(self, view: View, shown: dict[bytes, Shown], mark: Mark) -> None:
        bookmark = self._topic.bookmark(self._topic.positions)
        records = self._records(shown)
        result = Result(len(self._topic.rows), view.matches)
        result.count(len(records), sum(map(len, records)), hash_of(shown))
        put_group(self._outbox, self._request, bookmark, records, result, mark)
        acknowledge(self._outbox, self._request, bookmark, result)
        self._viewer.behind.clear()
        view.add(self._viewer)
        if not self._going.is_set():
            view.fall_behind(self._viewer)

    async def _find_place(self) -> tuple[Query | GroupedQuery | None, Positions | None]:
        """Return where the client stands, None for now, and the query whose records it is to be sent first."""
        if self._begins_now:
            return None, None
        topic, backend = self._topic, self._backend
        log = topic.definition.log
        try:
            if self._past is not None:
                await wait_for_time(backend, [topic], self._past)
                query = self._query_of(self._past)
                await query.begin()
                return query, query.positions[log]
            place = (await begin_of(backend, [topic], self._span))[log]
            await wait_for_replica(backend.state, topic, place)
        except SowlineError as error:
            if error.reason not in GONE or not self._takes_fresh_group:
                raise
            return None, None
        return None, place

    @property
    def _takes_fresh_group(self) -> bool:
        """Whether what is shown now will do where the place is gone; from now on without it would not be true."""
        return self._selection.options.bookmark_not_found in ("reset", "now")

    def _query_of(self, past: int) -> Query | GroupedQuery:
        if self._selection.options.projection:
            return GroupedQuery(self._topic, self._selection, self._backend.limits, past)
        return Query([self._topic], self._selection, self._backend.limits, past)

    async def _came_back(self, view: View, place: Positions, query: Query | GroupedQuery | None) -> bool:
        """Tell the client what has changed since its bookmark; False where a fresh group has to do.

        Where a `query` of there is given, its group comes first.
        """
        try:
            async with view.coming_back:
                await self._go_back(view, place)
        except BookmarkExpired:
            if not self._takes_fresh_group:
                raise
            return False
        self._is_replaying = True
        self._acknowledge(self._topic.bookmark(place))
        if query is not None:
            await send_group(self._outbox, self._request, query)
            acknowledge(self._outbox, self._request, query.bookmark, query.result, is_completed=False)
        if view.failed is not None:
            raise view.failed
        if not self._going.is_set():
            self._viewer.behind.set()
            return True
        self._catch_up(view)
        return True

    def _catch_up(self, view: View) -> None:
        """Tell what differs from what the client holds, and be live; once, say that a replay is completed by that."""
        view.catch_up(self._viewer)
        if self._is_replaying and "completed" in self._request.acks:
            bookmark = self._topic.bookmark(self._topic.positions)
            sub_id = self._request.id_of_subscription
            self._outbox.put(ack("completed", self._request.command_id, bookmark=bookmark, sub_id=sub_id))
        self._is_replaying = False

    async def _go_back(self, view: View, place: Positions) -> None:
        """Let the viewer hold what the view showed at its bookmark."""
        await asyncio.sleep(0)
        limits, kafka = self._backend.limits, self._backend.kafka
        [changes] = await changes_since(kafka, [(self._topic, place)], limits.undo_max)
        if view.failed is not None:
            raise view.failed
        if changes and not view.can_go_back:
            number, change = changes[0]
            raise BookmarkExpired(self._topic, number, change.after)
        view.hold(self._viewer, place, changes)

    def _records(self, shown: dict[bytes, Shown]) -> list[bytes]:
        """What is shown, as it goes on the wire."""
        options, log, name = self._selection.options, self._topic.definition.log, self._topic.definition.name
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
        sub_id = self._request.id_of_subscription
        acknowledge_processed(self._outbox, self._request, bookmark=bookmark, sub_id=sub_id)
