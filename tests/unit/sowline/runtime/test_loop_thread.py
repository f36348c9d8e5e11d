"""Waiting for what runs in a loop's thread, and what interrupts that."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from queue import SimpleQueue
from types import FrameType

import pytest

from sowline.runtime.loop_thread import SIGNAL_SECONDS_MAX, LoopThread, next_of
from tests.interrupts import Interrupted, interrupted
from tests.waiting import loop_turns, wait_for


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    """A thread, stopped behind the test."""
    made = LoopThread("tested")
    yield made
    made.stop()


@pytest.fixture
def interrupting() -> Iterator[None]:
    """Lets the signal raise something, as SIGINT does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


async def answer(number: int) -> int:
    """Return what is given, after a turn of the others."""
    await loop_turns()
    return number


async def fail() -> None:
    """Raise something."""
    raise ValueError("no")


def test_what_comes_of_it(loop_thread: LoopThread) -> None:
    """What it returns is returned, what it raises is raised, also where it could not even be called."""
    assert loop_thread.run(answer, 7) == 7
    assert loop_thread.run(answer, number=8) == 8
    with pytest.raises(ValueError, match="no"):
        loop_thread.run(fail)
    with pytest.raises(TypeError, match="number"):
        loop_thread.run(answer)  # type: ignore[call-arg]
    started = [loop_thread.start(answer, number) for number in range(3)]
    assert [call.result() for call in reversed(started)] == [2, 1, 0]


def test_next_of_a_queue() -> None:
    """What is there, or comes in time; also where that takes longer than a signal may."""
    queue: SimpleQueue[int] = SimpleQueue()
    queue.put(1)
    assert next_of(queue, 0) == 1
    for seconds in (-1, 0, 0.01, SIGNAL_SECONDS_MAX * 1.2):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            next_of(queue, seconds)
        assert time.monotonic() - began >= seconds
    later = threading.Timer(SIGNAL_SECONDS_MAX * 1.2, queue.put, (2,))
    later.start()
    assert next_of(queue) == 2
    later.join()


def test_stop_ends_what_runs() -> None:
    """A caller that still waits gets a cancellation."""
    thread = LoopThread("tested")
    waiting = thread.start(asyncio.Event().wait)
    thread.stop()
    with pytest.raises(CancelledError):
        waiting.result()


@pytest.mark.usefixtures("interrupting")
def test_signal_that_another_thread_is_given(loop_thread: LoopThread) -> None:
    """It ends the wait soon, though nothing wakes the main thread; what was waited for is cancelled."""
    ended, waiter = threading.Event(), threading.get_ident()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def give_itself_the_signal() -> None:
        wait_for(lambda: sys._current_frames()[waiter].f_code is next_of.__code__, "the main thread to wait")
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    threading.Thread(target=give_itself_the_signal).start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        loop_thread.run(wait)
    assert time.monotonic() - began < 10 * SIGNAL_SECONDS_MAX
    assert ended.wait(5)


@pytest.mark.usefixtures("uncollected")
def test_interrupted_at_any_moment(loop_thread: LoopThread) -> None:
    """Between whichever two steps of the interpreter a wait is interrupted, the thread goes on."""
    moments = 0
    while interrupted(lambda: loop_thread.run(answer, 1), moments):
        moments += 1
        call = loop_thread.start(answer, moments)
        assert call._outcome.get(timeout=5).value == moments
    assert moments > 100
