"""The charts of the console: nothing that they show is unnamed, overprinted, invented or left out unsaid."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import flight
from tests.browser.seen import Console
from tests.integration.served import ServedTopic
from tests.integration.wire import Json
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("chromium")

WIDTHS = (1440, 390)
CARRIERS = ("UA", "AA", "DL", "B6", "US", "EV", "WN", "MQ", "F9", "YV", "OO", "HA")
STATES = ("scheduled", "departed late", "landed", "late")
ORIGINS = ("JFK", "EWR", "LGA")

LABELS = """drawing => [...drawing.querySelectorAll('text')].map((text) => {
  const { left, right, top, bottom } = text.getBoundingClientRect();
  return { text: text.textContent, left, right, top, bottom };
}).filter(({ text }) => text)"""


def many() -> list[Json]:
    """Flights of which some carriers have very few."""
    return [
        flight(carrier, number, STATES[number % 4], origin=ORIGINS[number % 3], gate=number, gain=number - 20)
        for at, carrier in enumerate(CARRIERS)
        for number in range(max(2, 60 >> at))
    ]


def labels(drawing: Locator) -> list[Json]:
    """Return the texts of a drawing, and where they are."""
    found: list[Json] = drawing.evaluate(LABELS)
    return found


def styles(locator: Locator, name: str) -> list[str]:
    """Return a computed style of all elements, each as it is at the same moment."""
    found: list[str] = locator.evaluate_all(
        "(all, name) => all.map(one => getComputedStyle(one)[name])", name
    )
    return found


def overprinted(found: list[Json]) -> list[tuple[str, str]]:
    """Return the texts that stand one over the other."""
    return [
        (one["text"], other["text"])
        for at, one in enumerate(found)
        for other in found[at + 1 :]
        if min(one["right"], other["right"]) - max(one["left"], other["left"]) > 1
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 3
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_label_is_lost_or_overprinted(console: Console, flights: ServedTopic, width: int) -> None:
    """Tiles without room for their label have none; axes have all of theirs, and the names of what they show."""
    flights.write(*many())
    console.page.set_viewport_size({"width": width, "height": 900})
    shown = {"by": "/carrier", "across": "/status"}
    for chart in ("treemap", "heatmap", "bars", "time"):
        title = "records by carrier and status" if chart != "time" else re.compile("^records by updated")
        console.go(f"grid/{flights.name}", show="chart", chart=chart, **shown)
        expect(console.page.get_by_role("heading", name=title)).to_be_visible()
        drawing = console.page.locator(".drawing")
        expect(drawing.locator("text", has_text=re.compile("UA|per second")).first).to_be_attached()
        found = labels(drawing)
        assert overprinted(found) == [], chart
        texts = {one["text"] for one in found}
        assert not {text for text in texts if "…" in text}, chart
        if chart == "treemap":
            # Names and numbers stand in two lines or in one; a header without room for its number has none.
            numbers = [text for one in found if (text := one["text"]).replace(",", "").isdigit()]
            names = [one["text"] for one in found if one["text"] in STATES]
            assert len(names) == len(numbers) < len(found)
        if chart in ("heatmap", "bars"):
            assert texts >= {*CARRIERS, "carrier"}
        if chart == "heatmap":
            assert texts >= {*STATES, "status"}
        box = drawing.bounding_box()
        assert box is not None
        assert all(one["left"] >= box["x"] - 1 for one in found), chart


def test_bars_have_their_sums(console: Console, flights: ServedTopic) -> None:
    """Beside a bar of several series stands the figure of all of it: a short one can't be read from the axis."""
    flights.write(*(flight("UA", number, "landed") for number in range(10, 22)))
    drawing = console.chart(
        flights.name, "records by carrier and status", chart="bars", by="/carrier", across="/status"
    )
    expect(drawing.locator("text", has_text=re.compile("^13$")).first).to_be_visible()
    assert {"13", "1"} <= {one["text"] for one in labels(drawing)}


