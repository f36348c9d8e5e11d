"""The console in a browser: until it can be used, until the first rows, and until all of 100,000 rows are drawn.

For comparison, the same browser reads the same records over its own WebSocket and parses the frames: every page must
do that. Then the same with a topic of three times as many records, of 40 fields; the page holds the first 100,000.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
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
WIDE_RECORDS = 300_000
WIDE_FIELDS = 40
TOPICS = "topics: [{name: orders, key: /id, partitions: 2}, {name: wide, key: /id, partitions: 2}]\n"
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


LONGEST = """
  self.longest = 0;
  new PerformanceObserver((list) => {
    for (const {duration} of list.getEntries()) self.longest = Math.max(self.longest, duration);
  }).observe({type: "longtask"});
"""
LIVE = """count => document.querySelector('.standing .chip').textContent === 'live'
  && document.querySelector('[data-count=rows] strong').textContent === count"""


class Times(NamedTuple):
    """Milliseconds since the address was entered; `frames` since the raw connection began."""

    interactive: float
    first_rows: float
    all_rows: float
    frames: float


class WideTimes(NamedTuple):
    """Milliseconds since the click on the topic's name; `longest` is that of the page's longest task."""

    first_rows: float
    all_rows: float
    longest: float


def run(records: int, runs: int) -> str:
    """Open the grid of a topic in new pages, its files cached or not; return a table of medians."""
    count = min(records, RECORDS)
    with (
        tempfile.TemporaryDirectory() as directory,
        broker() as kafka,
        system(kafka, Path(directory), TOPICS) as url,
        browser() as chromium,
    ):
        wide_count = min(records, WIDE_RECORDS)
        _publish(kafka, "orders", map(_order, range(count)))
        _publish(kafka, "wide", map(_wide, range(wide_count)))
        _wait_for(url, {"orders": count, "wide": wide_count})
        found: dict[str, list[Times]] = {"first visit": [], "later visit": []}
        wide: dict[str, list[WideTimes]] = {name: [] for name in found}
        for _ in range(runs):
            with chromium.new_context(bypass_csp=True) as context:
                for name, times in found.items():
                    with _page(context.new_page()) as page:
                        times.append(_measure(page, url, count))
                        print(f"{name}: {times[-1]}", flush=True)
                    with _page(context.new_page()) as page:
                        wide[name].append(_measure_wide(page, url, min(RECORDS, wide_count)))
                        print(f"{name}, wide: {wide[name][-1]}", flush=True)
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
    return f"{table(heads, rows)}\n\n{_wide_table(wide, wide_count)}"


def _wide_table(found: dict[str, list[WideTimes]], count: int) -> str:
    rows = []
    for name, times in found.items():
        medians = [statistics.median(each) for each in zip(*times, strict=True)]
        rows.append((name, *(f"{ms / 1000:.2f}" for ms in medians)))
    heads = (
        f"{count:,} records of {WIDE_FIELDS} fields, seconds",
        "first rows after the click",
        f"{min(RECORDS, count):,} rows, live",
        "longest task of the page",
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
    page.wait_for_function(LIVE, arg=f"{count:,}")
    all_rows = since()
    frames, rows = page.evaluate(FRAMES, count)
    if rows != count:
        raise RuntimeError(f"expected {count} rows, got {rows}")
    return Times(interactive, first_rows, all_rows, frames)


def _measure_wide(page: Page, url: str, rows: int) -> WideTimes:
    page.add_init_script(LONGEST)
    page.goto(f"{url}/console/#/topics")
    link = page.get_by_role("link", name="wide", exact=True)
    link.wait_for()
    page.wait_for_load_state("networkidle")
    began = time.perf_counter()
    link.click()
    page.wait_for_function(DRAWN)
    first_rows = time.perf_counter() - began
    page.wait_for_function(LIVE, arg=f"{rows:,}")
    all_rows = time.perf_counter() - began
    return WideTimes(first_rows * 1000, all_rows * 1000, page.evaluate("self.longest"))


def _order(number: int) -> dict[str, object]:
    states = ("open", "working", "filled", "cancelled")
    return {
        "id": number,
        "status": states[number % 4],
        "symbol": f"S{number % 50}",
        "qty": number % 900,
        "price": number / 7,
        "desk": f"D{number % 9}",
        "trader": f"T{number % 70}",
    }


def _wide(number: int) -> dict[str, object]:
    record = _order(number)
    for at in range(len(record), WIDE_FIELDS):
        values = (number * at, (number % 997) / at, f"text {number % (50 * at)}")
        record[f"field_{at}"] = values[at % 3]
    return record


def _publish(kafka: str, topic: str, records: Iterable[dict[str, object]]) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"})
    for number, record in enumerate(records):
        producer.produce(topic, orjson.dumps(record), str(record["id"]).encode())
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def _wait_for(url: str, counts: dict[str, int]) -> None:
    with Client(url) as client:
        while any(one["records"] < counts[one["name"]] for one in client.topics()["topics"]):
            time.sleep(0.2)
