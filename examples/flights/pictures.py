"""`make pictures`: the pictures of the README and the docs, taken from the running demo by a browser without windows.

It needs Chromium and Debian's `webp` package. Run it again for a release.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SIZE = {"width": 1120, "height": 640}
FRAMES, FRAME_MS = 40, 250
SETTLE_S = 15
DRAWN_S = 4
QUALITY = "55"

VIEWS = {
    "console-grid": "#/grid/flights?filter=%2Forigin+%3D+%27JFK%27",
    "console-chart": "#/grid/flights?show=chart&chart=treemap&by=%2Fcarrier&across=%2Fstatus",
    "console-topic": "#/topic/flights",
}
"""Addresses of the console, by the names of their pictures."""


def main() -> None:
    """Start the demo, take all pictures, and end it."""
    PICTURES.mkdir(exist_ok=True)
    with _demo() as (url, link), tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport=SIZE).new_page()  # type: ignore[arg-type]
        page.goto(link)
        time.sleep(SETTLE_S)
        _animation(page, Path(directory))
        for name, fragment in VIEWS.items():
            page.goto(f"{url}/console/{fragment}")
            time.sleep(DRAWN_S)
            picture = Path(directory) / f"{name}.png"
            page.screenshot(path=picture)
            _run("cwebp", "-quiet", "-q", QUALITY, str(picture), "-o", str(PICTURES / f"{name}.webp"))
        browser.close()


def _animation(page: Page, directory: Path) -> None:
    """Write ten seconds of the landing page; in the middle of it, the materializer is killed."""
    frames = []
    for number in range(FRAMES):
        began = time.monotonic()
        frames.append(str(directory / f"{number:03}.png"))
        page.screenshot(path=frames[-1])
        if number == FRAMES // 4:
            page.get_by_role("button", name="Kill the materializer").click()
        time.sleep(max(0.0, FRAME_MS / 1000 - (time.monotonic() - began)))
    options = ["-loop", "0", "-d", str(FRAME_MS), "-lossy", "-q", QUALITY]
    _run("img2webp", *options, *frames, "-o", str(PICTURES / "demo.webp"))


@contextmanager
def _demo() -> Iterator[tuple[str, str]]:
    """Run the demo; lend the address of its query service, and the link to its page."""
    command = [sys.executable, "-u", "-m", "examples.flights", "--no-browser"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        found = {}
        for line in demo.stdout:
            for name, pattern in (("url", r"running: (\S+)"), ("link", r"(http://\S+\?token=\S+)")):
                if match := re.search(pattern, line):
                    found[name] = match[1]
            if len(found) == 2:
                break
        try:
            yield found["url"], found["link"]
        finally:
            demo.terminate()


def _run(*command: str) -> None:
    if shutil.which(command[0]) is None:
        sys.exit(f"expected the program {command[0]}: install Debian's package webp")
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
