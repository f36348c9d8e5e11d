"""Writing from the console: only what was changed, over nothing unseen, and never later than it was meant."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import flight
from tests.browser.seen import COLORS, CONTRASTS, Console
from tests.integration.served import Served, ServedTopic
from tests.integration.services import http_text
from tests.integration.wire import Json

pytestmark = pytest.mark.needs("chromium")


def stored(served: Served, topic: ServedTopic, query: Json) -> list[str]:
    """The matching records, as the service sends them."""
    answer = http_text(f"{served.query.url}/v1/topics/{topic.name}/sow", json.dumps(query).encode())
    return [line.partition('"data":')[2][:-1] for line in answer.splitlines()]


def commands(served: Served, topic: ServedTopic) -> list[tuple[str, str]]:
    """The commands on the topic's log, with their bodies."""
    asked = f"{served.query.url}/v1/topics/{topic.name}/log?limit=50"
    found = json.loads(http_text(asked))["messages"]
    return [(one["headers"].get("sow.command", "publish"), one["value"]) for one in reversed(found)]


def edit(console: Console, cell: str) -> Locator:
    """Open the form that edits the record with this cell."""
    console.cells(cell).first.click()
    console.button("Edit…").click()
    dialog = console.page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Write changes")).to_be_enabled()
    return dialog


def test_an_edit_writes_only_what_it_changes(console: Console, flights: ServedTopic, served: Served) -> None:
    """Nested fields, too; what is not touched keeps every digit, and an unchanged record is not written."""
    wide = '{"carrier":"UA","flight":1,"status":"late","fare":1.10,"serial":12345678901234567891}'
    served.system.produce(flights.name, wide.encode(), key=b'["UA","1"]')
    flights.merge(flight("UA", 1, "late", delay={"dep": 5, "arr": 7}))
    console.grid(flights.name)
    dialog = edit(console, "UA")
    record = dialog.get_by_label("Record")
    text = record.input_value()
    assert "12345678901234567891" in text
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nothing to write")
    record.fill(text.replace('"arr": 7', '"arr": 9').replace('"late"', '"gone"'))
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    command, body = commands(served, flights)[-1]
    assert (command, json.loads(body)) == (
        "delta_publish",
        {"carrier": "UA", "flight": 1, "status": "gone", "delay": {"arr": 9}},
    )
    record.fill(record.input_value().replace('"flight": 1', '"flight": 8'))
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("key changed")


def test_a_field_is_removed_by_an_edit(console: Console, flights: ServedTopic, served: Served) -> None:
    """The record is written whole, because no merge removes a field."""
    console.grid(flights.name)
    dialog = edit(console, "B6")
    dialog.get_by_label("Record").fill(json.dumps({"carrier": "B6", "flight": 2, "status": "late"}))
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    assert commands(served, flights)[-1][0] == "publish"
    (found,) = stored(served, flights, {"filter": "/carrier = 'B6'"})
    assert json.loads(found) == {"carrier": "B6", "flight": 2, "status": "late"}


def test_an_edit_asks_if_the_record_has_changed(
    console: Console, flights: ServedTopic, served: Served
) -> None:
    """It names what changed; the change of another field stays, and the edit is written when it is confirmed."""
    console.grid(flights.name)
    dialog = edit(console, "UA")
    record = dialog.get_by_label("Record")
    record.fill(record.input_value().replace('"late"', '"boarding"'))
    flights.merge(flight("UA", 1, "landed", gate="B4"))
    expect(dialog.get_by_role("alert")).to_contain_text("The record has changed while this form was open")
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing is written yet")
    expect(dialog.locator(".effect")).to_contain_text("/status late landed")
    expect(dialog.locator(".effect")).to_contain_text("/gate B4")
    assert json.loads(record.input_value()) == flight("UA", 1, "boarding", gate="B4")
    dialog.get_by_role("button", name="Write all the same").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    (found,) = stored(served, flights, {"filter": "/carrier = 'UA'"})
    assert json.loads(found) == flight("UA", 1, "boarding", gate="B4")


