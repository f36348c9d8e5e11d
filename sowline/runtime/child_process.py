"""Runs child processes that can't outlive the process that started them (on Linux; elsewhere they just run).

`bound_to_parent` wraps a command so that the kernel kills it when its parent ends, even if the parent is killed.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def bound_to_parent(command: list[str]) -> list[str]:
    """Return `command` wrapped so that it is killed when the calling **thread** ends.

    Linux binds the child to the thread that forked, not to its process: start the command from a thread that stays.
    """
    # A wrapper that replaces itself, because a `preexec_fn` can deadlock in a process with threads.
    return [sys.executable, "-S", "-E", __file__, str(os.getpid()), *command]


def bind_to_parent(parent: int) -> None:
    """Ask the kernel to kill this process with its parent, whose id is given; end if the parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the request
            sys.exit(1)


def main(arguments: list[str]) -> None:
    """Bind this process to its parent (`arguments[0]`), then run the command that follows."""
    parent, command = int(arguments[0]), arguments[1:]
    bind_to_parent(parent)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
