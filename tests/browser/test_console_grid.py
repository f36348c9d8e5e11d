"""The grid of the console while its records change, what marks it, and how it is arranged."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import flight
from tests.browser.seen import Console
from tests.integration.served import Served, ServedTopic

pytestmark = pytest.mark.needs("chromium")

LOOKS = """async ([looks, marks]) => {
  const table = document.querySelector("perspective-viewer-datagrid").regular_table;
  const found = {looks: 0, marks: 0, wrong: [], unsorted: []};
  while (found.looks < looks || found.marks < marks) {
    await new Promise((done) => setTimeout(done, 5));
    found.looks += 1;
    const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]);
    const texts = rows.map((cells) => cells.map((cell) => cell.textContent));
    const times = texts.map(([, , updated]) => updated);
    if (times.some((time, at) => time > times[at - 1])) found.unsorted.push(times);
    for (const [at, cells] of rows.entries()) {
      if (!cells.some((cell) => cell.hasAttribute("data-open"))) continue;
      found.marks += 1;
      const key = JSON.stringify(texts[at].slice(0, 2));
      if (key !== document.querySelector("aside h2").textContent) found.wrong.push(key);
    }
  }
  return found;
}"""
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
    """Also while the rows move many times a second, and whatever moves: the rows are in the order that the arrow says."""
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
    look = "cell => [getComputedStyle(cell).boxShadow, getComputedStyle(cell).borderTopColor]"
    console.grid(flights.name)
    console.page.mouse.move(0, 0)
    cell = console.cells("landed")
    before = cell.evaluate(look)
    cell.hover()
    assert cell.evaluate(look) == before
    cell.click()
    expect(console.cells("landed")).to_have_attribute("data-open", "")
    assert console.cells("landed").evaluate(look) != before
