"""The list of topics, the page of a topic, and the connections: their age, dead letters, FIX, small screens."""

import json
import re
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO
from tests.browser.conftest import flight
from tests.browser.guarded import guarded
from tests.browser.seen import Console
from tests.browser.test_console_writing import LOST, without_service
from tests.integration.served import Served, ServedTopic
from tests.integration.wire import Json

pytestmark = pytest.mark.needs("chromium")

AGE = re.compile(r"^as of \d\d:\d\d:\d\d UTC$")
UNKNOWN = re.compile(r"^unknown, last seen \d\d:\d\d:\d\d$")
HEALTHY = re.compile(r"^(live|up to date)$")
ORDER = b"11=A1|54=5|18=1 G|453=1|448=ACME|452=3|"


def test_nothing_is_live_without_a_connection(console: Console, flights: ServedTopic, served: Served) -> None:
    """Each page says when it was last seen, and has nothing in green that the service did not just say."""
    page = console.page
    console.grid(flights.name)  # the engine can't be loaded while there is no service
    state = console.topic(flights.name).locator("[data-label=State]")
    console.go("topics")
    expect(state).to_have_text(HEALTHY)
    with without_service(served):
        expect(state).to_have_text(UNKNOWN)
        expect(page.locator("main .title")).to_contain_text(re.compile(r"as of \d\d:\d\d:\d\d UTC"))
        expect(console.topic(flights.name).locator("[data-label='Newest change']")).to_contain_text("at ")
        for label in ("Changes/s over 10 s", "Lag (records)", "Subscriptions"):
            shown = console.topic(flights.name).locator(f"[data-label='{label}']")
            expect(shown).to_have_text("–", use_inner_text=True)
        expect(page.locator(".chip.ok")).to_have_count(0)
    expect(state).to_have_text(HEALTHY)
    console.go(f"topic/{flights.name}")
    chip = page.locator("main .title .chip")
    expect(chip).to_have_text(HEALTHY)
    expect(page.get_by_role("region", name="Kafka topics")).to_be_visible()
    with without_service(served):
        expect(chip).to_have_text(UNKNOWN)
        expect(page.locator("h2 .age")).to_have_text([AGE] * 4)
        expect(page.locator(".chip.ok")).to_have_count(0)
    expect(chip).to_have_text(HEALTHY)
    console.grid(flights.name)
    with page.context.new_page() as other:
        Console(other, served.query.url).go("connections")
        expect(other.locator(".client .chip.ok").first).to_have_text("live")
        disconnect = other.get_by_role("button", name=re.compile("disconnect client")).first
        expect(disconnect).to_be_enabled()
        with without_service(served):
            expect(other.locator(".client .chip").first).to_have_text("unknown")
            expect(other.locator(".chip.ok")).to_have_count(0)
            expect(disconnect).to_be_disabled()
            expect(other.locator("main .title")).to_contain_text("connected to this query service as of")
    console.wait_live()
    console.complaints[:] = [complaint for complaint in console.complaints if not LOST.search(complaint)]


def test_the_subscriptions_of_all_clients_stand_in_the_same_columns(
    console: Console, served: Served, flights: ServedTopic
) -> None:
    """However long a filter is. Before messages were counted, there is no rate with a unit."""
    console.grid(flights.name)
    page = console.page.context.new_page()
    filtered = Console(page, served.query.url)
    filtered.grid(flights.name, filter="/status IN ('late', 'landed', 'departed', 'departed late')")
    with page.context.new_page() as other:
        Console(other, served.query.url).go("connections")
        tables = other.locator("table.subscriptions")
        expect(tables).to_have_count(2)
        columns = (
            "table => [...table.rows[0].cells].map(cell => Math.round(cell.getBoundingClientRect().left))"
        )
        assert tables.nth(0).evaluate(columns) == tables.nth(1).evaluate(columns)
        expect(other.locator(".client dd", has_text="–/s")).to_have_count(0)
    page.close()


def test_a_topic_without_news_is_up_to_date(console: Console, flights: ServedTopic) -> None:
    """Whether changes would come through is unknown then: a materializer may be dead that has nothing to do."""
    console.go("topics")
    flights.write(flight("DL", 4, "late"))
    state = console.topic(flights.name).locator("[data-label=State]")
    expect(state).to_have_text("live")
    expect(state).to_have_text("up to date", timeout=30_000)


def test_offsets_are_of_the_same_instant_as_positions(console: Console, flights: ServedTopic) -> None:
    """They follow the log without being asked for, and each partition has both."""
    page = console.page
    console.go(f"topic/{flights.name}")
    log = page.get_by_role("region", name="Kafka topics").get_by_role("row").nth(1)
    kept = log.locator("[data-label='Offsets kept']")
    expect(kept).to_have_text(re.compile(r"\d"))
    before = int(kept.inner_text().replace(",", ""))
    flights.write(*(flight("ZZ", number, "late") for number in range(5)))
    expect(kept).to_have_text(f"{before + 5:,}")
    # Of a compacted topic, the offsets say no more than how many messages there are at most.
    changes = page.get_by_role("region", name="Kafka topics").get_by_role("row").nth(2)
    expect(changes.locator("[data-label=Cleanup]")).to_have_text("compact")
    expect(changes.locator("[data-label='Offsets kept']")).to_have_text(re.compile(r"^up to [\d,]+$"))
    ages = page.locator("h2 .age")
    expect(ages).to_have_text([AGE] * 4)  # definition, partitions, in Kafka, indexes
    shown = page.evaluate("[...document.querySelectorAll('h2 .age')].map(age => age.textContent)")
    assert shown[1] == shown[2]
    rows = page.get_by_role("region", name="partitions").locator("tbody tr")
    for row in rows.all():
        position = row.locator("[data-label=Position]").inner_text()
        expect(row.locator("[data-label='Offsets in the log']")).to_have_text(f"0 – {position}")


