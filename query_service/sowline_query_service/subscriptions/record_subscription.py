"""Serves one subscription to records: its snapshot if it has one, the changes since, then live changes."""

import asyncio
import contextlib

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.model.bookmark_range import BookmarkRange
from sowline.serving.cooperative import running, together
from sowline.serving.outbox.group import Mark, acknowledge, acknowledge_processed, send_group
from sowline.serving.refusal import no_sow
from sowline.serving.result import Result
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.status import State, SubscriptionStatus
from sowline.subscriptions.live.progress import ProgressTimer
from sowline.subscriptions.live.request_checks import GONE
from sowline.wire.request import Heartbeat, Subscribe
from sowline.wire.server_message import ack, message
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.freshness import lag_seconds, take_when_fresh
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import past_of, subscription_of
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.bookmark_resolver import (
    begin_of,
    check_eras,
    oldest,
    wait_for_replica,
    wait_for_time,
)
from sowline_query_service.subscriptions.catch_up import BookmarkExpired, CatchUp
from sowline_query_service.subscriptions.end import Ends, ends_of, known_end
from sowline_query_service.subscriptions.replacement import HeldRecords, ReplacementQuery
from sowline_query_service.subscriptions.replay import Replay
from sowline_query_service.subscriptions.subscribed_topics import SubscribedTopics
from sowline_query_service.subscriptions.view_checksum import send_records_checksum
from sowline_query_service.topics.state import TopicState


