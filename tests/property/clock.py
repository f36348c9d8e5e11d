"""An event loop whose clock the test owns: what sleeps goes on when the test moves the clock, and not before."""

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import wraps
from typing import Any, TypeVar

from tests.waiting import loop_turns

T = TypeVar("T")


class ClockLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: its time, in seconds from 0, is moved by `tick`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[float] = []
        super().__init__(_Impatient())

    def time(self) -> float:
        """The time that the test has set."""
        return self._now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Note when a timer is due, so that no tick jumps over it."""
        heapq.heappush(self._due, when)
        return super().call_at(when, callback, *args, context=context)

    async def rest(self) -> None:
        """Let everything run that can run without new input, and before the clock moves."""
        await loop_turns()
        while self._ready or self._is_timer_due():  # type: ignore[attr-defined]
            await loop_turns()

    def _is_timer_due(self) -> bool:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return any(timer.when() <= self._now and not timer.cancelled() for timer in timers)

    async def tick(self, milliseconds: float) -> None:
        """Move the clock on, from timer to timer; what each sets off comes to rest before the next."""
        await self.rest()
        end = self._now + milliseconds / 1000
        while self._due and self._due[0] <= end:
            self._now = max(self._now, heapq.heappop(self._due))
            await self.rest()
        self._now = end
        await self.rest()

    def spend(self, seconds: float) -> None:
        """Let time go by while something runs."""
        self._now += seconds

    async def end(self) -> None:
        """End everything that still runs."""
        for task in asyncio.all_tasks(self) - {asyncio.current_task(self)}:
            task.cancel()
        await self.rest()


class _Impatient(selectors.SelectSelector):
    """Looks at files without waiting for them."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; raises where nothing else could happen before the test moves the clock."""
        ready = super().select(0)
        if not ready and timeout != 0:
            raise AssertionError("expected something to do; the test waits for what only its clock can bring")
        return ready


async def at_once(function: Callable[..., T], *arguments: Any) -> T:
    """Do what would run in a thread, and let others run before."""
    await loop_turns()
    return function(*arguments)


def on_clock(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let a test run in a loop with a clock of its own."""

    @wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        loop = ClockLoop()
        try:
            loop.run_until_complete(test(*args, **fixtures))
        finally:
            loop.run_until_complete(loop.end())
            loop.close()

    return run


def clock() -> ClockLoop:
    """The loop that runs; it has to be one whose clock the test owns."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ClockLoop)
    return loop
