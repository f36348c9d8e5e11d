"""The signals that end the demo: Ctrl-C ends the feed first, so that what was fed can be compared."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, once: a second signal must not cut short the stopping of processes."""
    if not task.cancelling():
        task.cancel()


@contextmanager
def stopped_by_interrupt(console: Console) -> Iterator[asyncio.Event]:
    """Lend an event that the first Ctrl-C in the block sets; the next one cancels the task.

    What follows the block is the stopping of processes: no signal ends it.
    """
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    assert task is not None, "a signal needs something to end"

    def end() -> None:
        if stop.is_set():
            cancel(task)
        else:
            stop.set()
            console.print("stopping: what was fed arrives and is compared; Ctrl-C again ends at once")

    loop.add_signal_handler(signal.SIGINT, end)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.add_signal_handler(number, lambda: None)
