"""Two parts of the console that show the same thing agree."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import flight
from tests.browser.seen import Console
from tests.integration.served import Served, ServedTopic
from tests.integration.wire import Json

pytestmark = pytest.mark.needs("chromium")

TABLE_SEEN = """() => {
  window.seen = [];
  new MutationObserver(() => {
    const table = document.querySelector("[aria-label='the records as a table']");
    if (table) seen.push([table.innerText, document.querySelectorAll(".sheet > .empty").length]);
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""


def test_the_table_never_has_the_rows_of_a_pivot(console: Console, flights: ServedTopic) -> None:
    """Until the records are there, it has no caption and no rows; nothing is written over it."""
    console.go(f"grid/{flights.name}", show="pivot", by="/status")
    expect(console.cells("3")).to_have_count(1)
    console.page.evaluate(TABLE_SEEN)
    console.button("Table", exact=True).click()
    table = console.page.get_by_role("region", name="the records as a table")
    expect(table.locator("caption")).to_have_text(f"All rows of {flights.name}, in the order of the grid")
    expect(table.locator("tbody tr")).to_have_count(3)
    for text, notes in console.page.evaluate("seen"):
        assert "ROW_PATH" not in text
        assert "open" in text
        assert notes == 0


def test_groups_of_the_grid_as_a_table(console: Console, flights: ServedTopic) -> None:
    """Their values stand in a column of their own."""
    console.grid(flights.name, layout='{"group_by":["/status"],"columns":["/flight"]}')
    console.go(f"grid/{flights.name}", show="table", layout='{"group_by":["/status"],"columns":["/flight"]}')
    table = console.page.get_by_role("region", name="the records as a table")
    expect(table.locator("caption")).to_have_text(f"All groups of {flights.name}, in the order of the grid")
    assert sorted(table.get_by_role("rowheader").all_inner_texts()) == ["all", "landed", "late"]


def test_the_counts_are_there_while_their_button_is_pressed(console: Console, flights: ServedTopic) -> None:
    """While a topic has nothing to count, the panel says so."""
    flights.clear()
    console.go("topics")  # storage belongs to a page of the service
    console.page.evaluate("localStorage.setItem('sowline.counts', 'on')")
    console.go(f"grid/{flights.name}")
    button = console.button("Counts", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true")
    panel = console.page.get_by_role("region", name="counts of values")
    expect(panel).to_contain_text("No field divides these records")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(panel).to_have_count(0)
    console.page.evaluate("localStorage.removeItem('sowline.counts')")


def test_what_a_live_client_is_behind_is_about_to_be_sent(console: Console, flights: ServedTopic) -> None:
    """A number of records beside no time at all would contradict itself."""

    def behind(found: Json) -> None:
        for client in found["clients"]:
            for number, one in enumerate(client["subscriptions"]):
                one |= {"behind_positions": 86, "behind_seconds": 0.0 if number == 0 else 0.4}

    with console.changed(re.compile(r"/clients$"), behind):
        console.grid(flights.name)
        console.page.evaluate("location.hash = '#/connections'")
        for cell in console.page.locator("[data-label='Behind for']").all():
            expect(cell).to_have_text(re.compile("^(about to be sent|under 1 s)$"))


def test_without_a_lag_nothing_is_behind(console: Console, served: Served, flights: ServedTopic) -> None:
    """The service measures its seconds at another instant than that of the offsets."""

    def late(found: Json) -> None:
        for topic in found["topics"]:
            for lag in topic["lags"]:
                lag["lag_seconds"] = 0.4

    with console.changed(re.compile(r"/v1/topics$"), late):
        console.go(f"topic/{flights.name}")
        partitions = console.page.get_by_role("region", name="partitions")
        expect(partitions.locator("[data-label=Lag]")).to_have_text(["0", "0"])
        expect(partitions.locator("[data-label='Seconds behind']")).to_have_text(["0.0", "0.0"])
        expect(console.page.locator("section.topic")).to_contain_text("may have different numbers of offsets")


def test_a_change_before_the_first_rate_is_in_the_line(
    console: Console, flights: ServedTopic, served: Served
) -> None:
    """The list was opened after it: where nothing was measured, the line is dotted."""
    flights.write(flight("ZZ", 1, "late"))
    console.enter()
    spark = console.topic(flights.name).locator(".spark")
    expect(spark.locator(".newest")).to_have_count(1)
    expect(spark.locator(".unmeasured")).to_have_count(1)
    # A line at zero would say nothing beside the number.
    unchanged = console.topic(served["news"].name)
    expect(unchanged.locator("[data-label^='Changes/s']")).to_have_text("0")
    expect(unchanged.locator(".spark")).to_have_count(0)


def test_changes_a_second_are_those_of_ten_seconds(console: Console) -> None:
    """A topic and its view agree, though their batches come in other seconds; of fewer seconds, nothing is said.

    Answers come at any pace.
    """
    console.go("topics")
    means = console.page.evaluate(
        """async () => {
          const { Rates, meanOf } = await import("/console/rates.js");
          const mean = (aLook, seconds, newest, everyMs = 1000, gapMs = 0) => {
            const rates = new Rates();
            let at = 0;
            for (let look = 0; at <= 1000 * seconds; look += 1) {
              rates.look(aLook * Math.floor(look / 2), at);
              at += everyMs + (at === 12_000 ? gapMs : 0);
            }
            return meanOf(rates.shown, 1000 * seconds, newest) ?? null;
          };
          return [mean(10, 20), mean(0, 20), mean(0, 3), mean(10, 9), mean(0, 3, 8), mean(0, 3, 11),
                  mean(10, 22, undefined, 1000, 7000), mean(10, 31, undefined, 1000, 7000),
                  ...[1500, 2000, 3400, 3700, 4500].map((ms) => mean(10, 40, undefined, ms) > 0)];
        }"""
    )
    assert means == [5, 0, None, None, None, 0, None, 5, *[True] * 5]


def test_a_line_ends_at_the_last_complete_rate(console: Console) -> None:
    """The next batch is on its way: a line that fell to zero would contradict the number and the state beside it.

    Its period and its dots are explained.
    """
    console.go("topics")
    heading = console.page.locator("thead .changes")
    expect(heading).to_have_text("Changes/s over 10 s line: 60 s", use_inner_text=True)
    ends, titles = console.page.evaluate(
        """async () => {
          const { Spark } = await import("/console/rates.js");
          const { html, render } = await import("/console/lib.js");
          const ends = [];
          const titles = [];
          for (const zeros of [0, 2, 9]) {
            const values = [...Array(20).fill(7), ...Array(zeros).fill(0)];
            const rates = values.map((value, at) => ({ from: at * 1000, at: (at + 1) * 1000, value }));
            const host = document.createElement("div");
            render(html`<${Spark} rates=${rates} now=${1000 * values.length} newest=${zeros} label="" />`, host);
            ends.push(host.querySelector("polyline").getAttribute("points").split(" ").at(-1).split(",").map(Number));
            titles.push(host.querySelector("title").textContent);
          }
          return [ends, titles];
        }"""
    )
    # Two seconds are four of the 120 pixels; what has stopped falls to the ground.
    assert ends == [[120, 2], [116, 2], [120, 22]]
    assert set(titles) == {
        "Changes a second in the last 60 s. Dotted: not measured, because this page was not open."
    }


def test_one_value_does_not_rule_a_scale(console: Console) -> None:
    """The others keep their colors; the scale ends at them, and says that there is more."""
    console.go("topics")
    ends, is_cut, colors = console.page.evaluate(
        """async () => {
          const { scaleOf } = await import("/console/palette.js");
          const values = [...Array.from({ length: 40 }, (_, at) => at), 1000];
          const scale = scaleOf("light", values, true);
          return [scale.ends, scale.isCut, new Set(values.map(scale.of)).size];
        }"""
    )
    assert (ends, is_cut) == ([0, 38], [False, True])
    assert colors >= 38


def test_the_bookmark_is_not_ahead_of_the_rows(console: Console, flights: ServedTopic) -> None:
    """When a bookmark is shown, so are the changes before it: who copies it continues from what was seen."""
    console.grid(flights.name)
    # Bookmarks of what was written before the test may still come: they are none of its changes.
    flights.write(flight("UA", 1, "state before"))
    expect(console.cells("state before")).to_have_count(1)
    console.page.evaluate(
        """() => {
          const mark = document.querySelector(".menu .bookmark code");
          window.ahead = [];
          window.marks = 0;
          new MutationObserver(() => {
            window.marks += 1;
            const grid = document.querySelector("perspective-viewer-datagrid");
            const found = [...grid.shadowRoot.querySelectorAll("td")].map((cell) => cell.textContent.trim());
            if (!found.length) ahead.push("no cells");
            if (window.waited && !found.includes(window.waited)) ahead.push(window.waited);
          }).observe(mark, { characterData: true, childList: true, subtree: true });
        }"""
    )
    for number in range(5):
        state = f"state {number}"
        console.page.evaluate("state => { window.waited = state; }", state)
        flights.write(flight("UA", 1, state))
        expect(console.cells(state)).to_have_count(1)
        console.page.wait_for_function("count => marks > count", arg=number)
    assert console.page.evaluate("ahead") == []
