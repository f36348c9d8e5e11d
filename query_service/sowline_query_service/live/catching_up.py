"""Brings subscriptions that lack recent changes to the position of their topic, all of them in one pass.

If each read the changes by itself, a thousand clients that come back at once would need a thousand passes. While they
last, more changes come, so each pass would be longer than the one before it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import islice

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline.serving.cooperative import TURN_SECONDS, Turns
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.subscription import ChangeView
from sowline_query_service.live.subscription import LiveSubscription, deliver
from sowline_query_service.topics.topic_state import TopicState

BATCH_MAX = 10_000
"""Changes that are taken from the replica's memory at once."""

MEMBERS_MAX = 500
"""Subscriptions in a pass. Each takes some 30 µs to be matched and as much to become live, in a step of the loop."""


class CatchingUp:
    """The subscriptions to one topic that catch up with the changes that its replica has in memory.

    Those that come during a pass wait for the next one. A subscription leaves if its client is too slow, or if the
    replica no longer has its next change: then it goes on by itself.
    """

    def __init__(
        self,
        topic: TopicState,
        turns: Turns,
        go_live: Callable[[LiveSubscription], None],
        count: Callable[[int], None],
    ) -> None:
        """Prepare for a topic; `go_live` makes a subscription live at its position, `count` counts messages."""
        self._topic = topic
        self._turns = turns
        self._go_live = go_live
        self._count = count
        self._waiting: dict[LiveSubscription, asyncio.Future[bool]] = {}
        self._members: dict[LiveSubscription, asyncio.Future[bool]] = {}
        self._pass: _Pass | None = None
        self._turn_began = 0.0
        self._task: asyncio.Task[None] | None = None

    async def bring(self, live: LiveSubscription) -> bool:
        """Send a subscription what it lacks, and make it live; return False if it has to go on by itself."""
        loop = asyncio.get_running_loop()
        came: asyncio.Future[bool] = loop.create_future()
        self._waiting[live] = came
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        try:
            return await came
        finally:
            self.drop(live)

    def drop(self, live: LiveSubscription) -> None:
        """Send a subscription nothing more, from now on; it stands where it was sent everything."""
        for those in (self._waiting, self._members):
            if (came := those.pop(live, None)) is not None and not came.done():
                came.set_result(False)
        if self._pass is not None:
            self._pass.drop(live)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._next_turn()
                for live in list(islice(self._waiting, MEMBERS_MAX)):
                    self._members[live] = self._waiting.pop(live)
                await self._bring_members()
        except Exception as error:
            # Without this they would wait for ever. Each ends with the fault
            # (test_a_fault_ends_all_that_catch_up).
            for came in (*self._members.values(), *self._waiting.values()):
                if not came.done():
                    came.set_exception(error)

    async def _bring_members(self) -> None:
        while behind := self._behind():
            for number in behind:
                await self._bring_to_end(number)
        # Nothing is awaited since the last look. A change applied in between would be in neither the pass nor the
        # live delivery (test_everything_after_the_position_comes_once).
        members, self._members = self._members, {}
        for live, came in members.items():
            self._go_live(live)
            came.set_result(True)

    def _behind(self) -> list[int]:
        """Return the partitions of which a member lacks something."""
        return [
            number
            for number, partition in self._topic.partitions.items()
            if any(live.positions[number] < partition.held for live in self._members)
        ]

    async def _bring_to_end(self, number: int) -> None:
        """Send the members what they lack of a partition."""
        self._pass = reader = _Pass(self._topic, number, list(self._members))
        try:
            while reader.goes_on:
                self._count(reader.go_on(self._turn_began + TURN_SECONDS))
                for live in reader.take_left():
                    self.drop(live)
                # Only now. With a wait for each partition, others would move on meanwhile, and with many partitions
                # there would hardly be an instant at which no member is behind.
                if time.monotonic() - self._turn_began > TURN_SECONDS:
                    await self._next_turn()
        finally:
            self._pass = None

    async def _next_turn(self) -> None:
        await self._turns.wait()
        self._turn_began = time.monotonic()