def test_tiles_without_room_for_a_name_are_named_below(console: Console, flights: ServedTopic) -> None:
    """Each carrier is in its tile or in the note, with its number of records there; the note stays short."""
    flights.write(*many())
    console.page.set_viewport_size({"width": 320, "height": 568})
    drawing = console.chart(
        flights.name, "records by carrier and status", chart="treemap", by="/carrier", across="/status"
    )
    note = console.page.locator(".notes")
    expect(note).to_have_text(re.compile(r"^not labeled in full: (\w\w \d+, ){0,8}(\w\w \d+|\d+ more)$"))

    def is_each_carrier_once() -> bool:
        text = note.inner_text()
        small = re.findall(r"(\w\w) \d+\b", text)
        drawn = [one["text"].split() for one in labels(drawing)]
        named = {words[0] for words in drawn if len(words) == 2} & set(CARRIERS)
        others = re.search(r"(\d+) more$", text)
        return (
            len(small) + len(named) + int(others[1] if others else 0)
            == len(CARRIERS)
            == len(named.union(small))
        )

    # The drawing and the note follow each other.
    wait_for(is_each_carrier_once, "each carrier to be in its tile or in the note")
    # A tile without a label still has its colors.
    parts = {(one["carrier"], one["status"]) for one in many()}

    def is_each_part_colored() -> bool:
        colors = styles(console.page.locator(".legend i"), "backgroundColor")
        return sum(one in colors for one in styles(drawing.locator("path"), "fill")) == len(parts)

    wait_for(is_each_part_colored, "each part to be drawn in its color")


def test_overprinted_labels_are_found() -> None:
    """The test above would see them."""
    one = {"text": "UA", "left": 0, "right": 20, "top": 0, "bottom": 12}
    assert overprinted([one, one | {"text": "late", "left": 10}]) == [("UA", "late")]
    assert overprinted([one, one | {"text": "late", "left": 21}]) == []


def test_the_colors_of_a_chart_are_named(console: Console, flights: ServedTopic) -> None:
    """Those of series by their names; those of a measure its name, with zero in the middle if both signs occur."""
    flights.write(*many())
    console.chart(
        flights.name, "records by carrier and status", chart="treemap", by="/carrier", across="/status"
    )
    legend = console.page.locator(".legend")
    expect(legend.get_by_role("list", name="status").get_by_role("listitem")).to_have_text(sorted(STATES))
    fills = [
        swatch.evaluate("one => getComputedStyle(one).backgroundColor")
        for swatch in legend.locator("i").all()
    ]
    tiles = console.page.locator(".drawing").evaluate(
        "drawing => [...drawing.querySelectorAll('path')].map((tile) => getComputedStyle(tile).fill)"
    )
    assert len({*fills}) == len(STATES)
    assert {*fills} <= {*tiles}
    console.page.get_by_role("combobox", name="Color", exact=True).select_option("/gain")
    expect(legend).to_contain_text("avg of gain")
    expect(legend).to_contain_text("0 in the middle")
    console.chart(
        flights.name,
        "max of gate by carrier",
        chart="heatmap",
        by="/carrier",
        across="-",
        value="/gate",
        aggregate="max",
    )
    expect(legend).to_have_text(re.compile(r"max of gate\s*0\s*59"))


def test_a_color_stays_with_its_name(console: Console, flights: ServedTopic) -> None:
    """While other values come and leave, also if the page is loaded again, and whatever its width is."""
    shown = {"chart": "treemap", "by": "/carrier", "across": "/status"}
    console.chart(flights.name, "records by carrier and status", **shown)
    legend = console.page.get_by_role("list", name="status").get_by_role("listitem")
    expect(legend).to_have_text(["landed", "late"])
    style = "one => getComputedStyle(one.querySelector('i')).backgroundColor"
    color = legend.last.evaluate(style)
    flights.merge(flight("AA", 3, "late"))
    expect(legend).to_have_text(["late"])
    assert legend.evaluate(style) == color
    flights.write(flight("DL", 4, "arrived"), flight("DL", 5, "diverted"))
    expect(legend).to_have_text(["arrived", "diverted", "late"])
    assert legend.last.evaluate(style) == color
    assert len({one.evaluate(style) for one in legend.all()}) == 3
    console.leave()
    console.page.set_viewport_size({"width": 390, "height": 844})
    console.chart(flights.name, "records by carrier and status", filter="/status = 'late'", **shown)
    expect(legend).to_have_text(["late"])
    assert legend.evaluate(style) == color


