"""The console over a topic that has more records than its page holds."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect

from tests.browser.seen import Console, browser
from tests.integration.served import Served, serve
from tests.integration.wire import Json

pytestmark = pytest.mark.needs("chromium")

RECORDS = 1200
PAGE = 500
"""What the console reads first."""
LIMIT = 700
STATES = ("open", "working", "filled")
TOPICS: dict[str, Json] = {"orders": {"key": "/id", "partitions": 2}, "wide": {"key": "/id"}}


def order(number: int, **more: object) -> Json:
    """A record."""
    return {"id": number, "status": STATES[number % 3], "desk": f"D{number % 2}", "qty": number} | more


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service, and a topic with many records."""
    with serve(kafka, tmp_path_factory.mktemp("large"), TOPICS) as served:
        served["orders"].write(*(order(number) for number in range(RECORDS)))
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all."""
    with browser() as begun:
        yield begun


class Held:
    """A page whose queries for more than a first page wait until they are let go."""

    def __init__(self, page: Page) -> None:
        self._waiting: list[tuple[WebSocketRoute, str]] = []
        self._is_held = True
        page.route_web_socket("**/v1", self._connect)

    def _connect(self, browser: WebSocketRoute) -> None:
        service = browser.connect_to_server()
        browser.on_message(lambda message: self._send(service, message))

    def _send(self, service: WebSocketRoute, message: str | bytes) -> None:
        asked = json.loads(message)
        if self._is_held and asked["command"] == "sow" and asked["top_n"] > PAGE:
            self._waiting.append((service, str(message)))
        else:
            service.send(message)

    def let_go(self) -> None:
        """Send what waits, and all that comes."""
        self._is_held = False
        for service, message in self._waiting:
            service.send(message)


@pytest.fixture
def console(chromium: Browser, served: Served) -> Iterator[Console]:
    """A page of its own, which may look into the viewer; whatever it has complained of fails the test."""
    with chromium.new_context(bypass_csp=True) as context:
        console = Console(context.new_page(), served.query.url)
        yield console
        assert console.complaints == []


def drawn(console: Console) -> list[Json]:
    """Return the rows of what the viewer shows."""
    rows: list[Json] = console.page.evaluate(
        "document.querySelector('perspective-viewer').getView().then((view) => view.to_json())"
    )
    return rows


def wait_drawn(console: Console, rows: Json) -> None:
    """Wait until the viewer has these values of the first column, by the path of their row."""
    console.page.wait_for_function(
        """async (expected) => {
          const viewer = document.querySelector('perspective-viewer');
          // While the viewer changes its view, it has none.
          const rows = await viewer?.getView().then((view) => view.to_json()).catch(() => undefined);
          if (rows === undefined) return false;
          const found = Object.fromEntries(rows.map(({__ROW_PATH__: path, ...row}) => [path?.join('/'), row]));
          return Object.entries(expected).every(([path, row]) =>
            Object.entries(row).every(([name, value]) => found[path]?.[name] === value));
        }""",
        arg=rows,
    )


def test_the_first_rows_are_shown_while_the_rest_comes(console: Console, served: Served) -> None:
    """The state says how many of how many are there; then all that the page may hold are, and it is live."""
    held = Held(console.page)
    console.go(f"grid/{served['orders'].name}", limit=str(LIMIT))
    console.rows(PAGE)
    expect(console.page.locator("regular-table tbody td").first).to_be_visible()
    expect(console.page.locator("[data-count=rows]")).to_have_text(f"{PAGE} of {RECORDS:,} rows")
    expect(console.page.locator(".standing .chip")).to_have_text("loading")
    rate = console.page.locator(".standing .rate")
    expect(rate).to_have_count(0)
    held.let_go()
    console.wait_live()
    console.rows(LIMIT)
    expect(console.page.locator("[data-count=rows]")).to_have_text(f"{LIMIT} of {RECORDS:,} rows")
    # Only once they have been live for long enough is it known that nothing changes. Nothing is said before.
    expect(rate).to_have_text("0 changes/s over 10 s")


def test_a_wider_record_comes_after_the_first_page(console: Console, served: Served) -> None:
    """Its fields are columns, its values of another kind are shown, and no row is lost."""
    topic = served["wide"]
    topic.write(*(order(number) for number in range(RECORDS)))
    held = Held(console.page)
    console.go(f"grid/{topic.name}")
    expect(console.page.locator("[data-count=rows]")).to_have_text(f"{PAGE} of {RECORDS:,} rows")
    expect(console.page.locator("regular-table tbody td").first).to_be_visible()
    topic.merge(order(7, qty="many", note="late"))
    held.let_go()
    console.wait_live()
    console.rows(RECORDS)
    expect(console.cells("late")).to_have_count(1)
    expect(console.cells("many")).to_have_count(1)
    ids = {row["/id"] for row in drawn(console)}
    assert ids == set(range(RECORDS))


def test_a_chart_is_of_all_records(console: Console, served: Served) -> None:
    """Whatever the page may hold: the service computes the groups, and their changes come as they happen."""
    topic = served["orders"]
    console.chart(topic.name, "sum of qty by status", limit=str(LIMIT), by="/status", value="/qty")
    console.rows(RECORDS)
    sums = {status: sum(range(at, RECORDS, len(STATES))) for at, status in enumerate(STATES)}
    for status, total in sums.items():
        expect(line(console, status)).to_have_text([f"{total:,}"])
    expect(console.page.get_by_role("alert")).to_have_count(0)
    topic.write(order(RECORDS, status="open", qty=1_000_000))
    console.rows(RECORDS + 1)
    expect(line(console, "open")).to_have_text([f"{sums['open'] + 1_000_000:,}"])
    topic.delete({"id": RECORDS})
    console.rows(RECORDS)
    expect(line(console, "open")).to_have_text([f"{sums['open']:,}"])


def line(console: Console, name: str) -> Locator:
    """The figures of a row of a chart."""
    row = console.figures().get_by_role("row")
    return row.filter(has=console.page.get_by_role("rowheader", name=name, exact=True)).get_by_role("cell")


def test_a_pivot_is_of_all_records(console: Console, served: Served) -> None:
    """Its totals are those of the records, not of the groups; different values of groups have no total."""
    shown = {"limit": str(LIMIT), "show": "pivot", "by": "/status", "across": "/desk", "value": "/qty"}
    console.grid(served["orders"].name, **shown, aggregate="avg")
    console.rows(RECORDS)
    first = [number for number in range(RECORDS) if number % 2 == 0]
    late = [number for number in first if number % 3 == 0]
    mean = {"": {"D0|/qty": sum(first) / len(first)}, "open": {"D0|/qty": sum(late) / len(late)}}
    wait_drawn(console, mean)
    console.grid(served["orders"].name, **shown, aggregate="distinct count")
    wait_drawn(console, {"open": {"D0|/qty": len(late)}})
    assert "" not in {"/".join(row["__ROW_PATH__"]) for row in drawn(console)}


def test_bars_are_split_by_a_second_field(console: Console, served: Served) -> None:
    """Only if it was chosen, and the control shows which one it is."""
    console.chart(served["orders"].name, "records by status", by="/status")
    second = console.page.get_by_label("And by")
    expect(second).to_have_value("-")
    expect(line(console, "open")).to_have_text([str(RECORDS // 3)])
    second.select_option("/desk")
    expect(line(console, "open")).to_have_text([str(RECORDS // 6)] * 2)
    console.button("Figures").click()
    console.drawing("records by status and desk")
    expect(console.page.get_by_role("list", name="desk").get_by_role("listitem")).to_have_text(["D0", "D1"])


def test_a_course_says_of_how_many_records_it_is(console: Console, served: Served) -> None:
    """While the others are loading, and where they are more than the browser may hold."""
    held = Held(console.page)
    shown = {"show": "chart", "chart": "time", "width": "D"}
    console.go(f"grid/{served['orders'].name}", limit=str(LIMIT), **shown)
    of = console.page.locator("figcaption .of")
    expect(of).to_have_text(
        re.compile(rf"^{PAGE} of {RECORDS:,} records as of .* UTC; the others are loading$")
    )
    held.let_go()
    expect(of).to_have_text(re.compile(rf"^{LIMIT} of {RECORDS:,} records as of \d\d:\d\d:\d\d UTC$"))
    console.go(f"grid/{served['orders'].name}", **shown)
    expect(of).to_have_text(re.compile(rf"^{RECORDS:,} records as of \d\d:\d\d:\d\d UTC$"))


def test_what_the_service_does_not_group_is_of_the_first_records(console: Console, served: Served) -> None:
    """Points are single records; the console says that they are not all."""
    console.go(f"grid/{served['orders'].name}", limit=str(LIMIT), show="chart", chart="scatter")
    console.rows(LIMIT)
    alert = console.page.get_by_role("alert")
    expect(alert).to_contain_text("the chart is of the records in the browser: a filter")
    expect(console.page.locator("[data-count=rows]")).to_have_text(f"{LIMIT} of {RECORDS:,} records")
