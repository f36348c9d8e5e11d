"""The demo's landing page in a real browser: the board moves, a service is killed for real, and nothing is lost.

Ctrl-C ends the demo: what was fed is compared, and the page says what came of it, and stands still.
"""

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from sowline.client.client import Client
from tests.browser.seen import browser
from tests.spark.test_demo import FED, ONLY_ON_LINUX, demo, numbers, wait_until_none

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
        process.send_signal(signal.SIGINT)  # one that comes after the comparison changes nothing
        output = process.stdout.read()
        assert process.wait() == 0, output  # as docs/demo.md says
        wait_until_none(mark)
    assert numbers(output)[FED] > 0
    assert "nothing was lost: " in output


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
        expect(page.locator("#busiest li")).to_have_count(6)
        expect(page.locator("#latency")).to_have_text(re.compile(r"^[\d,]+ ms$"))
        expect(page.locator("#chip")).to_have_text(re.compile("^Live"))
        expect(page.locator("h1")).to_have_text("New York’s late flights, live", use_inner_text=True)
        page.wait_for_function(SPEED_OR_LAG_SHOWN, timeout=SECONDS_MAX * 1000)
        with Client(running.url) as client:
            visit = {"carrier": "UA", "flight": 1, "time_hour": "2013-01-01T10:00:00Z", "origin": "JFK"}
            client.publish("flights", visit | {"status": "late"}, wait=True)
        expect(page.locator("#visitors")).to_contain_text("Visitors sent 1 write of their own: 1 record")
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
        _end(page)
        running.process.wait()
        _stand_still(page)
        assert errors == []


def _end(page: Page) -> None:
    """The demo has ended by Ctrl-C: what was fed was compared."""
    expect(page.locator("#outcome h2")).to_have_text("The demo has ended: nothing was lost")
    expect(page.locator("#outcome p")).to_contain_text("These are equal: all")
    expect(page.locator("#outcome dd").first).to_have_text(re.compile(r"^[\d,]+$"))
    main = page.locator("#outcome .main dt")
    expect(main).to_have_text(
        ["flights that Sowline holds", "changes that Sowline sent", "from Kafka to a subscriber, median"]
    )
    expect(page.locator("#chip")).to_have_text("Ended")
    for name in (".live", ".running"):
        expect(page.locator(name)).to_be_hidden()
    expect(page.locator(".lead .over")).to_be_visible()
    expect(page.locator("#latencies")).to_contain_text("end")
    # The chart shows the latencies of the summary.
    page.locator("#outcome summary").click()
    expect(page.locator("#outcome details dt").last).to_be_visible()
    summary = [page.locator(f"#outcome {part} dd").last.inner_text() for part in (".main", "details")]
    shown = page.locator("#latencies .mark-label").all_text_contents()
    whole = [f"whole run: median {summary[0]}", f"whole run: 99 of 100 within {summary[1]}"]
    lines = page.locator("#latencies [data-key^='mark ']").evaluate_all(
        "all => all.map((one) => one.dataset.key)"
    )
    assert lines == [f"mark {text}" for text in whole]
    # Beside a long outage, their texts are shorter, or above the chart only.
    assert all(any(text.endswith(one) for text in whole) for one in shown)
    caption = page.locator("#latency-of").inner_text()
    assert caption.endswith(f"of the whole run: median {summary[0]}, 99 of 100 within {summary[1]}")
    expect(page.locator("[data-part]:enabled")).to_have_count(0)


IS_DRAWN_TO_SIZE = """() => {
  const { clientWidth, clientHeight, viewBox: { baseVal: drawn } } = document.querySelector("#carriers");
  return drawn.width === clientWidth && drawn.height === clientHeight;
}"""


