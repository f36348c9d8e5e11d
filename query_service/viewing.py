"""Serving one subscription to a page or to groups: the view as it is, then what becomes of it."""

import asyncio

from query_service.asking import Places
from query_service.backend import Backend
from query_service.catch_up import BookmarkExpired, changes_since
from query_service.group import acknowledge, acknowledge_processed, put_group
from query_service.group_views import GroupPageView, GroupView, shown_in_order
from query_service.grouping import hash_of
from query_service.hub import ViewName
from query_service.outbox import Outbox
from query_service.pages import PageView
from query_service.query import Query, Result, Selection
from query_service.serving import wait_for_replica
from query_service.state import TopicState
from query_service.views import Shown, View, Viewer
from sowline.bookmark import Positions, format_position
from sowline.wire import Request, sow_record


class Viewing:
    """One subscription of a session to a view; `run` it in a task of its own."""

    def __init__(
        self,
        backend: Backend,
        outbox: Outbox,
        request: Request,
        topic: TopicState,
        selection: Selection,
        places: Places | None,
    ) -> None:
        self._backend = backend
        self._outbox = outbox
        self._request = request
        self._topic = topic
        self._selection = selection
        self._place = None if places is None else places[topic.definition.log]
        self._is_page = request.skip_n is not None
        self._viewer = Viewer(outbox, request.id_of_subscription, selection)
        self._view: View | None = None

    @property
    def _name(self) -> ViewName:
        options, filter = self._selection.options, self._selection.filter.text
        order = self._selection.order.text if self._is_page else ""
        return filter, ",".join(map(str, options.grouping)), options.projection, order, str(self._is_page)

    @property
    def is_querying(self) -> bool:
        """No: a view is sent at once."""
        return False

    async def run(self) -> None:
        """Serve until cancelled; raises where it can't go on."""
        if self._place is not None:
            await wait_for_replica(self._backend.state, self._topic, self._place)
        view = self._view = await self._view_of_topic()
        view.users += 1
        assert view.filling is not None
        await asyncio.shield(view.filling)
        if self._place is None or not await self._came_back(view, self._place):
            self._begin(view, reset=self._place is not None)
        while True:
            await self._viewer.behind.wait()
            await self._outbox.wait_drained()
            if view.failed is not None:
                raise view.failed
            view.catch_up(self._viewer)

    def stop(self) -> None:
        """Look at the view no more; whoever is the last closes it."""
        view, self._view = self._view, None
        if view is None:
            return
        view.remove(self._viewer)
        view.users -= 1
        if not view.users:
            self._backend.hub.remove_view(self._topic.definition.name, self._name)
            if view.filling is not None:
                view.filling.cancel()

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

    def _begin(self, view: View, *, reset: bool) -> None:
        """Send the view as it is, and be live from there on."""
        if view.failed is not None:
            raise view.failed
        bookmark = self._topic.bookmark(self._topic.positions)
        self._acknowledge(bookmark)
        shown = view.shown_to(self._viewer)
        if not self._is_page:
            shown = shown_in_order(shown, self._selection)
        records = self._records(shown)
        result = Result(len(self._topic.rows), view.matches)
        result.count(len(records), sum(map(len, records)), hash_of(shown))
        put_group(self._outbox, self._request, bookmark, records, result, reset=reset)
        acknowledge(self._outbox, self._request, bookmark, result)
        view.add(self._viewer)

    async def _came_back(self, view: View, place: Positions) -> bool:
        """Tell the client what has changed since its bookmark; False where a fresh group has to do."""
        try:
            async with view.coming_back:
                await self._go_back(view, place)
        except BookmarkExpired:
            if not self._selection.options.reset:
                raise
            return False
        self._acknowledge(self._topic.bookmark(place))
        view.catch_up(self._viewer)
        return True

    async def _go_back(self, view: View, place: Positions) -> None:
        """Let the viewer hold what the view showed at its bookmark."""
        await asyncio.sleep(0)
        limits, kafka = self._backend.limits, self._backend.kafka
        changes = await changes_since(kafka, self._topic, place, limits.undo_max)
        if view.failed is not None:
            raise view.failed
        if changes and not view.can_go_back:
            raise BookmarkExpired(changes[0][1].after)
        view.hold(self._viewer, place, changes)

    def _records(self, shown: dict[bytes, Shown]) -> list[bytes]:
        """What is shown, as it goes on the wire."""
        options, log = self._selection.options, self._topic.definition.log
        return [
            sow_record(
                None if options.no_sowkey else key,
                None if of.position is None else format_position(log, of.partition, of.position).encode(),
                of.body if options.select is None else options.select.apply(of.body),
                of.time if options.timestamp and of.position is not None else None,
            )
            for key, of in shown.items()
        ]

    def _acknowledge(self, bookmark: str) -> None:
        sub_id = self._request.id_of_subscription
        acknowledge_processed(self._outbox, self._request, bookmark=bookmark, sub_id=sub_id)
