"""The demo's first minute, until the first record and the first row of the board; and its Spark without input.

For comparison, the same machine starts Kafka alone: the part of a start that no design of ours can shorten.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.table import table
from bench.usage import usage
from sowline.client.client import Client
from sowline.runtime.local_kafka import LocalKafka

IDLE_SECONDS = 20
SETTLE_SECONDS = 15


class Start(NamedTuple):
    """Seconds since the demo was started."""

    running: float
    first_record: float
    first_row: float


def run(records: int, runs: int) -> str:
    """Start the demo several times, then leave it without input; return a table of medians."""
    kafka = statistics.median(_kafka() for _ in range(runs))
    starts = [_start() for _ in range(runs)]
    medians = [statistics.median(each) for each in zip(*starts, strict=True)]
    idle = _idle()
    rows = [
        ("Kafka alone is ready", f"{kafka:.1f} s", "1"),
        ("everything runs", f"{medians[0]:.1f} s", f"{medians[0] / kafka:.1f}"),
        ("the first record can be queried", f"{medians[1]:.1f} s", f"{medians[1] / kafka:.1f}"),
        ("the first row is on the board", f"{medians[2]:.1f} s", f"{medians[2] / kafka:.1f}"),
        ("the demo's Spark without input", f"{100 * idle:.0f} % of a core", ""),
    ]
    return table(("warm demo", "", "ratio"), rows)


def _kafka() -> float:
    with tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        with LocalKafka(Path(directory)):
            return time.monotonic() - began


@contextmanager
def _demo(*options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-u", "-m", "examples.flights", "--no-browser", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        yield demo
        demo.terminate()
        # Read to the end: a demo that can't write its last words would not end in good order.
        demo.communicate()


def _start() -> Start:
    began = time.monotonic()
    with _demo() as demo:
        url = _url(demo)
        running = time.monotonic() - began
        with Client(url) as client:
            while not client.topics()["topics"][0]["records"]:
                time.sleep(0.05)
        first_record = time.monotonic() - began
        assert demo.stdout is not None
        any(" enters " in line for line in demo.stdout)
        first_row = time.monotonic() - began
    start = Start(running, first_record, first_row)
    print(start, flush=True)
    return start


def _url(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.search(r"running: (\S+)", line):
            return found[1]
    raise RuntimeError("the demo ended before it ran")


def _idle() -> float:
    """Return the share of a core that the pipeline's processes take while no slice arrives."""
    with _demo("--speed", "0.001") as demo:
        _url(demo)
        time.sleep(SETTLE_SECONDS)
        pids = _descendants(demo.pid)
        before = usage(pids).cpu_seconds
        time.sleep(IDLE_SECONDS)
        return (usage(pids).cpu_seconds - before) / IDLE_SECONDS


def _descendants(pid: int) -> list[int]:
    """Return the process that runs the pipeline; Spark's Java is below it."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    parents = {int(one): int(parent) for one, parent, *_ in rows}
    runs = {int(one) for one, _, *args in rows if " run " in " ".join(args) and "pipeline" in " ".join(args)}
    found = [one for one in runs if _below(one, pid, parents)]
    return [one for one in found if parents[one] not in found]


def _below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False