def test_a_course_has_a_line_for_each_value(console: Console, flights: ServedTopic) -> None:
    """Its axis names the zone; hours without records have none, but an unknown mean; the newest hour is dashed."""
    flights.clear()
    flights.write(
        *(
            flight("UA", number, "late", since=f"2026-11-23T{hour:02}:30:00Z", origin=origin, gate=number)
            for number, (hour, origin) in enumerate(
                [(8, "JFK"), (8, "EWR"), (9, "EWR"), (11, "JFK"), (12, "JFK")]
            )
        )
    )
    shown = {"chart": "time", "time": "/since", "width": "h", "across": "/origin"}
    drawing = console.chart(flights.name, "records by since and origin, per hour", **shown)
    expect(drawing.locator("text", has_text="since (UTC), 2026-11-23")).to_be_attached()
    expect(drawing.locator("text", has_text="records per hour")).to_be_attached()
    expect(console.page.get_by_role("list", name="origin").get_by_role("listitem")).to_have_text(
        ["EWR", "JFK"]
    )
    expect(drawing.locator("path[stroke-dasharray]")).to_have_count(2)
    expect(console.page.locator(".notes")).to_have_text("dashed: the newest hour, which may not be complete")
    rows = console.figures().locator("tbody tr")
    expect(rows).to_have_text(
        [
            f"2026-11-23 {hour:02}:00:00Z{figures}"
            for hour, figures in ((8, "11"), (9, "10"), (10, "00"), (11, "01"), (12, "01"))
        ]
    )
    console.go(f"grid/{flights.name}", show="chart", value="/gate", aggregate="avg", **shown)
    rows = console.figures().locator("tbody tr")
    expect(rows).to_have_text(
        [
            f"2026-11-23 {hour:02}:00:00Z{figures}"
            for hour, figures in ((8, "10"), (9, "2–"), (10, "––"), (11, "–3"), (12, "–4"))
        ]
    )


