"""A separate system for a worked example: Kafka and all services, on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sowline.runtime.child_process import bound_to_parent

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STOP_S_MAX = 60.0
LOG_LINES = 20


class ExampleStack(NamedTuple):
    """Where a running system can be reached."""

    url: str
    kafka: str


@contextmanager
def running(config: Path, directory: Path) -> Iterator[ExampleStack]:
    """Run Kafka and all services over a file of topics; they end with the context."""
    command = [sys.executable, "-m", "sowline", "up", "--config", str(config), "--port", "0"]
    command += ["--data-dir", str(directory / "data")]
    environment = {"JAVA_TOOL_OPTIONS": QUICK_START} | os.environ
    environment.pop("SOWLINE_KAFKA", None)  # keeps the example's orders out of the reader's own cluster
    log = directory / "sowline.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            bound_to_parent(command), env=environment, stdout=subprocess.PIPE, stderr=errors
        )
    with process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                tail = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                raise SystemExit("\n".join(["expected sowline up to start; the end of its log:", *tail]))
            at = json.loads(line)
            yield ExampleStack(at["url"], at["kafka"])
        finally:
            process.terminate()
            process.wait(STOP_S_MAX)
