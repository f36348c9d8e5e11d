"""`python -m examples.flights.screens DIRECTORY [NAME …]`: the screens that a reader judges before a release.

They show the running demo's landing page and its console, from a telephone's width to that of a large screen, light
and dark, in each state that somebody may meet. A name may have wildcards: `'landing-*'`, `'*-390-*'`. What is wanted
and could not be shown is said at the end; the exit code is 1 then.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from signal import SIGINT
from typing import Literal, NamedTuple

import click
from confluent_kafka import Producer
from playwright.sync_api import Error, Page

from examples.flights.browser import Demo, browsing, demo
from examples.flights.disturb import PARTS

HEIGHTS = {390: 844, 1024: 768, 1440: 900, 1920: 1080}
OUTAGES_MAX = 4
"""How often a part is killed: an outage may be too short for all of its screens."""
SETTLE_S = 0.7
"""How long a page has to arrange itself after its width or its colors changed."""
RATES_S = 12
"""Seconds after which the console knows the rates of the last ten seconds, and a page stands still at the end."""
FED_S = 30
"""Seconds after which the charts and the views have something to show."""
STEP_MS = 240_000
WHOLE = ("landing", "topics", "topic")
"""What is shown down to its end, however long it is."""


class Look(NamedTuple):
    """How a screen is seen."""

    width: int
    scheme: Literal["light", "dark"]


class View(NamedTuple):
    """A part of the console: its address, its looks, a sign that it is shown, and what is to be done for that."""

    fragment: str
    looks: Sequence[Look]
    sign: str
    prepare: Callable[[Page], None] = lambda _: None


def _open_record(page: Page) -> None:
    page.locator(CELLS).first.click(force=True)


def _open_timeline(page: Page) -> None:
    _open_record(page)
    page.get_by_role("complementary").get_by_role("button", name="Timeline").click()


def _open_menu(page: Page) -> None:
    page.locator("details.menu summary").click()


def _open_dialog(page: Page) -> None:
    _open_menu(page)
    page.get_by_role("button", name="Write…").click()


def _open_columns(page: Page) -> None:
    _open_menu(page)
    page.get_by_role("button", name="Columns and order…").click()


def _ask_wrongly(page: Page) -> None:
    at_small_widths = page.get_by_role("button", name="Filter", exact=True)
    if at_small_widths.is_visible():
        at_small_widths.click()
    page.get_by_label("Filter", exact=True).fill("/origin = 'JFK' AND /status IS 'late'")
    page.keyboard.press("Enter")


LIGHT = (Look(390, "light"), Look(1440, "light"))
BOTH = (*LIGHT, Look(390, "dark"), Look(1440, "dark"))
USUAL = (*BOTH, Look(1024, "light"))
ALL = (*USUAL, Look(1920, "light"))
RUNS = "body:is([data-phase=live], [data-phase=quiet])"
DOWN = "body[data-phase=down]"
VERDICT = f"{RUNS} #events li:first-child.ok"
CELLS = "perspective-viewer regular-table tbody td"
DRAWN = ".drawing svg, .drawing canvas"
CHART = "#/grid/flights?show=chart"
LANDED = "#/grid/flights?filter=%2Fstatus+%3D+%27landed%27"
VIEWS: Mapping[str, View] = {
    "topics": View("#/topics", ALL, "[data-label=Records]", lambda _: time.sleep(RATES_S)),
    "grid": View("#/grid/flights", ALL, CELLS, lambda _: time.sleep(RATES_S)),
    "filter": View("#/grid/flights?filter=%2Forigin+%3D+%27JFK%27+AND+%2Fdep_delay_min+%3E+30", LIGHT, CELLS),
    "rejected": View("#/grid/flights", LIGHT, ".mistake", _ask_wrongly),
    "columns": View("#/grid/flights", LIGHT, "aside.layout select", _open_columns),
    "view": View("#/grid/delays", LIGHT, "details.menu[open] button", _open_menu),
    "record": View(LANDED, LIGHT, "aside .json", _open_record),
    "timeline": View(LANDED, USUAL, "aside .write", _open_timeline),
    "treemap": View(f"{CHART}&chart=treemap&by=%2Fcarrier&across=%2Fstatus", BOTH, DRAWN),
    "bars": View(f"{CHART}&chart=bars&by=%2Fcarrier&across=%2Forigin", LIGHT, DRAWN),
    "lines": View(f"{CHART}&chart=time&time=%2Ftime_hour&width=h&across=%2Forigin", LIGHT, DRAWN),
    "pivot": View("#/grid/flights?show=pivot&by=%2Fcarrier&across=%2Fstatus", LIGHT, CELLS),
    "topic": View("#/topic/flights", USUAL, "[aria-labelledby] tbody tr", lambda _: time.sleep(RATES_S)),
    "letters": View("#/topic/flights?tail=dead", LIGHT, ".message"),
    "write": View("#/grid/flights", BOTH, "dialog[open] footer button:enabled", _open_dialog),
}
PLAN: Mapping[tuple[str, str], Sequence[Look]] = {
    ("landing", "healthy"): ALL,
    **{(part, "healthy"): view.looks for part, view in VIEWS.items()},
    **{("landing", f"{part}-dead"): USUAL if part == "materializer" else LIGHT for part in PARTS},
    ("landing", "recovered"): USUAL,
    ("landing", "ended"): USUAL,
    ("grid", "away"): BOTH,
    ("topics", "away"): LIGHT,
}
"""The looks of each part in each state."""


def name_of(part: str, look: Look, state: str) -> str:
    """Return the name of a screen."""
    return f"{part}-{look.width}-{look.scheme}-{state}"


def chosen(patterns: Sequence[str]) -> list[str]:
    """Return the names of the screens that any of the patterns matches, or of all."""
    names = [name_of(part, look, state) for (part, state), looks in PLAN.items() for look in looks]
    return [name for name in names if not patterns or any(fnmatch(name, pattern) for pattern in patterns)]


class Screens:
    """The screens that are wanted; `names` are those that are not yet taken."""

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        self._directory = directory
        self.names = list(names)

    def left(self, part: str, state: str) -> list[Look]:
        """Return the looks that are wanted of a part in a state, and not yet taken."""
        return [look for look in PLAN[part, state] if name_of(part, look, state) in self.names]

    def take(self, page: Page, part: str, state: str, sign: str, width: int | None = None) -> None:
        """Take what is left of a part in a state, of one width or all, where its sign is seen before and after."""
        is_shown = page.locator(sign).first.is_visible
        for look in self.left(part, state):
            if width in (None, look.width):
                _show(page, look)
                was = is_shown()
                picture = page.screenshot(full_page=part in WHOLE, animations="disabled")
                if was and is_shown():
                    name = name_of(part, look, state)
                    (self._directory / f"{name}.png").write_bytes(picture)
                    self.names.remove(name)
                    click.echo(name)


@contextmanager
def _noted(step: str) -> Iterator[None]:
    """Say why a step failed, and go on with the next one."""
    try:
        yield
    except Error as problem:
        click.echo(f"{step}: {problem.message}")


def _show(page: Page, look: Look) -> None:
    page.set_viewport_size({"width": look.width, "height": HEIGHTS[look.width]})
    page.emulate_media(color_scheme=look.scheme, reduced_motion="reduce")
    time.sleep(SETTLE_S)


def _kill(page: Page, part: str) -> None:
    page.locator(f"{RUNS} [data-part]:enabled").first.wait_for()
    page.locator(f"[data-part={part}]").click()
    page.mouse.move(0, 0)
    page.locator(DOWN).wait_for()


def _outage(screens: Screens, page: Page, part: str) -> None:
    """Kill a part until all screens of it are taken."""
    for _ in range(OUTAGES_MAX):
        if screens.left("landing", f"{part}-dead"):
            _kill(page, part)
            screens.take(page, "landing", f"{part}-dead", DOWN)


def _recovered(screens: Screens, page: Page) -> None:
    if screens.left("landing", "recovered"):
        if not page.locator("#events li").count():
            _kill(page, "materializer")
        page.locator(VERDICT).wait_for()
        screens.take(page, "landing", "recovered", VERDICT)


def _open(page: Page, url: str, part: str) -> None:
    """Load a part of the console again, and wait until it is shown."""
    view = VIEWS[part]
    page.goto("about:blank")
    page.goto(f"{url}/console/{view.fragment}")
    if view.fragment.startswith("#/grid"):
        page.locator(".standing .chip.ok").wait_for()
        page.locator(DRAWN if view.sign == DRAWN else CELLS).first.wait_for()
    view.prepare(page)
    page.locator(view.sign).first.wait_for()


def _console(screens: Screens, page: Page, running: Demo) -> None:
    """Take the parts of the console, each loaded at each of its widths."""
    letter = Producer({"bootstrap.servers": running.kafka})
    letter.produce("flights", b'{"carrier": "WN", "flight": 1.5, "status": "late"}')
    letter.flush()
    for part, view in VIEWS.items():
        for look in {look.width: look for look in reversed(screens.left(part, "healthy"))}.values():
            with _noted(f"{part} at {look.width}"):
                _show(page, look)
                _open(page, running.url, part)
                screens.take(page, part, "healthy", view.sign, look.width)


def _end(screens: Screens, landing: Page, others: Sequence[tuple[str, Look, Page]], running: Demo) -> None:
    """End the demo as Ctrl-C does, while its pages stay open."""
    for part, look, page in others:
        _show(page, look)
        _open(page, running.url, part)
    running.process.send_signal(SIGINT)
    running.process.wait()
    time.sleep(RATES_S)
    screens.take(landing, "landing", "ended", "body[data-phase=ended]")
    for part, look, page in others:
        screens.take(page, part, "away", ".bar .chip", look.width)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1)
def main(directory: Path, names: Sequence[str]) -> None:
    """Take the screens of the demo, all or those with these names, as PNG files in a directory."""
    if unknown := [name for name in names if not chosen([name])]:
        raise click.BadParameter(f"expected names such as {chosen([])[0]}; got {', '.join(unknown)}")
    directory.mkdir(parents=True, exist_ok=True)
    screens = Screens(directory, chosen(names))
    with demo() as running, browsing(1440, HEIGHTS[1440]) as context:
        context.set_default_timeout(STEP_MS)
        landing = context.new_page()
        landing.goto(running.link)
        with _noted("healthy"):
            landing.locator("#board .late tr:nth-child(8)").wait_for()
            time.sleep(FED_S)
            landing.locator("body[data-phase=live]").wait_for()
            screens.take(landing, "landing", "healthy", RUNS)
        _console(screens, context.new_page(), running)
        for part in PARTS:
            with _noted(f"{part} dead"):
                _outage(screens, landing, part)
        with _noted("recovered"):
            _recovered(screens, landing)
        with _noted("ended"):
            others = [(part, look, context.new_page()) for part in ("grid", "topics") for look in LIGHT]
            _end(screens, landing, others, running)
    for name in screens.names:
        click.echo(f"not taken: {name}")
    sys.exit(bool(screens.names))


if __name__ == "__main__":
    main()
