"""Brings subscriptions that lack recent changes to the position of their topic, all of them in one pass.

If each read the changes by itself, a thousand clients that come back at once would need a thousand passes. While they
last, more changes arrive, so each pass would be longer than the one before it.
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
from sowline_query_service.live.subscription import LiveSubscription, put_change
from sowline_query_service.topics.topic_state import TopicState

BATCH_MAX = 10_000
"""Changes that are taken from the replica's memory at once."""

MEMBERS_MAX = 500
"""Subscriptions in a pass. Each takes some 30 µs to be matched and as much to become live, in a step of the loop."""


class CatchingUp:
    """The subscriptions to one topic that catch up with the changes that its replica has in memory.

    A subscription leaves if its client is too slow, or if the replica no longer has its next change. Then it
    continues by itself.
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
        self._members = Members()
        self._turn_began = 0.0
        self._task: asyncio.Task[None] | None = None

    async def bring(self, live: LiveSubscription) -> bool:
        """Send a subscription what it lacks, and make it live; return False if it has to continue by itself."""
        assert live not in self._waiting, "it catches up once at a time"
        assert live not in self._members.all, "it catches up once at a time"
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
        """Send a subscription nothing more, from now on; its position is that up to which it was sent everything."""
        for came in (self._waiting.pop(live, None), self._members.remove(live)):
            if came is not None and not came.done():
                came.set_result(False)

    async def _run(self) -> None:
        try:
            while self._waiting or self._members:
                await self._next_turn()
                self._admit()
                for number in list(self._topic.partitions):
                    await self._bring_to_end(number)
                self._let_level_ones_go()
        except BaseException as error:
            # Without this they would wait forever. Each ends with the fault
            # (test_a_fault_ends_all_that_catch_up).
            for came in (*self._members.all.values(), *self._waiting.values()):
                if not came.done():
                    came.set_exception(error) if isinstance(error, Exception) else came.cancel()
            if not isinstance(error, Exception):
                raise

    def _admit(self) -> None:
        for live in list(islice(self._waiting, max(0, MEMBERS_MAX - len(self._members)))):
            came = self._waiting.pop(live)
            # Its task may be cancelled already, and not have run since.
            if not came.done():
                self._members.add(live, came)
        assert len(self._members) <= MEMBERS_MAX, "a pass has a limited number of members"

    def _let_level_ones_go(self) -> None:
        """Make those live that lack nothing at this instant."""
        # Nothing is awaited between the look and going live. A change applied in between would be in neither the pass
        # nor the live delivery (test_everything_after_the_position_comes_once).
        held = {number: partition.held for number, partition in self._topic.partitions.items()}
        for live, came in list(self._members.all.items()):
            if all(live.positions[number] >= at for number, at in held.items()):
                self._members.remove(live)
                if not came.done():
                    self._go_live(live)
                    came.set_result(True)

    async def _bring_to_end(self, number: int) -> None:
        """Send the members what they lack of a partition."""
        reader = _Pass(self._topic, number, self._members)
        while reader.goes_on:
            # Only if there is more to do. With a wait after each partition, others would move on during it, and with
            # many partitions there would hardly be an instant at which a member lacks nothing.
            if time.monotonic() - self._turn_began > TURN_SECONDS:
                await self._next_turn()
            self._count(reader.go_on(self._turn_began + TURN_SECONDS))
            for came in reader.take_left():
                if not came.done():
                    came.set_result(False)

    async def _next_turn(self) -> None:
        await self._turns.wait()
        self._turn_began = time.monotonic()


class Members:
    """The subscriptions of a pass, by their filters."""

    def __init__(self) -> None:
        self.all: dict[LiveSubscription, asyncio.Future[bool]] = {}
        self.matching: LiveSubscriptions[LiveSubscription] = LiveSubscriptions()

    def __len__(self) -> int:
        return len(self.all)

    def add(self, live: LiveSubscription, came: asyncio.Future[bool]) -> None:
        """Add a member; its task waits for `came`."""
        self.all[live] = came
        self.matching.add(live, live.engine)
        assert len(self.matching) == len(self.all), "each member is found by its filter"

    def remove(self, live: LiveSubscription) -> asyncio.Future[bool] | None:
        """Remove a member; return the future that its task waits for, or None if it is not a member."""
        self.matching.remove(live)
        came = self.all.pop(live, None)
        assert len(self.matching) == len(self.all), "each member is found by its filter"
        return came


class _Pass:
    """One pass over the recent changes of a partition, from the member on that lacks most."""

    def __init__(self, topic: TopicState, number: int, members: Members) -> None:
        self._topic = topic
        self._number = number
        self._log_partition = f"{topic.definition.log}:{number}"
        self._members = members
        self._changes: Iterator[Change] = iter(())
        self._end: Position | None = None
        """The position of the replica after the last of these changes; None if there are more."""
        self._left: list[asyncio.Future[bool]] = []
        self._at = self._lowest()

    @property
    def goes_on(self) -> bool:
        """Whether there is more to send, and someone to send it to."""
        at, partition = self._at, self._topic.partitions.get(self._number)
        if at is None or partition is None or not self._members:
            return False
        return at < (partition.held if self._end is None else self._end)

    def _lowest(self) -> Position | None:
        """Return the position of the member that lacks most; None if there is no member."""
        return min((live.positions[self._number] for live in self._members.all), default=None)

    def take_left(self) -> list[asyncio.Future[bool]]:
        """Return the futures of members that have to continue by themselves since the last call."""
        left, self._left = self._left, []
        return left

    def go_on(self, until: float) -> int:
        """Deliver changes until a time of the monotonic clock, one at least; return how many messages that were.

        Then no member stands before the last of these changes.
        """
        messages = 0
        for change in self._changes:
            messages += self._deliver(change)
            if time.monotonic() > until:
                break
        else:
            self._take_more()
        if (at := self._at) is not None:
            for live in self._members.all:
                live.positions[self._number] = max(at, live.positions[self._number])
        return messages

    def _take_more(self) -> None:
        """Take the next changes from memory. At their end, go to the replica's position."""
        if self._end is not None:
            # Progress events move a partition on without a change: without this nobody would ever be level
            # (test_what_happens_meanwhile_comes_too).
            assert self._at is None or self._at <= self._end, "a pass does not go back"
            self._at = self._end
            return
        assert self._at is not None, "the pass has a position"
        partition = self._topic.partitions[self._number]
        held, changes = partition.held, partition.recent(self._at, BATCH_MAX)
        if changes is None:
            self._leave_behind()
        else:
            self._changes = iter(changes)
            self._end = held if len(changes) < BATCH_MAX else None

    def _leave_behind(self) -> None:
        """Let members continue by themselves whose next change is no longer in memory."""
        partition = self._topic.partitions[self._number]
        for live in sorted(self._members.all, key=lambda live: live.positions[self._number]):
            if partition.recent(live.positions[self._number], 1) is not None:
                break
            self._leave(live)
        self._at = self._lowest()

    def _leave(self, live: LiveSubscription) -> None:
        if (came := self._members.remove(live)) is not None:
            self._left.append(came)

    def _deliver(self, change: Change) -> int:
        topic, number = self._topic, self._number
        assert self._at is None or self._at < change.position, "a pass does not go back"
        seen = ChangeView(change, topic.metadata, self._log_partition, self._at)
        found = [
            (live, delivery)
            for live, delivery in self._members.matching.on_change(seen)
            if live.positions[number] < change.position
        ]
        # One may stand at a progress event, beyond the change before it. Bookmarks do not go back.
        seen.after = max([seen.after, *(live.positions[number] for live, _ in found)])
        messages = put_change(topic, number, seen, found)
        self._at = change.position
        for live, _ in found:
            live.positions[number] = change.position
            # First: otherwise, messages held back by conflation would go into a full outbox.
            if live.is_too_slow:
                self._leave(live)
            elif live.conflated is not None:
                live.conflated.relieve()
        return messages
