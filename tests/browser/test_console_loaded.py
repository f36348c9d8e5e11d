"""The console's large libraries, where they can't be fetched at first."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.seen import Console
from tests.integration.served import ServedTopic

pytestmark = pytest.mark.needs("chromium")


class Refused:
    """Requests of the page for one file, which fail while `is_away`."""

    def __init__(self, console: Console, name: str) -> None:
        self.is_away = True
        self.asked = 0
        console.leave()
        console.page.route(re.compile(f"/{re.escape(name)}$"), self._answer)

    def _answer(self, route: Route) -> None:
        self.asked += 1
        if self.is_away:
            route.abort()
        else:
            route.continue_()


def come_back(console: Console, refused: Refused) -> None:
    """Let the page see the failure, and then the file."""
    alert = console.page.get_by_role("alert")
    expect(alert).to_contain_text("could not be loaded: Failed to fetch")
    expect(alert).to_contain_text("Trying again.")
    refused.is_away = False


def test_a_grid_whose_engine_comes_later(console: Console, flights: ServedTopic) -> None:
    """Without a reload of the page, as soon as the service answers again."""
    refused = Refused(console, "perspective.js")
    console.go(f"grid/{flights.name}")
    come_back(console, refused)
    expect(console.cells("B6")).to_be_visible()
    expect(console.page.get_by_role("alert")).to_have_count(0)
    assert refused.asked > 1
    assert {one.partition(" ")[0] for one in console.complaints} == {"error:"}
    console.complaints.clear()


def test_charts_that_come_later(console: Console, flights: ServedTopic) -> None:
    """The same for their library."""
    refused = Refused(console, "echarts.esm.min.mjs")
    console.go(f"grid/{flights.name}", show="chart", by="/carrier")
    come_back(console, refused)
    expect(console.page.locator(".drawing")).to_be_visible()
    assert refused.asked > 1
    assert {one.partition(" ")[0] for one in console.complaints} == {"error:"}
    console.complaints.clear()
