"""One record in the console: the row that it is of, its timeline, and its schemas."""

import pytest
from playwright.sync_api import expect

from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO
from tests.browser.conftest import flight
from tests.browser.seen import Console, check_in_all_looks
from tests.integration.served import Served, ServedTopic

pytestmark = pytest.mark.needs("chromium")


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
