"""Grids of AG Grid in a real browser, over real services and a real Kafka: the program of docs/grids.md."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.files import web_server
from tests.browser.seen import browser, page_of
from tests.clients.typescript import PACKAGE, run
from tests.docs.pages import blocks_of
from tests.integration.served import Served, serve

pytestmark = [pytest.mark.needs("node", "chromium"), pytest.mark.usefixtures("package")]

DOCUMENTATION = "docs/grids.md"
HTML = """<!doctype html>
<link rel="icon" href="data:,">
<div id="all" style="height: 400px"></div>
<div id="pages" style="height: 400px"></div>
<script type="module" src="grids.js"></script>
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page is."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def origin(directory: Path) -> Iterator[str]:
    """A web server for the page."""
    with web_server(directory) as origin:
        yield origin


@pytest.fixture(scope="module")
def served(kafka: str, origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service, which the page may ask."""
    topics: dict[str, Any] = {"orders": {"key": "/id", "partitions": 2}}
    with serve(kafka, tmp_path_factory.mktemp("grids"), topics, origins=origin) as served:
        yield served


@pytest.fixture
def page() -> Iterator[Page]:
    """A page; whatever it complains of fails the test."""
    with browser() as chromium, page_of(chromium) as page:
        yield page


SHOWS = """([grid, shown]) => {
  const cells = [...document.querySelectorAll(`#${grid} .ag-row [col-id="record.qty"]`)];
  const at = cell => Number(cell.closest(".ag-row").getAttribute("row-index"));
  const texts = cells.sort((one, other) => at(one) - at(other)).map(cell => cell.textContent);
  return texts.filter(text => text !== "").join() === shown;
}"""
"""Whether a grid shows these quantities, from top to bottom."""


@pytest.mark.long
def test_the_page(page: Page, served: Served, directory: Path, origin: str) -> None:
    """Its program has no errors of types; both grids show the records, then what changes, comes and leaves."""
    orders = served["orders"]
    orders.write({"id": 1, "qty": 1})
    orders.settle()
    orders.write({"id": 2, "qty": 200})
    orders.settle()
    blocks = [block for block in blocks_of(DOCUMENTATION) if block.elsewhere.endswith("::test_the_page")]
    text = "".join(block.text for block in blocks)
    text = text.replace("https://sow.example", served.query.url).replace('"orders"', f'"{orders.name}"')
    program = PACKAGE / "build" / "grids.ts"
    program.write_text(text)
    options = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    run("npx", "tsc", *options, str(program))
    bundle = run("npx", "esbuild", "--bundle", "--format=esm", "--log-level=warning", str(program))
    (directory / "grids.js").write_text(bundle)
    (directory / "grids.html").write_text(HTML)

    page.goto(f"{origin}/grids.html")
    page.wait_for_function(SHOWS, arg=["pages", "200,1"])
    expect(page.locator("#all .ag-row")).to_have_count(2)
    orders.merge({"id": 1, "qty": 300})
    page.wait_for_function(SHOWS, arg=["pages", "300,200"])
    expect(page.locator("#all .ag-row [col-id='record.qty']")).to_contain_text(["300", "200"])
    orders.write({"id": 3, "qty": 250})
    page.wait_for_function(SHOWS, arg=["pages", "300,250,200"])
    expect(page.locator("#all .ag-row")).to_have_count(3)
    orders.delete({"id": 2})
    page.wait_for_function(SHOWS, arg=["pages", "300,250"])
    page.locator("#pages .ag-header-cell", has_text="Qty").click()
    page.wait_for_function(SHOWS, arg=["pages", "250,300"])
    expect(page.locator("#all .ag-row")).to_have_count(2)
