"""The grid of the console while its records change, what marks it, and how it is arranged."""

import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import flight
from tests.browser.seen import Console
from tests.integration.served import Served, ServedTopic
from tests.waiting import PAGE_TURN, wait_for

pytestmark = pytest.mark.needs("chromium")

LOOKS = (
    f"async ([looks, marks]) => {{ {PAGE_TURN}"
    """
  const table = document.querySelector("perspective-viewer-datagrid").regular_table;
  const found = {looks: 0, marks: 0, wrong: [], unsorted: []};
  while (found.looks < looks || found.marks < marks) {
    await turn();
    found.looks += 1;
    const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]);
    const texts = rows.map((cells) => cells.map((cell) => cell.textContent));
    // As numbers: a whole second is written without its zeros, and "42Z" is above "42.045Z" as a text.
    const times = texts.map(([, , updated]) => Date.parse(updated.replace(" ", "T")));
    if (times.some((time, at) => time > times[at - 1])) found.unsorted.push(times);
    for (const [at, cells] of rows.entries()) {
      if (!cells.some((cell) => cell.hasAttribute("data-open"))) continue;
      found.marks += 1;
      const key = texts[at].slice(0, 2).join(" · ");
      if (key !== document.querySelector("aside h2").textContent) found.wrong.push(key);
    }
  }
  return found;
}"""
)
"""Looks at the rows many times, and returns what it has seen of marked rows and of the order by `updated`."""


@contextmanager
def many_changes(served: Served, topic: str) -> Iterator[None]:
    """Change 40 flights meanwhile, some 500 times a second."""
    ended = threading.Event()
    publisher = served.system.publisher()

    def change() -> None:
        while not ended.wait(0.02):
            for number in random.choices(range(100, 140), k=10):
                publisher.publish(topic, flight("ZZ", number, random.choice(("late", "landed"))))
            publisher.flush()

    changes = threading.Thread(target=change)
    changes.start()
    try:
        yield
    finally:
        ended.set()
        changes.join()


def test_a_mark_is_that_of_the_open_record(console: Console, flights: ServedTopic, served: Served) -> None:
    """Also while the rows move many times a second. The rows are in the order that the arrow says."""
    flights.write(*(flight("ZZ", number, "late") for number in range(100, 140)))
    console.grid(flights.name)
    with many_changes(served, flights.name):
        console.cells("ZZ").nth(4).click()
        expect(console.page.get_by_role("complementary").get_by_role("heading")).to_contain_text("ZZ")
        seen = console.page.evaluate(LOOKS, [300, 50])
    assert seen["wrong"] == []
    assert seen["unsorted"] == []
    flights.settle()


def test_the_row_below_the_mouse_looks_like_no_open_record(console: Console, flights: ServedTopic) -> None:
    """An outline is the mark of the open record alone."""
    look = "cell => getComputedStyle(cell).boxShadow"
    console.grid(flights.name)
    console.page.mouse.move(0, 0)
    cell = console.cells("landed")
    before = cell.evaluate(look)
    cell.hover()
    assert cell.evaluate(look) == before
    cell.click()
    expect(console.cells("landed")).to_have_attribute("data-open", "")
    assert console.cells("landed").evaluate(look) != before


def test_another_row_below_the_mouse_looks_like_no_open_record(
    console: Console, flights: ServedTopic
) -> None:
    """The row of the open record may have moved away from below the mouse: the one that is there has no tint."""
    tint = "cell => getComputedStyle(cell).backgroundColor"
    console.grid(flights.name)
    cell = console.cells("UA")
    cell.hover()
    hovered = cell.evaluate(tint)
    console.cells("landed").click()
    expect(console.cells("landed")).to_have_attribute("data-open", "")
    cell.hover()
    assert cell.evaluate(tint) != hovered
    console.page.keyboard.press("Escape")
    expect(console.page.locator("td[data-open]")).to_have_count(0)
    assert cell.evaluate(tint) == hovered


