"""The live views that one subscription keeps open: its view, and, for a while, that of the replaced subscription."""

import asyncio
from collections.abc import Callable

from sowline.serving.query_slots import QuerySlot
from sowline.serving.view_memory import ViewHolder
from sowline.wire.request import Subscribe
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import ViewName
from sowline_query_service.live.group_views import GroupPageView, GroupView
from sowline_query_service.live.pages import PageView
from sowline_query_service.live.view import LiveView, Viewer
from sowline_query_service.query.freshness import take_when_fresh
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


class OpenViews:
    """Opens the view of a selection, or shares one that is open. The last subscription that leaves closes it."""

    def __init__(
        self,
        context: ServiceContext,
        request: Subscribe,
        topic: TopicState,
        selection: Selection,
        new_slot: Callable[[], QuerySlot],
        holder: ViewHolder,
        *,
        is_page: bool,
    ) -> None:
        """Open views of a selection; a view that has to be filled takes a new slot for that."""
        self._context = context
        self._request = request
        self._topic = topic
        self._selection = selection
        self._new_slot = new_slot
        self._holder = holder
        self._is_page = is_page
        self._open: dict[ViewName, LiveView] = {}
        self.view: LiveView | None = None
        """The view that the subscription has entered."""

    @property
    def _name(self) -> ViewName:
        options, filter = self._selection.options, self._selection.filter.text
        order = self._selection.order.text if self._is_page else ""
        kind = f"{self._is_page} {self._selection.merges}"
        return filter, ",".join(map(str, options.grouping)), options.projection, order, kind

    def take_from(self, replaced: "OpenViews") -> None:
        """Take over the open views of the replaced subscription, until this one has entered its view."""
        self._open = replaced.give_away()

    def give_away(self) -> dict[ViewName, LiveView]:
        """Return the open views; from now on the caller keeps them open."""
        given, self._open = self._open, {}
        return given

    async def enter(self) -> LiveView:
        """Enter the view, leave all others, and return it."""
        view = await self._find()
        if self._open.get(self._name) is not view:
            view.users += 1
            view.bytes.enter(self._holder)
        # Leave other views only now: the new view may be one of them, and would be closed and filled again
        # (test_a_page_instead_of_a_page).
        others = [name for name, open in self._open.items() if open is not view]
        self._open = self._open | {self._name: view}
        for name in others:
            self._leave(name)
        self.view = view
        return view

    def stop(self, viewer: Viewer) -> None:
        """Send the viewer nothing more, and leave all views."""
        if self.view is not None:
            self.view.remove(viewer)
            self.view = None
        for name in list(self._open):
            self._leave(name)

    def _leave(self, name: ViewName) -> None:
        view = self._open.pop(name)
        view.users -= 1
        view.bytes.leave(self._holder)
        if not view.users:
            self._context.dispatcher.remove_view(self._topic.definition.name, name, view)
            if view.filling is not None:
                view.filling.cancel()

    async def _find(self) -> LiveView:
        """Return the view if it is open; otherwise make it at an instant, and start to fill it."""
        dispatcher, topic = self._context.dispatcher, self._topic
        if (view := dispatcher.view(topic.definition.name, self._name)) is not None:
            return view
        query, slot = (
            Query([topic], Selection(self._selection.filter), self._context.limits),
            self._new_slot(),
        )
        try:
            await take_when_fresh(slot, self._context.state, [topic], self._request)
            await query.begin()
            # Another subscription may have made the view during the wait. Nothing is awaited between here and
            # `add_view`: the view must get every change after the query's instant.
            if (view := dispatcher.view(topic.definition.name, self._name)) is not None:
                slot.free()
                return view
            made = self._new_view()
        except BaseException:
            slot.free()
            raise
        dispatcher.add_view(topic.definition.name, self._name, made)
        made.filling = asyncio.get_running_loop().create_task(made.fill(query))
        # The view keeps the slot, not its first subscriber: that one may leave while others wait for the same view.
        made.filling.add_done_callback(lambda done: slot.free())
        return made

    def _new_view(self) -> LiveView:
        if not self._selection.options.projection:
            return PageView(self._topic, self._selection, self._context.views)
        kind = GroupPageView if self._is_page else GroupView
        return kind(self._topic, self._selection, self._context.views, self._context.limits.groups_max)
