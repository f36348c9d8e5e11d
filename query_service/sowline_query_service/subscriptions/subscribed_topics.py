"""The topics of one subscription to records: where it stands in each, and where it begins."""

import time
from collections.abc import Iterator

from sowline.model.bookmark import PositionsByLog
from sowline.model.bookmark_range import BookmarkRange
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlot
from sowline.subscriptions.engine.subscription import Subscription
from sowline.subscriptions.service_lifecycle import BeginAt, Opening, Start
from sowline.wire.request import Subscribe
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.freshness import take_when_fresh, wait_until_fresh
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.bookmark_resolver import (
    check_eras,
    oldest,
    wait_for_start,
    wait_for_time,
)
from sowline_query_service.subscriptions.catch_up import CatchUp
from sowline_query_service.subscriptions.end import Ends, ends_of
from sowline_query_service.subscriptions.progress import positions_between
from sowline_query_service.subscriptions.replacement import HeldRecords, ReplacementQuery
from sowline_query_service.topics.topic_state import TopicState


class SubscribedTopics:
    """All topics of one subscription, each with its position."""

    def __init__(
        self,
        outbox: Outbox,
        sub_id: str,
        topics: list[TopicState],
        engine: Subscription,
        selection: Selection,
    ) -> None:
        self.topics = topics
        self._live = [LiveSubscription(outbox, sub_id, topic, engine, selection) for topic in topics]
        for live in self._live:
            live.stand_at(live.topic.positions)
        self.halts = 0
        """How often it was halted: what has left live delivery for a while must not return after that."""

    def __iter__(self) -> Iterator[LiveSubscription]:
        return iter(self._live)

    @property
    def first(self) -> LiveSubscription:
        """The live subscription to the first topic."""
        return self._live[0]

    @property
    def logs(self) -> frozenset[str]:
        """The Kafka topics that their bookmarks name."""
        return frozenset(live.log for live in self._live)

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything, by log."""
        return {live.log: live.sent for live in self._live}

    @property
    def applied(self) -> PositionsByLog:
        """The positions of the replicas, by log."""
        return {live.log: live.topic.positions for live in self._live}

    @property
    def positions(self) -> PositionsByLog:
        """The positions of the subscription, by log."""
        return {live.log: dict(live.positions) for live in self._live}

    @property
    def is_live(self) -> bool:
        """Whether it is live in all topics."""
        return all(live.live.is_set() for live in self._live)

    @property
    def behind_positions(self) -> int:
        """The number of log offsets that the client is behind the replicas."""
        return sum(positions_between(live.sent, live.topic.positions) for live in self._live)

    @property
    def behind_seconds(self) -> float:
        """Seconds since it was last live in all topics; 0 if it is now."""
        level_at = [live.level_at for live in self._live if not live.live.is_set()]
        return time.monotonic() - min(level_at) if level_at else 0.0

    def look(self, *, is_paced: bool) -> bool:
        """Return whether a message was sent since the last check, or a topic is still catching up."""
        was_sent = False
        for live in self._live:
            was_sent |= live.was_sent or not (live.live.is_set() or is_paced)
            live.was_sent = False
        return was_sent

    def move_to(self, positions: PositionsByLog) -> None:
        """Continue from these positions."""
        assert positions.keys() >= self.logs, "it continues in each topic"
        for live in self._live:
            live.stand_at(positions[live.log])

    def leave(self, dispatcher: Dispatcher) -> None:
        """End live delivery in all topics."""
        for live in self._live:
            dispatcher.remove(live)

    def halt(self, dispatcher: Dispatcher) -> None:
        """End live delivery, and go back to where the client was sent everything.

        Messages that conflation holds back are dropped. Their changes are read again after the pause
        (test_what_was_conflated_is_sent_after_a_pause).
        """
        self.halts += 1
        self.leave(dispatcher)
        assert not any(live.live.is_set() for live in self._live), "what is halted follows nothing"
        self.move_to(self.sent)

    def flush(self) -> None:
        """Send the messages that conflation holds back."""
        for live in self._live:
            if live.conflated is not None:
                live.conflated.flush()

    def fall_behind(self) -> None:
        """Catch up in all topics, from the positions up to which the client was sent everything."""
        for live in self._live:
            live.fall_behind()

    async def wait_live(self) -> None:
        """Wait until it has been live in each topic; it may no longer be in an earlier one."""
        for live in self._live:
            await live.live.wait()


class RecordStart:
    """The starts of one subscription: moves its topics to one, and has the query of what is sent there."""

    def __init__(
        self,
        context: ServiceContext,
        slot: QuerySlot,
        request: Subscribe,
        topics: list[TopicState],
        selection: Selection,
        bookmark_range: BookmarkRange,
        past: int | None,
        live: SubscribedTopics,
    ) -> None:
        """Prepare the starts; `past` is the time of the snapshot, in ms since 1970, if it is of an earlier one."""
        self._context = context
        self._slot = slot
        self._request = request
        self._topics = topics
        self._selection = selection
        self._bookmark_range = bookmark_range
        self._live = live
        self._past = past
        """The time whose records are sent first; None for the current ones, and without a snapshot."""
        self.query: Query | None = None
        """The query of the records to send, until they were sent."""
        self.held: HeldRecords | None = None
        """The records that the client of the replaced subscription holds, if they are known."""

    @property
    def begins_now(self) -> bool:
        """Whether it begins with the current records; with `current`, also for a time that has no history."""
        bookmark_range = self._bookmark_range
        is_of_time = self._request.has_snapshot and bookmark_range.moment is not None
        return bookmark_range.begins_now or (is_of_time and self._past is None)

    def take_now(self) -> None:
        """Take the snapshot's instant when the command arrives, if its turn has come and the indexes are ready."""
        # The group may be sent later; changes until then follow it (test_a_sow_and_subscribe_is_one_instant).
        assert self.query is None, "it begins once"
        self.query = self._new_query()
        self._slot.begin_now(self.query.begin_now)

    def _new_query(self) -> Query:
        return Query(self._topics, self._selection, self._context.limits)

    def ends(self, *, replays: bool) -> Ends | None:
        """Return the end of the subscription, if it has one; `now` is the instant of the start."""
        now = self._live.applied if replays else self._live.positions
        return ends_of(self._context, self._topics, self._bookmark_range, now)

    async def go_to(self, begin: BeginAt) -> None:
        """Go to a start; raise `bookmark_expired` or `history expired` if it is gone."""
        match begin:
            case BeginAt(Start.REQUESTED):
                await self._go_to_requested()
            case BeginAt(Start.HELD):
                assert self.held is not None, "it is known"
                query = ReplacementQuery(self._context, self.held, self._topics, self._selection)
                await self._begin_query(query)
            case BeginAt(Start.OLDEST):
                self._move_to_changes(await oldest(self._context, self._topics))
            case BeginAt(Start.NOW, Opening.NOTHING):
                await wait_until_fresh(self._context.state, self._topics, self._request)
                self._move_to_changes(self._live.applied)
            case _:
                await self._begin_query(self._new_query())

    async def _go_to_requested(self) -> None:
        """Go to the requested start, and make sure that every change after it is available."""
        context, topics = self._context, self._topics
        if self._past is None and not self.begins_now:
            self._move_to_changes(await wait_for_start(context, topics, self._bookmark_range))
        else:
            await check_eras(context, topics, self._bookmark_range)
        if self._past is not None:
            await wait_for_time(context, topics, self._past)
            self.query = Query(topics, self._selection, context.limits, at=self._past)
        if self.query is not None:
            await self._begin_query(self.query)
        for live in self._live:
            # If it has expired, fail here: before the acknowledgement and before any message
            # (test_a_bookmark_may_have_expired, test_a_time_may_have_expired).
            await CatchUp(context.kafka, live).check()

    async def _begin_query(self, query: Query) -> None:
        """Take the instant of a query, once its turn has come."""
        await query.wait_for_replica()
        await take_when_fresh(self._slot, self._context.state, self._topics, self._request)
        await query.begin()
        assert query.topic_slices, "the query is at an instant"
        # Nothing is awaited since the instant of the query: a change in between would be neither in the group nor
        # after it.
        self._live.move_to(query.positions)
        self.query = query

    def _move_to_changes(self, positions: PositionsByLog) -> None:
        """Go to where only changes follow."""
        self.query = None
        self._live.move_to(positions)
