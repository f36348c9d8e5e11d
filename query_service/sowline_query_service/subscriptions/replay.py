"""Replays changes to a subscription one by one, in the order of their time: up to an end, or at a rate."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from sowline.changes.change import Change
from sowline.serving.cooperative import STEP_SECONDS, running
from sowline.subscriptions.live.throttle import Throttle
from sowline.wire.options import ReplayRate
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.subscriptions.catch_up import ChangesAfter, change_views, deliver_one
from sowline_query_service.subscriptions.end import End, Ends


class _Source:
    """The changes of one partition that a subscription has not yet been sent."""

    def __init__(self, after: ChangesAfter, live: LiveSubscription, number: int, end: End | None) -> None:
        self.live = live
        self.number = number
        self.is_over = False
        self._after = after
        self._end = end
        self._start = live.positions[number]
        self._batches: AsyncIterator[list[Change]] | None = None
        self._waiting: deque[Change] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether the replica has more changes of the partition."""
        held = self.live.topic.partitions[self.number].held
        return not self.is_over and self.live.positions[self.number] < held

    async def fill(self) -> bool:
        """Get the next change; return whether there is one."""
        while not self._waiting and (self._batches is not None or self.is_behind):
            if self._batches is None:
                self._batches = self._after.of(self.number)
            batch = await anext(self._batches, None)
            if batch is None:
                self._batches = None
            else:
                self._waiting.extend(batch)
            self._look_for_end()
        return bool(self._waiting)

    def _look_for_end(self) -> None:
        if self._waiting and self._end is not None and not self._end.takes(self.number, self._waiting[0]):
            self._waiting.clear()
            self._stop()

    def _stop(self) -> None:
        assert self._end is not None, "only what has an end is over"
        assert not self._waiting, "nothing is sent after the end"
        positions = self.live.positions
        end = self._end.final_position(self.number, positions[self.number])
        positions[self.number] = max(self._start, end)
        self.is_over = True
        self._batches = None

    def settle(self) -> None:
        """If nothing waits to be sent, check whether the end is reached."""
        if self._end is not None and not self.is_over and self._end.is_reached(self.number):
            self._stop()

    @property
    def next(self) -> Change | None:
        """The next change, if it is available."""
        return self._waiting[0] if self._waiting else None

    def take(self) -> None:
        """Remove the next change, which was sent."""
        self._waiting.popleft()
        self._look_for_end()


class Replay:
    """Sends the changes of a subscription to one or several topics. `run` returns at the end, if there is one."""

    def __init__(
        self,
        context: ServiceContext,
        lives: list[LiveSubscription],
        ends: Ends | None,
        rate: ReplayRate | None,
        caught_up: Callable[[], object],
    ) -> None:
        assert lives, "a replay is of some topic"
        self._state = context.state
        self._outbox = lives[0].outbox
        self._ends = ends or {}
        self._throttle = None if rate is None else Throttle(rate, time.monotonic, time.time_ns)
        self._caught_up = caught_up
        self._news = asyncio.Event()
        self._sources = [
            _Source(after, live, number, self._ends.get(live.log))
            for live in lives
            for after in [ChangesAfter(context.kafka, live.topic, live.positions)]
            for number in live.positions
        ]

    async def run(self) -> None:
        """Send everything up to the end; raise `BookmarkExpired` if it can't continue."""
        async with running([self._watch(), *(self._settle(end) for end in self._ends.values())]):
            await self._send_changes()

    async def _watch(self) -> None:
        while True:
            # Before each wait, the first one too: what is applied before this task first runs would be noticed with
            # the next change only (test_a_change_at_the_start_of_a_replay_is_noticed).
            self._news.set()
            await self._state.wait_moved()

    async def _settle(self, end: End) -> None:
        await end.settle()
        self._news.set()

    async def _send_changes(self) -> None:
        while True:
            # Clear before looking. A change that is applied while `fill` waits sets the event again; cleared
            # afterwards, it would not be noticed until the next change.
            self._news.clear()
            ready = [source for source in self._sources if await source.fill()]
            if ready:
                await self._send_next(ready)
            elif not any(source.is_behind for source in self._sources):
                # An end may lie in the future. A source is over when its replica has passed the end, not when there
                # is nothing to send (test_an_end_to_come_is_waited_for).
                for source in self._sources:
                    source.settle()
                if all(source.is_over for source in self._sources):
                    return
                self._caught_up()
                await self._news.wait()

    async def _send_next(self, ready: list[_Source]) -> None:
        """Send the earliest change, and the changes of its partition that precede those of other partitions."""
        # One partition continues only while its next change is not later than the next change of the others. Sent
        # batch by batch, the changes of several partitions would be out of the order of their time
        # (test_changes_come_in_the_order_of_their_time).
        ready.sort(key=_time)
        source, until = ready[0], _time(ready[1]) if len(ready) > 1 else None
        await self._outbox.wait_turn()
        for seconds in self._pauses(source, until):
            await asyncio.sleep(seconds)
            await self._outbox.wait_turn()

    def _pauses(self, source: _Source, until: int | None) -> Iterator[float]:
        """Send the changes of a source up to a time; yield the seconds of each pause before it goes on.

        The outbox has a turn before each step.
        """
        began = time.monotonic()
        while (change := source.next) is not None and (until is None or change.replay_time <= until):
            # After each change: an outbox that is filled takes no other one.
            if not self._outbox.has_turn or time.monotonic() - began > STEP_SECONDS:
                yield 0.0
                began = time.monotonic()
            seen, delivery = change_views(source.live, source.number, change)
            if delivery is not None and self._throttle is not None:
                pause = self._throttle.take(len(delivery.body), change.replay_time)
                if pause > 0:
                    yield pause
            deliver_one(source.live, source.number, seen, delivery)
            source.take()


def _time(source: _Source) -> int:
    assert source.next is not None, "a source that is ready has a change"
    return source.next.replay_time
