"""Ctrl-C for the commands: it ends them also where their parent has left SIGINT ignored."""

import signal
import threading


def end_on_interrupt() -> None:
    """Let SIGINT raise `KeyboardInterrupt`, if it is ignored now. Does nothing outside of the main thread.

    A shell without job control starts background commands with SIGINT ignored, and Python keeps that: a command
    that documents Ctrl-C as its end would then run for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
