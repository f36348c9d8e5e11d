"""Serves one subscription to records: its snapshot if it has one, the changes since, then live changes."""

import asyncio
from functools import partial

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.model.bookmark_range import BookmarkRange
from sowline.serving.cooperative import running, together
from sowline.serving.outbox.group import send_group
from sowline.serving.refusal import no_sow
from sowline.serving.result import Result
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.led_subscription import LedSubscription
from sowline.subscriptions.live.progress import ProgressTimer
from sowline.subscriptions.service_lifecycle import (
    Action,
    BeginAt,
    CaughtUp,
    Duty,
    FellBehind,
    Finish,
    Held,
    Opening,
    SendOpening,
    ServiceSignal,
    Start,
)
from sowline.subscriptions.service_machine import LifeTerms
from sowline.wire.request import Heartbeat, Subscribe
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.read_request import is_certain, past_of, subscription_of
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.catch_up import CatchUp
from sowline_query_service.subscriptions.end import Ends, known_end
from sowline_query_service.subscriptions.replacement import HeldRecords, ReplacementQuery
from sowline_query_service.subscriptions.replay import Replay
from sowline_query_service.subscriptions.subscribed_topics import RecordStart, SubscribedTopics
from sowline_query_service.subscriptions.window_checksum import send_records_checksum
from sowline_query_service.topics.topic_state import TopicState, lag_seconds


