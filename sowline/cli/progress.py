"""Shows the progress of long work on a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

TELL_SECONDS = 1.0


class ProgressLine:
    """Reports progress on standard error once a second, if that is a terminal."""

    def __init__(self) -> None:
        self._next = time.monotonic() + TELL_SECONDS

    def __call__(self, what: str, done: int, of: int | None = None) -> None:
        """Note the progress and, if it is known, the total."""
        if time.monotonic() >= self._next and sys.stderr.isatty():
            self._next = time.monotonic() + TELL_SECONDS
            click.echo(f"{what}: {done:,}" + ("" if of is None else f" of {of:,}"), err=True)


@contextmanager
def reported_if_slow(what: str) -> Iterator[Callable[[], None]]:
    """Lend a function that begins a wait, for the rest of the block.

    If the wait takes longer than a second, report it on standard error, if that is a terminal.
    """
    timer = threading.Timer(TELL_SECONDS, click.echo, (f"{what} …",), {"err": True})
    timer.daemon = True
    try:
        yield timer.start if sys.stderr.isatty() else lambda: None
    finally:
        timer.cancel()
