"""The demo in a browser without windows, for the modules that take pictures of it."""

import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from playwright.sync_api import BrowserContext, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PRINTED = {
    "url": r"running: (\S+) ",
    "kafka": r"\(Kafka at (\S+)\)",
    "link": r"(http://\S+\?token=\S+)",
}
"""What the demo prints when it runs."""


class Demo(NamedTuple):
    """A running demo: the addresses of its query service and of its Kafka, and the link to its page."""

    process: subprocess.Popen[str]
    url: str
    kafka: str
    link: str


@contextmanager
def demo() -> Iterator[Demo]:
    """Run the demo for the time of the block."""
    command = [sys.executable, "-u", "-m", "examples.flights", "--no-browser"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found: dict[str, str] = {}
        for line in process.stdout:
            found |= {
                name: match[1] for name, pattern in PRINTED.items() if (match := re.search(pattern, line))
            }
            if len(found) == len(PRINTED):
                break
        else:
            sys.exit("the demo has not started")
        # The demo would stand still once nobody reads what it prints.
        Thread(target=deque, args=(process.stdout, 0), daemon=True).start()
        try:
            yield Demo(process, **found)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def browsing(width: int, height: int) -> Iterator[BrowserContext]:
    """Lend a browser whose pages have this size."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        # Rows that slide in would be half there in a picture.
        yield browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
        browser.close()