def test_an_edit_of_a_record_that_was_deleted(console: Console, flights: ServedTopic) -> None:
    """It writes nothing: a merge would make a record of the changed fields alone."""
    console.grid(flights.name)
    dialog = edit(console, "UA")
    record = dialog.get_by_label("Record")
    record.fill(record.input_value().replace('"late"', '"boarding"'))
    flights.delete({"carrier": "UA", "flight": 1})
    console.rows(2)
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the record was deleted")
    console.rows(2)


def test_an_edit_of_a_document_loses_to_who_was_first(console: Console, served: Served) -> None:
    """Its delta depends on the signature that was read; the loser sees what was written, and may write over it."""
    papers = served["papers"]
    papers.clear()
    papers.write({"id": "p9", "stars": 4, "title": "On time", "old": True})
    console.grid(papers.name)
    dialog = edit(console, "On time")
    record = dialog.get_by_label("Record")
    record.fill(json.dumps({"id": "p9", "stars": 5, "title": "On time"}))
    papers.merge({"id": "p9", "title": "In time"})
    dialog.get_by_role("button", name="Write changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing is written yet")
    expect(dialog.locator(".effect")).to_contain_text("/title On time In time")
    command, lost = commands(served, papers)[-1]
    assert command == "delta"
    assert lost.startswith('if intrinsic("~signature":')
    dialog.get_by_role("button", name="Write all the same").click()
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    _, won = commands(served, papers)[-1]
    assert won.endswith(' then {..,"stars":5,"old":~} end')
    (found,) = stored(served, papers, {"filter": "/id = 'p9'"})
    assert json.loads(found) == {"id": "p9", "stars": 5, "title": "In time"}


def test_a_cell_is_edited(console: Console, flights: ServedTopic, served: Served) -> None:
    """With a double click, in the form for its field alone; a key field can't be edited."""
    console.grid(flights.name)
    console.cells("20").dblclick()
    dialog = console.page.get_by_role("dialog", name=f"Edit a record of {flights.name}")
    value = dialog.get_by_label("/delay/dep")
    expect(value).to_have_value("20")
    value.fill("25")
    value.press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("applied")
    command, body = commands(served, flights)[-1]
    assert (command, json.loads(body)) == (
        "delta_publish",
        {"carrier": "B6", "flight": 2, "delay": {"dep": 25}},
    )
    value.press("Escape")
    expect(console.cells("25")).to_have_count(1)
    console.cells("UA").dblclick()
    expect(console.page.locator("aside .json")).to_contain_text('"UA"')
    expect(dialog).to_have_count(0)


def test_the_dialogs_have_titles(console: Console, flights: ServedTopic) -> None:
    """The one that deletes says so."""
    console.grid(flights.name)
    console.more().get_by_role("button", name="Delete…").click()
    dialog = console.page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(f"Delete records from {flights.name}")
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("heading")).to_have_text(f"Write to {flights.name}")


@contextmanager
def without_service(served: Served, *, is_killed: bool = True) -> Iterator[None]:
    """Kill or stop the query service; it is back after the block, on the same port."""
    if is_killed:
        served.query.kill()
    else:
        served.query.stop()
    try:
        yield
    finally:
        served.query.start().wait_ready()


LOST = re.compile("ERR_CONNECTION|WebSocket connection|Failed to load")
"""The errors that Chromium logs while the service does not run."""


def test_nothing_is_written_without_a_connection(
    console: Console, flights: ServedTopic, served: Served
) -> None:
    """The button says so, and what is sent at the last moment is refused, not kept until the service is back."""
    page = console.page
    console.grid(flights.name)
    console.more().get_by_role("button", name="Write…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Record").fill(json.dumps(flight("ZZ", 1, "never")))
    publish = dialog.locator("footer").get_by_role("button", name="Publish")
    expect(publish).to_be_enabled()
    with without_service(served):
        expect(publish).to_be_disabled()
        expect(dialog.get_by_role("status")).to_contain_text("Nothing can be written until it is back")
        # As if the button had been pressed just before it was disabled.
        dialog.locator("form").evaluate(
            "form => form.dispatchEvent(new Event('submit', {cancelable: true, bubbles: true}))"
        )
        expect(dialog.get_by_role("alert")).to_contain_text("Nothing was written")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    console.wait_live()
    flights.write(flight("DL", 4, "after"))
    console.rows(4)
    assert stored(served, flights, {"filter": "/carrier = 'ZZ'"}) == []
    console.complaints[:] = [complaint for complaint in console.complaints if not LOST.search(complaint)]


