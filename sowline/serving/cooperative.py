"""Cooperative scheduling: limits the work of a task before others in the event loop run."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import structlog

log = structlog.get_logger()

T = TypeVar("T")

Spend = Callable[[float], None]
"""Called with the seconds that some work took; may raise if they are too many."""

_DONE = object()

TURN_RECORDS_MAX = 1000
"""The largest number of records in a step."""

STEP_SECONDS = 0.02
"""Seconds of work before other tasks run; a single record may take longer."""


TURN_SECONDS = 0.002
"""Seconds of work for one client before other tasks run, if many clients may have such work."""


class Turns:
    """Tasks with much work take turns: in each turn of the event loop, one of them continues.

    If each of many tasks only yielded after its step, a turn of the loop would take as long as a step of all of them.
    Every other task would wait that long.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_called = False

    async def wait(self) -> None:
        """Wait for the next turn, after the tasks that already wait."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._is_called:
            self._is_called = True
            loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        turn = self._waiting.popleft()
        # A task that was cancelled while it waited takes no turn: with a thousand of them, the next one would wait
        # for a thousand turns of the loop (test_one_that_ends_while_it_waits_takes_no_turn).
        while turn.done() and self._waiting:
            turn = self._waiting.popleft()
        if not turn.done():
            turn.set_result(None)
        self._is_called = bool(self._waiting)
        if self._is_called:
            asyncio.get_running_loop().call_soon(self._next)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()
"""The turns of all work that takes steps, by event loop."""


async def wait_next_turn() -> None:
    """Wait for the next turn of all work that takes steps."""
    # New connections are accepted one in a turn of the loop. If sixteen queries each made a step in every turn, a
    # probe after two hundred clients would wait for thousands of steps.
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = Turns()
    await turns.wait()


class StepSize:
    """The number of records in a step: one at first, then by the duration of the last step."""

    def __init__(self) -> None:
        self.records = 1

    def note(self, seconds: float) -> None:
        """Note how long a step took."""
        if seconds > STEP_SECONDS:
            self.records = max(1, self.records // 4)
        elif seconds < STEP_SECONDS / 4:
            self.records = min(TURN_RECORDS_MAX, self.records * 2)


def uncounted(seconds: float) -> None:
    """Allow work of any cost."""


async def in_steps(steps: Iterator[None], spend: Spend = uncounted) -> None:
    """Do all steps of some work; other tasks run in between. Call `spend` with the seconds of each step."""
    while True:
        began = time.monotonic()
        is_done = next(steps, _DONE) is _DONE
        spend(time.monotonic() - began)
        if is_done:
            return
        await wait_next_turn()


async def in_turns(work: Iterable[T], spend: Spend = uncounted) -> list[T]:
    """Return all items of an iterable, taken in steps; other tasks run in between."""
    done: list[T] = []
    await in_steps(_paced(iter(work), done), spend)
    return done


def _paced(rest: Iterator[T], done: list[T]) -> Iterator[None]:
    pace = StepSize()
    while True:
        began, wanted = time.monotonic(), pace.records
        step = list(islice(rest, wanted))
        done += step
        pace.note(time.monotonic() - began)
        if len(step) < wanted:
            return
        yield


async def together(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all at once. If one raises, cancel the others and raise its error once all of them have ended.

    Errors that others raise while they end are logged.
    """
    # Not a TaskGroup: cancelling its caller reaches the members one turn of the loop later, and one of them could
    # send a message after `unsubscribe`. Cancelling a `gather` cancels them at once.
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    except BaseException as first:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        _log_others(first, [error for error in ended if isinstance(error, BaseException)])
        raise


async def first_of(steps: Iterable[Coroutine[Any, Any, T]]) -> T:
    """Run all at once, and return what the first one that ends returns, or raise its error.

    The others are cancelled first, and have ended. If several end at once, the first in order counts.
    """
    tasks = [asyncio.ensure_future(step) for step in steps]
    first: asyncio.Task[T] | None = None
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = next(task for task in tasks if task in done)
        return first.result()
    finally:
        for task in tasks:
            task.cancel()
        ended = zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True)
        _log_others(
            None, [error for task, error in ended if task is not first and isinstance(error, BaseException)]
        )


@asynccontextmanager
async def running(steps: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run steps during the block. At its end cancel them, and wait until they have ended.

    If one raises, the block is cancelled and that error is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(step) for step in steps]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as failed:
        first = failed.exceptions[0]
        _log_others(first, failed.exceptions)
        raise first from None


def _log_others(first: BaseException | None, errors: Iterable[BaseException]) -> None:
    for error in errors:
        if error is not first and not isinstance(error, asyncio.CancelledError):
            log.error("another task failed too", first=repr(first), exc_info=error)
