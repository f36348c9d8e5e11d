"""The web console in a real browser, over real services and a real Kafka."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from sowline.client.publisher import Publisher
from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO
from tests.browser.conftest import flight
from tests.browser.seen import Console
from tests.integration.served import Served, ServedTopic
from tests.integration.services import http_text
from tests.integration.wire import Json
from tests.waiting import PAGE_TURN, wait_for

pytestmark = pytest.mark.needs("chromium")

LIVE = "sowline_subscriptions_live"
"""The service's number of subscriptions."""

COLORS: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def test_a_grid_follows_its_topic(console: Console, flights: ServedTopic) -> None:
    """What is published appears, what is merged changes in place, what is deleted leaves; new fields are columns."""
    console.grid(flights.name)
    console.rows(3)
    expect(console.cells("landed")).to_have_count(1)
    flights.write(flight("DL", 4, "scheduled", gate={"name": "B4"}))
    console.rows(4)
    expect(console.cells("B4")).to_have_count(1)
    expect(console.page.locator("regular-table th", has_text="gate.name")).to_have_count(1)
    flights.merge(flight("AA", 3, "at the gate"))
    expect(console.cells("at the gate")).to_have_count(1)
    expect(console.cells("landed")).to_have_count(0)
    flights.delete({"carrier": "AA", "flight": 3})
    console.rows(3)
    expect(console.cells("at the gate")).to_have_count(0)


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


def test_a_number_becomes_a_text(console: Console, flights: ServedTopic) -> None:
    """A field of another kind, and an integer that no double holds, break nothing and lose no digit."""
    console.grid(flights.name)
    flights.write(flight("UA", 1, "late", delay={"dep": "unknown"}, serial=12345678901234567891))
    expect(console.cells("unknown")).to_have_count(1)
    expect(console.cells("12345678901234567891")).to_have_count(1)
    expect(console.cells("20")).to_have_count(1)


def test_cells_that_change_flash(console: Console, flights: ServedTopic) -> None:
    """The newest record is first; changed cells flash, all of a new record, and none where motion is unwelcome."""
    console.grid(flights.name)
    console.rows(3)
    flashing = console.page.locator("regular-table td[data-changed]")
    expect(flashing).to_have_count(0)
    flights.merge(flight("B6", 2, "boarding"))
    expect(console.cells("boarding")).to_have_attribute("data-changed", "")
    expect(console.cells("B6")).not_to_have_attribute("data-changed", "")
    first = console.page.locator("perspective-viewer regular-table tbody tr").first
    expect(first).to_contain_text("boarding")
    assert console.cells("boarding").evaluate("cell => cell.getAnimations().length") <= 1
    flights.write(flight("DL", 4, "new"))
    expect(first.locator("td[data-changed]", has_text="DL")).to_have_count(1)
    console.page.emulate_media(reduced_motion="reduce")
    flights.merge(flight("AA", 3, "gone"))
    expect(first).to_contain_text("gone")
    expect(console.cells("gone")).not_to_have_attribute("data-changed", "")


def test_the_row_of_the_open_record_is_marked(console: Console, flights: ServedTopic) -> None:
    """A cell of it offers its value as a filter, with the Alt key at once."""
    console.grid(flights.name)
    console.cells("landed").click()
    expect(console.page.locator("td[data-open]", has_text="AA")).to_have_count(1)
    console.page.get_by_role("complementary").get_by_role("button", name="/status = 'landed'").click()
    console.rows(1)
    console.page.keyboard.press("Escape")
    console.grid(flights.name)
    console.cells("UA").click(modifiers=["Alt"])
    console.rows(1)
    expect(console.page.get_by_label("Filter", exact=True)).to_have_value("/carrier = 'UA'")


def test_the_service_sorts_what_the_grid_does_not_hold(console: Console, flights: ServedTopic) -> None:
    """Of more records than the limit the grid asks the service for the first ones of the new order."""
    flights.write(*(flight("ZZ", number, "late", delay={"dep": number}) for number in range(100, 110)))
    console.grid(flights.name, limit="3")
    console.rows(3)
    console.page.evaluate(
        "document.querySelector('perspective-viewer').restore({sort: [['/delay/dep', 'desc']]})"
    )
    console.page.wait_for_url("**order=**")
    for number in (109, 108, 107):
        expect(console.cells(str(number)).first).to_be_visible()
    flights.write(flight("ZZ", 200, "late", delay={"dep": 500}))
    expect(console.cells("500")).to_have_count(1)
    console.rows(3)


