"""What the console shows of values: every digit, the zone of each time, and filters by whatever a text has."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import flight
from tests.browser.seen import Console
from tests.integration.served import Served, ServedTopic

pytestmark = pytest.mark.needs("chromium")


def test_numbers_have_all_digits(console: Console, flights: ServedTopic) -> None:
    """Of a rate, of a whole number and of one that no double holds, in the grid, the plain table and the record."""
    numbers = {"rate": 0.2166, "whole": 44086, "small": 1.5e-9, "long": 9007199254740993}
    flights.write(flight("UA", 1, "late", **numbers))
    console.grid(flights.name)
    shown = ["0.2166", "44086", "0.0000000015", "9007199254740993"]
    for text in shown:
        expect(console.cells(text)).to_have_count(1)
    console.button("Table", exact=True).click()
    table = console.page.get_by_role("region", name="the records as a table")
    row = table.get_by_role("row", name="44086")
    for text in ["0.2166", "44086", "1.5e-9", "9007199254740993"]:
        expect(row.get_by_role("cell", name=text, exact=True)).to_have_count(1)
    row.get_by_role("button").click()
    expect(console.page.locator("aside .json")).to_contain_text('"long": 9007199254740993')


def test_a_mean_is_rounded(console: Console, flights: ServedTopic) -> None:
    """To what can be read; the mouse shows all digits that the service computed."""
    flights.write(*(flight("UA", number, "late", delay={"dep": number * 10}) for number in (1, 2, 4)))
    flights.write(
        flight("UA", 5, "late", price=23.333333333333332, low=0.3333333333333333, mean=8.4472049689441)
    )
    console.grid(flights.name)
    expect(console.cells("23.3333")).to_have_attribute("title", "23.333333333333332")
    expect(console.cells("0.3333")).to_have_attribute("title", "0.3333333333333333")
    expect(console.cells("8.4472")).to_have_attribute("title", "8.4472049689441")


def test_means_of_a_pivot_have_as_many_decimals(console: Console, flights: ServedTopic) -> None:
    """They stand one below the other, and two will do beside tens; the mouse shows all digits of one that is cut."""
    flights.write(flight("UA", 1, "late", gain=0.546875), flight("AA", 3, "late", gain=12))
    console.go(
        f"grid/{flights.name}", show="pivot", by="/carrier", across="-", value="/gain", aggregate="avg"
    )
    expect(console.cells("0.55")).to_have_attribute("title", "0.546875")
    expect(console.cells("12.00")).to_have_count(1)
    flights.write(flight("AA", 3, "late", gain=6))
    expect(console.cells("0.5469")).to_have_attribute("title", "0.546875")
    expect(console.cells("6.0000")).to_have_count(1)


def test_a_pivot_counts_in_whole_numbers(console: Console, flights: ServedTopic) -> None:
    """Records are not counted as 2.00."""
    console.go(f"grid/{flights.name}", show="pivot", by="/status")
    for text in ("3", "2", "1"):
        expect(console.cells(text)).to_have_count(1)


def test_a_number_that_no_double_holds_is_filtered_by(console: Console, flights: ServedTopic) -> None:
    """Exactly: its neighbor, which is the same number to a browser, is not shown."""
    flights.write(
        flight("UA", 1, "late", serial=9007199254740993), flight("AA", 3, "late", serial=9007199254740992)
    )
    console.grid(flights.name)
    console.cells("9007199254740993").click(modifiers=["Alt"])
    console.rows(1)
    expect(console.page.get_by_label("Filter", exact=True)).to_have_value("/serial = 9007199254740993")
    expect(console.cells("UA")).to_have_count(1)


def test_times_have_a_date_and_a_zone(console: Console, flights: ServedTopic) -> None:
    """In the grid and in the plain table; the mouse shows them as ISO 8601, and as the record has them."""
    since = "2026-11-23T08:00:00.250+02:00"
    flights.write(flight("UA", 1, "late", since=since))
    console.grid(flights.name)
    cell = console.cells("2026-11-23 06:00:00.250Z")
    expect(cell).to_have_attribute("title", f"2026-11-23T06:00:00.250Z\n{since}")
    # Those of the last change are read to the second; the record's own have all that it has.
    updated = console.page.locator(
        "regular-table tbody td", has_text=re.compile(r"^\d{4}-\d\d-\d\d [\d:]{8}Z$")
    )
    expect(updated).to_have_count(3)
    console.button("Table", exact=True).click()
    table = console.page.get_by_role("region", name="the records as a table")
    expect(table.get_by_text("2026-11-23 06:00:00.250Z")).to_have_attribute(
        "title", "2026-11-23T06:00:00.250Z"
    )
    expect(table.locator("time")).to_have_count(4)
    expect(table).not_to_contain_text(re.compile(r"\d{13}"))


def test_a_text_with_an_apostrophe_is_counted_and_filtered_by(console: Console, flights: ServedTopic) -> None:
    """Its quote is escaped where a value of a list becomes a filter."""
    flights.write(flight("UA", 1, "late", airport="O'HARE"))
    console.grid(flights.name)
    console.page.get_by_label("Count by").select_option("/airport")
    values = console.page.get_by_role("list", name="values of /airport").get_by_role("button")
    values.filter(has_text="O'HARE").click()
    console.rows(1)
    expect(console.page.get_by_label("Filter", exact=True)).to_have_value(r"/airport = 'O\'HARE'")
    expect(console.cells("UA")).to_have_count(1)


def test_a_warning_goes_with_its_filter(console: Console, flights: ServedTopic) -> None:
    """Also if the next filter is refused, so that the records of the first one stay."""
    console.grid(flights.name, filter="/stattus = 'late'")
    warning = console.page.locator(".notice.warn")
    expect(warning).to_contain_text("unknown field /stattus")
    console.page.get_by_label("Filter", exact=True).fill("/status = 'late' AND AND")
    console.page.keyboard.press("Enter")
    expect(console.page.get_by_role("alert")).to_contain_text("bad filter")
    expect(warning).to_have_count(0)


def test_a_page_of_the_service_is_counted_once(console: Console, flights: ServedTopic) -> None:
    """The number of rows and that of the records that match stand in one place."""
    console.grid(flights.name, order="/flight", limit="2")
    expect(console.page.locator("[data-count=rows]")).to_have_text("2 of 3 rows")
    expect(console.page.locator(".standing")).not_to_contain_text("cut at")


def test_a_pivot_counts_records(console: Console, flights: ServedTopic) -> None:
    """Its rows are others: two groups of three records."""
    counted = console.page.locator("[data-count=rows]")
    for tab, text in (("grid", "3 rows"), ("pivot", "3 records"), ("chart", "3 records")):
        console.go(f"grid/{flights.name}", show=tab, by="/status")
        expect(counted).to_have_text(text)


def test_a_view_is_marked_and_not_written_to(console: Console, served: Served, flights: ServedTopic) -> None:
    """In the list of topics, on its page and above its records; a record of it can't be edited."""
    page, view = console.page, served["late"]
    origin = f"view of {flights.name}"
    console.go("topics")
    expect(console.topic(view.name).locator("[data-label=Type]")).to_have_text(origin)
    expect(console.topic(flights.name).locator("[data-label=Type]")).to_have_text("records")
    console.go(f"topic/{view.name}")
    expect(page.locator(".title .origin")).to_have_text(origin)
    service = served.system.service("views").start()
    console.grid(view.name)
    expect(page.locator(".title .origin")).to_have_text(origin)
    example = "every record; a filter is, for example, /carrier IS NOT NULL"
    expect(page.get_by_label("Filter", exact=True)).to_have_attribute("placeholder", example)
    heads = page.locator("perspective-viewer regular-table thead tr.rt-autosize th")
    expect(heads.first).to_have_text("carrier")
    console.cells("UA").click()
    expect(page.locator("aside .json")).to_contain_text('"flights"')
    page.keyboard.press("w")
    console.more()
    for name in ("Write…", "Delete…", "Edit…"):
        expect(console.button(name)).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    service.close()
    console.grid(flights.name)
    expect(page.locator(".origin")).to_have_count(0)
    expect(console.more().get_by_role("button", name="Write…")).to_have_count(1)


