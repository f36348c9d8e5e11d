"""Finds where a subscription to a window begins, and what its client holds there."""

import asyncio

from sowline.model.bookmark import Positions
from sowline.model.bookmark_range import BookmarkRange
from sowline.serving.query_slots import QuerySlot
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import past_of
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.bookmark_resolver import wait_for_start, wait_for_time
from sowline_query_service.subscriptions.catch_up import BookmarkExpired, changes_since
from sowline_query_service.topics.topic_state import TopicState


class WindowStart:
    """The start of one subscription: a bookmark, whose window its client holds, or a time, whose window it gets."""

    def __init__(
        self,
        context: ServiceContext,
        slot: QuerySlot,
        topic: TopicState,
        selection: Selection,
        bookmark_range: BookmarkRange,
    ) -> None:
        self._context = context
        self._slot = slot
        self._topic = topic
        self._selection = selection
        self._bookmark_range = bookmark_range
        self._past = past_of(bookmark_range, selection.options, [topic])

    @property
    def begins_now(self) -> bool:
        """Whether it begins with the current records; with `current`, also for a time that has no history."""
        bookmark_range = self._bookmark_range
        return bookmark_range.begins_now or (bookmark_range.moment is not None and self._past is None)

    async def find(self) -> Positions:
        """Return the positions; raise `bookmark_expired` or `history expired` if they are gone."""
        topic, context = self._topic, self._context
        if self._past is not None:
            await wait_for_time(context, [topic], self._past)
            return topic.past(self._past).positions
        return (await wait_for_start(context, [topic], self._bookmark_range))[topic.definition.log]

    async def go_back(
        self, window: LiveWindow, viewer: Viewer, positions: Positions
    ) -> Query | GroupedQuery | None:
        """Let the viewer hold the window as it was at the positions; return the query of the time, if there is one.

        Raise `bookmark_expired` or `history expired` if that is gone.
        """
        while True:
            async with window.coming_back:
                await self._undo(window, viewer, positions)
            query = await self._begun_query()
            if query is None or (found := query.positions[self._topic.definition.log]) == positions:
                return query
            # The log took a record of that time late, from a broker whose clock is behind. It may do so each time
            # (test_a_log_that_takes_records_late_all_the_time).
            self._slot.free()
            positions = found

    async def _undo(self, window: LiveWindow, viewer: Viewer, positions: Positions) -> None:
        """Let the viewer hold the window as it was before the changes since the positions."""
        await asyncio.sleep(0)
        limits, kafka = self._context.limits, self._context.kafka
        more = 0
        while True:
            async with window.reaching(viewer.page.end + more):
                [changes] = await changes_since(kafka, [(self._topic, positions)], limits.undo_max)
                # Nothing is awaited from here to the end. The changes are complete up to this instant, and undoing
                # them in a window that has moved on would give a window that never existed.
                window.check(viewer)
                if changes and not window.can_go_back:
                    number, change = changes[0]
                    raise BookmarkExpired(self._topic, number, change.after)
                # Each record that changed may have been after the page then, and another one in its place.
                if window.reaches(viewer.page.end + len(changes)):
                    window.fall_behind(viewer, positions, changes)
                    return
            more = 2 * len(changes)

    async def _begun_query(self) -> Query | GroupedQuery | None:
        """Return the query of the requested time, once its turn has come; None if no time was requested."""
        if self._past is None:
            return None
        # Not before: it would keep others from running while this one waits for its window, and to go back
        # (test_a_window_that_waits_to_go_back_holds_no_turn).
        await self._slot.take()
        query = self._query_of(self._past)
        await query.begin()
        return query

    def _query_of(self, past: int) -> Query | GroupedQuery:
        if self._selection.options.projection:
            return GroupedQuery(self._topic, self._selection, self._context.limits, past)
        return Query([self._topic], self._selection, self._context.limits, past)