def test_the_grid_is_arranged(console: Console, flights: ServedTopic) -> None:
    """Columns, order and groups are chosen in the console's own panel. The address has them, and a saved view."""
    page = console.page
    heads = page.locator("perspective-viewer regular-table thead tr.rt-autosize th")
    rows = page.locator("perspective-viewer regular-table tbody tr")
    console.grid(flights.name)
    expect(page.locator("perspective-viewer #settings_button")).not_to_be_visible()
    console.more().get_by_role("button", name="Columns and order…").click()
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="Columns and order")).to_be_focused()
    for path in ("updated", "/delay/dep", "sow_key"):
        panel.get_by_label(path, exact=True).uncheck()
    panel.get_by_role("button", name="/status further left").click()
    expect(heads).to_have_text(["carrier", "status", "flight"])
    panel.get_by_role("button", name="Sort: remove updated").click()
    panel.get_by_label("Sort by").select_option("/flight")
    expect(rows.first).to_contain_text("UA")
    panel.get_by_label("order of /flight").select_option("desc")
    expect(rows.first).to_contain_text("AA")
    page.wait_for_url("**%2Fflight%22%2C%22desc**")
    page.once("dialog", lambda dialog: dialog.accept("by number"))
    console.more().get_by_label("Saved views").select_option("+")
    panel.get_by_label("Group by").select_option("/status")
    panel.get_by_label("of each group of /flight").select_option("max")
    late = rows.filter(has=page.locator("th", has_text="late"))
    expect(late).to_contain_text("2")
    page.wait_for_url("**group_by**")
    page.reload()
    expect(late).to_contain_text("2")
    console.more().get_by_label("Saved views").select_option("by number")
    expect(heads).to_have_text(["carrier", "status", "flight"])
    expect(rows.first).to_contain_text("AA")
    console.more().get_by_role("button", name="Columns and order…").click()
    panel.get_by_role("button", name="Reset").click()
    expect(heads).to_have_text(["carrier", "flight", "updated", "status", "delay.dep", "SOW key"])
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.locator(".menu > summary")).to_be_focused()


def test_a_pivot_shows_its_values_whole(console: Console, flights: ServedTopic) -> None:
    """Those above the columns, and those before the rows."""
    flights.write(
        flight("UA", 1, "departed after a long wait"), flight("a long name of a carrier", 2, "late")
    )
    console.go(f"grid/{flights.name}", show="pivot", by="/carrier", across="/status")
    clipped = "cell => cell.scrollWidth > cell.clientWidth || cell.firstChild.scrollWidth > cell.clientWidth"
    for text in ("departed after a long wait", "TOTAL", "a long name of a carrier"):
        cells = console.page.locator("perspective-viewer regular-table th", has_text=text)
        cell = cells.filter(visible=True).first
        expect(cell).to_be_visible()
        assert not cell.evaluate(clipped), text


def test_a_pivot_says_once_what_it_measures(console: Console, flights: ServedTopic) -> None:
    """In its caption: a column is called by its value alone, until there is no other field for the columns."""
    flights.write(flight("UA", 1, "late", gate=7), flight("UA", 2, "landed", gate=9))
    heads = console.page.locator("perspective-viewer regular-table thead th").filter(visible=True)
    caption = console.page.locator(".caption")
    shown = {"show": "pivot", "by": "/carrier", "value": "/gate", "aggregate": "avg"}
    console.go(f"grid/{flights.name}", across="/status", **shown)
    expect(caption).to_have_text(re.compile(r"^avg of gate by carrier and status *as of \d\d:\d\d:\d\d UTC$"))
    expect(heads.filter(has_text=re.compile("^(landed|late)$"))).to_have_count(2)
    expect(heads.filter(has_text="gate")).to_have_count(0)
    console.page.get_by_label("Columns").select_option("-")
    expect(heads.filter(has_text="avg of gate")).to_have_count(1)
    expect(heads.filter(has_text=re.compile("^(landed|late)$"))).to_have_count(0)
    expect(caption).to_have_count(0)


def test_a_pivot_that_is_opened_before_the_first_record(console: Console, flights: ServedTopic) -> None:
    """It groups the records as soon as there are some: without them, it has no fields to choose from."""
    flights.clear()
    console.go(f"grid/{flights.name}", show="pivot", by="/carrier", across="/status")
    expect(console.page.get_by_text("The topic has no records yet")).to_be_visible()
    flights.write(flight("UA", 1, "late"), flight("AA", 3, "landed"))
    expect(console.page.locator("perspective-viewer tbody th", has_text="TOTAL")).to_have_count(1)
    expect(console.page.locator(".caption")).to_contain_text("records by carrier and status")