def test_a_group_has_one_format_of_numbers(console: Console, flights: ServedTopic) -> None:
    """What is counted or computed has commas, wherever it stands; a value is written as its record has it."""
    flights.write(*(flight("UA", 1000 + number, "late", miles=2475) for number in range(1200)))
    shown = {"by": "/status", "across": "-"}
    console.go(f"grid/{flights.name}", show="pivot", **shown)
    expect(console.cells("1,202")).to_have_count(1)
    console.go(f"grid/{flights.name}", show="pivot", value="/miles", aggregate="sum", **shown)
    expect(console.cells("2,970,000").first).to_be_visible()
    console.chart(flights.name, "sum of miles by status", value="/miles", aggregate="sum", **shown)
    expect(console.figures()).to_contain_text("2,970,000")
    console.grid(flights.name, layout='{"group_by": ["/status"]}')
    expect(console.cells("2,970,000").first).to_be_visible()
    console.go(f"grid/{flights.name}", show="table", layout='{"group_by": ["/status"]}')
    table = console.page.get_by_role("region", name="the records as a table")
    expect(table.get_by_role("cell", name="2,970,000").first).to_be_visible()
    console.go(f"grid/{flights.name}", show="pivot", by="/flight", filter="/flight = 2199")
    expect(console.page.locator("perspective-viewer regular-table th", has_text="2199")).to_have_count(1)
    console.grid(flights.name, filter="/flight = 2199")
    for text in ("2199", "2475"):
        expect(console.cells(text)).to_have_count(1)


def test_points_of_numbers_stand_one_below_the_other(console: Console, flights: ServedTopic) -> None:
    """No value is rounded for that, or has digits that it does not have; the mouse shows no more than there is."""
    rates = (0.2166, 151.5, -7.0625, 12)
    flights.write(*(flight("UA", number, "late", rate=rate) for number, rate in enumerate(rates)))
    console.grid(flights.name, filter="/rate IS NOT NULL", order="/flight")
    texts = [console.cells(str(rate)).text_content() or "" for rate in rates]
    assert [text.rstrip() for text in texts] == ["0.2166", "151.5", "-7.0625", "12"]
    assert len({len(text) - (text.find(".") if "." in text else len(text.rstrip())) for text in texts}) == 1
    expect(console.cells("151.5")).not_to_have_attribute("title", re.compile("."))
