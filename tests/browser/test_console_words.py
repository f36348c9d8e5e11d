"""The words of the protocol in the console: each has one meaning, which mouse, keyboard and screen reader come to."""

import pytest
from playwright.sync_api import expect

from tests.browser.seen import Console
from tests.integration.served import ServedTopic

pytestmark = pytest.mark.needs("chromium")

BELOW = "word => getComputedStyle(word, '::after').content"


def test_a_word_is_explained(console: Console, flights: ServedTopic) -> None:
    """Under the mouse, to a screen reader and, below the page, while it has the focus."""
    page = console.page
    console.go(f"topic/{flights.name}")
    words = page.locator("abbr.term")
    expect(words.filter(has_text="Offsets kept")).to_be_visible()
    for text, meaning in (
        ("Key", "tell a record from all others"),
        ("Position", "in the answers"),
        ("Offsets kept", "at most so many messages"),
        ("Cleanup", "compacts"),
    ):
        word = words.get_by_text(text, exact=True)
        title = word.get_attribute("title") or ""
        assert meaning in title
        assert word.evaluate(BELOW) == "none"
        word.focus()
        assert word.evaluate(BELOW) == f'"{title}"'


def test_each_key_has_one_name(console: Console, flights: ServedTopic) -> None:
    """A record has a SOW key, a message a Kafka key, and what the keyboard has are shortcuts."""
    page = console.page
    console.grid(flights.name)
    console.cells("UA").click()
    panel = page.get_by_role("complementary")
    expect(panel.locator(".keys")).to_contain_text("SOW key")
    console.go(f"topic/{flights.name}", tail="log")
    expect(page.get_by_label("Kafka key")).to_be_visible()
    expect(page.locator(".message .when").first).to_contain_text("Kafka key")
    console.button("Changes", exact=True).click()
    expect(page.get_by_label("SOW key")).to_be_visible()
    expect(page.locator(".message .when").first).to_contain_text("SOW key")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()
    page.keyboard.press("Escape")


def test_words_of_folded_tables_come_in_sight_with_the_focus(console: Console, flights: ServedTopic) -> None:
    """On a phone, the head of the list of topics is not seen until the keyboard is in it."""
    page = console.page
    page.set_viewport_size({"width": 390, "height": 844})
    console.go("topics")
    expect(console.topic(flights.name)).to_be_visible()
    word = page.locator("thead abbr.term", has_text="Dead letters")
    height = "word => word.closest('thead').getBoundingClientRect().height"
    assert word.evaluate(height) <= 1
    word.focus()
    assert word.evaluate(height) > 10


def test_words_of_folded_tables_are_explained_by_a_tap(console: Console, flights: ServedTopic) -> None:
    """On a phone, on what the head explains elsewhere; all words are in the help, too."""
    page = console.page
    page.set_viewport_size({"width": 390, "height": 844})
    meaning = "Input that could not be applied, as Kafka keeps it"
    for view, word in (("topics", "Dead letters"), (f"topic/{flights.name}", "Cleanup")):
        console.go(view)
        cell = page.locator(f"td[data-label='{word}']").first
        cell.click(position={"x": 4, "y": 4})
        assert cell.evaluate(BELOW) == f'"{cell.get_attribute("data-meaning")}"'
        page.set_viewport_size({"width": 1280, "height": 800})
        assert cell.evaluate(BELOW) == "none"
        page.set_viewport_size({"width": 390, "height": 844})
    console.button("Help").click()
    page.get_by_text("What the words mean").click()
    expect(page.get_by_role("definition").filter(has_text=meaning)).to_be_visible()
    page.keyboard.press("Escape")
