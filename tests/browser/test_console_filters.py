"""Filters in the console: completed, marked where they are wrong, counted, and applied to what changes."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import flight
from tests.browser.seen import LIVE, Console
from tests.integration.served import Served, ServedTopic
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("chromium")


def test_a_filter_lets_go_what_stops_to_match(console: Console, flights: ServedTopic) -> None:
    """A record that goes out of focus leaves the grid, one that comes into it appears; the filter is in the URL."""
    console.grid(flights.name)
    console.page.get_by_label("Filter", exact=True).fill("/status = 'late'")
    console.page.keyboard.press("Enter")
    console.rows(2)
    assert "filter=%2Fstatus+%3D+%27late%27" in console.page.url
    flights.merge(flight("UA", 1, "departed"))
    console.rows(1)
    expect(console.cells("UA")).to_have_count(0)
    flights.merge(flight("AA", 3, "late"))
    console.rows(2)
    expect(console.cells("AA")).to_have_count(1)


def test_a_filter_is_completed(console: Console, flights: ServedTopic) -> None:
    """With fields, frequent values and functions; filters that were used are offered again."""
    page = console.page
    console.grid(flights.name)
    page.get_by_label("Filter", exact=True).click()
    page.keyboard.type("/sta")
    options = page.get_by_role("listbox", name="completions").get_by_role("option")
    expect(options.first).to_contain_text("/status")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Filter", exact=True)).to_have_value("/status")
    page.keyboard.type(" = 'l")
    expect(options.first).to_have_text("'late'2 in a sample of 3 records")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type(" AND leng")
    expect(options.first).to_contain_text("LENGTH()")
    page.keyboard.press("Escape")
    page.get_by_label("Filter", exact=True).fill("/status = 'late'")
    page.keyboard.press("Enter")
    console.rows(2)
    page.get_by_label("Filter", exact=True).fill("")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_contain_text("/status = 'late'")


def test_an_unknown_field_is_named(console: Console, flights: ServedTopic) -> None:
    """With a button that follows the advice."""
    console.grid(flights.name, filter="/stattus = 'late'")
    console.rows(0)
    expect(console.page.locator(".notice.warn")).to_contain_text("unknown field /stattus")
    console.button("Use /status").click()
    console.rows(2)
    expect(console.page.locator(".notice.warn")).to_have_count(0)


def test_values_are_counted(console: Console, flights: ServedTopic) -> None:
    """How many records have each value of a field; one that is chosen is filtered by."""
    console.grid(flights.name, limit="1")
    console.button("Counts").click()
    console.page.get_by_label("Count by").select_option("/status")
    facets = console.page.get_by_role("list", name="values of /status").get_by_role("button")
    expect(facets).to_have_text(["late 2", "landed 1"])
    # While the mouse is on one, no other comes under it; then the largest number is first, and ties go by name.
    facets.first.hover()
    flights.write(flight("DL", 4, "landed"), flight("DL", 5, "landed"))
    expect(facets).to_have_text(["late 2", "landed 3"])
    console.page.get_by_label("Count by").hover()
    expect(facets).to_have_text(["landed 3", "late 2"])
    flights.write(flight("DL", 6, "diverted"), flight("DL", 7, "diverted"))
    expect(facets).to_have_text(["landed 3", "diverted 2", "late 2"])
    for facet in facets.all():
        bar, number = facet.locator(".bar").bounding_box(), facet.locator(".number").bounding_box()
        assert bar is not None
        assert number is not None
        assert bar["x"] + bar["width"] <= number["x"]
    console.button("Counts").click()
    expect(facets).to_have_count(0)
    console.button("Counts").click()
    expect(facets).to_have_text(["landed 3", "diverted 2", "late 2"])
    console.page.get_by_label("Count by").select_option("/carrier")
    carriers = console.page.get_by_role("list", name="values of /carrier").get_by_role("button")
    expect(carriers).to_have_count(4)
    expect(carriers.first).to_have_text("DL 4")
    console.page.get_by_label("Count by").select_option("/status")
    facets.last.click()
    expect(console.page.locator("[data-count=rows]")).to_have_text("1 of 2 rows")
    assert "filter=%2Fstatus+%3D+%27late%27" in console.page.url


def test_a_mistake_is_marked_at_its_column(console: Console, flights: ServedTopic, served: Served) -> None:
    """The sentence stands below the text, with the place. The grid stays as it was, and says that it is no answer."""
    console.grid(flights.name)
    console.page.get_by_label("Filter", exact=True).fill("/status = 'late' AND AND")
    console.button("Show").click()
    mistake = console.page.get_by_role("alert")
    expect(mistake).to_contain_text("bad filter")
    expect(mistake.locator(".caret")).to_have_attribute("data-column", "22")
    text, caret = mistake.locator(".pointer").inner_text().splitlines()
    assert text[caret.index("▲") :] == "AND"
    console.rows(3)
    chip, sheet = console.page.locator(".standing .chip"), console.page.locator(".sheet")
    dimmed = "sheet => Number(getComputedStyle(sheet).opacity) < 1"
    expect(chip).to_have_text(re.compile(r"^showing: no filter, as of \d\d:\d\d:\d\d UTC$"))
    assert sheet.evaluate(dimmed)
    # What is no answer does not go on as if it were one: nothing tells the page of a record, however often it asks.
    wait_for(lambda: served.query.metric(LIVE) == 0, "the subscription to end")
    flights.write(flight("DL", 9, "landed"))
    for _ in range(2):
        with console.page.expect_response(lambda answer: answer.url.endswith("/topics")):
            pass
    console.rows(3)
    console.page.get_by_label("Filter", exact=True).fill("/status = 'late'")
    console.button("Show").click()
    console.rows(2)
    console.wait_live()
    assert not sheet.evaluate(dimmed)
    console.page.get_by_label("Filter", exact=True).fill("/status = ")
    console.button("Show").click()
    expect(chip).to_have_text(re.compile("^showing: /status = 'late', as of "))
