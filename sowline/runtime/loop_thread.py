"""An event loop in its own thread, with waits that a signal always ends.

Python tells the main thread of a signal between two of its steps. A signal that comes just before the thread
begins to wait, or that another thread was given, does not end the wait: so no wait is long. And one that comes
while a thread takes a lock by `with` may leave it locked: so waiting takes no lock that the loop takes, too.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SIGNAL_SECONDS_MAX = 0.2
"""Maximum delay, in seconds, before a signal is noticed."""


def next_of(queue: SimpleQueue[T], timeout: float | None = None) -> T:
    """Wait for what another thread puts, and return it; raises TimeoutError after `timeout` seconds."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = end - time.monotonic()
        with contextlib.suppress(Empty):
            return queue.get(timeout=max(0.0, min(SIGNAL_SECONDS_MAX, left)))
        if left <= 0:
            raise TimeoutError


class LoopThread:
    """Runs coroutines for other threads, until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs) -> T:
        """Call a coroutine function there; return what it returns, or raise what it raises.

        What interrupts the wait is raised, and cancels the coroutine.
        """
        return self.start(function, *given, **named).result()

    def start(
        self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs
    ) -> "LoopCall[T]":
        """Call a coroutine function there, and wait later for its `result`."""
        call = LoopCall(self._loop, lambda: function(*given, **named))
        self._loop.call_soon_threadsafe(call.begin)
        return call

    def stop(self) -> None:
        """End whatever still runs, and the thread; nothing may be started any more."""
        try:
            self.run(_end_all_else)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class CallOutcome(NamedTuple, Generic[T]):
    """What came of a coroutine: what it raised, or else what it returned."""

    error: BaseException | None
    value: T


class LoopCall(Generic[T]):
    """A coroutine that runs in the loop, and the one thread that waits for it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]
    ) -> None:
        self._loop = loop
        self._function = function
        self._task: asyncio.Task[T] | None = None
        self._outcome: SimpleQueue[CallOutcome[Any]] = SimpleQueue()

    def begin(self) -> None:
        """Begin; called in the loop."""
        self._task = self._loop.create_task(self._called())
        self._task.add_done_callback(self._end)

    async def _called(self) -> T:
        return await self._function()

    def _end(self, task: asyncio.Task[T]) -> None:
        """Keep no task: where the last to know it lets it go, Python code runs that swallows what a signal raises."""
        self._task = None
        error = CancelledError() if task.cancelled() else task.exception()
        self._outcome.put(CallOutcome(error, task.result() if error is None else None))

    def result(self) -> T:
        """Wait for the end and return what came of it; raises `concurrent.futures.CancelledError` if cancelled."""
        try:
            outcome: CallOutcome[T] = next_of(self._outcome)
        except BaseException:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._cancel)
            raise
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _end_all_else() -> None:
    """Cancel whatever still runs, and wait until it has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
