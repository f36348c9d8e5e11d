"""`make pictures`: the pictures of the README and the docs, taken from the running demo by a browser without windows.

It needs Chromium and Debian's `webp` package. Run it again for a release.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from examples.flights.browser import ROOT, browsing, demo

PICTURES = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1120, 760
FRAME_S = 0.4
SHOWN_S = 10.0
"""How long the animation lasts: what happens between the kill and the verdict is shown faster than it was."""
BEFORE_S, AFTER_S = 1.6, 2.4
"""How much of it shows the system before the kill, and how much the verdict."""
VERDICT_S_MAX = 120.0
SETTLE_S = 30
"""Seconds after which the treemap and the views have something to show."""
DRAWN_S = 12
"""Seconds after which the rates of the last ten seconds are known."""
QUALITY = "55"
BYTES_MAX = 600_000
FULL_ROWS = 8

VIEWS = {
    "console-grid": "#/grid/flights?filter=%2Forigin+%3D+%27JFK%27",
    "console-chart": "#/grid/flights?show=chart&chart=treemap&by=%2Fcarrier&across=%2Fstatus",
    "console-topic": "#/topic/flights",
}
"""Addresses of the console, by the names of their pictures."""


def main() -> None:
    """Start the demo, take all pictures, and end it."""
    PICTURES.mkdir(exist_ok=True)
    with demo() as running, tempfile.TemporaryDirectory() as directory, browsing(WIDTH, HEIGHT) as context:
        page = context.new_page()
        page.goto(running.link)
        time.sleep(SETTLE_S)
        _animation(page, Path(directory))
        for name, fragment in VIEWS.items():
            page.goto(f"{running.url}/console/{fragment}")
            time.sleep(DRAWN_S)
            picture = Path(directory) / f"{name}.png"
            page.screenshot(path=picture)
            _run("cwebp", "-quiet", "-q", QUALITY, str(picture), "-o", str(PICTURES / f"{name}.webp"))


def _animation(page: Page, directory: Path) -> None:
    """Write the landing page as the materializer is killed, until nothing was lost."""
    _wait(page, f"document.querySelectorAll('#board .late tr').length >= {FULL_ROWS}")
    before = _frames(page, directory / "before", lambda count: count * FRAME_S >= BEFORE_S)
    page.get_by_role("button", name="Kill the materializer").click()
    page.mouse.move(0, 0)
    verdict = page.locator("#events .ok")
    during = _frames(page, directory / "during", lambda count: verdict.count() > 0)
    page.screenshot(path=directory / "verdict.png")
    each = round((SHOWN_S - BEFORE_S - AFTER_S) * 1000 / len(during))
    timed = [
        *(("-d", f"{FRAME_S * 1000:.0f}", name) for name in before),
        *(("-d", str(each), name) for name in during),
        ("-d", f"{AFTER_S * 1000:.0f}", str(directory / "verdict.png")),
    ]
    frames = [part for one in timed for part in one]
    _run("img2webp", "-loop", "0", "-lossy", "-q", QUALITY, *frames, "-o", str(PICTURES / "demo.webp"))
    assert (PICTURES / "demo.webp").stat().st_size <= BYTES_MAX, "choose a lower quality"


def _frames(page: Page, directory: Path, is_last: Callable[[int], bool]) -> list[str]:
    """Take a picture at intervals until one was the last; returns their paths."""
    directory.mkdir()
    frames: list[str] = []
    until = time.monotonic() + VERDICT_S_MAX
    while not (frames and is_last(len(frames))):
        assert time.monotonic() < until, "the verdict has not come"
        began = time.monotonic()
        frames.append(str(directory / f"{len(frames):03}.png"))
        page.screenshot(path=frames[-1])
        time.sleep(max(0.0, FRAME_S - (time.monotonic() - began)))
    return frames


def _wait(page: Page, condition: str) -> None:
    """Wait for a condition; the page's policy does not allow Playwright's own way of it."""
    while not page.evaluate(condition):
        time.sleep(0.05)


def _run(*command: str) -> None:
    if shutil.which(command[0]) is None:
        sys.exit(f"expected the program {command[0]}: install Debian's package webp")
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