def test_the_lag_is_that_of_the_offsets_next_to_it(console: Console, flights: ServedTopic) -> None:
    """Kafka is asked for them after the service has noted its own lag, while the log grows."""

    def grow(found: Json) -> None:
        for partition in found["kafka_topics"][0]["partitions"]:
            partition["end"] += 70

    with console.changed(re.compile(r"/topics/[^/]+/kafka$"), grow):
        console.go(f"topic/{flights.name}")
        lags = console.page.get_by_role("region", name="partitions").locator("[data-label=Lag]")
        expect(lags).to_have_text(["70", "70"])


def test_dead_letters_are_counted_where_the_topics_are(console: Console, served: Served) -> None:
    """A link leads to them; bytes that no font has are in hexadecimal, and can't be corrected in a form."""
    page, trades = console.page, served["trades"]
    console.go("topics")
    cell = console.topic(trades.name).locator("[data-label='Dead letters']")
    expect(cell).to_have_text(re.compile(r"\d"))
    before = int(cell.inner_text())
    served.system.produce(trades.name, frame("confluent", AVRO, 9, b"\x02Ed"), partition=0)
    trades.settle()
    expect(cell).to_have_text(str(before + 1))
    cell.get_by_role("link").click()
    letter = page.locator(".message").filter(has=page.locator(".hex")).first
    expect(letter).to_be_in_viewport()
    expect(letter.locator(".hex")).to_contain_text(re.compile(r"0000 {2}00 00 00 00 09 02 45 64 +·····.Ed"))
    expect(letter).to_contain_text(re.compile(r"from the log, partition 0 position \d+"))
    expect(letter.get_by_role("button", name="Publish again…")).to_have_count(0)


def test_the_line_of_the_last_minute_stays(console: Console, flights: ServedTopic) -> None:
    """What was measured is there at once when the list is opened again."""
    line = console.topic(flights.name).locator(".spark polyline").first
    points = "line => line.getAttribute('points').split(' ').length"
    console.go("topics")
    expect(line).to_have_attribute("points", re.compile(r"\S+ \S+ \S+"))
    before = line.evaluate(points)
    console.go(f"topic/{flights.name}")
    expect(console.page.get_by_role("region", name="partitions")).to_be_visible()
    console.go("topics")
    expect(line).to_be_attached()
    assert line.evaluate(points) >= before


def value_names(url: str, topic: str, token: str) -> Json:
    """Return what values mean, as a user of that token gets it."""
    asked = urllib.request.Request(
        f"{url}/v1/topics/{quote(topic)}/fields", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked) as answer:
        names: Json = json.loads(answer.read())["value_names"]
    return names


def test_a_record_of_fix_in_words(console: Console, served: Served, tmp_path: Path) -> None:
    """Tags stand beside names, and what values mean; a user of some fields learns nothing of the others."""
    orders = served["orders"]
    producer = Producer({"bootstrap.servers": served.system.kafka})
    producer.produce(orders.name, ORDER)
    producer.flush()
    orders.settle()
    console.grid(orders.name)
    console.cells("A1").click()
    record = console.page.locator("aside .json")
    for line in (
        '"ClOrdID" 11: "A1"',
        '"Side" 54: "5" Sell short',
        '"ExecInst" 18: "1 G" Not held, All or none',
    ):
        expect(record).to_contain_text(line)
    expect(record).to_contain_text('"PartyRole" 452: "3" Client ID')
    expect(record.locator(".note", has_text="ACME")).to_have_count(0)
    some: Json = {"read": [{"topics": "^.*", "select": "[-/Side]"}]}
    whole: Json = {"read": [{"topics": "^.*"}]}
    with guarded(served, tmp_path, some=some, whole=whole) as url:
        assert value_names(url, orders.name, "sow_whole")["Side"] == {"1": "BUY", "5": "SELL_SHORT"}
        assert value_names(url, orders.name, "sow_some") == {}


LINE_WIDTHS = """node => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return [...range.getClientRects()].map(({ width }) => width);
}"""


def cut(page: Page) -> list[str]:
    """The tables whose columns do not fit beside each other."""
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)"
        ".map(one => one.getAttribute('aria-label'))"
    )
    return names


def test_no_column_is_cut(chromium: Browser, served: Served, flights: ServedTopic) -> None:
    """On a telephone a row is a card; on a small screen all columns fit."""
    with chromium.new_context() as context:
        console = Console(context.new_page(), served.query.url)
        page = console.page
        for width in (390, 1024):
            page.set_viewport_size({"width": width, "height": 800})
            console.go("topics")
            expect(console.topic(flights.name)).to_be_visible()
            assert cut(page) == []
            # The last line of a heading is no single letter.
            assert min(page.locator("th.changes").evaluate(LINE_WIDTHS)) > 40
            console.go(f"topic/{flights.name}")
            expect(page.get_by_role("region", name="Kafka topics")).to_be_visible()
            assert cut(page) == []
        assert console.complaints == []
