"""The demo's landing page in a real browser: the board moves, a service is killed for real, and nothing is lost.

Ctrl-C ends the demo.
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
from playwright.sync_api import expect

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
    """The whole demo, as `make demo` starts it; Ctrl-C ends it, and leaves no process behind."""
    with demo("--no-browser") as (process, mark):
        yield Demo(process)
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        assert process.wait() == 130, output  # as docs/demo.md says
        wait_until_none(mark)
    assert numbers(output)["facts fed"] > 0
    assert "the run was not checked" in output


def test_a_service_is_killed_and_nothing_is_lost(running: Demo) -> None:
    """Rows enter the board; a kill and a visitor's write are reported, and neither is a failure."""
    with browser() as chromium, chromium.new_context() as context:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(running.link)
        expect(page.locator("#board tr").first).to_be_visible(timeout=SECONDS_MAX * 1000)
        expect(page.locator("#map rect").first).to_be_attached()
        expect(page.locator("#heat rect title").first).to_contain_text("average delay")
        expect(page.locator("#arrivals circle title").first).to_contain_text(re.compile(r"^[A-Z]{3}, \w+"))
        expect(page.locator("#busiest")).not_to_be_empty()
        expect(page.locator("#latency")).to_have_text(re.compile(r"^\d+$"))
        with Client(running.url) as client:
            visit = {"carrier": "UA", "flight": 1, "time_hour": "2013-01-01T10:00:00Z", "origin": "JFK"}
            client.publish("flights", visit | {"status": "late"}, wait=True)
        expect(page.locator("#visitors")).to_contain_text("1 commands of visitors wrote 1 records")
        page.get_by_role("button", name="Kill the materializer").click()
        expect(page.locator("#events .ok")).to_contain_text(
            re.compile(r"killed the materializer: .* nothing was lost"), timeout=SECONDS_MAX * 1000
        )
        for scheme in COLORS:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = Axe().run(page, options={"resultTypes": ["violations"]})
            assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert errors == []
        second = chromium.new_context().new_page()
        second.goto(running.link)
        expect(second.locator("body")).to_contain_text("it works once")
    for path, headers in (("state", {}), ("do/materializer", {"Origin": running.link.partition("/?")[0]})):
        request = urllib.request.Request(
            f"{running.link.partition('?')[0]}{path}",
            headers=headers,
            method="POST" if path.startswith("do") else "GET",
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 403
        assert "expected the page's cookie" in json.loads(refused.value.read())["message"]
