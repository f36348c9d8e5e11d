"""The live windows that one subscription keeps open: its own, and, for a while, that of the replaced subscription."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from sowline.serving.query_slots import QuerySlot
from sowline.serving.window_memory import WindowHolder
from sowline.wire.request import Subscribe
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import WindowName
from sowline_query_service.live.group_windows import GroupPageWindow, GroupWindow
from sowline_query_service.live.pages import Paged, PageWindow
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.query.freshness import take_when_fresh
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


class PageRefills:
    """Finds the first records that a page's selection matches, in their order."""

    def __init__(
        self,
        context: ServiceContext,
        topic: TopicState,
        selection: Selection,
        new_slot: Callable[[], QuerySlot],
    ) -> None:
        self._context = context
        self._topic = topic
        self._selection = selection
        self._new_slot = new_slot
        self.margin = context.limits.page_margin

    def query(self, count: int) -> Query:
        """Return a query of the first `count` records."""
        selection = Selection(self._selection.filter, order=self._selection.order, top_n=count)
        return Query([self._topic], selection, self._context.limits)

    @asynccontextmanager
    async def begun(self, count: int) -> AsyncGenerator[Query, None]:
        """Wait for a turn, and return a query of the first `count` records, at the instant at which this returns."""
        slot = self._new_slot()
        try:
            await slot.take()
            query = self.query(count)
            await query.begin()
            yield query
        finally:
            slot.free()


class OpenWindows:
    """Opens the window of a selection, or shares one that is open. The last subscription that leaves closes it."""

    def __init__(
        self,
        context: ServiceContext,
        request: Subscribe,
        topic: TopicState,
        selection: Selection,
        new_slot: Callable[[], QuerySlot],
        holder: WindowHolder,
        *,
        is_page: bool,
    ) -> None:
        """Open windows of a selection; a window that has to be filled takes a new slot for that."""
        self._context = context
        self._request = request
        self._topic = topic
        self._selection = selection
        self._new_slot = new_slot
        self._holder = holder
        self._is_page = is_page
        self._open: dict[WindowName, LiveWindow] = {}
        self.window: LiveWindow | None = None
        """The window that the subscription has entered."""

    @property
    def _name(self) -> WindowName:
        options, filter = self._selection.options, self._selection.filter.text
        order = self._selection.order.text if self._is_page else ""
        kind = f"{self._is_page} {self._selection.merges}"
        return filter, ",".join(map(str, options.grouping)), options.projection, order, kind

    def rank_of(self, sow_key: bytes) -> int | None:
        """Return the rank of a record or group in the page that the subscription has entered; None without one."""
        return self.window.rank_of(sow_key) if isinstance(self.window, Paged) else None

    def take_from(self, replaced: "OpenWindows") -> None:
        """Take over the open windows of the replaced subscription, until this one has entered its window."""
        assert not self._open, "it takes over before it enters its own"
        self._open = replaced.give_away()

    def give_away(self) -> dict[WindowName, LiveWindow]:
        """Return the open windows; from now on the caller keeps them open."""
        given, self._open = self._open, {}
        return given

    async def enter(self) -> LiveWindow:
        """Enter the window, leave all others, and return it."""
        window = await self._find()
        entered, self._open = self._open, {self._name: window}
        if entered.get(self._name) is not window:
            window.users += 1
            window.bytes.enter(self._holder)
        # Leave other windows only now: the new window may be one of them, and would be closed and filled again
        # (test_a_page_instead_of_a_page). One that has failed has the new window's name
        # (test_a_window_that_has_failed_makes_room_for_its_successor).
        for name, other in entered.items():
            if other is not window:
                self._leave(name, other)
        assert window.users > 0, "who has entered was counted"
        self.window = window
        return window

    def stop(self, viewer: Viewer) -> None:
        """Send the viewer nothing more, and leave all windows."""
        if self.window is not None:
            self.window.remove(viewer)
            self.window = None
        for name, window in self.give_away().items():
            self._leave(name, window)

    def _leave(self, name: WindowName, window: LiveWindow) -> None:
        assert window.users > 0, "who leaves was counted"
        window.users -= 1
        window.bytes.leave(self._holder)
        if not window.users:
            self._context.dispatcher.remove_window(self._topic.definition.name, name, window)
            if window.filling is not None:
                window.filling.cancel()

    async def _find(self) -> LiveWindow:
        """Return the window if it is open; otherwise make it at an instant, and start to fill it."""
        dispatcher, topic = self._context.dispatcher, self._topic
        if (window := dispatcher.window(topic.definition.name, self._name)) is not None:
            return window
        refills = PageRefills(self._context, topic, self._selection, self._new_slot)
        if self._selection.options.projection:
            query = Query([topic], Selection(self._selection.filter), self._context.limits)
        else:
            query = refills.query((self._selection.end or 0) + refills.margin)
        slot = self._new_slot()
        try:
            await take_when_fresh(slot, self._context.state, [topic], self._request)
            await query.begin()
            # Another subscription may have made the window during the wait. Nothing is awaited between here and
            # `add_window`: the window must get every change after the query's instant.
            if (window := dispatcher.window(topic.definition.name, self._name)) is not None:
                slot.free()
                return window
            made = self._new_window(refills)
        except BaseException:
            slot.free()
            raise
        dispatcher.add_window(topic.definition.name, self._name, made)
        assert made.filling is None, "a new window is not filled yet"
        made.filling = asyncio.get_running_loop().create_task(made.fill(query))
        # The window keeps the slot, not its first subscriber: that one may leave while others wait for it.
        made.filling.add_done_callback(lambda done: slot.free())
        return made

    def _new_window(self, refills: PageRefills) -> LiveWindow:
        if not self._selection.options.projection:
            return PageWindow(self._topic, self._selection, self._context.views, refills)
        kind = GroupPageWindow if self._is_page else GroupWindow
        return kind(self._topic, self._selection, self._context.views, self._context.limits.groups_max)
