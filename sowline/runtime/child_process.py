"""Run a command that cannot outlive the process that started it (on Linux; elsewhere it just runs).

`bound_to_parent` wraps a command so that the kernel kills it when its parent goes, however the parent goes.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def bound_to_parent(command: list[str]) -> list[str]:
    """Return `command` wrapped so that it is killed when the calling **thread** ends.

    Linux ties this to the thread that forked, not to its process: start the result from a thread that lives on.
    A wrapper that replaces itself, not a `preexec_fn`: the latter may deadlock in a process with threads.
    """
    return [sys.executable, "-S", "-E", __file__, str(os.getpid()), *command]


def main(arguments: list[str]) -> None:
    """Ask to die with parent `arguments[0]`, then become the command that follows."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it went before we asked
            sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
