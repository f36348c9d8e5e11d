"""A service in its own process, measured from outside: started, asked for its health and metrics, and stopped."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from bench.usage import Usage, usage
from sowline.runtime.ports import HOST, free_port

SECONDS_MAX = 600.0
LOOK_SECONDS = 0.02


class Running:
    """A service that runs."""

    def __init__(self, start: "Callable[[], subprocess.Popen[bytes]]", url: str) -> None:
        self._start = start
        self._process = start()
        self.url = url

    def kill(self) -> None:
        """End it at once, in the middle of its work, and start it again."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def end(self) -> None:
        """Ask it to end, and wait until it has."""
        self._process.terminate()
        self._process.wait()

    def has_started(self) -> bool:
        """Whether it has done the work of its start."""
        self._check()
        return _answer(self.url, "/startupz") is not None

    def is_ready(self) -> bool:
        """Whether it has all that it serves."""
        self._check()
        return _answer(self.url, "/readyz") is not None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 where it has none yet."""
        self._check()
        return metric(self.url, name)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def usage(self) -> Usage:
        """Its usage so far."""
        return usage([self._process.pid])

    def _check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"the service ended with {self._process.returncode}")


def metric(url: str, name: str) -> float:
    """Ask a service for the sum of a metric over its labels; 0 where it has none yet, or does not answer yet."""
    lines = (_answer(url, "/metrics") or "").splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((name + " ", name + "{")))


def _answer(url: str, path: str) -> str | None:
    try:
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


@contextmanager
def running(service: str, environment: Mapping[str, str]) -> Iterator[Running]:
    """Run `python -m sowline_SERVICE` with these `SOWLINE_*` variables."""
    port = free_port()
    settings = {"SOWLINE_PORT": str(port), **environment}
    command, variables = [sys.executable, "-m", f"sowline_{service}"], os.environ | settings
    process = Running(lambda: subprocess.Popen(command, env=variables), f"http://{HOST}:{port}")
    try:
        yield process
    finally:
        process.end()


def until(is_so: Callable[[], bool]) -> float:
    """Ask until the answer is yes; return the seconds until then. Raises after `SECONDS_MAX`."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > SECONDS_MAX:
            raise RuntimeError(f"not so within {SECONDS_MAX:g} s")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began