def test_tabs_and_presets(console: Console, flights: ServedTopic) -> None:
    """A chart is one click away; its fields can be chosen, and the link shows it again."""
    console.grid(flights.name)
    flights.write(flight("UA", 9, "late", since="2026-11-23T08:00:00Z"))
    tabs = console.page.get_by_role("group", name="how to show the records")
    tabs.get_by_role("button", name="Chart").click()
    console.drawing("records by status")
    kinds = console.page.get_by_role("group", name="kind of chart")
    kinds.get_by_role("button", name="Treemap").click()
    console.drawing("records by status")
    expect(kinds.get_by_role("button", name="Treemap")).to_have_attribute("aria-pressed", "true")
    kinds.get_by_role("button", name="Over time").click()
    expect(console.page.get_by_role("heading", name="records by updated, per")).to_be_visible()
    expect(console.page.get_by_label("Time").locator("option")).to_have_text(["updated", "/since"])
    tabs.get_by_role("button", name="Pivot").click()
    console.page.get_by_role("group", name="what the pivot shows").get_by_label("Rows").select_option(
        "/status"
    )
    expect(console.page.locator("regular-table th", has_text="late")).to_have_count(1)
    console.page.reload()
    expect(console.page.locator("regular-table th", has_text="late")).to_have_count(1)


def test_a_view_is_saved_by_name(console: Console, flights: ServedTopic) -> None:
    """It is offered in this browser, and shows filter and tab again."""
    console.grid(flights.name, filter="/status = 'late'", show="pivot")
    console.page.once("dialog", lambda dialog: dialog.accept("late flights"))
    console.more().get_by_label("Saved views").select_option("+")
    console.grid(flights.name)
    console.rows(3)
    console.more().get_by_label("Saved views").select_option("late flights")
    console.rows(2)
    expect(console.button("Pivot")).to_have_attribute("aria-pressed", "true")


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


def test_a_link_whose_settings_do_not_fit(console: Console, flights: ServedTopic) -> None:
    """The records are shown without them."""
    console.grid(flights.name, layout=json.dumps({"sort": [["/nothing", "asc"]]}))
    expect(console.cells("landed")).to_have_count(1)
    assert any("the view of the link does not fit" in complaint for complaint in console.complaints)
    console.complaints.clear()


LEAVES_MEANWHILE = (
    f"([place, element, method]) => new Promise((left) => {{ {PAGE_TURN}"
    """
  // The element of the viewer only passes on what its instance is called with.
  const { _instance: instance } = document.createElement(element);
  const prototype = instance ? Object.getPrototypeOf(instance) : customElements.get(element).prototype;
  const work = prototype[method];
  prototype[method] = async function (...given) {
    prototype[method] = work;
    const viewer = document.querySelector("perspective-viewer");
    location.hash = "#/nowhere";
    const isLeft = () => document.querySelector("[role=alert]")?.textContent.includes("nothing at this address");
    while (!isLeft() || (viewer.isConnected && viewer.checkVisibility())) await turn();
    // The browser tells observers of sizes in the next frame, and the frame after it comes once they have been told.
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    left();
    return work.apply(this, given);
  };
  location.hash = place;
})"""
)
"""Leaves a grid while it is drawn, and lets that go on once the browser has seen that the viewer is not shown."""


@pytest.mark.parametrize(
    "meanwhile",
    [("perspective-viewer", "load"), ("perspective-viewer-datagrid", "draw")],
    ids=lambda one: one[1],
)
def test_a_grid_is_left_while_it_is_drawn(
    console: Console, flights: ServedTopic, meanwhile: tuple[str, str]
) -> None:
    """The page does not complain, and the next grid is drawn as ever."""
    console.grid(flights.name)
    console.go("nowhere")
    console.page.evaluate(LEAVES_MEANWHILE, [f"#/grid/{flights.name}", *meanwhile])
    console.grid(flights.name)
    expect(console.cells("landed")).to_have_count(1)


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


