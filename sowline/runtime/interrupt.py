"""Lets Ctrl-C end the commands: without a traceback, and also if their parent process ignores SIGINT.

It imports little, so that programs can use it before their other imports.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130
"""The exit status of a command that Ctrl-C ended, as shells have it."""


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """End the process with this status, and nothing else, if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def end_on_interrupt() -> None:
    """Let SIGINT raise `KeyboardInterrupt`, if it is ignored now. Does nothing outside of the main thread.

    A shell without job control starts background commands with SIGINT ignored, and Python keeps that. A command that
    is documented to end with Ctrl-C would then never end.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