def test_a_narrow_course_has_fewer_points(console: Console, flights: ServedTopic) -> None:
    """Lines of more times than there is room for would be one dense band: each time is longer, and a note says so."""
    since = datetime(2026, 11, 1, tzinfo=UTC)
    flights.clear()
    flights.write(
        *(
            flight("UA", hour, "late", since=f"{since + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}")
            for hour in range(288)
        )
    )
    console.page.set_viewport_size({"width": 1440, "height": 900})
    shown = {"chart": "time", "time": "/since", "width": "h"}
    console.chart(flights.name, "records by since, per hour", **shown)
    note = console.page.locator(".notes")
    expect(note).to_have_text("dashed: the newest hour, which may not be complete")
    console.page.set_viewport_size({"width": 390, "height": 844})
    console.drawing("records by since, per 6 hours")
    expect(note).to_contain_text("per 6 hours: for each hour there is no room")
    expect(console.figures().get_by_role("row")).to_have_count(1 + 288 // 6)


def test_what_is_left_out_is_counted(console: Console, flights: ServedTopic) -> None:
    """Of many series the smallest are drawn as one, if their sum is one; or they are counted under the chart."""
    flights.write(*many())
    shown = {"by": "/status", "across": "/carrier"}
    console.chart(flights.name, "records by status and carrier", **shown)
    legend = console.page.get_by_role("list", name="carrier").get_by_role("listitem")
    expect(legend).to_have_count(10)
    expect(legend.last).to_have_text("3 others")
    console.chart(
        flights.name,
        "distinct count of gate by status and carrier",
        value="/gate",
        aggregate="distinct count",
        **shown,
    )
    expect(legend).to_have_count(9)
    expect(console.page.locator(".notes")).to_have_text(
        "the 9 largest of 12 values of carrier; a filter shows others"
    )


def test_points_are_colored_by_a_field_that_is_named(console: Console, flights: ServedTopic) -> None:
    """Both axes can be chosen, and the address has them; records without both numbers are counted."""
    flights.write(*many(), flight("ZZ", 1, "late", gate=7))
    console.chart(
        flights.name, "gain against gate, of each record, by origin", chart="scatter", by="/origin", x="/gate"
    )
    expect(console.page.get_by_role("list", name="origin").get_by_role("listitem")).to_have_text(
        [*sorted(ORIGINS)]
    )
    expect(console.page.locator(".notes")).to_have_text("1 record without both numbers")
    drawn = len(many())
    expect(console.page.locator("figcaption .of")).to_contain_text(f"{drawn} of {drawn + 1} records as of")
    console.page.get_by_role("combobox", name="Up", exact=True).select_option("/gate")
    console.page.get_by_role("combobox", name="Across", exact=True).select_option("/gain")
    console.page.reload()
    console.drawing("gate against gain, of each record, by origin")
    expect(console.figures().get_by_role("rowheader").first).to_have_text(re.compile(r'^\["\w\w","\d+"\]$'))


def test_a_value_is_never_markup(console: Console, flights: ServedTopic) -> None:
    """Whatever a record has in it, a tooltip shows it as text."""
    name = "<img src=x onerror=alert(1)>"
    flights.clear()
    flights.write(flight("UA", 1, name))
    drawing = console.chart(flights.name, "records by status", by="/status")
    box = drawing.bounding_box()
    assert box is not None
    tooltip = console.page.locator(".tip strong")
    for x in (0.5, 0.6):
        console.page.mouse.move(box["x"] + box["width"] * x, box["y"] + 80)
    expect(tooltip).to_have_text(name)
    expect(console.page.locator(".tip img")).to_have_count(0)


def test_charts_are_loaded_when_one_is_opened(console: Console, flights: ServedTopic) -> None:
    """A grid needs none of them, and a chart none of the grid's engine."""
    asked: list[str] = []
    console.leave()
    console.page.on("request", lambda request: asked.append(request.url))
    console.grid(flights.name)
    assert not [url for url in asked if "echarts" in url]
    console.button("Chart", exact=True).click()
    console.drawing("records by status")
    assert [url for url in asked if "echarts" in url]
    console.leave()
    asked.clear()
    console.chart(flights.name, "records by status")
    assert not [url for url in asked if url.endswith(".wasm")]


def test_a_chart_follows_its_topic_in_both_themes(console: Console, flights: ServedTopic) -> None:
    """What is published is drawn; the colors of the page are those of the chart."""
    drawing = console.chart(flights.name, "records by status", by="/status")
    expect(drawing.locator("text", has_text=re.compile("^landed$"))).to_be_attached()
    flights.write(flight("DL", 4, "diverted"))
    expect(drawing.locator("text", has_text=re.compile("^diverted$"))).to_be_attached()
    inks = []
    for scheme in ("light", "dark"):
        console.page.emulate_media(color_scheme=scheme)
        expect(console.page.locator("html")).to_have_attribute("data-theme", scheme)
        muted = console.page.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--muted').trim()"
        )
        expect(drawing.locator("text", has_text=re.compile("^diverted$"))).to_have_attribute("fill", muted)
        inks.append(muted)
    assert all(one != other for one, other in pairwise(inks))


FRAMES = """drawing => new Promise((resolve) => {
  const shapes = () => [...drawing.querySelectorAll('path, text')];
  const place = (shape) => [shape.getAttribute('d'), shape.getAttribute('transform')];
  const places = () => JSON.stringify(shapes().map(place));
  const found = [];
  const frame = () => {
    if (drawing.textContent.includes('diverted')) found.push(places());
    if (found.length === 12) resolve(new Set(found).size);
    else requestAnimationFrame(frame);
  };
  frame();
})"""