def test_an_open_transaction_is_why_a_partition_lags(
    console: Console, flights: ServedTopic, served: Served
) -> None:
    """The page of the topic says where it begins, until it ends."""
    console.go(f"topic/{flights.name}")
    partitions = console.page.get_by_role("region", name="partitions")
    expect(partitions.get_by_role("row")).to_have_count(3)
    expect(partitions).not_to_contain_text("Open transaction")
    producer = Producer({"bootstrap.servers": served.system.kafka, "transactional.id": flights.name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(flights.name, json.dumps(flight("WN", 5, "late")).encode())
    producer.flush()
    expect(partitions).to_contain_text("Open transaction", timeout=30_000)
    expect(partitions).to_contain_text(re.compile(r"since offset \d+, \d{4}-"), timeout=30_000)
    producer.abort_transaction()
    expect(partitions).not_to_contain_text("Open transaction", timeout=30_000)


def test_a_dead_letter_is_published_again(console: Console, flights: ServedTopic, served: Served) -> None:
    """The page of a topic has its definition, partitions and Kafka topics; a refused record is corrected there."""
    page = console.page
    broken = flight("WN", 5, "late") | {"flight": 1.5}
    producer = Producer({"bootstrap.servers": served.system.kafka})
    producer.produce(flights.name, json.dumps(broken).encode())
    producer.flush()
    flights.settle()
    console.go(f"topic/{flights.name}")
    expect(page.get_by_role("region", name="partitions").get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("region", name="Kafka topics")).to_contain_text(f"{flights.name}.changes")
    letter = page.locator(".message", has_text='"WN"')
    expect(letter).to_contain_text("bad key")
    letter.get_by_role("button", name="Publish again…").click()
    dialog = page.get_by_role("dialog")
    record = dialog.get_by_label("Record")
    assert json.loads(record.input_value()) == broken
    record.fill(json.dumps(flight("WN", 5, "late")))
    dialog.locator("footer").get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    page.keyboard.press("Escape")
    page.get_by_role("group", name="which messages").get_by_role("button", name="Changes").click()
    expect(page.locator(".message").first).to_contain_text('"WN"')
    page.get_by_role("link", name="Records").first.click()
    console.rows(4)


def test_a_view_is_copied_as_a_program(chromium: Browser, served: Served, flights: ServedTopic) -> None:
    """Each program names the service, the topic and the filter."""
    with chromium.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        console = Console(context.new_page(), served.query.url)
        console.grid(flights.name, filter="/status = 'late'")
        for name, part in [
            ("Python", "client.sow_and_subscribe("),
            ("JavaScript", "client.sowAndSubscribe("),
            ("curl", "/sow'"),
            ("kcat", "kcat -b"),
        ]:
            console.more().get_by_label("Copy as").select_option(name)
            expect(console.more().get_by_label("Copy as")).to_contain_text(f"{name} copied")
            copied = console.page.evaluate("navigator.clipboard.readText()")
            assert part in copied
            assert flights.name in copied
        console.more().get_by_label("Copy as").select_option("Python")
        expect(console.more().get_by_label("Copy as")).to_contain_text("Python copied")
        program = console.page.evaluate("navigator.clipboard.readText()")
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        shown = [next(running.stdout).split()[0] for _ in range(3)]
        running.kill()
    assert shown == ["group_begin", "sow", "sow"]


def test_a_client_is_disconnected(console: Console, flights: ServedTopic) -> None:
    """An administrator closes a connection; this one comes back by itself."""
    console.grid(flights.name)
    console.go("connections")
    page = console.page
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=re.compile("disconnect client")).last.click()
    console.grid(flights.name)
    console.rows(3)


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


def test_rows_beyond_the_limit_are_counted(console: Console, flights: ServedTopic) -> None:
    """A grid that does not show everything says so."""
    console.grid(flights.name, limit="2")
    console.rows(2)
    expect(console.page.locator("[data-count=rows]")).to_have_text("2 of 3 rows")
    expect(console.page.locator(".cut")).to_contain_text("a filter, or more rows in the options")


def test_it_comes_back_after_a_lost_connection(
    console: Console, flights: ServedTopic, served: Served
) -> None:
    """It says that it is not up to date, and goes on from its bookmark without loading again."""
    sent: list[str] = []
    console.leave()
    console.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    console.grid(flights.name)
    console.rows(3)
    disconnect_all(served)
    flights.write(flight("NK", 9, "boarding"))
    expect(console.cells("boarding")).to_have_count(1)
    console.rows(4)
    about = [request for request in map(json.loads, sent) if request.get("topic") == flights.name]
    asked = [request for request in about if "grouping=" not in request.get("options", "")]
    assert [request["command"] for request in asked if not request.get("bookmark")] == ["sow"]
    assert len([request for request in asked if "delta_subscribe" in request["command"]]) == 2


def disconnect_all(served: Served) -> None:
    """Close every connection of the query service."""
    for client in json.loads(http_text(f"{served.query.url}/v1/clients"))["clients"]:
        delete = urllib.request.Request(f"{served.query.url}/v1/clients/{client['id']}", method="DELETE")
        urllib.request.urlopen(delete).close()


def test_a_link_is_a_view(console: Console, flights: ServedTopic) -> None:
    """Arrangement, filter and the open record come back with the address."""
    console.grid(flights.name, filter="/status = 'late'")
    console.rows(2)
    console.page.evaluate(
        "document.querySelector('perspective-viewer').restore({group_by: ['/status'], columns: ['/flight']})"
    )
    console.page.wait_for_url("**layout=**")
    address = console.page.url
    console.leave()
    console.page.goto(address)
    expect(console.page.locator("regular-table th", has_text="late")).to_have_count(1)
    console.rows(2)


def test_a_link_to_a_chart_that_is_gone(console: Console, flights: ServedTopic) -> None:
    """The viewer has no charts of its own any more: what an old link grouped is shown as a grid."""
    console.grid(flights.name, layout='{"plugin":"Y Bar","group_by":["/status"],"columns":["/flight"]}')
    expect(console.page.locator("regular-table th", has_text="late")).to_have_count(1)


def test_a_record_and_what_has_happened_to_it(console: Console, flights: ServedTopic) -> None:
    """A row that is clicked opens, stays up to date, and has a timeline of its changes."""
    console.grid(flights.name)
    console.cells("B6").click()
    panel = console.page.get_by_role("complementary")
    expect(panel.get_by_role("heading")).to_have_text("B6 · 2")
    expect(panel.locator(".json")).to_contain_text('"dep": 20')
    flights.merge(flight("B6", 2, "departed late"))
    expect(panel.locator(".json")).to_contain_text("departed late")
    panel.get_by_role("button", name="Timeline").click()
    newest = panel.locator(".write").first
    expect(newest.locator("del")).to_have_text("late")
    expect(newest.locator("ins")).to_have_text("departed late")


def test_a_click_opens_what_the_cell_showed(console: Console, flights: ServedTopic) -> None:
    """A newer record moves all rows while the button of the mouse is down."""
    console.grid(flights.name)
    console.cells("B6").hover()
    console.page.mouse.down()
    flights.write(flight("DL", 4, "new"))
    expect(console.page.locator("perspective-viewer regular-table tbody tr").first).to_contain_text("DL")
    console.page.mouse.up()
    panel = console.page.get_by_role("complementary")
    expect(panel.get_by_role("heading")).to_have_text("B6 · 2")
    expect(console.page.locator("td[data-open]", has_text="B6")).to_have_count(1)


def test_the_timeline_of_a_document(console: Console, served: Served) -> None:
    """Each write with its delta, its outcome and its effect."""
    papers = served["papers"]
    console.grid(papers.name)
    console.more().get_by_role("button", name="Write…").click()
    for delta, outcome in [
        ('{..,"stars":4}', "applied"),
        ('{..,"stars":5}', "applied"),
        ('if {..,"stars":1} then ~ end', "condition not met"),
    ]:
        dialog = console.page.get_by_role("dialog")
        dialog.get_by_role("group", name="what to write").get_by_role("button", name="Delta").click()
        dialog.get_by_label("Key").fill("p1")
        dialog.get_by_label("Delta", exact=True).fill(delta)
        dialog.locator("footer").get_by_role("button", name="Delta").click()
        expect(dialog.get_by_role("status")).to_contain_text(outcome)
    console.page.keyboard.press("Escape")
    console.cells("p1").first.click()
    panel = console.page.get_by_role("complementary")
    panel.get_by_role("button", name="Timeline").click()
    writes = panel.locator(".write")
    expect(writes).to_have_count(3)
    expect(writes.nth(0)).to_contain_text("condition not met")
    expect(writes.nth(1).locator(".effect")).to_contain_text("/stars 4 5")
    expect(writes.nth(2).locator(".delta")).to_have_text('{..,"stars":4}')


def test_publishing_and_deleting(console: Console, flights: ServedTopic) -> None:
    """A form says what became of a command; a deletion asks first, and says of how many."""
    console.grid(flights.name)
    console.more().get_by_role("button", name="Write…").click()
    dialog = console.page.get_by_role("dialog")
    dialog.get_by_label("Record").fill(
        '{"carrier": "WN", "flight": 7, "status": "new", "big": 12345678901234567891}'
    )
    dialog.locator("footer").get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    console.rows(4)
    expect(console.cells("12345678901234567891")).to_have_count(1)
    dialog.get_by_role("group", name="what to write").get_by_role("button", name="Delete").click()
    dialog.get_by_label("Filter", exact=True).fill("/status = 'late'")
    dialog.get_by_role("button", name="Delete…").click()
    expect(dialog.get_by_role("alert")).to_contain_text("This deletes 2 records")
    console.rows(4)
    dialog.get_by_role("button", name="Delete 2 records").click()
    expect(dialog.get_by_role("status")).to_contain_text("deleted 2")
    console.rows(2)


def test_keys_that_publishers_give(console: Console, served: Served) -> None:
    """A form asks for the key; whatever it holds is shown as text, and names the record where it is deleted."""
    key = '<i>"a,b"</i>'
    console.grid(served["parcels"].name)
    console.more().get_by_role("button", name="Write…").click()
    dialog = console.page.get_by_role("dialog")
    dialog.get_by_label("SOW key").fill(key)
    dialog.get_by_label("Record").fill('{"text": "parcel"}')
    dialog.locator("footer").get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    console.page.keyboard.press("Escape")
    console.cells("parcel").first.click()
    panel = console.page.get_by_role("complementary")
    expect(panel.get_by_role("heading")).to_have_text(key)
    panel.get_by_role("button", name="Edit…").click()
    expect(dialog.get_by_label("SOW key")).to_have_value(key)
    dialog.get_by_role("group", name="what to write").get_by_role("button", name="Delete").click()
    expect(dialog.get_by_label("SOW keys")).to_have_value(json.dumps([key]))
    dialog.get_by_role("button", name="Delete…").click()
    dialog.get_by_role("button", name="Delete 1 record").click()
    expect(dialog.get_by_role("status")).to_contain_text("deleted 1")


def test_refusals_are_shown(console: Console, flights: ServedTopic) -> None:
    """Of a record that is none, and of one that lacks its key."""
    console.grid(flights.name)
    console.more().get_by_role("button", name="Write…").click()
    dialog = console.page.get_by_role("dialog")
    for text, reason in [("{", "not json"), ('{"carrier": "UA"}', "key missing")]:
        dialog.get_by_label("Record").fill(text)
        dialog.locator("footer").get_by_role("button", name="Publish").click()
        expect(dialog.get_by_role("alert")).to_contain_text(reason)


def test_messages_of_a_topic_without_a_sow(console: Console, served: Served, flights: ServedTopic) -> None:
    """They pass by, the newest are shown."""
    console.grid(served["news"].name)
    publisher: Publisher = served.system.publisher()
    publisher.publish(served["news"].name, {"text": "gate change"})
    publisher.flush()
    expect(console.cells("gate change")).to_have_count(1)


def test_a_topic_that_is_behind_says_so(console: Console, flights: ServedTopic, served: Served) -> None:
    """While the materializer stands still, neither the grid nor the list of topics says `live`."""
    late = re.compile(r"^\d+(\.\d)? s behind$")
    console.grid(flights.name)
    served.materializer.signal(signal.SIGSTOP)
    try:
        served.system.write(flights.name, flight("DL", 4, "late"))
        expect(console.page.locator(".standing .chip")).to_have_text(late)
        expect(console.page.locator(".standing .chip")).to_have_class(re.compile(r"\bwarn\b"))
        expect(console.page.locator(".chip.ok")).to_have_count(0)
        console.go("topics")
        row = console.topic(flights.name)
        expect(row.locator("[data-label=State]")).to_have_text(late)
        expect(row.locator("[data-label^=Lag]")).to_have_text("1")
        # A view is no newer than what it is computed from.
        view = console.topic(served["late"].name).locator("[data-label=State]")
        expect(view).to_have_text(re.compile(rf"^{flights.name} is \d+(\.\d)? s behind$"))
    finally:
        served.materializer.signal(signal.SIGCONT)
    expect(row.locator("[data-label=State]")).to_have_text(re.compile(r"^(live|up to date)$"))
    console.grid(flights.name)
    console.rows(4)


def test_the_schemas_of_a_topic(console: Console, served: Served) -> None:
    """The reader schema, each schema that messages have named with its changes, and in red what can't be read."""
    page, name = console.page, served["trades"].name
    for partition, schema_id, data in [
        (0, 1, b"\x02\x02"),
        (1, 1, b"\x02\x02"),
        (0, 3, b"\x04\x02a"),
        (0, 9, b""),
    ]:
        message = frame("confluent", AVRO, schema_id, data)
        served.system.produce(name, message, partition=partition)
    served["trades"].settle()
    console.go(f"topic/{name}")
    facts = page.locator("dl.schema div")
    expect(facts).to_have_text(
        [
            "Message typeavro",
            "Framingconfluent",
            "Subjecttrades-value",
            "Version–",
            "Id2",
            "Reader schemas so far1",
        ]
    )
    page.locator("summary", has_text="Reader schema").click()
    expect(page.get_by_role("region", name="reader schema")).to_contain_text('"name": "qty"')
    known, unreadable, unknown = (page.locator(f"[data-schema='{number}']") for number in (1, 3, 9))
    expect(known).to_contain_text("2 partitions")
    expect(known.locator(".chip.ok")).to_have_text("readable")
    expect(known.get_by_text("Changes since")).to_have_count(0)
    expect(unreadable.locator(".chip.bad")).to_have_text("incompatible")
    expect(unreadable).to_contain_text("/qty")
    unreadable.get_by_text("Changes since schema 1").click()
    changes = page.get_by_role("region", name="changes of schema 3")
    expect(changes.locator("del")).to_have_text(['-       "type": "int"'])
    expect(changes.locator("ins")).to_have_text(['+       "type": "string"'])
    expect(unknown.locator(".chip.bad")).to_have_text("unknown")
    expect(unknown).to_contain_text("the registry had no such schema")
    expect(page.locator("main .title .chip.warn")).to_have_text("live, but 2 schemas can't be read")
    expect(unknown.get_by_text("Text")).to_have_count(0)
    expect(page.get_by_role("region", name="Kafka topics")).to_contain_text(f"{name}.schemas")
    check_in_all_looks(page)


def test_the_page_of_a_view(console: Console, served: Served, flights: ServedTopic) -> None:
    """What it is computed from, and by, and what it reflects of that. Its source is a link."""
    page, name = console.page, served["late"].name
    console.go(f"topic/{name}")
    facts = page.locator("dl.view div")
    first = [f"From{flights.name}", "Filter/status = 'late'", "Grouping/carrier"]
    expect(facts).to_have_text([*first, "Projection/carrier, COUNT(1) AS /flights", "Reflectsnot known"])
    key = page.locator("dl.facts div").filter(has_text=re.compile("^Key"))
    expect(key).to_have_text("Keythe grouping: /carrier")
    service = served.system.service("views").start()
    expect(facts.last).to_contain_text(f"{flights.name} up to {flights.name}:")
    check_in_all_looks(page)
    service.close()
    page.get_by_role("link", name=flights.name).click()
    expect(page.locator("h1")).to_have_text(flights.name)
    expect(facts).to_have_count(0)


def test_topics_and_connections(console: Console, flights: ServedTopic, served: Served) -> None:
    """The topics keep themselves up to date; who is connected stands there with what it asked for."""
    console.go("topics")
    row = console.topic(flights.name)
    expect(row.locator("[data-label=Records]")).to_have_text("3")
    expect(row.locator("[data-label^=Lag]")).to_have_text("0")
    expect(row.locator("[data-label=Indexes]")).to_contain_text("one field's values")
    flights.write(flight("DL", 4, "late"))
    expect(row.locator("[data-label=Records]")).to_have_text("4")
    row.get_by_role("link", name=flights.name, exact=True).click()
    console.rows(4)
    console.page.keyboard.press("g")
    console.page.keyboard.press("c")
    expect(console.page.get_by_role("heading", name="Connections")).to_be_visible()
    with console.page.context.new_page() as other:
        seen = Console(other, served.query.url)
        seen.grid(flights.name, filter="/status = 'late'")
        client = console.page.locator(".client", has_text="/status = 'late'")
        expect(client).to_contain_text("sow_and_delta_subscribe")
        expect(client).to_contain_text("live")
        assert seen.complaints == []
    expect(client).to_have_count(0)


@contextmanager
def guarded(served: Served, tmp_path: Path, **roles: Json) -> Iterator[str]:
    """Lend the address of a query service that asks for tokens: `sow_` and the role of who has it."""
    users = [
        {"user": f"user of {role}", "sha256": sha256(f"sow_{role}".encode()).hexdigest(), "roles": [role]}
        for role in roles
    ]
    (tmp_path / "access.yaml").write_text(json.dumps({"tokens": users, "roles": roles}))
    service = served.system.service("query_service", access=tmp_path / "access.yaml").start().wait_ready()
    yield service.url
    service.close()


def test_who_has_to_log_on(chromium: Browser, served: Served, flights: ServedTopic, tmp_path: Path) -> None:
    """Where tokens are asked for, the console asks for one; what its user may not do is said."""
    read = [{"topics": "^.*"}]
    roles: dict[str, Json] = {"desk": {"admin": True, "read": read}, "reader": {"read": read}}
    with guarded(served, tmp_path, **roles) as url, chromium.new_context() as context:
        console = Console(context.new_page(), url)
        page, log_on = console.page, console.page.get_by_role("dialog", name="Log on")
        console.enter()
        log_on.get_by_label("Token").fill("sow_other")
        log_on.get_by_role("button", name="Log on").click()
        expect(log_on).to_contain_text("this one is unknown")
        log_on.get_by_label("Token").fill("sow_desk")
        log_on.get_by_role("button", name="Log on").click()
        page.get_by_role("link", name=flights.name, exact=True).click()
        console.rows(3)
        console.go("connections")
        expect(page.get_by_role("heading", name="user of desk")).to_be_visible()
        page.evaluate("sessionStorage.setItem('sowline.token', 'sow_reader')")
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("not entitled")
        page.route_web_socket("**", lambda held: None)  # the refusal comes before the connection is there
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("not entitled")
        assert [message for message in console.complaints if "status of 40" not in message] == []


def test_who_reads_some_fields_edits_these(
    chromium: Browser, served: Served, flights: ServedTopic, tmp_path: Path
) -> None:
    """What is not shown of a record stays when it is edited."""
    flights.write(flight("DL", 4, "late", gate="C9"))
    everything = [{"topics": "^.*"}]
    some = [{"topics": "^.*", "select": "[-/gate]"}]
    with (
        guarded(served, tmp_path, some={"read": some, "write": everything}) as url,
        chromium.new_context() as context,
    ):
        console = Console(context.new_page(), url)
        page = console.page
        console.enter()
        page.get_by_label("Token").fill("sow_some")
        page.get_by_role("button", name="Log on").click()
        page.get_by_role("link", name=flights.name, exact=True).click()
        console.rows(4)
        # The grid is drawn first and sorted then: until it is live, a row may move before the mouse gets there.
        console.wait_live()
        console.cells("DL").click()
        page.get_by_role("button", name="Edit…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Write changes")).to_be_enabled()
        record = dialog.get_by_label("Record")
        assert json.loads(record.input_value()) == flight("DL", 4, "late")
        record.fill(json.dumps(flight("DL", 4, "landed")))
        dialog.get_by_role("button", name="Write changes").click()
        expect(dialog.get_by_role("status")).to_contain_text("applied")
        dialog.get_by_role("group", name="what to write").get_by_role("button", name="Publish").click()
        expect(dialog.locator(".notice")).to_contain_text("You may read some fields only")
        assert [message for message in console.complaints if "status of 40" not in message] == []
    flights.settle()
    (found,) = http_text(
        f"{served.query.url}/v1/topics/{flights.name}/sow", b'{"filter": "/flight = 4"}'
    ).splitlines()
    assert json.loads(found)["data"] == flight("DL", 4, "landed", gate="C9")