def test_a_new_record_has_values_of_the_kinds_of_its_fields(console: Console, flights: ServedTopic) -> None:
    """A text is proposed where the records have texts, a number where they have numbers, and no time."""
    console.grid(flights.name)
    console.more().get_by_role("button", name="Write…").click()
    dialog = console.page.get_by_role("dialog")
    record = dialog.get_by_label("Record")
    assert json.loads(record.input_value()) == {"carrier": "", "flight": 0}
    dialog.get_by_role("button", name="close", exact=True).click()
    flights.write(flight("2026-11-28T10:00:00Z", 9, "late"))
    console.grid(flights.name, filter="/flight = 9")
    console.more().get_by_role("button", name="Write…").click()
    assert json.loads(record.input_value())["carrier"] == ""


IN_SIGHT = """() => {
  const table = document.querySelector("perspective-viewer-datagrid").regular_table;
  const edge = table.getBoundingClientRect().right;
  const heads = [...table.querySelectorAll("thead tr:last-child th")].filter((head) => (
    head.checkVisibility({ visibilityProperty: true }) && head.getBoundingClientRect().left < edge));
  return heads.map((head) => [head.textContent.trim(), head.getBoundingClientRect().right <= edge + 1]);
}"""
"""The names of the columns that are shown, each with whether it is whole."""


@pytest.mark.parametrize("width", [1280, 390])
def test_columns_are_whole(console: Console, flights: ServedTopic, width: int) -> None:
    """A number of which only some digits are seen looks like another number: its column is not shown, and is counted.

    The names are on one line. Where the column that orders the rows is out of sight, the order is named.
    """
    console.page.set_viewport_size({"width": width, "height": 800})
    more = {f"number{index}": 1234567 for index in range(20)}
    flights.write(flight("UA", 1, "late", **more))
    console.grid(flights.name)
    beyond = console.page.locator(".beyond")
    expect(beyond).to_contain_text(re.compile(r"\+ \d+ columns →"))

    def are_whole_and_counted() -> bool:
        shown, others = console.page.evaluate(IN_SIGHT), beyond.inner_text()
        counted = re.search(r"\+ (\d+) columns", others)
        is_order_named = "order: updated, the newest first" in others
        has_order = "updated" in {name.split()[0] for name, _ in shown}
        # Two of the key, the status, the delay, twenty numbers, the time, and the SOW key.
        is_sum = counted is not None and len(shown) + int(counted[1]) == 26
        return is_sum and is_order_named != has_order and all(is_whole for _, is_whole in shown)

    # A wide column is hidden after it was drawn once.
    wait_for(are_whole_and_counted, "whole columns, and the number of the others")
    # The last one can be reached. The viewer knows how wide it is once it was drawn.
    table = console.page.locator("perspective-viewer regular-table")

    def is_at_end() -> bool:
        table.evaluate("table => { table.scrollLeft = table.scrollWidth; }")
        is_named_before = re.search(r"← \d+ columns\s*$", beyond.inner_text()) is not None
        # The same step has scrolled: what is drawn may still be the previous view.
        return is_named_before and console.page.evaluate(IN_SIGHT)[-1][0] == "SOW key"

    wait_for(is_at_end, "the last column")
    table.evaluate("table => { table.scrollLeft = 0; }")
    expect(beyond).to_contain_text("→")
    middles = console.page.locator("perspective-viewer regular-table thead").evaluate("""head =>
      [...head.querySelectorAll("th.psp-header-leaf > span:first-child")].map((name) => {
        const text = document.createRange();
        text.selectNodeContents(name);
        const { top, bottom } = text.getBoundingClientRect();
        return Math.round((top + bottom) / 2);
      })""")
    assert len({*middles}) == 1, middles
    console.page.set_viewport_size({"width": 4000, "height": 800})
    expect(beyond).to_have_count(0)
    console.page.set_viewport_size({"width": 1280, "height": 800})


