"""A grid of 100,000 records that change 2,000 times a second, in a browser, next to a bare grid.

The first grid shows a view (`sowline/ag-grid`). Its changes are recorded. Then a bare grid with the same records is
given the same changes in the same page, those of each 50 ms as one transaction.
"""

import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page

from bench.broker import broker
from bench.table import table
from bench.trading_desk import RATE, Watch, feeder
from bench.traffic import system
from tests.browser.files import web_server
from tests.browser.seen import browser
from tests.clients.trading_desk import DESK
from tests.clients.typescript import PACKAGE, build
from tests.clients.typescript import run as run_tool

RECORDS = 100_000
SECONDS = 20
SETTLE_SECONDS = 10
TIMEOUT_SECONDS = 300
PROGRAM = Path(__file__).with_name("grids.mjs")
HTML = """<!doctype html>
<link rel="icon" href="data:,">
<div id="grid" style="height: 700px"></div>
<script type="module" src="grids.js"></script>
"""


def run(records: int, runs: int) -> str:
    """Measure both grids in `runs` pages; return a table."""
    count = min(records, RECORDS)
    with tempfile.TemporaryDirectory() as made, broker() as kafka, browser() as chromium:
        directory = Path(made)
        _build(directory)
        topics = (DESK / "topics.yaml").read_text()
        rows: list[tuple[str, ...]] = []
        with (
            web_server(directory) as origin,
            system(kafka, directory, topics, "--origin", origin) as url,
            feeder(url, count),
        ):
            for _ in range(runs):
                with chromium.new_context(viewport={"width": 1280, "height": 800}) as context:
                    page = context.new_page()
                    page.set_default_timeout(TIMEOUT_SECONDS * 1000)
                    page.goto(f"{origin}/grids.html")
                    rows += _measured(page, Watch(chromium, page), url, count)
    heads = (
        f"{count:,} records, {RATE:,} changes a second",
        "main thread, busy",
        "times the bare grid",
        "longest task, ms",
        "rows updated a second",
    )
    return table(heads, rows)


def _build(directory: Path) -> None:
    build()
    program = PACKAGE / "build" / "grids_bench.js"
    program.write_text(PROGRAM.read_text())
    options = ("--bundle", "--minify", "--format=esm", "--log-level=warning")
    (directory / "grids.js").write_text(run_tool("npx", "esbuild", *options, str(program)))
    (directory / "grids.html").write_text(HTML)


def _measured(page: Page, watch: Watch, url: str, count: int) -> list[tuple[str, ...]]:
    page.evaluate("([url, count]) => show(url, count)", [url, count])
    time.sleep(SETTLE_SECONDS)
    before = watch.read()
    # The counters collect garbage first: that task is not the grid's.
    page.evaluate("record(), counted(), undefined")
    time.sleep(SECONDS)
    updated, longest = page.evaluate("counted()")
    after = watch.read()
    view = (after.main_seconds - before.main_seconds) / (after.at - before.at)

    page.evaluate("showBare()")
    time.sleep(SETTLE_SECONDS)
    before = watch.read()
    page.evaluate("counted(), undefined")
    page.evaluate("replay()")
    _, bare_longest = page.evaluate("counted()")
    after = watch.read()
    bare = (after.main_seconds - before.main_seconds) / (after.at - before.at)
    rate = f"{updated / SECONDS:,.0f}"
    rows: list[tuple[str, ...]] = [
        ("a view in a grid", f"{view:.1%}", f"{view / bare:.2f}", f"{longest:.0f}", rate),
        ("a bare grid", f"{bare:.1%}", "1.00", f"{bare_longest:.0f}", rate),
    ]
    print(*rows, sep="\n", flush=True)
    return rows
