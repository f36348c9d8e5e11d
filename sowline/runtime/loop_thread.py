"""Runs an event loop in a thread, for blocking callers whose waits a signal (Ctrl-C) always ends.

Python runs signal handlers in the main thread, between two bytecode instructions. A signal that arrives just before
the main thread starts to wait, or that another thread receives, does not end the wait: so no wait is long. A signal
that arrives while a thread acquires a lock by `with` may leave it locked: so waiting uses no lock that the loop uses.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SIGNAL_SECONDS_MAX = 0.2
"""Maximum delay, in seconds, before a signal is noticed."""


def next_of(queue: SimpleQueue[T], timeout_seconds: float | None = None) -> T:
    """Wait for an item from another thread, and return it; raise TimeoutError after `timeout_seconds` seconds."""
    end = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
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
        """Run a coroutine function in the loop; return its result or raise its exception.

        An exception that interrupts the wait, such as KeyboardInterrupt, cancels the coroutine and is raised.
        """
        with self.call(function, *given, **named) as call:
            call.start()
            return call.result()

    def start(
        self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs
    ) -> "LoopCall[T]":
        """Start a coroutine function in the loop; wait for it later with `result`."""
        call = self.call(function, *given, **named)
        call.start()
        return call

    def call(
        self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs
    ) -> "LoopCall[T]":
        """Return a call that is yet to be started: `with` it, an interruption cancels it, also one of its start."""
        # The loop makes the coroutine: one that is made here, and never begun, would warn that it was not awaited.
        return LoopCall(self._loop, lambda: function(*given, **named))

    def stop(self) -> None:
        """Cancel all running coroutines, and end the thread. Do not start any others."""
        try:
            self.run(_end_all_else)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class CallOutcome(NamedTuple, Generic[T]):
    """The outcome of a coroutine: the exception that it raised, or else its result."""

    error: BaseException | None
    value: T


class LoopCall(Generic[T]):
    """A call of a coroutine function in the loop. One thread waits for its result."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]
    ) -> None:
        self._loop = loop
        self._function = function
        self._task: asyncio.Task[T] | None = None
        self._outcome: SimpleQueue[CallOutcome[Any]] = SimpleQueue()

    def start(self) -> None:
        """Let the loop begin the coroutine."""
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._call())
        self._task.add_done_callback(self._end)

    async def _call(self) -> T:
        return await self._function()

    def _end(self, task: asyncio.Task[T]) -> None:
        # Drop the task here, in the loop's thread. Dropping the last reference runs Python code that swallows
        # exceptions: in the waiting thread, that would swallow a KeyboardInterrupt (test_interrupted_at_any_moment).
        self._task = None
        error = CancelledError() if task.cancelled() else task.exception()
        self._outcome.put(CallOutcome(error, task.result() if error is None else None))

    def result(self) -> T:
        """Wait for the coroutine; return its result, or raise its exception.

        Raise `concurrent.futures.CancelledError` if the coroutine was canceled.
        """
        outcome: CallOutcome[T] = next_of(self._outcome)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel the coroutine after an exception, such as KeyboardInterrupt, unless it has ended."""
        if error is None:
            return
        with contextlib.suppress(RuntimeError):  # a loop that is closed has ended everything
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        # Once: a second cancellation would end what the coroutine does about the first.
        if self._task is not None and not self._task.cancelling():
            self._task.cancel()


async def _end_all_else() -> None:
    """Cancel all other tasks of the loop, and wait until they have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
