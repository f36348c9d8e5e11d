"""How soon a query service answers after its start: from the changes topic, and from snapshots on its disk.

RECORDS orders with a key each. The clock runs from the start of the process until it has answered two queries: a
look-up of one record by its key, and a filter over all records, whose indexes it has to build. With a cold page cache
the snapshot's files are first dropped from memory.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

import orjson

from bench.broker import broker
from bench.prefilled import PrefilledTopic
from bench.service import Running, running, until
from bench.table import medians_of, table

TOPIC = "orders"
PARTITIONS = 8
FILTER = "/qty = 17 AND /price < 250"
SNAPSHOT_SECONDS = 5.0


class Start(NamedTuple):
    """Seconds from the start of the process until it was ready and had answered each query; its peak memory."""

    ready: float
    looked_up: float
    filtered: float
    rss_mb: float


class Setting:
    """A topic whose changes are in Kafka, and the directory of a query service's snapshots."""

    def __init__(self, bootstrap: str, directory: Path, records: int) -> None:
        self.records = records
        self._topic = PrefilledTopic(bootstrap, directory, TOPIC, PARTITIONS)
        self.snapshots = directory / "snapshots"

    def fill(self) -> None:
        """Write the log, and let a materializer write the changes."""
        self._topic.fill(self.records)

    def start(self, *, with_snapshots: bool, then: Callable[[], object] = lambda: None) -> Start:
        """Start a query service, measure it, do something while it runs, and end it."""
        given = {"SOWLINE_SNAPSHOT_DIR": str(self.snapshots)} if with_snapshots else {}
        given |= {
            "SOWLINE_SNAPSHOT_SECONDS": str(SNAPSHOT_SECONDS),
            "SOWLINE_SNAPSHOT_BYTES_PER_SECOND_MAX": str(1 << 30),
        }
        began = time.monotonic()
        with running("query_service", self._topic.environment | given) as service:
            until(service.has_started)
            ready = time.monotonic() - began
            _look_up(service, self.records // 2)
            looked_up = time.monotonic() - began
            if not _sow(service, FILTER):
                raise AssertionError("expected records of the filter, got none")
            filtered = time.monotonic() - began
            rss = service.usage().rss_bytes_max / 1e6
            then()
        return Start(ready, looked_up, filtered, rss)

    def wait_for_snapshots(self) -> None:
        """Wait until there is a snapshot of each partition."""
        until(lambda: len([*self.snapshots.rglob("*.manifest")]) == PARTITIONS)

    @property
    def snapshot_bytes(self) -> int:
        """The size of all snapshots."""
        return sum(path.stat().st_size for path in self.snapshots.rglob("*.data"))

    def cool(self) -> None:
        """Drop the snapshots' files from the page cache."""
        for path in self.snapshots.rglob("*.data"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _look_up(service: Running, order: int) -> None:
    """Get one record by its key."""
    with urlopen(f"{service.url}/v1/topics/{TOPIC}/records/{order}", timeout=600) as answer:
        if orjson.loads(answer.read())["order"] != order:
            raise AssertionError(f"expected the record of order {order}")


def _sow(service: Running, text: str) -> int:
    """Query with a filter; return the number of records."""
    request = Request(f"{service.url}/v1/topics/{TOPIC}/sow?filter={quote(text)}", b"")
    with urlopen(request, timeout=600) as answer:
        return len(answer.read().splitlines())


LOADED, WARM, COLD = (
    "from the changes topic",
    "from snapshots, files in the page cache",
    "from snapshots, page cache cold",
)


def run(records: int, runs: int) -> str:
    """Measure in turn; return a table of medians."""
    figures: dict[str, list[Start]] = {LOADED: [], WARM: [], COLD: []}
    with broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        setting = Setting(bootstrap, Path(directory), records)
        setting.fill()
        setting.start(with_snapshots=True, then=setting.wait_for_snapshots)
        size = setting.snapshot_bytes
        for _ in range(runs):
            figures[LOADED].append(setting.start(with_snapshots=False))
            figures[WARM].append(setting.start(with_snapshots=True))
            setting.cool()
            figures[COLD].append(setting.start(with_snapshots=True))
            print({name: some[-1] for name, some in figures.items()}, flush=True)
    medians = {
        name: Start(*map(statistics.median, zip(*some, strict=True))) for name, some in figures.items()
    }
    loaded = medians[LOADED]
    rows = [
        (
            name,
            f"{one.ready:.1f}",
            f"{one.looked_up:.1f}",
            f"{one.filtered:.1f}",
            f"{loaded.looked_up / one.looked_up:.1f}",
            f"{one.rss_mb:,.0f}",
        )
        for name, one in medians.items()
    ]
    heads = ("", "ready, s", "record by its key, s", "filter query, s", "speedup", "peak RSS, MB")
    caption = (
        f"{records:,} records in {PARTITIONS} partitions, {medians_of(runs)}. The snapshots take up"
        f" {size / 1e6:,.0f} MB."
    )
    return f"{caption}\n\n{table(heads, rows)}"
