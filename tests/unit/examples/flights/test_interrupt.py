"""Ctrl-C in the demo: the first ends the feed, the second the demo, and none the stopping of its processes."""

import asyncio
import os
import signal
from io import StringIO

from rich.console import Console

from examples.flights.interrupt import stopped_by_interrupt


def press() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


async def fed(out: StringIO, reached: list[str]) -> None:
    """Feed until Ctrl-C, then compare for ever."""
    with stopped_by_interrupt(Console(file=out)) as stop:
        press()
        await stop.wait()
        reached.append("stopped")
        press()
        await asyncio.Event().wait()


async def test_the_first_ends_the_feed_and_the_second_the_demo() -> None:
    """After the first there is time to compare; it says how to end at once."""
    out = StringIO()
    reached: list[str] = []
    task = asyncio.create_task(fed(out, reached))
    await asyncio.wait([task])
    assert task.cancelled()
    assert reached == ["stopped"]
    assert "Ctrl-C again ends at once" in out.getvalue()


async def test_none_cuts_short_what_follows() -> None:
    """Processes are being stopped by then."""

    async def ended() -> str:
        with stopped_by_interrupt(Console(file=StringIO())):
            pass
        seen = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, seen.set)
        press()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR1)
        await seen.wait()
        return "everything is stopped"

    assert await asyncio.create_task(ended()) == "everything is stopped"