class RecordSubscription(LedSubscription):
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
        outbox = runner.outbox_for(selection.options)
        self._topics = topics
        self._selection = selection
        self._bookmark_range = bookmark_range
        self._ends: Ends | None = None
        self._asked_at = ""
        """The client's bookmark, if it gets a new group instead of the changes since."""
        past = past_of(bookmark_range, selection.options, topics) if request.has_snapshot else None
        engine = subscription_of(request, selection)
        self._live = SubscribedTopics(outbox, request.id_of_subscription, topics, engine, selection)
        self._progress_timer = ProgressTimer()
        self._flow: asyncio.Task[None] | None = None
        self._start = RecordStart(
            context, self._slot, request, topics, selection, bookmark_range, past, self._live
        )
        terms = LifeTerms.of(
            request,
            begins_now=self._start.begins_now,
            replaced=None if replaced is None else replaced.machine.held,
            is_certain=is_certain(selection),
            owed=frozenset({Duty.CAUGHT_UP} if selection.relays and not self._start.begins_now else ()),
            parts=self._live.logs,
        )
        super().__init__(request, ClientGate(outbox), terms)
        if replaced is not None:
            self._start.held = replaced.hand_over()
        if terms.begin == BeginAt(Start.REQUESTED, Opening.GROUP) and not terms.replays:
            self._start.take_now()

    def begin_at_once(self) -> None:
        """Be live from the instant at which the command arrives, if nothing has to be sent or waited for before.

        Otherwise changes that come until its task runs are read again, for each subscription by itself: while
        thousands begin and changes arrive all the time, they would hardly get live.
        """
        terms = self.machine.terms
        has_to_wait = terms.replays or terms.is_paced or terms.is_paused or self._outbox.full
        if terms.begin != BeginAt(Start.REQUESTED) or has_to_wait:
            return
        self.tell(ServiceSignal.BEGUN)
        for live in self._live:
            self._context.dispatcher.add(live)
        self.tell(CaughtUp())

    async def run(self) -> bytes | None:
        """Serve until cancelled, or until the requested end. Raise if it can't continue.

        At the end return the `completed` acknowledgement, which the caller sends last. None is never returned here:
        the type is that of all served subscriptions, and means that there is no last message.
        """
        due: Action | None = None if self.machine.has_begun else self.machine.begin
        while not isinstance(due, Finish):
            if isinstance(due, BeginAt):
                async with self._slot:
                    await self._open(due)
            due = await self._go_on()
        return self._completed()

    def _halt(self) -> None:
        super()._halt()
        self._live.halt(self._context.dispatcher)
        if self._flow is not None:
            self._flow.cancel()

    # the interface of a session

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._slot.free()
        self.tell(ServiceSignal.LEAVE)

    def hand_over(self) -> HeldRecords | None:
        """Stop, and return the records that the client holds; None if they are unknown."""
        machine, held = self.machine, self._start.held
        if machine.held in (Held.UNKNOWN, Held.PART):
            held = None
        elif machine.has_begun:
            held = HeldRecords(self._topics, self._selection, self._live.sent)
        self.stop()
        return held

    def quiet_position(self) -> PositionsByLog | None:
        """Return the client's positions if it should get a progress message now; None if not."""
        if not self.machine.is_idle:
            return None
        was_sent = self._live.look(is_paced=self.machine.terms.is_paced)
        # Positions matter only to an idle subscription: of ten thousand, each would make them at each check.
        sent = {} if was_sent else self._live.sent
        return sent if self._progress_timer.look(was_sent, sent) else None

    @property
    def _behind_by(self) -> tuple[int, float]:
        return self._live.behind_positions, self._live.behind_seconds

    async def prove(self, request: Heartbeat) -> None:
        """Send the checksum of the records that the client should hold, in order with the messages.

        Raise `no sow` or `not supported` if these records are unknown.
        """
        if lacking := [topic for topic in self._topics if not topic.definition.has_sow]:
            raise no_sow(lacking[0].definition.name)
        self.tell(ServiceSignal.PROVE)
        slot = self._runner.new_slot()
        await send_records_checksum(self._context, self._outbox, request, self._live, self._selection, slot)

    # the start

    async def _open(self, begin: BeginAt) -> None:
        """Find a start, and send the messages before changes."""
        await self._begin(begin)
        if not self.has_begun:
            self._ends = self._start.ends(replays=self.machine.terms.replays)
        due, query = self.tell(ServiceSignal.BEGUN, **self._begun), self._start.query
        if isinstance(due, SendOpening):
            await self._send(due.opening)
            self.tell(ServiceSignal.SENT)
        result = Result(lag_seconds=lag_seconds(self._topics)) if query is None else query.result
        self.tell(ServiceSignal.COUNTED, result)
        self._start.query = None

    async def _begin(self, begin: BeginAt) -> None:
        """Go to a start, or to the one that the client chose if it is gone."""
        while True:
            try:
                await self._start.go_to(begin)
            except SowlineError as error:
                begin = self._instead(error)
                if begin.opening is Opening.RESET and self.machine.terms.replays:
                    self._asked_at = self._bookmark
            else:
                return

    async def _send(self, opening: Opening) -> None:
        query = self._start.query
        assert query is not None, "there is something to send"
        if isinstance(query, ReplacementQuery) and self._selection.options.oof:
            # The messages belong to the same step as a group that follows.
            await query.send_leaving(self._live.first, has_group=opening is not Opening.LEAVE)
        if opening is not Opening.LEAVE:
            await send_group(self._outbox, self.request, query, opening.mark)

    @property
    def _begun(self) -> dict[str, object]:
        """The fields of the acknowledgement of the beginning."""
        end, query = known_end(self._ends), self._start.query
        begun: dict[str, object] = {"up_to": "" if end is None else format_bookmark(end)}
        if self._selection.merges and query is not None:
            begun["topic_matches"] = query.result.topic_matches
        if self._asked_at:
            # A client that is lost before its new group arrives must not continue after the records that it lacks.
            begun["bookmark"] = self._asked_at
        return begun

    @property
    def _bookmark(self) -> str:
        return format_bookmark(self._live.sent)

    # the changes after the start

    async def _go_on(self) -> Action | None:
        """Send changes, except while it is paused; return what is due at the end, or if what follows is gone."""
        while True:
            await self._gate.wait_opened()
            # `pause` cancels the flow. If this task awaited the flow itself, it would be cancelled too, and nothing
            # would continue after `resume`; `asyncio.wait` only returns
            # (test_a_paused_subscription_goes_on_where_it_stood).
            assert self._flow is None or self._flow.done(), "one flow at a time sends changes"
            self._flow = flow = asyncio.ensure_future(self._send_changes())
            try:
                await asyncio.wait((flow,))
            finally:
                flow.cancel()
            if flow.cancelled():
                continue
            if (error := flow.exception()) is None:
                return self.tell(ServiceSignal.REACHED)
            # While a client is paused or slow, compaction may remove changes that it was not sent. With `reset` it
            # gets a new group, otherwise the error: never the later changes alone (test_a_pause_may_be_too_long).
            return self._instead(error)

    async def _send_changes(self) -> None:
        if self.machine.terms.is_paced:
            await self._keep_pace()
        else:
            await together(self._stay_live(live) for live in self._live)

    async def _keep_pace(self) -> None:
        """Send the changes one by one up to the end; then the subscription is over."""
        count = self._context.dispatcher.count
        conflated = [live.conflated for live in self._live if live.conflated is not None]
        rate, caught_up = self._selection.options.rate, partial(self.tell, CaughtUp())
        async with running(one.run(count) for one in conflated):
            await Replay(self._context, list(self._live), self._ends, rate, caught_up).run()
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
            self.tell(CaughtUp(live.log))
            # A client that is too slow leaves live delivery. Its positions are then those of the last message that it
            # was sent, so the next round continues exactly after that message
            # (test_who_is_too_slow_falls_behind_where_it_was_left).
            await live.wait_behind()
            self.tell(FellBehind(live.log))
