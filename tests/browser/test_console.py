"""The web console in a real browser, over real services and a real Kafka."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, expect

from sowline.client.publisher import Publisher
from tests.browser.conftest import flight
from tests.browser.seen import Console, check_in_all_looks
from tests.integration.served import Served, ServedTopic
from tests.integration.services import http_text
from tests.waiting import PAGE_TURN

pytestmark = pytest.mark.needs("chromium")


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