def test_by_keyboard_alone(console: Console, flights: ServedTopic) -> None:
    """From the topics to a record and back, with visible focus, without a mouse."""
    page = console.page
    console.enter()
    expect(page.get_by_role("link", name=flights.name, exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    link = page.get_by_role("link", name=flights.name, exact=True)
    while not link.evaluate("link => link === document.activeElement"):
        page.keyboard.press("Tab")
    assert link.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    console.rows(3)
    page.keyboard.press("/")
    expect(page.get_by_label("Filter", exact=True)).to_be_focused()
    page.keyboard.type("/carrier = 'B6'")
    page.keyboard.press("Enter")
    console.rows(1)
    page.keyboard.press("Tab")
    page.keyboard.press("t")
    opener = page.get_by_role("button", name="open record")
    expect(opener).to_have_count(1)
    while not opener.evaluate("button => button === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel).to_contain_text('"B6"')
    expect(panel.get_by_role("heading")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_nothing_stands_in_anybodys_way(console: Console, flights: ServedTopic) -> None:
    """Every view, in both colors, on a small screen too, passes axe and needs no scrolling sideways."""
    page = console.page
    console.go("topics")
    expect(page.get_by_role("link", name=flights.name, exact=True)).to_be_visible()
    check_in_all_looks(page)
    console.go("connections")
    expect(page.locator(".client").first).to_be_visible()
    check_in_all_looks(page)
    console.go(f"grid/{flights.name}", show="table")
    page.get_by_role("button", name="open record").first.click()
    expect(page.locator("aside .json")).to_be_visible()
    check_in_all_looks(page)
    page.keyboard.press("Escape")
    # The small screen of the last look has the filter behind a button.
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Filter", exact=True).click()
    page.keyboard.type("/sta")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    check_in_all_looks(page)
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 800})
    console.grid(flights.name)
    expect(page.get_by_role("region", name="counts of values").get_by_role("button").first).to_be_visible()
    console.more().get_by_role("button", name="Columns and order…").click()
    expect(page.get_by_label("Sort by")).to_be_visible()
    check_in_all_looks(page)
    console.go(f"topic/{flights.name}")
    expect(page.get_by_role("region", name="Kafka topics")).to_be_visible()
    check_in_all_looks(page)
    console.chart(flights.name, "records by status and carrier", chart="treemap", across="/carrier")
    check_in_all_looks(page)
    expect(console.figures()).to_be_visible()
    check_in_all_looks(page)
    console.more().get_by_role("button", name="Write…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check_in_all_looks(page)


def check_in_all_looks(page: Page) -> None:
    """Look for what axe knows to be in the way; colors follow the system at once."""
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        for colors in COLORS:
            page.emulate_media(color_scheme=colors, reduced_motion="reduce")
            expect(page.locator("html")).to_have_attribute("data-theme", colors)
            if (viewer := page.locator("perspective-viewer")).count():
                expect(viewer).to_have_attribute("theme", f"Pro {colors.title()}")
                # The viewer has its new theme before it has drawn its cells in it.
                viewer.evaluate("viewer => viewer.flush()")
                expect(viewer.locator("td[data-changed]")).to_have_count(0)
            found = Axe().run(page, options={"resultTypes": ["violations"]})
            assert [(one["id"], one["nodes"]) for one in found.response["violations"]] == [], (width, colors)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