def test_tiles_do_not_move(console: Console, flights: ServedTopic) -> None:
    """They are where they belong at once: between two places they would lie one over the other."""
    flights.write(*many())
    drawing = console.chart(
        flights.name,
        "sum of gate by carrier and status",
        chart="treemap",
        by="/carrier",
        across="/status",
        value="/gate",
    )
    expect(drawing.locator("text", has_text=re.compile("^landed")).first).to_be_attached()
    drawing.evaluate(f"drawing => {{ window.seen = ({FRAMES})(drawing); }}")
    flights.write(flight("HA", 1000, "diverted", gate=3000))
    assert console.page.evaluate("window.seen") == 1


MOMENTS = """() => {
  const found = [];
  const numbers = (nodes) => [...nodes].map((node) => Number(node.textContent.replaceAll(",", "")));
  const look = () => {
    const [rows] = numbers(document.querySelectorAll("[data-count=rows] strong"));
    const whole = [...document.querySelectorAll(".facets ul")].filter((list) => !list.querySelector("li.muted"));
    const lists = whole.map((list) => numbers(list.querySelectorAll(".number")));
    const caption = document.querySelector("figcaption .of")?.textContent ?? "";
    const [, said] = /([\\d,]+) records? as of/.exec(caption) ?? [];
    const drawn = numbers(document.querySelectorAll(".plain td.number"));
    if (!said && !lists.length) return;
    const sums = lists.map((list) => list.reduce((sum, number) => sum + number, 0));
    if (said) sums.push(Number(said.replaceAll(",", "")), drawn.reduce((sum, number) => sum + number, 0));
    found.push([rows, ...sums]);
  };
  window.moments = found;
  window.watch = new MutationObserver(look);
  watch.observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
}"""


def watched(console: Console, topic: ServedTopic) -> list[list[int]]:
    """Write record by record, and return the numbers that were seen beside each other at each change of the page."""
    console.page.evaluate(MOMENTS)
    for number in range(40):
        topic.write(flight("DL", 100 + number, STATES[number % 4], origin=ORIGINS[number % 3]))
    console.rows(43)
    found: list[list[int]] = console.page.evaluate("(watch.disconnect(), moments)")
    return found


def test_a_chart_is_of_the_moment_that_it_names(console: Console, flights: ServedTopic) -> None:
    """The number of rows in the line above is that of the figures, though more records may have come since."""
    console.chart(flights.name, "records by status", by="/status")
    expect(console.page.locator("figcaption .of")).to_have_text(
        re.compile(r"^3 records as of \d\d:\d\d:\d\d UTC$")
    )
    expect(console.figures().get_by_role("row")).to_have_count(3)
    found = watched(console, flights)
    assert len({tuple(one) for one in found}) > 1
    assert all(len({*one}) == 1 for one in found), found


def test_counts_are_of_the_rows_next_to_them(console: Console, flights: ServedTopic) -> None:
    """They are counted of the rows that are drawn, and not by the service at a moment of its own."""
    console.page.set_viewport_size({"width": 1280, "height": 800})
    console.grid(flights.name)
    if console.button("Counts").get_attribute("aria-pressed") == "false":
        console.button("Counts").click()
    status = console.page.get_by_role("list", name="values of /status").get_by_role("button")
    expect(status).to_have_text(["late 2", "landed 1"])
    found = watched(console, flights)
    assert len({tuple(one) for one in found}) > 1
    assert all(len({*one}) == 1 for one in found), found


def test_counts_of_the_service_say_when_they_were_made(console: Console, flights: ServedTopic) -> None:
    """Where the browser has some of the records only, the service counts all of them."""
    console.grid(flights.name, limit="1")
    if console.button("Counts").get_attribute("aria-pressed") == "false":
        console.button("Counts").click()
    console.page.get_by_label("Count by").select_option("/status")
    of = console.page.locator(".facets .of")
    expect(of.first).to_have_text(re.compile(r"^around \d\d:\d\d:\d\d UTC$"))
    expect(console.page.locator(".standing")).to_contain_text(re.compile(r"counted at \d\d:\d\d:\d\d UTC"))