def test_the_theme_changes_at_once(console: Console, flights: ServedTopic) -> None:
    """Also below a button's text: for a moment, it stood on the ground of the other theme."""
    console.grid(flights.name)
    grounds = console.page.evaluate("""() => {
      const root = document.documentElement, before = root.dataset.theme;
      root.dataset.theme = before === "dark" ? "light" : "dark";
      const groundOf = (name) => getComputedStyle(document.querySelector(name)).backgroundColor;
      const found = [".options", "#filter"].map(groundOf);
      root.dataset.theme = before;
      return found;
    }""")
    assert grounds[0] == grounds[1]


def test_a_phone(console: Console, flights: ServedTopic) -> None:
    """The bar is one line, the grid has most of the screen, and a record lies over all of it until Escape."""
    page = console.page
    page.set_viewport_size({"width": 390, "height": 844})
    console.grid(flights.name)
    assert page.locator("header.bar").bounding_box()["height"] <= 48  # type: ignore[index]
    tabs, menu = page.locator(".switch.tabs").bounding_box(), page.locator(".menu").bounding_box()
    assert tabs is not None
    assert menu is not None
    assert abs(tabs["y"] - menu["y"]) < 4
    viewer = page.locator(".viewer").bounding_box()
    assert viewer is not None
    assert viewer["y"] < 160
    assert viewer["height"] > 670
    console.cells("B6").click()
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading")).to_be_focused()
    assert panel.bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 844}
    page.keyboard.press("Tab")
    expect(panel.get_by_role("button", name="close the record")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert not page.evaluate("Boolean(document.activeElement.closest('.bar, .title, .ask, .sheet'))")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(console.cells("B6")).to_be_visible()


def test_a_phone_has_its_controls_behind_a_button(console: Console, flights: ServedTopic) -> None:
    """What is shown is said beside it; a filter that is refused needs no button to be seen."""
    page = console.page
    page.set_viewport_size({"width": 390, "height": 844})
    console.grid(flights.name, filter="/carrier = 'UA'")
    button, typed = console.button("Filter", exact=True), page.get_by_label("Filter", exact=True)
    expect(page.locator(".applied")).to_have_text("/carrier = 'UA'")
    expect(typed).to_be_hidden()
    button.click()
    expect(typed).to_be_visible()
    expect(page.locator(".applied")).to_have_count(0)
    button.click()
    expect(typed).to_be_hidden()
    console.chart(flights.name, "records by status", by="/status")
    by = page.get_by_role("combobox", name="By", exact=True)
    expect(by).to_be_hidden()
    console.button("Set up", exact=True).click()
    expect(by).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    console.grid(flights.name)
    expect(button).not_to_have_class(re.compile(r"\bset\b"))
    refused = "/carrier = 'UA' AND /status IS 'late'"
    button.click()
    typed.fill(refused)
    typed.press("Enter")
    expect(page.locator(".mistake")).to_contain_text("bad filter")
    expect(page.locator(".standing")).to_contain_text("showing: no filter")
    expect(button).not_to_have_class(re.compile(r"\bset\b"))
    assert typed.evaluate("field => field.scrollWidth <= field.clientWidth"), "the filter is seen whole"
    console.go(f"grid/{flights.name}", filter="/carrier = 'UA'")
    expect(button).to_have_class(re.compile(r"\bset\b"))


def test_a_phone_shows_fields_first(console: Console, flights: ServedTopic) -> None:
    """The time of the last change, which is long, comes after them; what completes a filter has room."""
    page = console.page
    page.set_viewport_size({"width": 390, "height": 844})
    console.grid(flights.name)
    heads = page.locator("perspective-viewer regular-table thead tr.rt-autosize th")
    expect(heads.nth(2)).to_have_text("status")
    expect(heads.filter(has_text="updated")).to_have_count(1)
    console.button("Filter", exact=True).click()
    page.get_by_label("Filter", exact=True).fill("/status = 'l")
    value = page.get_by_role("listbox", name="completions").get_by_role("option").first.locator("code")
    expect(value).to_have_text("'late'")
    assert value.evaluate("node => node.scrollWidth <= node.clientWidth && node.clientWidth > 30")


@pytest.mark.parametrize("width", [1440, 390])
def test_what_is_filtered_by_is_seen(console: Console, flights: ServedTopic, width: int) -> None:
    """Its columns are among the first ones, on a phone before the key; a text that looks like a path is none."""
    page = console.page
    page.set_viewport_size({"width": width, "height": 844})
    wide = {f"field_{number}": "a long text without a meaning" for number in range(12)}
    flights.write(flight("UA", 1, "late", **wide, origin="JFK", delay={"dep": 31}, gate="/origin"))
    heads = page.locator("perspective-viewer regular-table thead tr.rt-autosize th")
    filtered = "/origin = 'JFK' AND (/delay/dep > 30 OR /gate = '/field_3')"
    console.grid(flights.name, filter=filtered)
    first = ["origin", "delay.dep", "gate"]
    expect(heads.nth(2)).to_have_text("gate" if width == 390 else "origin")
    shown = [text.strip() for text in heads.all_inner_texts()]
    keys = ["carrier", "flight"]
    assert shown[:5] == (first + keys if width == 390 else keys + first)
    box = heads.nth(4).bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= width
    console.grid(flights.name)
    expect(heads.nth(0)).to_have_text("carrier")
    expect(heads.nth(2)).to_have_text("status" if width == 390 else "updated")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_typed_filter_is_not_yet_applied(console: Console, flights: ServedTopic, width: int) -> None:
    """Beside it stands that Enter applies it: the state and the rows are those of the filter before."""
    page = console.page
    page.set_viewport_size({"width": width, "height": 844})
    console.grid(flights.name)
    if width < 400:
        console.button("Filter", exact=True).click()
    typed, hint = page.get_by_label("Filter", exact=True), page.locator(".unapplied")
    expect(hint).to_have_count(0)
    typed.fill("/carrier = 'UA' ")
    expect(hint).to_have_text("press Enter to apply")
    expect(typed).to_have_accessible_description("press Enter to apply")
    box, room = hint.bounding_box(), typed.bounding_box()
    assert box is not None
    assert room is not None
    assert room["y"] < box["y"] < room["y"] + room["height"] + 8
    assert width > 400 or box["y"] >= room["y"] + room["height"]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    typed.press("Escape")
    typed.press("Enter")
    expect(hint).to_have_count(0)
    typed.fill("")
    expect(hint).to_have_count(1)
    typed.press("Enter")
    expect(hint).to_have_count(0)


def test_a_refused_filter_is_not_covered(console: Console, flights: ServedTopic) -> None:
    """The list of what completes it closes when it is sent, so what the service says to it can be read."""
    page = console.page
    console.grid(flights.name)
    page.get_by_label("Filter", exact=True).fill("/status = ")
    completions = page.get_by_role("listbox", name="completions")
    expect(completions).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".mistake")).to_contain_text("bad filter")
    expect(completions).to_be_hidden()


