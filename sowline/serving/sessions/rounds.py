"""Does the same for each of many connections at regular intervals, in one task for all of them."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()

T = TypeVar("T")

PORTIONS_MIN = 8
PORTIONS_MAX = 500
"""An interval is divided into about as many portions as there are members, within these limits.

Many small portions: the turns of ten thousand members at once would delay all messages by many milliseconds.
"""


class Rounds(Generic[T]):
    """The members, each of which has a turn about once in an interval. The task runs only while there are members."""

    def __init__(self, seconds: float, take_turn: Callable[[T], None]) -> None:
        self._seconds = seconds
        self._take_turn = take_turn
        self._members: OrderedDict[T, None] = OrderedDict()
        """The member whose turn is next is first."""
        self._running: asyncio.Task[None] | None = None

    def add(self, member: T) -> None:
        """Give a member its turns from now on."""
        self._members[member] = None
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def discard(self, member: T) -> None:
        """Give a member no more turns."""
        self._members.pop(member, None)
        if self._running is not None and not self._members:
            # A service whose clients have all left would wake up forever (test_each_has_its_turn_in_every_round).
            self._running.cancel()
            self._running = None

    async def _run(self) -> None:
        due = 0.0
        while True:
            portions = min(max(len(self._members), PORTIONS_MIN), PORTIONS_MAX)
            await asyncio.sleep(self._seconds / portions)
            due += len(self._members) / portions
            while due >= 1 and self._members:
                due -= 1
                member = next(iter(self._members))
                # Or the first would have all turns (test_each_has_its_turn_in_every_round).
                self._members.move_to_end(member)
                self._guarded(member)

    def _guarded(self, member: T) -> None:
        # A member that fails must not end the turns of all others (test_each_has_its_turn_in_every_round).
        try:
            self._take_turn(member)
        except Exception:
            log.exception("progress or ping failed")
