"""The React hooks in a real browser, over real services and a real Kafka: their page, and the trading desk."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.seen import SECONDS_MAX, browser
from tests.clients.typescript import PACKAGE, ROOT, npm, run
from tests.docs.pages import blocks_of
from tests.integration.served import Served, ServedTopic, serve
from tests.integration.services import http_text

pytestmark = [pytest.mark.needs("node", "chromium"), pytest.mark.usefixtures("package")]

DOCUMENTATION = "docs/react.md"
HTML = '<!doctype html><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="app.js"></script>'
TOPICS: dict[str, Any] = {
    "orders": {"key": "/id", "partitions": 2},
    "desk": {"key": "/id", "documents": True},
}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service."""
    with serve(kafka, tmp_path_factory.mktemp("react"), TOPICS, progress_seconds=0.2) as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all."""
    with browser() as begun:
        yield begun


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page; whatever it complains of fails the test."""
    complaints: list[str] = []
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(SECONDS_MAX * 1000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None
        )
        yield page
    assert complaints == []


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


def show(page: Page, url: str, script: str) -> None:
    """Open a page of the service's origin with this script."""
    page.route(f"{url}/app/", lambda route: route.fulfill(body=HTML, content_type="text/html"))
    page.route(f"{url}/app/app.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    page.goto(f"{url}/app/")


def subscriptions(url: str) -> int:
    """Return how many subscriptions the clients of the service have."""
    clients = json.loads(http_text(f"{url}/v1/clients"))["clients"]
    return sum(client["subscriptions_count"] for client in clients)


def test_an_app_in_strict_mode(page: Page, served: Served, orders: ServedTopic) -> None:
    """It suspends, shares a subscription, renders what changes, and shows edits before they are applied."""
    url = served.query.url
    show(page, url, bundled(PACKAGE / "test" / "reactApp.ts"))
    page.wait_for_function("() => window.start")
    page.evaluate("topic => start(topic)", orders.name)
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
    expect(page.locator("#edit")).to_have_text("refused bad record")
    expect(page.locator("li").first).to_have_text("1=8")
    assert page.evaluate("noted.quantities") == [1, 7, 8, 9, 8], "what is refused is taken back"

    page.evaluate("noted.hide(true)")
    page.wait_for_function("() => document.getElementById('root').textContent === 'hidden'")
    page.evaluate("noted.hide(false)")
    expect(page.locator("#count")).to_have_text("2 live")
    assert subscriptions(url) == 1


def test_the_page(page: Page, served: Served, orders: ServedTopic) -> None:
    """The blocks of docs/react.md are one program, without errors of types, which shows what they say."""
    blocks = [block for block in blocks_of(DOCUMENTATION) if block.elsewhere.endswith("::test_the_page")]
    text = "".join(block.text for block in blocks)
    text = text.replace("https://sow.example", served.query.url).replace('"orders"', f'"{orders.name}"')
    program = PACKAGE / "build" / "page.tsx"
    program.write_text(text)
    options = ("--strict", "--noEmit", "--jsx", "react-jsx", "--target", "es2022", "--module", "nodenext")
    run("npx", "tsc", *options, "--skipLibCheck", str(program))
    show(page, served.query.url, bundled(program))
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