def _stand_still(page: Page) -> None:
    """Everything is of the moment that the clock shows, which is the last one that was fed, and it stays so."""
    clock = page.locator("#clock").inner_text()
    found = re.fullmatch(r"Flight time: \w{3}, \d+ \w{3} 2013, (\d\d:\d\d) in New York", clock)
    assert found
    assert page.locator(".as-of").all_inner_texts() == [f"as of {found[1]} flight time"] * 4
    before = page.locator("main").inner_text()
    # Each width draws all of it once more. Only texts of one width are compared: a pixel may give a label its room.
    for width in (361, 360):
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    assert (page.locator("#clock").inner_text(), page.locator("main").inner_text()) == (clock, before)
    # What takes room from a chart alone, such as a heading with one line more, lets it be drawn again.
    page.set_viewport_size({"width": 1440, "height": 800})
    page.wait_for_function(IS_DRAWN_TO_SIZE, polling="raf")
    page.evaluate("document.querySelector('#carriers').style.width = '90%'")
    page.wait_for_function(IS_DRAWN_TO_SIZE, polling="raf")


# Where the machine doesn't keep up, the page says by how much it is behind instead of how fast it goes.
SPEED_OR_LAG_SHOWN = r"""() => {
  const text = (selector) => document.querySelector(selector).textContent;
  return (text("#speed") === ": each second is 1 flight hour") !== /flight \w+ behind the feed$/.test(text("#pace"));
}"""


# All of it in one frame: on a busy machine the outage may end between two expectations.
OUTAGE_SHOWN = r"""() => {
  const text = (selector) => document.querySelector(selector)?.textContent ?? "";
  const panels = [...document.querySelectorAll(".data .as-of")].map((node) => node.textContent);
  return text("#chip") === "Materializer dead"
    && /^\d+\.\d s$/.test(text("#latency"))
    && text("#latency") === text("#latencies .outage-label")
    && text("#latency-of").startsWith("since it was killed. ")
    && text("#pace") === "stands still until all that was fed is here"
    && text("#speed") === ""
    && panels.length === 4
    && panels.every((panel) => /^(as of|newest (update|arrival)) .*\d\d:\d\d flight time$/.test(panel))
    && text("#events strong") === "Materializer is dead"
    && document.querySelectorAll("#latencies .outage").length === 1
    && document.querySelectorAll("[data-part]:enabled").length === 0;
}"""


DRAWN = "() => document.querySelector('#carriers rect') && document.body.dataset.phase"
# The phases in which the clock moves.
CLOCK_WATCHED = """() => {
  window.moved = new Set();
  new MutationObserver(() => moved.add(document.body.dataset.phase))
    .observe(document.querySelector("#clock"), { childList: true, characterData: true, subtree: true });
}"""


def _kill_and_recover(page: Page) -> None:
    """Kill the materializer; the outage is shown while it lasts, and what it came to afterwards."""
    page.evaluate(CLOCK_WATCHED)
    page.get_by_role("button", name="Kill the materializer").click()
    page.wait_for_function(OUTAGE_SHOWN, polling="raf")
    # A page that is opened during the outage shows what there is.
    late = page.context.new_page()
    late.goto(page.url)
    drawn = late.wait_for_function(DRAWN, polling="raf").json_value()
    late.close()
    assert drawn != "live"
    expect(page.locator("#events .ok")).to_contain_text(
        re.compile(
            r"Materializer was killed.*Back after \d+\.\d s\. [\d,]+ flights compared: nothing was lost\."
        ),
        timeout=SECONDS_MAX * 1000,
    )
    expect(page.locator("#chip")).to_have_text(re.compile("^Live"))
    expect(page.locator("#latency")).to_have_text(re.compile(r"^[\d,]+ ms$"))
    expect(page.locator("[data-part]:enabled")).to_have_count(3)
    # What the parts are is still said.
    expect(page.locator("#hint dt:visible")).to_have_text(["Materializer", "Query service", "Kafka"])
    # Until everything has come, board and clock stay at one moment.
    assert {"down", "catching-up"}.isdisjoint(page.evaluate("[...moved]"))
    label = page.locator("#latencies .outage-label").text_content()
    assert label
    # The line about it has the length that the chart shows; so has a page that is opened afterwards.
    expect(page.locator("#events .ok")).to_contain_text(f"Back after {label}.")
    later = page.context.new_page()
    later.goto(page.url)
    expect(later.locator("#events .ok")).to_contain_text(f"Back after {label}.")
    expect(later.locator("#latencies .outage-label")).to_have_text(label)
    # One line before the outage, one after it.
    later.wait_for_function("document.querySelectorAll('#latencies polyline').length > 1")
    later.close()


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
