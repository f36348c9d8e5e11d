"""How much is done before others in the event loop get a turn."""

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

CHUNK = 1000
"""Records in a step, at most."""

STEP_SECONDS = 0.02
"""Of work, before others get a turn; one record may take longer."""


class Pace:
    """How many records to look at in a step: one at first, then by how long the last step took."""

    def __init__(self) -> None:
        self.records = 1

    def note(self, seconds: float) -> None:
        """Note how long a step took."""
        if seconds > STEP_SECONDS:
            self.records = max(1, self.records // 4)
        elif seconds < STEP_SECONDS / 4:
            self.records = min(CHUNK, self.records * 2)


def uncounted(seconds: float) -> None:
    """Let work cost what it may."""


async def in_turns(work: Iterable[T], spend: Callable[[float], None] = uncounted) -> list[T]:
    """Take all that an iterable yields; others get turns in between. `spend` is told how long each step took."""
    pace, done, rest = Pace(), list[T](), iter(work)
    while True:
        began, wanted = time.monotonic(), pace.records
        step = list(islice(rest, wanted))
        done += step
        seconds = time.monotonic() - began
        pace.note(seconds)
        spend(seconds)
        if len(step) < wanted:
            return done
        await asyncio.sleep(0)
