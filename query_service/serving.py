"""Serving one subscription: its snapshot if it has one, then catching up from there, then being live."""

import asyncio
import contextlib
import time

from fanout.telling import told_whole
from query_service.active import Active
from query_service.asking import Places, no_sow, past_of, subscription_of
from query_service.backend import Backend
from query_service.catch_up import BookmarkExpired, CatchUp
from query_service.ends import Ends, ends_of, known_end
from query_service.group import Mark, acknowledge, acknowledge_processed, send_group
from query_service.outbox import Outbox
from query_service.pace import together
from query_service.paced import Paced
from query_service.places import begin_of, oldest, wait_for_replica, wait_for_time
from query_service.proof import proof_of, put_proof
from query_service.query import Query, Selection
from query_service.quiet import Quiet
from query_service.replacing import Held, Replacement
from query_service.standing import Standing, positions_between
from query_service.standing import State as StandingState
from query_service.state import TopicState
from query_service.step import put_told
from sowline.bookmark import format_bookmark
from sowline.errors import SowlineError
from sowline.span import Span
from sowline.wire import Request, ack

GONE = ("bookmark_expired", "history expired")
"""Why a begin may not be found any more."""


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
        span: Span,
        replaced: "Serving | None" = None,
    ) -> None:
        self._backend = backend
        self._outbox = outbox
        self._request = request
        self._topics = topics
        self._selection = selection
        self._span = span
        self._past = past_of(span, selection.options, topics) if request.has_snapshot else None
        self._begins_now = span.begins_now or (
            request.has_snapshot and span.moment is not None and self._past is None
        )
        self._ends: Ends | None = None
        self._query: Query | None = None
        self.has_begun = False
        """Whether its command is acknowledged, where that was asked for."""
        options = selection.options
        engine = subscription_of(request, selection)
        sub_id = request.id_of_subscription
        self._actives = [Active(outbox, sub_id, topic, engine, selection) for topic in topics]
        for active in self._actives:
            active.stand_at(active.topic.positions)
        self._quiet = Quiet()
        self._flow: asyncio.Task[None] | None = None
        self._going = asyncio.Event()
        if not options.pause:
            self._going.set()
        self._replaying = set() if self._begins_now else {active.log for active in self._actives}
        self._is_replacement = self._has_yet_to_replace = replaced is not None
        self._held = None if replaced is None else replaced.held()
        self._is_complete = request.has_snapshot or span.is_return
        if self._begins_now and request.has_snapshot:
            self._query = self._new_query()
            if not self._is_replacement:
                self._query.begin_now()

    def _new_query(self) -> Query:
        return Query(self._topics, self._selection, self._backend.limits)

    async def run(self) -> bytes | None:
        """Serve until cancelled, or until the end that was asked for; return what is to be said when it is over.

        Raises where it can't go on.
        """
        if self._is_replacement:
            expired = False
            await self._take_over()
        else:
            expired = await self._take_up()
        while True:
            if expired:
                await self._send_fresh_group()
            try:
                await self._go_on()
                return self._completed()
            except BookmarkExpired:
                if not self._selection.options.reset:
                    raise
                self._leave()
                expired = True

    @property
    def is_querying(self) -> bool:
        """Whether its snapshot is still being sent."""
        return self._query is not None

    def stop(self) -> None:
        """Take no more part in what happens, at once."""
        self._going.clear()
        self._leave()
        if self._flow is not None:
            self._flow.cancel()

    def _leave(self) -> None:
        for active in self._actives:
            self._backend.hub.remove(active)

    def held(self) -> Held | None:
        """Stop, and return what the client holds; None where that can't be told."""
        self.stop()
        if self._has_yet_to_replace:
            return self._held
        if not self.has_begun and not self._begins_now:
            return None
        places = {active.log: active.told for active in self._actives}
        held = Held(self._topics, self._selection, places, self._is_complete)
        return held if held.is_certain and not self.is_querying else None

    # pausing, and saying where it stands

    @property
    def _is_paused(self) -> bool:
        return not self._going.is_set()

    def pause(self) -> None:
        """Tell nothing more, and stand where the client was told everything; a group is sent to its end."""
        self._going.clear()
        if self._query is not None or not self.has_begun:
            return
        for active in self._actives:
            self._backend.hub.remove(active)
            active.stand_at(active.told)
        if self._flow is not None:
            self._flow.cancel()

    def resume(self) -> None:
        """Go on from there."""
        self._going.set()

    def quiet_place(self) -> Places | None:
        """Return where the subscription stands, if the client is to be told that now; None if not."""
        if not self.has_begun or self.is_querying or self._is_paused:
            return None
        was_told = False
        for active in self._actives:
            was_told |= active.was_told or not (active.live.is_set() or self._is_paced)
            active.was_told = False
        places = {active.log: active.told for active in self._actives}
        return places if self._quiet.look(was_told, places) else None

    def standing(self) -> Standing:
        """Return how it stands now."""
        lagging = [active.level_at for active in self._actives if not active.live.is_set()]
        return Standing(
            self._request,
            self._standing_state,
            sum(positions_between(active.told, active.topic.positions) for active in self._actives),
            time.monotonic() - min(lagging) if lagging else 0.0,
        )

    @property
    def _standing_state(self) -> StandingState:
        if not self.has_begun:
            return "beginning"
        if self.is_querying:
            return "group"
        if self._is_paused:
            return "paused"
        if self._is_paced:
            return "paced"
        return "live" if all(active.live.is_set() for active in self._actives) else "catching up"

    async def prove(self, request: Request) -> None:
        """Tell how many records the client should hold, in order with the messages; raises where it can't be told.

        Meanwhile it is told nothing else.
        """
        if lacking := [topic for topic in self._topics if not topic.definition.has_sow]:
            raise no_sow(lacking[0])
        if self._is_paused or self._is_paced:
            raise SowlineError(
                "not supported",
                "expected a subscription that goes on as things happen: not one that is paused, or has an end or a"
                " rate",
            )
        selection = Selection(self._selection.filter, sow_keys=self._selection.sow_keys)
        query = Query(self._topics, selection, self._backend.limits)
        while True:
            for active in self._actives:
                await active.live.wait()
            await query.prepare()
            if all(active.live.is_set() for active in self._actives) and query.begin_now():
                break
        for active in self._actives:
            if active.conflated is not None:
                active.conflated.flush()
            self._backend.hub.remove(active)
        try:
            put_proof(self._outbox, request, query.bookmark, *await proof_of(query))
        finally:
            for active in self._actives:
                active.fall_behind()

    # the begin

    async def _take_up(self) -> bool:
        """Begin with the snapshot, if there is one; tell whether the client's bookmark is too old instead."""
        expired = False
        try:
            await self._begin()
        except SowlineError as error:
            if error.reason not in GONE:
                raise
            expired = await self._begin_elsewhere(error)
        self._find_end()
        self._acknowledge()
        if self._query is not None:
            await self._send_group(self._query)
        return expired

    async def _begin(self) -> None:
        """Stand where it was asked for, and make sure that every change from there on is to be had."""
        if self._past is not None:
            await wait_for_time(self._backend, self._topics, self._past)
            self._query = Query(self._topics, self._selection, self._backend.limits, at=self._past)
        if self._query is not None:
            await self._query.begin()
            self._stand_at(self._query)
        elif not self._begins_now:
            places = await begin_of(self._backend, self._topics, self._span)
            for active in self._actives:
                active.stand_at(places[active.log])
        for active in self._actives:
            await wait_for_replica(self._backend.state, active.topic, active.positions)
            await CatchUp(self._backend.kafka, active).check()

    async def _begin_elsewhere(self, error: SowlineError) -> bool:
        """Begin where the client wants to in place of what is gone; tell whether that is with a fresh group."""
        wanted = self._selection.options.bookmark_not_found
        has_snapshot = self._query is not None
        self._query = None
        if wanted == "reset":
            return True
        if wanted == "fail" or (wanted == "epoch" and has_snapshot):
            raise error
        if wanted == "now":
            self._query = self._new_query() if has_snapshot else None
            places = {active.log: active.topic.positions for active in self._actives}
        else:
            places = await oldest(self._backend, self._topics)
        for active in self._actives:
            active.stand_at(places[active.log])
        if self._query is not None:
            await self._query.begin()
            self._stand_at(self._query)
        return False

    def _find_end(self) -> None:
        """Find out where it ends: if that is now, then at the instant of its begin."""
        now = {
            active.log: dict(active.positions) if self._begins_now else active.topic.positions
            for active in self._actives
        }
        self._ends = ends_of(self._backend, self._topics, self._span, now)

    async def _take_over(self) -> None:
        """Turn what the client of the subscription before holds into what this one shows."""
        query, mark = await self._replacing_query()
        self._has_yet_to_replace = False
        self._stand_at(query)
        self._find_end()
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
            told = told_whole(key, delivery, form, None)
            place = query.bookmark_before if more else query.bookmark
            put_told(self._outbox, request.id_of_subscription, topic, form, told, place, more=more)

    def _stand_at(self, query: Query) -> None:
        for active in self._actives:
            active.stand_at(query.positions[active.log])

    def _acknowledge(self) -> None:
        self.has_begun = True
        end = known_end(self._ends)
        acknowledge_processed(
            self._outbox,
            self._request,
            bookmark=self._bookmark,
            up_to="" if end is None else format_bookmark(end),
            sub_id=self._request.id_of_subscription,
        )

    @property
    def _bookmark(self) -> str:
        return format_bookmark({active.log: active.told for active in self._actives})

    async def _send_fresh_group(self) -> None:
        """Send the records as they are now, marked as a reset: what the client held before is void."""
        self._query = query = self._new_query()
        await query.begin()
        self._stand_at(query)
        await send_group(self._outbox, self._request, query, "reset")
        self._query = None

    async def _send_group(self, query: Query, mark: Mark = None) -> None:
        await send_group(self._outbox, self._request, query, mark)
        is_completed = not self._replaying and self._ends is None
        acknowledge(self._outbox, self._request, query.bookmark, query.result, is_completed=is_completed)
        self._query = None

    # what comes after it

    @property
    def _is_paced(self) -> bool:
        return self._ends is not None or self._selection.options.rate is not None

    async def _go_on(self) -> None:
        """Tell what happens, but while it is paused; returns at the end."""
        while True:
            await self._going.wait()
            self._flow = flow = asyncio.ensure_future(self._tell())
            try:
                await asyncio.wait((flow,))
            finally:
                flow.cancel()
            if not flow.cancelled():
                flow.result()
                return

    async def _tell(self) -> None:
        if self._is_paced:
            await self._keep_pace()
        else:
            await together(self._stay_live(active) for active in self._actives)

    async def _keep_pace(self) -> None:
        """Tell one change after the other, up to the end; then the subscription is over."""
        count = self._backend.hub.count
        conflated = [active.conflated for active in self._actives if active.conflated is not None]
        running = [asyncio.ensure_future(one.run(count)) for one in conflated]
        rate = self._selection.options.rate
        try:
            await Paced(self._backend, self._actives, self._ends, rate, self._caught_up).run()
        finally:
            for task in running:
                task.cancel()
        for one in conflated:
            count(one.flush())

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
            self._caught_up(active)
            await active.fell_behind()

    def _caught_up(self, active: Active | None = None) -> None:
        """Say that all is told that had happened before the subscription began, once, where that was asked for."""
        if not self._replaying:
            return
        self._replaying = self._replaying - {active.log} if active is not None else set()
        if not self._replaying and self._ends is None and "completed" in self._request.acks:
            self._outbox.put(self._completed())

    def _completed(self) -> bytes:
        sub_id = self._request.id_of_subscription
        return ack("completed", self._request.command_id, bookmark=self._bookmark, sub_id=sub_id)
