"""How tests wait: for a condition, for turns of the event loop, or at the pace of a load.

Nothing else in the tests sleeps (`tests/docs/test_waiting.py`): a time that is too long on one machine is too short
on another.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import TypeVar

SECONDS_MAX = 90.0
"""Less than the limit of a test, so that what fails is the wait, which names what it waits for."""

PAGE_TURN = "const turn = () => new Promise((done) => setTimeout(done, 5));"
"""Defines in a script of a page what it awaits between two looks: the page itself goes on meanwhile."""

T = TypeVar("T")


def wait_for(condition: Callable[..., T | None], what: str, seconds_max: float = SECONDS_MAX) -> T:
    """Wait until `condition` returns something true and return that, or fail naming `what`."""
    deadline = time.monotonic() + seconds_max
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds_max:g} s for {what}"
        time.sleep(0.02)
    return found


def clock_reaches(moment: float) -> None:
    """Wait until the machine's clock shows a time, in seconds since 1970: what is written then is of a later time."""
    while (left := moment - time.time()) > 0:
        time.sleep(left)


def let_pass(seconds: float) -> None:
    """Let a time go by until a fault happens, or while it lasts: for how long, the seed of the test decides.

    It proves nothing: a test that uses it holds at any moment.
    """
    time.sleep(seconds)


def program_until(path: Path) -> str:
    """Return a program that goes on until there is a file, as a cell of a notebook does whose work takes long."""
    return f"import pathlib, time\nwhile not pathlib.Path({str(path)!r}).exists(): time.sleep(0.1)"


async def until(condition: Callable[[], object | Awaitable[object]], what: str = "the condition") -> None:
    """Wait until `condition`, maybe a coroutine, returns something true; the tasks of the loop run meanwhile."""
    deadline = time.monotonic() + SECONDS_MAX
    while not await _found(condition):
        assert time.monotonic() < deadline, f"waited {SECONDS_MAX:g} s for {what}"
        await asyncio.sleep(0.001)


async def _found(condition: Callable[[], object | Awaitable[object]]) -> object:
    found = condition()
    return await found if isawaitable(found) else found


async def as_soon_as(condition: Callable[[], object], what: str = "the condition") -> None:
    """Do the same as `until`, but look in each turn of the loop: nothing else happens before the caller goes on."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS_MAX:g} s for {what}"
        await asyncio.sleep(0)


async def loop_turns(count: int = 1) -> None:
    """Let each task of the loop that can run do so, `count` times; no time goes by."""
    for _ in range(count):
        await asyncio.sleep(0)


async def pace(seconds: float) -> None:
    """Take the time of a load between two changes, or of a played part until it answers, in the loop's own clock.

    It proves nothing: a test that uses it holds at any pace.
    """
    await asyncio.sleep(seconds)
