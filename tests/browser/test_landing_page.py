"""The demo's landing page in a real browser: the board moves, a service is killed for real, and nothing is lost.

Ctrl-C ends the demo, and the page says so. The board alone is shown records of the tests' own.
"""

import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from examples.flights.landing import PAGE
from sowline.client.client import Client
from tests.browser.seen import browser
from tests.spark.test_demo import ONLY_ON_LINUX, demo, numbers, wait_until_none

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(300), ONLY_ON_LINUX]

SECONDS_MAX = 120
COLORS: tuple[Literal["light", "dark"], ...] = ("light", "dark")


class Demo:
    """A running demo: the link to its page, and the address of its query service."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url = self._line(r"running: (\S+)")
        self.link = self._line(r"(http://\S+\?token=\S+)")

    def _line(self, pattern: str) -> str:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError("".join(lines))


@pytest.fixture
def running() -> Iterator[Demo]:
    """The whole demo, as `make demo` starts it; the test sends it Ctrl-C, and it leaves no process behind."""
    with demo("--no-browser") as (process, mark):
        yield Demo(process)
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)  # a second one changes nothing
        output = process.stdout.read()
        assert process.wait() == 130, output  # as docs/demo.md says
        wait_until_none(mark)
    assert numbers(output)["facts fed"] > 0
    assert "the run was not checked" in output


def test_a_service_is_killed_and_nothing_is_lost(running: Demo) -> None:
    """The page says what is dead, how long it was, and how the demo ends; a visitor's write is no loss."""
    with browser() as chromium, chromium.new_context() as context:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(running.link)
        expect(page.locator("#board tr").first).to_be_visible(timeout=SECONDS_MAX * 1000)
        expect(page.locator("#carriers rect").first).to_be_attached()
        expect(page.locator("#heat rect title").first).to_contain_text("on average")
        expect(page.locator("#arrivals circle title").first).to_contain_text(re.compile(r"^[A-Z]{3}, \w+"))
        expect(page.locator("#busiest li")).to_have_count(4)
        expect(page.locator("#latency")).to_have_text(re.compile(r"^[\d,]+ ms$"))
        expect(page.locator("#chip")).to_have_text("Live")
        with Client(running.url) as client:
            visit = {"carrier": "UA", "flight": 1, "time_hour": "2013-01-01T10:00:00Z", "origin": "JFK"}
            client.publish("flights", visit | {"status": "late"}, wait=True)
        expect(page.locator("#visitors")).to_contain_text("1 commands of visitors wrote 1 records")
        _kill_and_recover(page)
        for scheme in COLORS:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = Axe().run(page, options={"resultTypes": ["violations"]})
            assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        for name in (".rows", ".kill"):
            assert page.locator(name).evaluate("node => node.scrollWidth - node.clientWidth") <= 0
        second = chromium.new_context().new_page()
        second.goto(running.link)
        expect(second.locator("body")).to_contain_text("it works once")
        _refuse_strangers(running.link)
        running.process.send_signal(signal.SIGINT)
        expect(page.locator("#outcome h2")).to_have_text("The demo was stopped")
        expect(page.locator("#outcome")).to_contain_text("the run was not checked")
        expect(page.locator("#outcome dd").first).to_have_text(re.compile(r"^[\d,]+$"))
        expect(page.locator("#chip")).to_have_text("Ended")
        expect(page.locator("[data-part]:enabled")).to_have_count(0)
        assert errors == []