def test_a_service_that_was_stopped_is_no_lost_connection(console: Console, served: Served) -> None:
    """Next to the time of what is shown stands why the service left; one that was killed could not say it."""
    console.go("topics")
    lost = console.page.locator(".bar .lost")
    for is_killed, text in ((False, r": the server is stopping next"), (True, r" UTC\s+next")):
        with without_service(served, is_killed=is_killed):
            expect(lost).to_have_text(re.compile(text))
        expect(lost).to_have_count(0)
    console.complaints[:] = [complaint for complaint in console.complaints if not LOST.search(complaint)]


def test_a_lost_connection(console: Console, flights: ServedTopic, served: Served) -> None:
    """One chip, how old that is what is shown, and when it is tried again; no browser's words for it.

    What is shown stays legible.
    """
    page = console.page
    console.grid(flights.name)
    chips = page.locator(".bar .chip, .standing .chip")
    expect(chips).to_have_text(["live"])
    with without_service(served):
        expect(chips).to_have_text(["no connection"])
        as_of = re.compile(r"as of \d\d:\d\d:\d\d UTC")
        expect(page.locator(".bar .lost")).to_have_text(as_of)
        expect(page.locator(".standing")).to_contain_text(as_of)
        expect(page.get_by_role("timer")).to_have_text(re.compile(r"next try in \d+ s"))
        expect(page.locator(".viewer")).to_have_css("outline-style", "dashed")
        for colors in COLORS:
            page.emulate_media(color_scheme=colors, reduced_motion="reduce")
            expect(page.locator("html")).to_have_attribute("data-theme", colors)
            expect(page.locator("perspective-viewer")).to_have_attribute("theme", f"Pro {colors.title()}")
            page.locator("perspective-viewer").evaluate("viewer => viewer.flush()")
            contrasts = page.locator("main").evaluate(CONTRASTS)
            assert {"UA", "carrier", "status", "records"} <= set(contrasts)
            assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}, colors
        page.emulate_media(color_scheme="light", reduced_motion="no-preference")
        page.set_viewport_size({"width": 360, "height": 800})
        expect(page.locator(".bar .chip")).to_be_visible()
        assert page.locator(".bar .chip").evaluate("chip => chip.scrollWidth - chip.clientWidth") <= 0
        expect(page.locator(".bar .lost")).to_have_text(as_of)
        expect(page.locator(".bar .lost")).to_be_visible()
        expect(page.get_by_role("timer")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.set_viewport_size({"width": 1280, "height": 800})
        page.get_by_label("Count by").select_option("/flight")
        # The rows that are here are counted here.
        numbers = page.get_by_role("list", name="values of /flight").get_by_role("button")
        expect(numbers).to_have_count(3)
        for name in ("Write…", "Delete…"):
            expect(console.more().get_by_role("button", name=name)).to_be_disabled()
        expect(console.more()).to_contain_text("Nothing can be written until it is back")
        console.cells("UA").click()
        panel = page.get_by_role("complementary")
        expect(panel.get_by_role("button", name="Edit…")).to_be_disabled()
        expect(panel.locator(".notice.bad")).to_contain_text("The query service does not answer")
        panel.get_by_role("button", name="close the record").click()
        page.get_by_role("link", name="Topics", exact=True).first.click()
        expect(page.get_by_role("heading", name="Topics")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert "fetch" not in page.locator("body").inner_text().lower()
    expect(page.locator(".bar .chip")).to_have_count(0)
    expect(page.get_by_role("timer")).to_have_count(0)
    expect(console.topic(flights.name).locator("[data-label=Records]")).to_have_text("3")
    console.complaints[:] = [complaint for complaint in console.complaints if not LOST.search(complaint)]


def test_publishing_and_deleting(console: Console, flights: ServedTopic) -> None:
    """A form shows the result of a command. Before a deletion, it shows the number of records and asks."""
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
