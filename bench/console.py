"""The console in a browser: until it can be used, until the first rows, and until all of 100,000 rows are drawn.

Beside it, the same browser reads the same records over a WebSocket of its own and parses the frames: no page can do
without that.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
from confluent_kafka import Producer
from playwright.sync_api import Page

from bench.broker import broker
from bench.table import table
from bench.traffic import system
from sowline.client.client import Client
from tests.browser.seen import browser

RECORDS = 100_000
TOPICS = "topics: [{name: orders, key: /id, partitions: 2}]\n"
SECONDS_MAX = 180
DRAWN = "document.querySelector('perspective-viewer-datagrid')?.regular_table?.querySelector('tbody td')"
FRAMES = """async (limit) => {
  const began = performance.now();
  const socket = new WebSocket(location.origin.replace("http", "ws") + "/v1");
  let rows = 0;
  await new Promise((resolve) => {
    socket.onopen = () => socket.send(JSON.stringify({command: "sow", command_id: "1", topic: "orders",
      batch_size: 500, top_n: limit, options: "timestamp", ack_type: "completed"}));
    socket.onmessage = ({data}) => {
      for (const message of [JSON.parse(data)].flat()) {
        if (message.command === "sow") rows += message.records.length;
        if (message.ack_type === "completed") resolve();
      }
    };
  });
  socket.close();
  return [performance.now() - began, rows];
}"""


class Times(NamedTuple):
    """Milliseconds since the address was entered; `frames` since the raw connection began."""

    interactive: float
    first_rows: float
    all_rows: float
    frames: float


def run(records: int, runs: int) -> str:
    """Open the grid of a topic in new pages, its files cached or not; return a table of medians."""
    count = min(records, RECORDS)
    with (
        tempfile.TemporaryDirectory() as directory,
        broker() as kafka,
        system(kafka, Path(directory), TOPICS) as url,
        browser() as chromium,
    ):
        _publish(kafka, count)
        _wait_for(url, count)
        found: dict[str, list[Times]] = {"first visit": [], "later visit": []}
        for _ in range(runs):
            with chromium.new_context(bypass_csp=True) as context:
                for name, times in found.items():
                    with _page(context.new_page()) as page:
                        times.append(_measure(page, url, count))
                        print(f"{name}: {times[-1]}", flush=True)
    rows = []
    for name, times in found.items():
        medians = [statistics.median(each) for each in zip(*times, strict=True)]
        rows.append((name, *(f"{ms / 1000:.2f}" for ms in medians), f"{medians[2] / medians[3]:.1f}"))
    heads = (
        f"{count:,} rows, seconds",
        "can be used",
        "first rows",
        "all rows",
        "raw frames parsed",
        "all rows / raw frames",
    )
    return table(heads, rows)


@contextlib.contextmanager
def _page(page: Page) -> Iterator[Page]:
    page.set_default_timeout(SECONDS_MAX * 1000)
    yield page
    page.close()


def _measure(page: Page, url: str, count: int) -> Times:
    began = time.perf_counter()

    def since() -> float:
        return (time.perf_counter() - began) * 1000

    page.goto(f"{url}/console/#/grid/orders", wait_until="commit")
    page.wait_for_selector("#filter")
    interactive = since()
    page.wait_for_function(DRAWN)
    first_rows = since()
    page.wait_for_function(
        "count => document.querySelector('.standing .chip').textContent === 'live'"
        " && document.querySelector('[data-count=rows] strong').textContent === count",
        arg=f"{count:,}",
    )
    all_rows = since()
    frames, rows = page.evaluate(FRAMES, count)
    if rows != count:
        raise RuntimeError(f"expected {count} rows, got {rows}")
    return Times(interactive, first_rows, all_rows, frames)


def _publish(kafka: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"})
    states = ("open", "working", "filled", "cancelled")
    for number in range(count):
        record = {
            "id": number,
            "status": states[number % 4],
            "symbol": f"S{number % 50}",
            "qty": number % 900,
        }
        more = {"price": number / 7, "desk": f"D{number % 9}", "trader": f"T{number % 70}"}
        producer.produce("orders", orjson.dumps(record | more), str(number).encode())
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def _wait_for(url: str, count: int) -> None:
    with Client(url) as client:
        while client.topics()["topics"][0]["records"] < count:
            time.sleep(0.2)
