"""Serving one subscription: its snapshot if it has one, then catching up from there, then being live."""

import contextlib

from fanout.telling import Told, selected
from query_service.active import Active
from query_service.asking import Places, subscription_of
from query_service.backend import Backend
from query_service.catch_up import BookmarkExpired, CatchUp
from query_service.group import Mark, acknowledge, acknowledge_processed, send_group
from query_service.outbox import Outbox
from query_service.pace import together
from query_service.query import Query, Selection
from query_service.replacing import Held, Replacement
from query_service.state import State, TopicState
from query_service.step import put_told
from sowline.bookmark import Positions, format_bookmark
from sowline.errors import SowlineError
from sowline.wire import Request

BEHIND_SECONDS_MAX = 10.0


class Serving:
    """One subscription of a session, over one topic or several; `run` it in a task of its own.

    It takes the place of `replaced`, which is stopped then: whatever is wrong with the new one is raised before.
    """

    def __init__(
        self,
        backend: Backend,
        outbox: Outbox,
        request: Request,
        topics: list[TopicState],
        selection: Selection,
        places: Places | None,
        replaced: "Serving | None" = None,
    ) -> None:
        self._backend = backend
        self._outbox = outbox
        self._request = request
        self._topics = topics
        self._selection = selection
        self._query: Query | None = None
        self.has_begun = False
        """Whether its command is acknowledged, where that was asked for."""
        options = selection.options
        engine = subscription_of(request, selection)
        sub_id = request.id_of_subscription
        self._actives = [Active(outbox, sub_id, topic, engine, options) for topic in topics]
        for active in self._actives:
            active.stand_at(active.topic.positions if places is None else places[active.log])
        self._is_replacement = self._has_yet_to_replace = replaced is not None
        self._held = None if replaced is None else replaced.held()
        self._is_complete = request.has_snapshot or places is not None
        if places is None and request.has_snapshot:
            self._query = self._new_query()
            if not self._is_replacement:
                self._query.begin_now()

    def _new_query(self) -> Query:
        return Query(self._topics, self._selection, self._backend.limits)

    async def run(self) -> None:
        """Serve until cancelled; raises where it can't go on."""
        if self._is_replacement:
            expired = False
            await self._take_over()
        else:
            expired = await self._take_up()
        while True:
            if expired:
                await self._send_fresh_group()
            try:
                await together(self._stay_live(active) for active in self._actives)
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

    def held(self) -> Held | None:
        """Stop, and return what the client holds; None where that can't be told."""
        self.stop()
        if self._has_yet_to_replace:
            return self._held
        places = {active.log: active.told for active in self._actives}
        held = Held(self._topics, self._selection, places, self._is_complete)
        return held if held.is_certain and not self.is_querying else None

    async def _take_up(self) -> bool:
        """Begin with the snapshot, if there is one; tell whether the client's bookmark is too old instead."""
        for active in self._actives:
            await wait_for_replica(self._backend.state, active.topic, active.positions)
        expired = await self._has_expired()
        if self._query is not None:
            await self._query.begin()
            self._stand_at(self._query)
        self._acknowledge()
        if self._query is not None:
            await self._send_group(self._query)
        return expired

    async def _take_over(self) -> None:
        """Turn what the client of the subscription before holds into what this one shows."""
        query, mark = await self._replacing_query()
        self._has_yet_to_replace = False
        self._stand_at(query)
        self._acknowledge()
        if isinstance(query, Replacement) and self._selection.options.oof:
            await self._send_leaving(query)
        if self._request.has_snapshot:
            await self._send_group(query, mark)
        self._query = None

    async def _replacing_query(self) -> tuple[Query, Mark]:
        backend = self._backend
        if self._held is not None and (self._held.is_complete or not self._request.has_snapshot):
            replacement = Replacement(
                self._held, self._topics, self._selection, backend.limits, backend.kafka
            )
            self._query = replacement
            with contextlib.suppress(BookmarkExpired):
                await replacement.evaluate()
                return replacement, "replace"
        self._query = query = self._new_query()
        await query.begin()
        return query, "reset"

    async def _send_leaving(self, query: Replacement) -> None:
        """Tell which records the client need not hold any more; where a group follows, that belongs to it."""
        request, form = self._request, self._actives[0].form
        for number, (topic, key, delivery) in enumerate(query.leaving, 1):
            await self._outbox.wait_drained()
            more = request.has_snapshot or number < len(query.leaving)
            told = Told(key, delivery.command, selected(delivery.body, form), None, delivery.reason)
            place = query.bookmark_before if more else query.bookmark
            put_told(self._outbox, request.id_of_subscription, topic, form, told, place, more=more)

    def _stand_at(self, query: Query) -> None:
        for active in self._actives:
            active.stand_at(query.positions[active.log])

    def _acknowledge(self) -> None:
        self.has_begun = True
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
        self._query = query = self._new_query()
        await query.begin()
        self._stand_at(query)
        await send_group(self._outbox, self._request, query, "reset")
        self._query = None

    async def _send_group(self, query: Query, mark: Mark = None) -> None:
        await send_group(self._outbox, self._request, query, mark)
        acknowledge(self._outbox, self._request, query.bookmark, query.result)
        self._query = None

    async def _stay_live(self, active: Active) -> None:
        """Catch up and be live, and again whenever the client was too slow for that."""
        hub = self._backend.hub
        if active.conflated is None:
            await self._follow(active)
        else:
            await together([self._follow(active), active.conflated.run(hub.count)])

    async def _follow(self, active: Active) -> None:
        while True:
            await CatchUp(self._backend.kafka, active).run(self._backend.hub)
            await active.fell_behind()


async def wait_for_replica(state: State, topic: TopicState, positions: Positions) -> None:
    """Wait for a replica that is behind a client's bookmark, but not for ever; raises `behind`."""
    if not await state.wait_until_reached(topic, positions, BEHIND_SECONDS_MAX):
        place = topic.bookmark(topic.positions)
        raise SowlineError("behind", f"this replica stands at {place}, before the bookmark; try again later")
