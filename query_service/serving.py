"""Serving one subscription: its snapshot if it has one, then catching up from there, then being live."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from fanout.subscription import Subscription
from query_service.active import Active
from query_service.asking import Places, live_filter
from query_service.backend import Backend
from query_service.catch_up import BookmarkExpired, CatchUp
from query_service.group import acknowledge, acknowledge_processed, send_group
from query_service.outbox import Outbox
from query_service.query import Query, Selection
from query_service.state import State, TopicState
from sowline.bookmark import Positions, format_bookmark
from sowline.errors import SowlineError
from sowline.wire import Request

BEHIND_SECONDS_MAX = 10.0


class Serving:
    """One subscription of a session, over one topic or several; `run` it in a task of its own."""

    def __init__(
        self,
        backend: Backend,
        outbox: Outbox,
        request: Request,
        topics: list[TopicState],
        selection: Selection,
        places: Places | None,
    ) -> None:
        self._backend = backend
        self._outbox = outbox
        self._request = request
        self._topics = topics
        self._selection = selection
        self._query: Query | None = None
        options = selection.options
        engine = Subscription(live_filter(selection), options.oof)
        sub_id = request.id_of_subscription
        self._actives = [
            Active(outbox, sub_id, topic, engine, options, delta=request.is_delta) for topic in topics
        ]
        for active in self._actives:
            active.positions = active.topic.positions if places is None else places[active.log]
        if places is None and request.has_snapshot:
            self._query = self._new_query()
            self._query.begin_now()

    def _new_query(self) -> Query:
        return Query(self._topics, self._selection, self._backend.limits)

    async def run(self) -> None:
        """Serve until cancelled; raises where it can't go on."""
        for active in self._actives:
            await wait_for_replica(self._backend.state, active.topic, active.positions)
        expired = await self._has_expired()
        if self._query is not None:
            await self._query.begin()
            self._stand_at(self._query)
        self._acknowledge()
        if self._query is not None:
            await send_group(self._outbox, self._request, self._query)
            acknowledge(self._outbox, self._request, self._query.bookmark, self._query.result)
            self._query = None
        while True:
            if expired:
                await self._send_fresh_group()
            try:
                await _together(self._stay_live(active) for active in self._actives)
            except BookmarkExpired:
                if not self._selection.options.reset:
                    raise
                self.stop()
                expired = True

    @property
    def is_querying(self) -> bool:
        """Whether its snapshot is still being sent."""
        return self._query is not None

    def stop(self) -> None:
        """Take no more part in what happens."""
        for active in self._actives:
            self._backend.hub.remove(active)

    def _stand_at(self, query: Query) -> None:
        for active in self._actives:
            active.positions = dict(query.positions[active.log])

    def _acknowledge(self) -> None:
        bookmark = format_bookmark({active.log: active.positions for active in self._actives})
        sub_id = self._request.id_of_subscription
        acknowledge_processed(self._outbox, self._request, bookmark=bookmark, sub_id=sub_id)

    async def _has_expired(self) -> bool:
        """Tell whether the bookmark is too old, where the client asked for a fresh group then; else that raises."""
        try:
            for active in self._actives:
                await CatchUp(self._backend.kafka, active).check()
        except BookmarkExpired:
            if not self._selection.options.reset:
                raise
            return True
        return False

    async def _send_fresh_group(self) -> None:
        """Send the records as they are now, marked as a reset: what the client held before is void."""
        query = self._new_query()
        await query.begin()
        self._stand_at(query)
        await send_group(self._outbox, self._request, query, reset=True)

    async def _stay_live(self, active: Active) -> None:
        """Catch up and be live, and again whenever the client was too slow for that."""
        while True:
            await CatchUp(self._backend.kafka, active).run(self._backend.hub)
            await active.fell_behind()


async def wait_for_replica(state: State, topic: TopicState, positions: Positions) -> None:
    """Wait for a replica that is behind a client's bookmark, but not for ever; raises `behind`."""
    if not await state.wait_until_reached(topic, positions, BEHIND_SECONDS_MAX):
        place = topic.bookmark(topic.positions)
        raise SowlineError("behind", f"this replica stands at {place}, before the bookmark; try again later")


async def _together(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all at once; where one raises, the others end and its error is raised."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
