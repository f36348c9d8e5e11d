"""The React hooks in a real browser, over real services and a real Kafka: their page, and the trading desk."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.files import web_server
from tests.browser.seen import browser, page_of
from tests.clients.trading_desk import build_desk
from tests.clients.typescript import PACKAGE, run
from tests.docs.pages import blocks_of
from tests.integration.served import Served, ServedTopic, serve
from tests.integration.services import http_text

pytestmark = [pytest.mark.needs("node", "chromium"), pytest.mark.usefixtures("package")]

DOCUMENTATION = "docs/react.md"
HTML = """<!doctype html>
<link rel="icon" href="data:,">
<div id="root"></div>
<script type="module" src="{}.js"></script>
"""
TOPICS: dict[str, Any] = {
    "orders": {"key": "/id", "partitions": 2},
    "desk": {"key": "/id", "documents": True},
}


class Site(NamedTuple):
    """Pages, which a web server has."""

    directory: Path
    origin: str

    def put(self, name: str, script: str) -> str:
        """Make a page with this script; return its address."""
        (self.directory / f"{name}.js").write_text(script)
        (self.directory / f"{name}.html").write_text(HTML.format(name))
        return f"{self.origin}/{name}.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A web server for the pages of these tests."""
    directory = tmp_path_factory.mktemp("site")
    with web_server(directory) as origin:
        yield Site(directory, origin)


