"""The cost of applying all changes of a topic: at one query service, and at two that hold a shard each.

The changes of RECORDS orders with a key each are in Kafka before. Each process is pinned to its own core, which it
shares with the broker. The clock runs from the start of the processes until all of them have applied everything. The
CPU of a start without changes is taken off.
"""

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bench.broker import broker
from bench.prefilled import PrefilledTopic
from bench.service import Running, running, until
from bench.table import medians_of, table

PARTITIONS = 8
TOPIC, EMPTY = "orders", "empty"


class Applied(NamedTuple):
    """Seconds until all changes were applied; CPU seconds, peak memory and received bytes of all processes."""

    seconds: float
    cpu_seconds: float
    rss_mb: float
    received_mb: float


class Setting:
    """A topic whose changes are in Kafka, and one without any."""

    def __init__(self, bootstrap: str, directory: Path, records: int) -> None:
        self._records = records
        self._topics = {
            name: PrefilledTopic(bootstrap, directory, name, PARTITIONS) for name in (TOPIC, EMPTY)
        }

    def fill(self) -> None:
        """Write the log, and let a materializer write the changes."""
        self._topics[TOPIC].fill(self._records)
        self._topics[EMPTY].fill(0)

    def start(self, shards: Sequence[str], topic: str = TOPIC) -> Applied:
        """Start a query service for each shard; measure them until they have applied all changes."""
        began = time.monotonic()
        with ExitStack() as stack:
            nodes = [
                stack.enter_context(
                    running("query_service", self._topics[topic].environment | {"SOWLINE_SHARD": shard})
                )
                for shard in shards
            ]
            for core, node in enumerate(nodes):
                _pin(node, core)
            until(lambda: all(node.has_started() for node in nodes))
            seconds = time.monotonic() - began
            found = [node.usage() for node in nodes]
            held = sum(node.metric("sowline_records") for node in nodes)
            if topic == TOPIC and held != self._records:
                raise AssertionError(f"expected {self._records} records, got {held}")
            received = sum(_received_bytes(node) for node in nodes)
        cpu = sum(one.cpu_seconds for one in found)
        memory = sum(one.rss_bytes_max for one in found)
        return Applied(seconds, cpu, memory / 1e6, received / 1e6)


def _pin(node: Running, core: int) -> None:
    """Let all threads of a process run on one core; threads that start later do so, too."""
    for thread in Path(f"/proc/{node.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def _received_bytes(node: Running) -> int:
    """Return the bytes that the open connections of a process have received."""
    lines = subprocess.run(["ss", "-tinpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    return sum(
        int(found[1])
        for line, details in pairwise(lines)
        if f"pid={node.pid}," in line and (found := re.search(r"bytes_received:(\d+)", details))
    )


WHOLE, HALVES = "one query service", "two nodes"


def run(records: int, runs: int) -> str:
    """Measure in turn; return a table of medians."""
    figures: dict[str, list[Applied]] = {WHOLE: [], HALVES: []}
    shards = {WHOLE: ["0/1"], HALVES: ["0/2", "1/2"]}
    with broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        setting = Setting(bootstrap, Path(directory), records)
        setting.fill()
        for _ in range(runs):
            for name, held in shards.items():
                idle, one = setting.start(held, EMPTY), setting.start(held)
                figures[name].append(one._replace(cpu_seconds=one.cpu_seconds - idle.cpu_seconds))
            print({name: some[-1] for name, some in figures.items()}, flush=True)
    medians = {
        name: Applied(*map(statistics.median, zip(*some, strict=True))) for name, some in figures.items()
    }
    whole = medians[WHOLE]
    rows = [
        (
            name,
            f"{one.seconds:.1f}",
            f"{whole.seconds / one.seconds:.2f}",
            f"{one.cpu_seconds / records * 1e6:.2f}",
            f"{one.cpu_seconds / whole.cpu_seconds:.2f}",
            f"{one.received_mb / whole.received_mb:.2f}",
            f"{one.rss_mb:,.0f}",
        )
        for name, one in medians.items()
    ]
    heads = (
        "",
        "seconds",
        "speedup",
        "µs of CPU per change",
        "relative to one service",
        "bytes from Kafka, relative to one service",
        "peak RSS, MB",
    )
    caption = f"{records:,} changes in {PARTITIONS} partitions, {medians_of(runs)}."
    return f"{caption}\n\n{table(heads, rows)}"