def test_an_open_record_has_one_name(console: Console, flights: ServedTopic) -> None:
    """Where the page says where it is, the record is called as in its panel. No row moves as it opens."""
    console.page.set_viewport_size({"width": 1440, "height": 900})
    console.grid(flights.name)
    before = console.page.locator(".viewer").bounding_box()
    assert before is not None
    console.cells("B6").click()
    expect(console.page.locator("aside h2")).to_have_text("B6 · 2")
    expect(console.page.locator(".breadcrumb [aria-current]")).to_have_text("B6 · 2")
    after = console.page.locator(".viewer").bounding_box()
    assert after is not None
    assert after["y"] == before["y"]
    tools = console.page.locator("aside .switch :is(button, select)")
    # One of them comes with the record's whole text, which is read after the panel has opened.
    expect(tools).to_have_count(5)
    tops = tools.evaluate_all("tools => tools.map(tool => tool.getBoundingClientRect().top)")
    assert len(tops) == 5
    assert max(tops) - min(tops) < 10


def test_groups_of_times_are_written_as_times_are(console: Console, flights: ServedTopic) -> None:
    """Whatever the browser's languages."""
    flights.write(*(flight("UA", at, "late", since=f"2026-11-0{at}T00:00:07Z") for at in (1, 2)))
    console.go(f"grid/{flights.name}", show="pivot", by="/since", across="/status")
    for text in ("2026-11-01 00:00:07Z", "2026-11-02 00:00:07Z"):
        expect(console.page.locator("perspective-viewer tbody th", has_text=text)).to_have_count(1)