@pytest.fixture(scope="module")
def served(kafka: str, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service, which the pages may ask."""
    limits: dict[str, Any] = {"progress_seconds": 0.2, "origins": site.origin}
    with serve(kafka, tmp_path_factory.mktemp("react"), TOPICS, **limits) as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all."""
    with browser() as begun:
        yield begun


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page; whatever it complains of fails the test."""
    with page_of(chromium) as page:
        yield page


@pytest.fixture
def orders(served: Served) -> ServedTopic:
    """Two orders."""
    topic = served["orders"]
    topic.clear()
    topic.write({"id": 1, "qty": 1, "status": "open"}, {"id": 2, "qty": 200, "status": "done"})
    return topic


def bundled(source: Path) -> str:
    """Return a program with all that it imports, as a browser loads it."""
    options = ("--bundle", "--format=esm", "--jsx=automatic", "--log-level=warning")
    return run("npx", "esbuild", *options, '--define:process.env.NODE_ENV="development"', str(source))


def subscriptions(url: str) -> int:
    """Return how many subscriptions the clients of the service have."""
    clients = json.loads(http_text(f"{url}/v1/clients"))["clients"]
    return sum(client["subscriptions_count"] for client in clients)


def test_an_app_in_strict_mode(page: Page, site: Site, served: Served, orders: ServedTopic) -> None:
    """It suspends, shares a subscription, renders what changes, and shows edits before they are applied."""
    url = served.query.url
    page.goto(site.put("app", bundled(PACKAGE / "test" / "reactApp.ts")))
    page.evaluate("([url, topic]) => start(url, topic)", [url, orders.name])
    expect(page.locator("#count")).to_have_text("2 live")
    expect(page.locator("li")).to_have_text(["1=1", "2=200"])
    assert page.evaluate("noted.fallbacks") > 0
    assert subscriptions(url) == 1, "equal queries share one, also in StrictMode"

    before = page.evaluate("({...noted.renders})")
    orders.merge({"id": 2, "qty": 201})
    expect(page.locator("li")).to_have_text(["1=1", "2=201"])
    after = page.evaluate("({...noted.renders})")
    assert after["1"] == before["1"], "its record has not changed"
    assert after["2"] > before["2"]

    key = page.locator("li").first.get_attribute("data-key")
    page.evaluate("key => void noted.mutate({key, id: 1, qty: 7})", key)
    expect(page.locator("#edit")).to_have_text("settled applied")
    orders.settle()
    orders.merge({"id": 1, "qty": 8})
    expect(page.locator("li").first).to_have_text("1=8")
    assert page.evaluate("noted.quantities") == [1, 7, 8], "it has not gone back meanwhile"

    page.evaluate("key => void noted.mutate({key, qty: 9})", key)
    expect(page.locator("#edit")).to_have_text("refused key missing")
    expect(page.locator("li").first).to_have_text("1=8")
    assert page.evaluate("noted.quantities") == [1, 7, 8, 9, 8], "what is refused is taken back"

    page.evaluate("noted.hide(true)")
    page.wait_for_function("() => document.getElementById('root').textContent === 'hidden'")
    page.evaluate("noted.hide(false)")
    expect(page.locator("#count")).to_have_text("2 live")
    assert subscriptions(url) == 1


def test_the_page(page: Page, site: Site, served: Served, orders: ServedTopic) -> None:
    """The blocks of docs/react.md are one program, without errors of types, which shows what they say."""
    blocks = [block for block in blocks_of(DOCUMENTATION) if block.elsewhere.endswith("::test_the_page")]
    text = "".join(block.text for block in blocks)
    text = text.replace("https://sow.example", served.query.url).replace('"orders"', f'"{orders.name}"')
    program = PACKAGE / "build" / "page.tsx"
    program.write_text(text)
    options = ("--strict", "--noEmit", "--jsx", "react-jsx", "--target", "es2022", "--module", "nodenext")
    run("npx", "tsc", *options, "--skipLibCheck", str(program))
    page.goto(site.put("page", bundled(program)))
    expect(page.locator("#status")).to_have_text("open")
    expect(page.get_by_label("open").locator("li")).to_have_text(["1: 1"])
    expect(page.get_by_label("all").locator("li")).to_have_text(["1: 1", "2: 200"])
    expect(page.locator("output")).to_have_text("1")
    page.get_by_role("button", name="done", exact=True).click()
    expect(page.locator("output")).to_have_text("2")
    page.get_by_role("button", name="more").click()
    expect(page.locator("form")).to_contain_text("2 settled")
    expect(page.get_by_label("open").locator("li")).to_have_text(["1: 2"])
    orders.write({"id": 3, "qty": 300, "status": "done"})
    page.get_by_role("button", name="done: 1 large").click()
    expect(page.get_by_role("button", name="done: 2 large")).to_be_visible()


def test_the_trading_desk(page: Page, site: Site, served: Served) -> None:
    """The example is built, filters, keeps a page, and edits under a condition."""
    desk = served["desk"]
    desk.write(order(1, "IBM", "open", 10), order(2, "IBM", "filled", 30), order(3, "TSLA", "working", 20))
    build_desk(site.directory / "desk")
    page.goto(f"{site.origin}/desk/index.html?service={served.query.url}&topic={desk.name}")
    rows = page.get_by_label("Orders").get_by_role("button")
    expect(rows.locator("b")).to_have_text(["1", "2", "3"])
    top = page.get_by_label("Top 50")
    expect(top.locator("b")).to_have_text(["2", "3", "1"])
    top.get_by_role("button", name="Symbol").click()
    expect(top.locator("b")).to_have_text(["2", "1", "3"])
    for _ in range(2):
        top.get_by_role("button", name="Symbol").click()
    page.get_by_label("Symbol").select_option("IBM")
    expect(rows.locator("b")).to_have_text(["1", "2"])
    desk.merge({"id": 1, "worth": 25})
    expect(top.locator("b")).to_have_text(["2", "1", "3"])

    for number, outcome, limit in ((1, "applied", "5.25"), (2, "condition_false", "1.00")):
        rows.filter(has=page.get_by_text(str(number), exact=True)).first.click()
        form = page.get_by_role("form", name="Order")
        form.get_by_label("New limit").fill("5.25")
        form.get_by_role("button", name="Set").click()
        expect(form.locator("[role=status]")).to_have_text(outcome)
        expect(form).to_contain_text(f"Limit {limit}")


def order(number: int, symbol: str, status: str, worth: int) -> dict[str, Any]:
    """Return a record of the trading desk."""
    fields = {"side": "buy", "qty": 100, "filled": 0, "limit": 1, "price": 1}
    return {"id": number, "symbol": symbol, "status": status, "worth": worth} | fields
