"""Service processes that begin as forks of one process that has imported the services.

Importing is most of what a start of a service computes. A fork is a process as any other: it has memory, signals and
an exit code of its own. After the fork, it does what `python -m sowline_SERVICE` does.
"""

import faulthandler
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sowline.runtime.child_process import bind_to_parent, bound_to_parent

SERVICES = ("materializer", "query_service", "gateway", "fanout", "views")
MESSAGE_BYTES_MAX = 1 << 20


class Forked:
    """A running service, with those methods of `subprocess.Popen` that tests need."""

    def __init__(self, service: str, environment: Mapping[str, str], log: Path) -> None:
        self.pid = int(_server().ask(start=f"sowline_{service}", environment=dict(environment), log=str(log)))
        # Until `poll` has asked for its exit code, no other process can get its id.
        self._descriptor = os.pidfd_open(self.pid)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while it runs; that of a signal is negative."""
        if self._code is None and self._has_ended(0):
            self._code = int(_server().ask(exit_code_of=self.pid))
            os.close(self._descriptor)
        return self._code

    def wait(self, seconds_max: float) -> int:
        """Return the exit code once it has ended; raise `subprocess.TimeoutExpired` after the time."""
        if self._code is None and not self._has_ended(seconds_max):
            raise subprocess.TimeoutExpired(str(self.pid), seconds_max)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def _has_ended(self, seconds_max: float) -> bool:
        ended = select.poll()
        ended.register(self._descriptor, select.POLLIN)
        return bool(ended.poll(seconds_max * 1000))


class _Server:
    """The process that forks, for one process of tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, its = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with its:
            command = [sys.executable, "-m", "tests.integration.forked", str(its.fileno())]
            root = Path(__file__).parents[2]
            self._process = subprocess.Popen(bound_to_parent(command), cwd=root, pass_fds=[its.fileno()])

    def ask(self, **request: Any) -> str:
        """Send a request, and return its answer."""
        with self._lock:
            self._socket.sendall(json.dumps(request).encode())
            answer = self._socket.recv(MESSAGE_BYTES_MAX)
        assert answer, "the process that forks has ended"
        return answer.decode()


@cache
def _server() -> _Server:
    return _Server()


def _serve_requests(requests: socket.socket) -> dict[str, Any] | None:
    """Answer requests until there are no more; in each fork, return what it shall be."""
    while message := requests.recv(MESSAGE_BYTES_MAX):
        request: dict[str, Any] = json.loads(message)
        if "exit_code_of" in request:
            _, status = os.waitpid(request["exit_code_of"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            parent = os.getpid()
            answer = os.fork()
            if not answer:
                bind_to_parent(parent)
                return request
        requests.sendall(str(answer).encode())
    return None


def _become(module: str, environment: dict[str, str], log: str) -> None:
    """Do as a new process of this module does, with this environment, and its output in a log."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    faulthandler.enable()
    wanted = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [path for path in wanted if path not in sys.path]
    del sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Import the services, then fork as often as the process of tests asks for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for service in SERVICES:
        import_module(f"sowline_{service}.service")
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = _serve_requests(requests)
    if request is not None:
        _become(request["start"], request["environment"], request["log"])


if __name__ == "__main__":
    main()