def _kill_and_recover(page: Page) -> None:
    """Kill the materializer; the outage is shown while it lasts, and what it came to afterwards."""
    page.get_by_role("button", name="Kill the materializer").click()
    expect(page.locator("#chip")).to_have_text(re.compile(r"^Materializer dead since \d\d:\d\d:\d\d$"))
    expect(page.locator("#latency")).to_have_text(re.compile(r"^\d+\.\d s$"))
    expect(page.locator("#latency-of")).to_have_text("since the last change")
    expect(page.locator(".data .as-of")).to_have_text([re.compile(r"^as of \d\d:\d\d:\d\d$")] * 4)
    expect(page.locator("#latencies .outage")).to_have_count(1)
    expect(page.locator("[data-part]:enabled")).to_have_count(0)
    expect(page.locator("#events .ok")).to_contain_text(
        re.compile(
            r"Materializer killed.*Back after \d+\.\d s\. [\d,]+ records compared: nothing was lost\."
        ),
        timeout=SECONDS_MAX * 1000,
    )
    expect(page.locator("#chip")).to_have_text("Live")
    expect(page.locator("#latency")).to_have_text(re.compile(r"^[\d,]+ ms$"))
    expect(page.locator("[data-part]:enabled")).to_have_count(3)
    label = page.locator("#latencies .outage-label").text_content()
    assert label
    # What is said is what the page itself has waited, as the chart shows it.
    expect(page.locator("#events .ok")).to_contain_text(f"Back after {label}.")


def _refuse_strangers(link: str) -> None:
    """Without the cookie there are neither numbers nor buttons."""
    for path, method in (("states", "GET"), ("do/materializer", "POST")):
        request = urllib.request.Request(
            f"{link.partition('?')[0]}{path}",
            headers={"Origin": link.partition("/?")[0]} if method == "POST" else {},
            method=method,
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 403
        assert "expected the page's cookie" in json.loads(refused.value.read())["message"]


class Files(SimpleHTTPRequestHandler):
    """The files of the page, and nothing said about requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def board() -> Iterator[Page]:
    """A page with an empty board, `board`, whose timers run when a test lets them."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(PAGE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser() as chromium, chromium.new_context() as context:
            page = context.new_page()
            page.clock.install()
            page.goto(f"http://127.0.0.1:{server.server_port}/page.css")
            page.evaluate(
                """async () => {
                  document.body.innerHTML = "<table><tbody></tbody></table>";
                  const { Board } = await import("/board.js");
                  const board = new Board(document.querySelector("tbody"));
                  window.show = (...numbers) => board.show(numbers.map((flight) => (
                    { key: String(flight), record: { carrier: "UA", flight, status: "late" } })), 0);
                }"""
            )
            yield page
        server.shutdown()


def _flights(page: Page) -> list[str]:
    return page.locator("tbody tr:not(.leaves) td:nth-child(2)").all_inner_texts()


def test_a_flight_that_comes_back_stays(board: Page) -> None:
    """The timer that removes the row of a flight that leaves is stopped when the flight is there again."""
    board.evaluate("show(1, 2)")
    board.evaluate("show(2)")
    assert _flights(board) == ["UA 2 United Air Lines"]
    board.clock.run_for(300)
    board.evaluate("show(1, 2)")
    board.clock.run_for(10_000)
    assert _flights(board) == ["UA 1 United Air Lines", "UA 2 United Air Lines"]
    board.evaluate("show(2)")
    board.clock.run_for(10_000)
    assert board.locator("tbody tr").count() == 1


def test_a_change_moves_no_other_row(board: Page) -> None:
    """A row that is put in again slides in again: if that happened to all of them, the whole board would fade."""
    board.evaluate(
        """() => {
          show(2, 3, 4);
          window.watcher = new MutationObserver(() => {});
          watcher.observe(document.querySelector("tbody"), { childList: true });
        }"""
    )
    moves = "watcher.takeRecords().map(({ addedNodes, removedNodes }) => [addedNodes.length, removedNodes.length])"
    assert board.evaluate(f"(show(2, 3, 4), {moves})") == []
    assert board.evaluate(f"(show(1, 2, 3, 4), {moves})") == [[1, 0]]
    assert board.evaluate(f"(show(1, 3, 4), {moves})") == []
    assert board.evaluate(f"(show(1, 3, 4, 5), {moves})") == [[1, 0]]
    assert [text.split()[1] for text in _flights(board)] == ["1", "3", "4", "5"]