class RecordSubscription:
    """A session's subscription to the records of one or several topics; `run` it in a separate task.

    It stops the subscription that it replaces. If the request is invalid, it raises before that.
    """

    def __init__(
        self,
        context: ServiceContext,
        runner: CommandRunner,
        request: Subscribe,
        topics: list[TopicState],
        selection: Selection,
        bookmark_range: BookmarkRange,
        replaced: "RecordSubscription | None" = None,
    ) -> None:
        self._context = context
        self._runner = runner
        self._slot = runner.new_slot()
        self._outbox = outbox = runner.outbox_for(selection.options)
        self.request = request
        self._topics = topics
        self._selection = selection
        self._bookmark_range = bookmark_range
        self._past = past_of(bookmark_range, selection.options, topics) if request.has_snapshot else None
        self._begins_now = bookmark_range.begins_now or (
            request.has_snapshot and bookmark_range.moment is not None and self._past is None
        )
        self._ends: Ends | None = None
        self._query: Query | None = None
        self.has_begun = False
        """Whether its command was acknowledged, if requested."""
        engine = subscription_of(request, selection)
        self._live = SubscribedTopics(outbox, self._sub_id, topics, engine, selection)
        self._progress_timer = ProgressTimer()
        self._flow: asyncio.Task[None] | None = None
        self._going = asyncio.Event()
        if not selection.options.pause:
            self._going.set()
        self._replaying = set() if self._begins_now else self._live.logs
        self._is_replacement = self._has_yet_to_replace = replaced is not None
        self._held = None if replaced is None else replaced.held()
        self._is_complete = request.has_snapshot or bookmark_range.is_return
        self._owes_stats = request.has_snapshot and "stats" in request.acks
        if self._begins_now and request.has_snapshot:
            self._query = self._new_query()
            # Take the snapshot's instant when the command arrives, if its turn has come and the indexes are ready.
            # The group may be sent later; changes until then follow it (test_a_sow_and_subscribe_is_one_instant).
            if not self._is_replacement:
                self._slot.begin_now(self._query.begin_now)
        self._is_begun = False  # whether it began at once, and is live

    def begin_at_once(self) -> None:
        """Be live from the instant at which the command arrives, if nothing has to be sent or waited for before.

        Otherwise changes that come until its task runs are read again, for each subscription by itself: while
        thousands begin and changes come all the time, they would hardly get there.
        """
        options, is_endless = self._selection.options, self._bookmark_range.end is None
        is_plain = self._begins_now and not self.request.has_snapshot and not self._is_replacement
        if not is_plain or not is_endless or options.rate is not None or options.pause or self._outbox.full:
            return
        self._is_begun = True
        self._acknowledge()
        self._acknowledge_no_group()
        for live in self._live:
            self._context.dispatcher.add(live)

    def _new_query(self) -> Query:
        return Query(self._topics, self._selection, self._context.limits)

    async def run(self) -> bytes | None:
        """Serve until cancelled, or until the requested end. Raise if it can't continue.

        At the end return the `completed` acknowledgement, which the caller sends last. None is never returned here:
        the type is that of all served subscriptions, and means that there is no last message.
        """
        expired = False
        async with self._slot:
            if self._is_replacement:
                await self._take_over()
            elif not self._is_begun:
                expired = await self._take_up()
        while True:
            if expired:
                await self._send_fresh_group()
            try:
                await self._go_on()
                return self._completed()
            except BookmarkExpired:
                # While a client is paused or slow, compaction may remove changes that it was not sent. With `reset`
                # it gets a new group, otherwise the error: never the later changes alone
                # (test_a_pause_may_be_too_long).
                if not self._selection.options.reset:
                    raise
                self._live.leave(self._context.dispatcher)
                expired = True

    @property
    def is_querying(self) -> bool:
        """Whether its snapshot is still being sent."""
        return self._query is not None

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._going.clear()
        self._slot.free()
        self._live.leave(self._context.dispatcher)
        if self._flow is not None:
            self._flow.cancel()

    def held(self) -> HeldRecords | None:
        """Stop, and return the records that the client holds; None if they are unknown."""
        self.stop()
        # A replaces B, and C replaces A before A has sent anything: the client still holds the records of B
        # (test_twice_in_a_row).
        if self._has_yet_to_replace:
            return self._held
        if not self.has_begun and not self._begins_now:
            return None
        # Within a snapshot it is unknown which of its records the client has
        # (test_while_the_snapshot_is_being_sent).
        held = HeldRecords(self._topics, self._selection, self._live.sent, self._is_complete)
        return held if held.is_certain and not self.is_querying else None

    # pausing, and reporting progress

    @property
    def _is_paused(self) -> bool:
        return not self._going.is_set()

    def pause(self) -> None:
        """Send nothing more until `resume`, except the rest of a group that is being sent."""
        self._going.clear()
        if self._query is not None or not self.has_begun:
            return
        for live in self._live:
            self._context.dispatcher.remove(live)
            # Go back to where the client was sent everything. Messages held back by conflation are dropped, and their
            # changes are read again after the pause (test_what_was_conflated_is_sent_after_a_pause).
            live.stand_at(live.sent)
        if self._flow is not None:
            self._flow.cancel()

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        self._going.set()

    def quiet_position(self) -> PositionsByLog | None:
        """Return the client's positions if it should get a progress message now; None if not."""
        if not self.has_begun or self.is_querying or self._is_paused:
            return None
        was_sent = self._live.look(is_paced=self._is_paced)
        # Positions matter only to an idle subscription: of ten thousand, each would make them at each check.
        sent = {} if was_sent else self._live.sent
        return sent if self._progress_timer.look(was_sent, sent) else None

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live, or how far behind."""
        live = self._live
        return SubscriptionStatus(self.request, self._state, live.behind_positions, live.behind_seconds)

    @property
    def _state(self) -> State:
        if not self.has_begun:
            return "beginning"
        if self.is_querying:
            return "group"
        if self._is_paused:
            return "paused"
        if self._is_paced:
            return "paced"
        return "live" if self._live.is_live else "catching up"

    async def prove(self, request: Heartbeat) -> None:
        """Send the checksum of the records that the client should hold, in order with the messages.

        Raise `no sow` or `not supported` if these records are unknown.
        """
        if lacking := [topic for topic in self._topics if not topic.definition.has_sow]:
            raise no_sow(lacking[0].definition.name)
        if self._is_paused or self._is_paced:
            raise SowlineError(
                "not supported", "expected a subscription without an end or a rate that is not paused"
            )
        slot = self._runner.new_slot()
        await send_records_checksum(self._context, self._outbox, request, self._live, self._selection, slot)

    # the start

    async def _take_up(self) -> bool:
        """Send the snapshot, if there is one; return whether a new group is due because the bookmark expired."""
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
        elif not expired:
            self._acknowledge_no_group()
        return expired

    async def _begin(self) -> None:
        """Go to the requested start, and make sure that every change after it is available."""
        await check_eras(self._context, self._topics, self._bookmark_range)
        if self._past is not None:
            await wait_for_time(self._context, self._topics, self._past)
            self._query = Query(self._topics, self._selection, self._context.limits, at=self._past)
        if self._query is not None:
            await self._begin_query(self._query)
        elif not self._begins_now:
            self._live.move_to(await begin_of(self._context, self._topics, self._bookmark_range))
        for live in self._live:
            # The bookmark may come from another replica, which was ahead of this one
            # (test_a_replica_behind_the_bookmark_is_waited_for). If it has expired, fail here: before the
            # acknowledgement and before any message (test_a_bookmark_may_have_expired).
            await wait_for_replica(self._context.state, live.topic, live.positions)
            await CatchUp(self._context.kafka, live).check()

    async def _begin_elsewhere(self, error: SowlineError) -> bool:
        """Go to the start that the client chose for an expired bookmark; return whether a new group is due."""
        wanted = self._selection.options.bookmark_not_found
        has_snapshot = self._query is not None
        self._query = None
        if wanted == "reset":
            return True
        if wanted == "fail" or (wanted == "epoch" and has_snapshot):
            raise error
        if wanted == "now":
            self._query = self._new_query() if has_snapshot else None
            positions = self._live.applied
        else:
            positions = await oldest(self._context, self._topics)
        self._live.move_to(positions)
        if self._query is not None:
            await self._begin_query(self._query)
        return False

    async def _begin_query(self, query: Query) -> None:
        """Take the instant of a snapshot, once its turn has come."""
        await query.reach()
        await take_when_fresh(self._slot, self._context.state, self._topics, self.request)
        await query.begin()
        self._live.move_to(query.positions)

    def _find_end(self) -> None:
        """Determine the end; `now` is the instant of the start."""
        now = self._live.positions if self._begins_now else self._live.applied
        self._ends = ends_of(self._context, self._topics, self._bookmark_range, now)

    async def _take_over(self) -> None:
        """Send the messages that turn the records of the replaced subscription into those of this one."""
        query, mark = await self._replacing_query()
        self._has_yet_to_replace = False
        self._find_end()
        self._acknowledge()
        if isinstance(query, ReplacementQuery) and self._selection.options.oof:
            # The messages belong to the same step as a group that follows.
            await query.send_leaving(self._live.first, has_group=self.request.has_snapshot)
        if self.request.has_snapshot:
            await self._send_group(query, mark)
        else:
            self._acknowledge_no_group()
        self._query = None

    async def _replacing_query(self) -> tuple[Query, Mark]:
        context = self._context
        # Without a snapshot, a client was sent only the records that changed. A group of the records that it lacks
        # can't be computed, so it gets the whole group as a reset (test_plain_subscriptions).
        if self._held is not None and (self._held.is_complete or not self.request.has_snapshot):
            replacement = ReplacementQuery(context, self._held, self._topics, self._selection)
            self._query = replacement
            with contextlib.suppress(BookmarkExpired):
                await self._begin_query(replacement)
                return replacement, "replace"
        self._query = query = self._new_query()
        await self._begin_query(query)
        return query, "reset"

    def _acknowledge(self) -> None:
        self.has_begun = True
        end = known_end(self._ends)
        compared = (
            {"topic_matches": self._query.result.topic_matches}
            if self._selection.merges and self._query is not None
            else {}
        )
        acknowledge_processed(
            self._outbox,
            self.request,
            bookmark=self._bookmark,
            up_to="" if end is None else format_bookmark(end),
            sub_id=self._sub_id,
            **compared,
        )

    @property
    def _sub_id(self) -> str:
        return self.request.id_of_subscription

    @property
    def _bookmark(self) -> str:
        return format_bookmark(self._live.sent)

    async def _send_fresh_group(self) -> None:
        """Send the current records, marked as a reset: the client drops what it holds."""
        self._query = query = self._new_query()
        async with self._slot:
            await self._begin_query(query)
            await send_group(self._outbox, self.request, query, "reset")
        self._acknowledge_group(query, is_completed=False)
        self._query = None

    async def _send_group(self, query: Query, mark: Mark = None) -> None:
        await send_group(self._outbox, self.request, query, mark)
        self._acknowledge_group(query, is_completed=not self._replaying and self._ends is None)
        self._query = None

    def _acknowledge_group(self, query: Query, *, is_completed: bool) -> None:
        """Acknowledge a group that was sent; `stats` counts only the first group."""
        result = query.result if self._owes_stats else None
        acknowledge(self._outbox, self.request, query.bookmark, result, is_completed=is_completed)
        self._owes_stats = False

    def _acknowledge_no_group(self) -> None:
        """Acknowledge a start without a group; it is completed if there is nothing to replay either."""
        if self._begins_now and self._ends is None and "completed" in self.request.acks:
            self._outbox.put(self._completed(), (self._sub_id,))
        if self._owes_stats:
            self._outbox.put(
                ack("stats", self.request.command_id, **Result(lag_seconds=lag_seconds(self._topics)).stats),
                (self._sub_id,),
            )
        self._owes_stats = False

    # the changes after the start

    @property
    def _is_paced(self) -> bool:
        return self._ends is not None or self._selection.options.rate is not None

    async def _go_on(self) -> None:
        """Send changes, except while it is paused; return at the end."""
        while True:
            await self._going.wait()
            # `pause` cancels the flow. If this task awaited the flow itself, it would be cancelled too, and nothing
            # would continue after `resume`; `asyncio.wait` only returns
            # (test_a_paused_subscription_goes_on_where_it_stood).
            self._flow = flow = asyncio.ensure_future(self._send_changes())
            try:
                await asyncio.wait((flow,))
            finally:
                flow.cancel()
            if not flow.cancelled():
                flow.result()
                return

    async def _send_changes(self) -> None:
        if self._is_paced:
            await self._keep_pace()
        else:
            await together(self._stay_live(live) for live in self._live)

    async def _keep_pace(self) -> None:
        """Send the changes one by one up to the end; then the subscription is over."""
        count = self._context.dispatcher.count
        conflated = [live.conflated for live in self._live if live.conflated is not None]
        rate = self._selection.options.rate
        async with running(one.run(count) for one in conflated):
            await Replay(self._context, list(self._live), self._ends, rate, self._caught_up).run()
        for one in conflated:
            count(one.flush())

    async def _stay_live(self, live: LiveSubscription) -> None:
        """Catch up and be live; repeat whenever the client was too slow for live messages."""
        dispatcher = self._context.dispatcher
        if live.conflated is None:
            await self._follow(live)
        else:
            await together([self._follow(live), live.conflated.run(dispatcher.count)])

    async def _follow(self, live: LiveSubscription) -> None:
        while True:
            if not live.live.is_set():
                await CatchUp(self._context.kafka, live).run(self._context.dispatcher)
            self._caught_up(live)
            # A client that is too slow leaves live delivery. Its positions are then those of the last message that it
            # was sent, so the next round continues exactly behind that message
            # (test_who_is_too_slow_falls_behind_where_it_was_left).
            await live.fell_behind()

    def _caught_up(self, live: LiveSubscription | None = None) -> None:
        """Acknowledge once, if requested, that all changes from before the subscription began were sent."""
        if not self._replaying:
            return
        self._replaying = self._replaying - {live.log} if live is not None else set()
        if self._selection.relays and not self._replaying:
            self._outbox.put_behind(
                message("caught_up", bookmark=self._bookmark, sids=(self._sub_id,)), (self._sub_id,)
            )
        if not self._replaying and self._ends is None and "completed" in self.request.acks:
            self._outbox.put(self._completed(), (self._sub_id,))

    def _completed(self) -> bytes:
        return ack("completed", self.request.command_id, bookmark=self._bookmark, sub_id=self._sub_id)
