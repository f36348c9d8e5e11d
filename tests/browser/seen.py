"""A page of the console in a real browser, and what is seen there."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Route, expect, sync_playwright

from tests import tools

LIVE = "sowline_subscriptions_live"
"""The service's number of subscriptions."""

COLORS: tuple[Literal["light", "dark"], ...] = ("light", "dark")

EXECUTABLE = next(filter(None, map(shutil.which, tools.CHROMIUM)), None)
SECONDS_MAX = 60

expect.set_options(timeout=SECONDS_MAX * 1000)


@contextmanager
def browser() -> Iterator[Browser]:
    """Lend Debian's Chromium."""
    with sync_playwright() as playwright:
        begun = playwright.chromium.launch(
            executable_path=EXECUTABLE, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield begun
        begun.close()


@contextmanager
def page_of(chromium: Browser) -> Iterator[Page]:
    """Lend a page; whatever it complains of fails the test."""
    complaints: list[str] = []
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(SECONDS_MAX * 1000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None
        )
        yield page
    assert complaints == []


class Console:
    """One page, which may ask nobody but the query service; what goes wrong in it is kept in `complaints`."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._url = url
        page.set_default_timeout(SECONDS_MAX * 1000)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error.stack or error}"))
        self._guard()

    def _guard(self) -> None:
        own = urlsplit(self._url).netloc
        self.page.route(lambda asked: urlsplit(asked).netloc != own, self._beyond)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")
            # A test that fails for another reason shows them as well.
            print(self.complaints[-1])

    def _beyond(self, route: Route) -> None:
        if urlsplit(route.request.url).scheme in ("http", "https", "ws", "wss"):
            self.complaints.append(f"asked {route.request.url}")
            route.abort()
        else:
            route.continue_()

    @contextmanager
    def changed(self, url: re.Pattern[str], change: Callable[[Any], None]) -> Iterator[None]:
        """Answers of the service to requests for `url` reach the page after `change` was called with them."""

        def answer(asked: Route) -> None:
            response = asked.fetch()
            found = response.json()
            change(found)
            asked.fulfill(response=response, json=found)

        self.page.route(url, answer)
        try:
            yield
        finally:
            # The page asks again and again: an answer that isn't waited for fails when the page is closed.
            self.page.unroute_all(behavior="wait")
            self._guard()

    def go(self, view: str, **given: str) -> None:
        """Go to a view; another one is left, so that nothing of what it showed stays."""
        query = f"?{urlencode(given)}" if given else ""
        if not self.page.url.startswith(self._url):
            self.page.goto(f"{self._url}/console/#/nowhere")
        self.page.evaluate("location.hash = '#/nowhere'")
        expect(self.page.get_by_role("alert")).to_contain_text("nothing at this address")
        self.page.evaluate("place => { location.hash = place }", f"#/{quote(view)}{query}")

    def leave(self) -> None:
        """Leave the console: it is loaded again when it is opened then."""
        self.page.goto("about:blank")

    def enter(self) -> None:
        """Load the console as somebody does who knows only the service's address."""
        self.leave()
        self.page.goto(f"{self._url}/")

    def grid(self, topic: str, **given: str) -> None:
        """Load the grid of a topic, and wait until it is live and drawn."""
        self.go(f"grid/{topic}", **given)
        expect(self.page.locator("perspective-viewer-datagrid")).to_be_visible()
        self.wait_live()

    def chart(self, topic: str, title: str, **given: str) -> Locator:
        """Open a chart of a topic, and wait until it is drawn; returns the drawing."""
        self.go(f"grid/{topic}", show="chart", **given)
        return self.drawing(title)

    def drawing(self, title: str) -> Locator:
        """What is drawn under this title."""
        expect(self.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        drawing = self.page.locator(".drawing")
        expect(drawing.locator("svg, canvas").first).to_be_visible()
        return drawing

    def figures(self) -> Locator:
        """The figures of the chart, as a table."""
        button = self.button("Figures")
        if button.get_attribute("aria-pressed") == "false":
            button.click()
        return self.page.get_by_role("region", name="the figures of the chart")

    def wait_live(self) -> None:
        """Wait until the grid shows all records in their order."""
        expect(self.page.locator(".standing .chip")).to_have_text("live")

    def rows(self, count: int) -> None:
        """Wait until there are so many rows."""
        expect(self.page.locator("[data-count=rows] strong")).to_have_text(f"{count:,}")

    def cells(self, text: str) -> Locator:
        """The cells of the grid with this text, and no other."""
        exactly = re.compile(rf"^\s*{re.escape(text)}\s*$")
        return self.page.locator("perspective-viewer regular-table td", has_text=exactly)

    def topic(self, name: str) -> Locator:
        """The line of a topic in the list of topics."""
        link = self.page.get_by_role("link", name=name, exact=True)
        return self.page.get_by_role("row").filter(has=link)

    def more(self) -> Locator:
        """The menu of a grid, open."""
        menu = self.page.locator("details.menu")
        if menu.get_attribute("open") is None:
            menu.locator("summary").click()
        return menu

    def button(self, name: str, **more: Any) -> Locator:
        """A button by what it says."""
        return self.page.get_by_role("button", name=name, **more)


CONTRASTS = """(root) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const channels = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].map((value) => value / 255);
  };
  const over = ([...front], back, share) => back.map((value, at) => front[at] * share + value * (1 - share));
  const light = (color) => color.map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const above = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host;
  const groundOf = (node) => {
    if (!node) return [1, 1, 1];
    const [red, green, blue, alpha] = channels(getComputedStyle(node).backgroundColor);
    return alpha === 1 ? [red, green, blue] : over([red, green, blue], groundOf(above(node)), alpha);
  };
  const opacityOf = (node) => (node ? Number(getComputedStyle(node).opacity) * opacityOf(above(node)) : 1);
  const contrastOf = (node) => {
    const [red, green, blue, alpha] = channels(getComputedStyle(node).color);
    const ground = groundOf(node);
    const [one, other] = [over([red, green, blue], ground, alpha * opacityOf(node)), ground].map(light);
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  };
  const found = {};
  const look = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const parent = node.parentElement;
      const text = node.textContent.trim();
      const isSeen = parent?.checkVisibility({ visibilityProperty: true });
      if (text && isSeen && !parent.closest(":disabled, style, option")) {
        found[text] = Math.min(found[text] ?? Infinity, contrastOf(parent));
      }
    }
    for (const child of [...(node.shadowRoot?.childNodes ?? []), ...node.childNodes]) look(child);
  };
  look(root);
  return found;
}"""
"""The contrasts of the texts below a node, by the texts, also in shadow roots: opacities are in them."""


def check_in_all_looks(page: Page) -> None:
    """Look for what axe knows to be in the way; colors follow the system at once."""
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        for colors in COLORS:
            page.emulate_media(color_scheme=colors, reduced_motion="reduce")
            expect(page.locator("html")).to_have_attribute("data-theme", colors)
            if (viewer := page.locator("perspective-viewer")).count():
                expect(viewer).to_have_attribute("theme", f"Pro {colors.title()}")
                # The viewer has its new theme before it has drawn its cells in it.
                viewer.evaluate("viewer => viewer.flush()")
                expect(viewer.locator("td[data-changed]")).to_have_count(0)
            found = Axe().run(page, options={"resultTypes": ["violations"]})
            assert [(one["id"], one["nodes"]) for one in found.response["violations"]] == [], (width, colors)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
