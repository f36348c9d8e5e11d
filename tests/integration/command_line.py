"""The `sowline` command as a user has it: a running system, a shell, and a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.services import ROOT
from tests.waiting import SECONDS_MAX, wait_for

SOWLINE = Path(sys.executable).with_name("sowline")

FORKS = """
import os, signal, sys, time
from sowline.cli import main, reading  # before the forks, which would each import it
for text in sys.argv[1:]:
    reading, writing = os.pipe()
    forked, begun = os.pipe()
    child = os.fork()
    lines, seconds = text.split("+")
    if not child:
        signal.alarm(20)
        os.dup2(writing, 1)
        if lines == "0":
            os.close(2)
        os.close(begun)  # what Python itself does after a fork is over
        main(["sow-and-subscribe", os.environ["TOPIC"], "--full"])
    os.close(writing)
    os.close(begun)
    assert os.read(forked, 1) == b""
    os.close(forked)
    with os.fdopen(reading) as told:
        for _ in range(int(lines)):
            assert told.readline()
        time.sleep(float(seconds))
        os.kill(child, signal.SIGINT)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(text, code, flush=True)
"""
"""Starts a subscriber for each argument, and interrupts it after so many lines and seconds: `2+0.001`."""


class Up:
    """A running `sowline up`, and the processes it has started."""

    def __init__(self, directory: Path, topic: str, *options: str, topics: str = "") -> None:
        """Start one with a topic of this name and its fanout, or with all that `topics` defines."""
        self.topic = topic
        self.unwritten: list[str] = []
        self.log = directory / "up.log"
        (directory / "topics.yaml").write_text(
            topics
            or f"topics: [{{name: {topic}, key: /id, partitions: 2}}]\n"
            f"fanouts: [{{name: {topic}, topic: {topic}, filter: '/id > 0'}}]\n"
        )
        command = [
            str(SOWLINE),
            "up",
            "--config",
            "topics.yaml",
            "--data-dir",
            "state",
            "--port",
            "0",
            *options,
        ]
        environment = {name: value for name, value in os.environ.items() if name != "SOWLINE_KAFKA"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment | {"SOWLINE_GROUP": topic, "SOWLINE_SESSION_TIMEOUT_MS": "1500"},
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> dict[str, Any]:
        """Return what it prints once it is ready."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        addresses: dict[str, Any] = json.loads(line)
        return addresses

    def descendants(self) -> set[int]:
        """Return the ids of all processes below it."""
        found: set[int] = set()
        waiting = [self.process.pid]
        while waiting:
            children = _children(waiting.pop())
            waiting += children
            found |= set(children)
        return found

    def wait_for_services(self) -> set[int]:
        """Wait until all services of one over a Kafka run; return their ids."""
        return wait_for(
            lambda: found if len(found := self.descendants()) == 4 else None, "all services to run"
        )

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(SECONDS_MAX)

    def close(self) -> None:
        """End it, if it has not ended yet."""
        if self.process.poll() is None:
            self.process.kill()
            self.wait()


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        try:
            found += [int(child) for child in path.read_text().split()]
        except OSError:  # it has just ended
            continue
    return found


def alive(pids: set[int]) -> set[int]:
    """Return which of the processes are still there; what only waits to be collected is not."""
    return {pid for pid in pids if _state(pid) not in ("", "Z", "X")}


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Shell:
    """Runs command lines as a person would type them, with `sowline` on the path and its service known."""

    def __init__(self, url: str, topic: str) -> None:
        usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self.url = url
        self.topic = topic
        self.environment = usual | {
            "SOWLINE_URL": url,
            "TOPIC": topic,
            "PATH": f"{SOWLINE.parent}:{os.environ['PATH']}",
        }

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a command line."""
        return subprocess.run(
            ["/bin/sh", "-c", line],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )

    def start(self, line: str) -> subprocess.Popen[str]:
        """Start a command line."""
        return subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lines(self, line: str) -> list[Any]:
        """Run a command line that must go well, and return the JSON that it prints."""
        done = self.run(line)
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(text) for text in done.stdout.splitlines()]


def wait_for_sow(shell: Shell, wanted: list[Any], options: str = "") -> None:
    """Wait until a query prints these records."""
    seen: list[Any] = []

    def found() -> bool:
        seen[:] = sorted(shell.lines(f"sowline sow $TOPIC {options}"), key=lambda body: body["id"])
        return seen == wanted

    try:
        wait_for(found, f"the records {wanted}")
    except AssertionError as error:
        raise AssertionError(f"{error}, not {seen}") from None


def on_terminal(*arguments: str, lines: int = 0, meanwhile: Callable[[], object] = list) -> list[str]:
    """Return what a command prints on a terminal of 100 columns.

    Of a command without end, only so many `lines`; `meanwhile` is called after the first two.
    """
    ours, theirs = pty.openpty()
    variables = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    command = [str(SOWLINE), *arguments]
    with subprocess.Popen(
        command, stdout=theirs, env=variables, cwd=ROOT, stdin=subprocess.DEVNULL
    ) as running:
        os.close(theirs)
        read, called = b"", False
        with os.fdopen(ours, "rb", 0) as terminal:
            while not lines or read.count(b"\n") < lines:
                if read.count(b"\n") >= 2 and not called:
                    called = True
                    meanwhile()
                try:
                    some = terminal.read(10_000)
                except OSError:  # a terminal whose last program has ended
                    break
                read += some
            if lines:
                running.send_signal(signal.SIGINT)
    return read.decode().splitlines()
