"""The trading desk in a browser: frames per second, CPU and heap, while 5,000 orders change 2,000 times a second.

Each run is a minute of the same page, so ten runs show whether the heap stays flat over ten minutes. For comparison,
the same browser takes the same messages over its own WebSocket, parses them and drops them.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, CDPSession, Page

from bench.broker import broker
from bench.table import table
from bench.traffic import system
from sowline.client.client import Client
from tests.browser.files import web_server
from tests.browser.seen import browser
from tests.clients.trading_desk import DESK, build_desk

ORDERS = 5000
RATE = 2000
MINUTE_SECONDS = 60
WARM_UP_SECONDS = 10
MEGABYTE = 1_000_000
FRAMES = """() => {
  window.frames_drawn = 0;
  const count = () => { window.frames_drawn++; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""
RAW = """(url) => new Promise((resolve) => {
  const socket = new WebSocket(url.replace("http", "ws") + "/v1");
  const ask = {command: "sow_and_delta_subscribe", topic: "orders", batch_size: 100, ack_type: "completed"};
  window.messages = 0;
  socket.onopen = () => {
    socket.send(JSON.stringify({...ask, command_id: "1", options: "oof,reset"}));
    const page = {order_by: "/worth DESC", skip_n: 0, top_n: 50};
    socket.send(JSON.stringify({...ask, ...page, command_id: "2", options: "oof,reset"}));
  };
  socket.onmessage = ({data}) => {
    window.messages += [JSON.parse(data)].flat().length;
    resolve();
  };
})"""


class Counters(NamedTuple):
    """The counters since a page was opened, and its heap after a collection."""

    at: float
    frames: int
    main_seconds: float
    cpu_seconds: float
    heap_bytes: float


class Watch:
    """Counts what a page takes."""

    def __init__(self, chromium: Browser, page: Page) -> None:
        self._page = page
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")
        self._browser = chromium.new_browser_cdp_session()
        page.evaluate(FRAMES)

    def read(self) -> Counters:
        """Return the counters of now."""
        self._session.send("HeapProfiler.collectGarbage")
        found = self._session.send("Performance.getMetrics")["metrics"]
        metrics = {one["name"]: one["value"] for one in found}
        processes = self._browser.send("SystemInfo.getProcessInfo")["processInfo"]
        return Counters(
            time.perf_counter(),
            self._page.evaluate("window.frames_drawn"),
            metrics["TaskDuration"],
            sum(process["cpuTime"] for process in processes),
            metrics["JSHeapUsedSize"],
        )


def run(records: int, runs: int) -> str:
    """Watch the desk for `runs` minutes, and the raw messages for one; return a table of the minutes."""
    orders = min(records, ORDERS)
    with tempfile.TemporaryDirectory() as made, broker() as kafka, browser() as chromium:
        directory = Path(made)
        build_desk(directory / "desk")
        topics = (DESK / "topics.yaml").read_text()
        with (
            web_server(directory / "desk") as origin,
            system(kafka, directory, topics, "--origin", origin) as url,
            feeder(url, orders),
        ):
            return table(
                (
                    f"{orders:,} orders, {RATE:,} changes per second",
                    "frames a second",
                    "main thread busy",
                    "browser CPU, cores",
                    "heap, MB",
                ),
                [*_raw(chromium, origin, url), *_desk(chromium, origin, url, orders, runs)],
            )


def _raw(chromium: Browser, origin: str, url: str) -> Iterator[tuple[str, ...]]:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{origin}/none")  # the origin counts, not the page
        page.evaluate(RAW, url)
        yield from _minutes("raw messages", Watch(chromium, page), 1)


def _desk(chromium: Browser, origin: str, url: str, orders: int, runs: int) -> Iterator[tuple[str, ...]]:
    with chromium.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{origin}/index.html?service={url}")
        page.get_by_label("Orders").get_by_text(f"{orders:,}", exact=True).wait_for()
        page.wait_for_timeout(WARM_UP_SECONDS * 1000)
        minutes = list(_minutes("desk", Watch(chromium, page), runs))
        # Whether the heap stays flat shows at the beginning, in the middle and at the end.
        yield from (minutes[at] for at in sorted({0, len(minutes) // 2, len(minutes) - 1}))


def _minutes(name: str, watch: Watch, count: int) -> Iterator[tuple[str, ...]]:
    before = watch.read()
    for minute in range(1, count + 1):
        time.sleep(MINUTE_SECONDS)
        now = watch.read()
        seconds = now.at - before.at
        row = (
            f"{name}, minute {minute}",
            f"{(now.frames - before.frames) / seconds:.1f}",
            f"{(now.main_seconds - before.main_seconds) / seconds:.0%}",
            f"{(now.cpu_seconds - before.cpu_seconds) / seconds:.2f}",
            f"{now.heap_bytes / MEGABYTE:.1f}",
        )
        print(row, flush=True)
        yield row
        before = now


@contextmanager
def feeder(url: str, orders: int) -> Iterator[None]:
    """Publish the orders, and change them until the end."""
    command = [sys.executable, str(DESK / "feeder.py"), "--url", url, f"--orders={orders}", f"--rate={RATE}"]
    process = subprocess.Popen(command)
    try:
        with Client(url) as client:
            while client.topics()["topics"][0]["records"] < orders:
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait()