class _Pass:
    """One pass over the recent changes of a partition."""

    def __init__(self, topic: TopicState, number: int, members: list[LiveSubscription]) -> None:
        self._topic = topic
        self._number = number
        self._log_partition = f"{topic.definition.log}:{number}"
        self._ahead = sorted(members, key=self._position_of, reverse=True)
        """Those whose position the pass has not reached, the next one last."""
        self._reached: dict[LiveSubscription, None] = {}
        self._matching: LiveSubscriptions[LiveSubscription] = LiveSubscriptions()
        """The same, by their filters."""
        self._at = self._position_of(self._ahead[-1])
        self._changes: Iterator[Change] = iter(())
        self._end: Position | None = None
        """The position of the replica behind the last of these changes; None if there are more."""
        self._left: list[LiveSubscription] = []

    @property
    def goes_on(self) -> bool:
        """Whether there is more to send, and someone to send it to."""
        return self._at != self._end and bool(self._reached or self._ahead)

    def drop(self, live: LiveSubscription) -> None:
        """Leave out a subscription from now on."""
        self._matching.remove(live)
        if live in self._reached:
            del self._reached[live]
        elif live in self._ahead:
            self._ahead.remove(live)

    def take_left(self) -> list[LiveSubscription]:
        """Return those that have to go on by themselves since the last call."""
        left, self._left = self._left, []
        return left

    def go_on(self, until: float) -> int:
        """Deliver changes until a time of the monotonic clock, one at least; return how many messages that were.

        Then each subscription that it has reached stands behind the last of these changes.
        """
        messages = 0
        for change in self._changes:
            messages += self._deliver(change)
            if time.monotonic() > until:
                break
        else:
            self._take_more()
        for live in self._reached:
            live.positions[self._number] = self._at
        return messages

    def _take_more(self) -> None:
        """Take the next changes from memory. At their end, go to the replica's position."""
        if self._end is not None:
            # Progress events move a partition on without a change: without this nobody would ever be level
            # (test_what_happens_meanwhile_comes_too).
            self._enter(self._end)
            self._at = self._end = max(self._at, self._end)
            return
        partition = self._topic.partitions[self._number]
        held, changes = partition.held, partition.recent(self._at, BATCH_MAX)
        if changes is None:
            self._leave_behind()
        else:
            self._changes = iter(changes)
            self._end = held if len(changes) < BATCH_MAX else None

    def _leave_behind(self) -> None:
        """Let those go on by themselves whose next change is no longer in memory."""
        partition = self._topic.partitions[self._number]
        self._left += self._reached
        while self._ahead and partition.recent(self._position_of(self._ahead[-1]), 1) is None:
            self._left.append(self._ahead.pop())
        for live in self._left:
            self.drop(live)
        if self._ahead:
            self._at = self._position_of(self._ahead[-1])

    def _enter(self, position: Position) -> None:
        """Reach those that stand before a position."""
        while self._ahead and (at := self._position_of(self._ahead[-1])) < position:
            live = self._ahead.pop()
            # It may stand at a progress event, beyond the change before it. Bookmarks do not go back.
            self._at = max(self._at, at)
            self._reached[live] = None
            self._matching.add(live, live.engine)

    def _deliver(self, change: Change) -> int:
        self._enter(change.position)
        topic, number = self._topic, self._number
        found = self._matching.on_change(
            seen := ChangeView(change, topic.metadata, self._log_partition, self._at)
        )
        messages = deliver(topic, number, seen, found)
        self._at = change.position
        for live, _ in found:
            live.positions[number] = self._at
            if live.conflated is not None:
                live.conflated.relieve()
            if live.is_too_slow:
                self.drop(live)
                self._left.append(live)
        return messages

    def _position_of(self, live: LiveSubscription) -> Position:
        return live.positions[self._number]
