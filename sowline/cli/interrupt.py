"""Lets Ctrl-C end the commands, also if their parent process ignores SIGINT."""

import signal
import threading


def end_on_interrupt() -> None:
    """Let SIGINT raise `KeyboardInterrupt`, if it is ignored now. Does nothing outside of the main thread.

    A shell without job control starts background commands with SIGINT ignored, and Python keeps that. A command that
    is documented to end with Ctrl-C would then never end.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
